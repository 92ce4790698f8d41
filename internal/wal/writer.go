package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/record"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// WriteMode is how records reach the page cache. The bytes are the same.
type WriteMode int

const (
	// Auto is Mapped where the file system allows it, else Plain.
	Auto WriteMode = iota
	// Mapped copies records into a shared mapping of blocks that are reserved
	// for good: no system call per record. Until Close the file is longer than
	// the log, with zeros behind it. After a crash of the machine the part that
	// was not synced may be missing anywhere, not only at the end; recovery sees
	// that (damage, or zeros and a jump in sequence numbers).
	Mapped
	// Plain writes each record with one write(2).
	Plain
)

// DefaultPreallocate is how many bytes are reserved ahead.
const DefaultPreallocate = 4 << 20

// keepBuffer is the largest buffer a Writer holds on to between records.
const keepBuffer = 1 << 20

// WriterOptions adjust a Writer. The zero value is a new, uncompressed log,
// mapped where possible.
type WriterOptions struct {
	Mode WriteMode
	// Recyclable gives each record the log's number, so that the file can be
	// reused by a later log. RocksDB: recycle_log_file_num > 0.
	Recyclable bool
	// ReuseFile is the path of an obsolete log that becomes this one: renamed,
	// and overwritten from its start. It needs Recyclable.
	ReuseFile string
	// Preallocate is how many bytes to reserve ahead at a time. Zero means
	// DefaultPreallocate; negative means none in plain mode, and the least (64
	// KiB) in mapped mode.
	Preallocate int64
	// Compression is NoCompression or ZSTD. RocksDB: wal_compression.
	Compression Compression
	// BytesPerSync, if positive, starts to write the log to the device each time that so many bytes have
	// come together. RocksDB: wal_bytes_per_sync.
	BytesPerSync int64
	// Buffer keeps up to so many bytes of records in the process until Flush, or until there
	// are more: plain mode only. A record in it does not survive the death of the process.
	Buffer int
}

// Writer appends records to a log file.
//
// One goroutine at a time appends; Sync may run beside it. What Append returned
// nil for survives the death of the process, and, after a Sync that began later,
// of the machine. Any error is sticky: behind bytes that may have been written in
// part, or a sync whose outcome is unknown, no later call succeeds.
type Writer struct {
	file   mmapfs.File
	number uint64
	framer record.Framer
	size   int64           // where the next record goes
	m      *mapped         // nil in plain mode
	zip    *zstdCompressor // nil without compression
	buf    []byte

	limit   int    // plain mode: keep so many bytes back; 0 for none
	pending []byte // records kept back, the last bytes of size

	prealloc    int64 // plain mode: reserve so many bytes at a time; 0 for none
	preallocEnd int64 // plain mode: reserved up to here
	dirty       bool  // the file may be longer than the log

	bytesPerSync, started int64 // started: written back up to here

	failure atomic.Pointer[error]
	syncMu  sync.Mutex // one Sync at a time, and none during Close
	closed  bool       // guarded by syncMu
}

// Create makes the log file path of that number and writes what must stand first.
// The caller syncs the directory before it relies on a Sync.
func Create(fsys mmapfs.FS, path string, number uint64, o WriterOptions) (*Writer, error) {
	if o.ReuseFile != "" && !o.Recyclable {
		return nil, fmt.Errorf("wal: create %s: reusing %s needs a recyclable log", path, o.ReuseFile)
	}
	zip, err := newCompressor(o.Compression)
	if err != nil {
		return nil, err
	}
	f, reused, err := openFile(fsys, path, o.ReuseFile)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: f, number: number, framer: record.NewFramer(number, o.Recyclable), zip: zip, dirty: reused, bytesPerSync: o.BytesPerSync}
	if err := w.start(o); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func openFile(fsys mmapfs.FS, path, reuse string) (f mmapfs.File, reused bool, err error) {
	if reuse == "" {
		f, err = fsys.Create(path)
		return f, false, err
	}
	if err := fsys.Rename(reuse, path); err != nil {
		return nil, false, err
	}
	f, err = fsys.OpenReadWrite(path)
	return f, true, err
}

func (w *Writer) start(o WriterOptions) error {
	ahead := o.Preallocate
	if ahead == 0 {
		ahead = DefaultPreallocate
	}
	if o.Mode != Plain {
		m, err := newMapped(w.file, ahead)
		switch {
		case err == nil:
			w.m, w.dirty = m, true
		case o.Mode == Mapped || !errors.Is(err, mmapfs.ErrMapWriteUnsupported):
			return err
		}
	}
	w.prealloc = max(ahead, 0)
	if w.m == nil {
		w.limit = o.Buffer
	}
	if w.zip == nil {
		return nil
	}
	var payload [4]byte
	binary.LittleEndian.PutUint32(payload[:], uint32(o.Compression))
	return w.appendMeta(record.SetCompression, payload[:])
}

// Append adds one record, a batch whose bytes are the parts joined; they are not
// kept. It allocates nothing unless the record outgrows every earlier one.
func (w *Writer) Append(parts ...[]byte) error {
	if p := w.failure.Load(); p != nil {
		return *p
	}
	if w.bytesPerSync > 0 && w.size-w.started >= w.bytesPerSync {
		if err := w.writeback(); err != nil {
			return w.fail(err)
		}
	}
	if w.zip != nil {
		return w.appendCompressed(parts)
	}
	if w.m != nil {
		return w.appendMapped(parts)
	}
	return w.write(w.framer.AppendRecord(w.buf[:0], parts...))
}

// writeback starts to write to the device what is whole pages by now.
func (w *Writer) writeback() error {
	end := w.size &^ 4095
	from := w.started
	w.started = end
	return mmapfs.Writeback(w.file, from, end-from, false)
}

func (w *Writer) appendCompressed(parts [][]byte) error {
	frame := [1][]byte{w.zip.compress(parts)}
	if w.m != nil {
		return w.appendMapped(frame[:])
	}
	return w.write(w.framer.AppendRecord(w.buf[:0], frame[0]))
}

// appendMapped copies a record into the mapping fragment by fragment, each with
// its first eight bytes last: they hold the length and the type, and go in with
// one store. A process that dies in between leaves zeros there, which is the end
// of the log, and not a fragment with a wrong checksum.
func (w *Writer) appendMapped(parts [][]byte) error {
	p := record.Payload{Parts: parts, Rest: record.TotalLen(parts)}
	at := w.size
	for {
		b, pad := w.framer.AppendFragment(w.buf[:0], &p)
		w.buf = b
		if pad > 0 {
			if err := w.m.write(b[:pad], at); err != nil {
				return w.fail(err)
			}
			b, at = b[pad:], at+int64(pad)
		}
		published := min(8, len(b))
		if err := w.m.write(b[published:], at+int64(published)); err != nil {
			return w.fail(err)
		}
		if err := w.m.write(b[:published], at); err != nil {
			return w.fail(err)
		}
		at += int64(len(b))
		if p.Rest == 0 {
			w.size = at
			return nil
		}
	}
}

// write appends framed bytes.
func (w *Writer) write(b []byte) error {
	if w.buf = b; cap(b) > keepBuffer {
		w.buf = nil
	}
	if w.m != nil {
		if err := w.m.write(b, w.size); err != nil {
			return w.fail(err)
		}
		w.size += int64(len(b))
		return nil
	}
	if w.limit == 0 {
		return w.writeAt(b)
	}
	w.pending = append(w.pending, b...)
	w.size += int64(len(b))
	if len(w.pending) > w.limit {
		return w.Flush()
	}
	return nil
}

func (w *Writer) writeAt(b []byte) error {
	w.reserve(len(b))
	n, err := w.file.WriteAt(b, w.size)
	if err != nil {
		w.dirty = w.dirty || n > 0
		return w.fail(err)
	}
	w.size += int64(n)
	return nil
}

// Flush gives the operating system what Buffer keeps back. It belongs to the goroutine
// that appends, and comes before a Sync that is to cover it.
func (w *Writer) Flush() error {
	if p := w.failure.Load(); p != nil {
		return *p
	}
	if len(w.pending) == 0 {
		return nil
	}
	b := w.pending
	w.size -= int64(len(b))
	if err := w.writeAt(b); err != nil {
		return err
	}
	if w.pending = b[:0]; cap(b) > 2*keepBuffer {
		w.pending = nil
	}
	return nil
}

// reserve asks for blocks ahead of a plain write. It is a hint: whether there is
// room, the write itself says.
func (w *Writer) reserve(n int) {
	end := w.size + int64(n)
	if w.prealloc == 0 || end <= w.preallocEnd {
		return
	}
	ahead := max(w.prealloc, int64(n))
	if w.file.Preallocate(w.size, ahead) != nil {
		w.prealloc = 0
		return
	}
	w.preallocEnd = w.size + ahead
	w.dirty = true
}

func (w *Writer) appendMeta(t record.Type, payload []byte) error {
	if p := w.failure.Load(); p != nil {
		return *p
	}
	return w.write(w.framer.AppendMeta(w.buf[:0], t, payload))
}

// TimestampSize is how many bytes of each key of a column family are a
// user-defined timestamp.
type TimestampSize struct {
	CF   uint32
	Size uint16
}

// SetTimestampSizes records the sizes of families with timestamps; it comes
// before the first batch that touches one of them. Families without are left out.
func (w *Writer) SetTimestampSizes(sizes ...TimestampSize) error {
	const row, most = 6, 1024
	sizes = slices.DeleteFunc(slices.Clone(sizes), func(s TimestampSize) bool { return s.Size == 0 })
	for chunk := range slices.Chunk(sizes, most) {
		payload := make([]byte, 0, row*len(chunk))
		for _, s := range chunk {
			payload = binary.LittleEndian.AppendUint32(payload, s.CF)
			payload = binary.LittleEndian.AppendUint16(payload, s.Size)
		}
		if err := w.appendMeta(record.TimestampSizes, payload); err != nil {
			return err
		}
	}
	return nil
}

// Predecessor describes the log before this one. RocksDB: track_and_verify_wals.
type Predecessor struct {
	Number  uint64
	Size    uint64 // bytes of the file
	LastSeq uint64 // last sequence number in it
}

// SetPredecessor records the log before this one. RocksDB writes it first.
func (w *Writer) SetPredecessor(p Predecessor) error {
	payload := binary.LittleEndian.AppendUint64(nil, p.Number)
	payload = binary.LittleEndian.AppendUint64(payload, p.Size)
	payload = binary.LittleEndian.AppendUint64(payload, p.LastSeq)
	return w.appendMeta(record.PredecessorInfo, payload)
}

func (w *Writer) fail(err error) error {
	err = fmt.Errorf("wal %06d: %w", w.number, err)
	w.failure.CompareAndSwap(nil, &err)
	return *w.failure.Load()
}

// Undo takes back the records from offset size on because of cause, which is the sticky error from now on if
// there was none: Close cuts them off. It belongs to the goroutine that appends.
func (w *Writer) Undo(size int64, cause error) {
	_ = w.fail(cause)
	w.size, w.dirty = min(w.size, size), true
}

// Err is the sticky error, or nil. Safe for concurrent use.
func (w *Writer) Err() error {
	if p := w.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Sync makes every record whose Append returned before the call survive the death
// of the machine. It may run beside Append and other Syncs.
func (w *Writer) Sync() error {
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	if p := w.failure.Load(); p != nil {
		return *p
	}
	if w.closed {
		return w.closedError("sync")
	}
	if err := w.file.SyncData(); err != nil {
		// The kernel may have dropped the dirty pages: a later success would
		// promise what is not there.
		return w.fail(err)
	}
	return nil
}

func (w *Writer) closedError(op string) error {
	return &fs.PathError{Op: op, Path: w.file.Name(), Err: fs.ErrClosed}
}

// Close cuts the file where the log ends and closes it, without a sync. It is
// called when nothing appends. Later calls of any method return an error.
func (w *Writer) Close() error {
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	if w.closed {
		return w.closedError("close")
	}
	var errs []error
	if w.Err() == nil {
		errs = append(errs, w.Flush())
	}
	w.closed = true
	if w.m != nil {
		errs = append(errs, w.m.close())
	}
	if w.dirty {
		errs = append(errs, w.file.Truncate(w.size))
	}
	errs = append(errs, w.file.Close())
	closed := w.closedError("append")
	w.failure.CompareAndSwap(nil, &closed)
	if w.zip != nil {
		w.zip.close()
	}
	return errors.Join(errs...)
}

// Size is the length of the log in bytes: the file's, once closed. It belongs to
// the goroutine that appends.
func (w *Writer) Size() int64 { return w.size }

// Number is the log's number.
func (w *Writer) Number() uint64 { return w.number }

// Mapped reports whether records go through a mapping.
func (w *Writer) Mapped() bool { return w.m != nil }
