package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/killpoint"
	"github.com/flatrock-db/flatrock/internal/mutation"
	"github.com/flatrock-db/flatrock/internal/record"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// DefaultMaxFileSize is RocksDB's default of max_manifest_file_size.
const DefaultMaxFileSize = 1 << 30

// WriterOptions tunes a Writer. The zero value is RocksDB's default.
type WriterOptions struct {
	// MaxFileSize is how many bytes a MANIFEST may have before the next edit starts
	// a new one; zero means DefaultMaxFileSize. A MANIFEST may always grow to twice
	// its snapshot, so that a small limit does not make every edit start a new one.
	MaxFileSize int64
	// WriteDBID records the database id in the MANIFEST (tag 8193), as RocksDB does since 9.7.
	WriteDBID bool
	// Comparator finds the comparator of a family that an edit adds; nil means BuiltinComparator.
	Comparator ComparatorFunc
	// NumLevels gives num_levels of a family that an edit adds; nil means DefaultNumLevels.
	NumLevels func(family string) int
}

// Writer appends edits to the MANIFEST and holds the state that they lead to.
// Safe for concurrent use; appends happen one after another.
//
// What it promises:
//
//	W1 State changes only after the edits that lead to it are synced.
//	W2 After a failed write, sync or switch of CURRENT no Append succeeds until
//	   Resume: the bytes of the failed edit may or may not be in the file.
//	W3 CURRENT names a MANIFEST that is whole and synced, whenever a crash comes.
type Writer struct {
	fs  mmapfs.FS
	dir string
	o   WriterOptions

	state    atomic.Pointer[State]
	nextFile atomic.Uint64
	sticky   atomic.Pointer[error]

	epochMu sync.Mutex
	epochs  map[uint32]uint64 // next epoch number by family

	mu     sync.Mutex // guards the rest, and serialises appends
	file   mmapfs.File
	out    bytes.Buffer // records on their way to file, written in one piece
	rec    *record.Writer
	size   int64
	limit  int64 // size from which the next append starts a new file
	buf    []byte
	closed bool
	held   *VersionEdit // only with the bug FlipEdits: written after the next one
}

var errClosed = errors.New("manifest writer is closed")

// CreateNew writes MANIFEST-000001 and CURRENT for a database that does not
// exist yet, as RocksDB does; Recover and NewWriter follow. dbID is recorded
// unless empty. The caller makes the directory and IDENTITY.
func CreateNew(fsys mmapfs.FS, dir, dbID string) error {
	e := &VersionEdit{LogNumber: Some(uint64(0)), NextFileNumber: Some(uint64(2)), LastSeq: Some(uint64(0))}
	if dbID != "" {
		e.DBID = Some(dbID)
	}
	var out bytes.Buffer
	if err := record.NewWriter(&out, 0, false).Append(e.Append(nil)); err != nil {
		return err
	}
	if err := writeFile(fsys, ManifestName(dir, 1), out.Bytes()); err != nil {
		return err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	return SetCurrent(fsys, dir, 1)
}

// NewWriter takes st over, starts a new MANIFEST with all that it holds, followed
// by edits, and makes CURRENT name it. Numbers of files that exist in the
// directory must have been marked as used in st. It refuses a state with skipped
// families.
func NewWriter(fsys mmapfs.FS, dir string, st *State, o WriterOptions, edits ...*VersionEdit) (*Writer, error) {
	if names := st.SkippedNames(); len(names) > 0 {
		return nil, notOpenedError(names)
	}
	if o.MaxFileSize <= 0 {
		o.MaxFileSize = DefaultMaxFileSize
	}
	w := &Writer{fs: fsys, dir: dir, o: o, epochs: map[uint32]uint64{}}
	w.nextFile.Store(max(st.NextFileNumber, 2))
	for _, f := range st.Families {
		w.epochs[f.ID] = max(f.NextEpoch, 1)
	}
	w.state.Store(st)
	w.mu.Lock()
	defer w.mu.Unlock()
	next, err := w.next(edits)
	if err != nil {
		return nil, err
	}
	if err := w.startFile(next, edits); err != nil {
		return nil, err
	}
	return w, nil
}

// State returns the state after the last successful append. Immutable.
func (w *Writer) State() *State { return w.state.Load() }

// Version returns the current version of a family, nil if there is no such family.
func (w *Writer) Version(family uint32) *Version {
	f := w.State().Family(family)
	if f == nil {
		return nil
	}
	return f.Version
}

// NewFileNumber hands out the next file number, unique for all kinds of files.
func (w *Writer) NewFileNumber() uint64 { return w.nextFile.Add(1) - 1 }

// NextFileNumber is the number that NewFileNumber would hand out.
func (w *Writer) NextFileNumber() uint64 { return w.nextFile.Load() }

// MarkFileNumberUsed keeps n and all below from being handed out.
func (w *Writer) MarkFileNumberUsed(n uint64) {
	for {
		old := w.nextFile.Load()
		if old > n || w.nextFile.CompareAndSwap(old, n+1) {
			return
		}
	}
}

// NewEpoch hands out the next epoch number of a family: for each flush and each
// ingested L0 file, in the order in which their data is newer. The outputs of a compaction take
// MinEpoch of its inputs instead.
func (w *Writer) NewEpoch(family uint32) uint64 {
	w.epochMu.Lock()
	defer w.epochMu.Unlock()
	e := max(w.epochs[family], 1)
	w.epochs[family] = e + 1
	return e
}

// NewColumnFamilyID is the id for a family to add. The caller adds families one
// at a time.
func (w *Writer) NewColumnFamilyID() uint32 { return w.State().MaxColumnFamily + 1 }

// Err returns the error that stops all appends, nil if there is none.
func (w *Writer) Err() error {
	if p := w.sticky.Load(); p != nil {
		return *p
	}
	return nil
}

// Append applies edits to the state, writes each as a record, syncs once, and
// then publishes the new state. It fills in what RocksDB's edits always carry
// (next file number, last sequence, previous log number) where the caller left it
// out; the edits and their files belong to the Writer afterwards.
//
// An edit that the state cannot take gives an error and changes nothing. Any
// error of a file sticks (W2). After a crash in the middle a prefix of the edits
// may count: use AppendAtomic where that must not be.
func (w *Writer) Append(edits ...*VersionEdit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errClosed
	}
	if err := w.Err(); err != nil {
		return err
	}
	if len(edits) == 0 {
		return nil
	}
	next, err := w.next(edits)
	if err != nil {
		return err
	}
	if w.size >= w.limit {
		return w.startFile(next, edits)
	}
	for _, e := range edits {
		if err := w.putFlipped(e); err != nil {
			return w.stick(err)
		}
	}
	if err := w.flush(); err != nil {
		return w.stick(err)
	}
	w.publish(next, w.State().ManifestNumber)
	return nil
}

// AppendToNew is Append into a new MANIFEST, one that begins with the state without
// its history: what RocksDB could not read in the old one is gone with it.
func (w *Writer) AppendToNew(edits ...*VersionEdit) error {
	if err := w.Append(edits...); err != nil {
		return err
	}
	return w.Resume()
}

// AppendAtomic is Append for edits that count together or not at all.
func (w *Writer) AppendAtomic(edits ...*VersionEdit) error {
	for i, e := range edits {
		e.AtomicGroup = Some(uint32(len(edits) - 1 - i))
	}
	return w.Append(edits...)
}

// Resume leaves a sticky error behind: it writes the last published state to a
// new MANIFEST and makes CURRENT name that. The failed edits are gone then, even
// if the old MANIFEST has them. On failure the error sticks again.
func (w *Writer) Resume() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errClosed
	}
	next, err := w.next(nil)
	if err != nil {
		return err
	}
	if err := w.startFile(next, nil); err != nil {
		return err
	}
	w.sticky.Store(nil)
	return nil
}

// Size is the size of the current MANIFEST in bytes.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// Close closes the file. Everything that was appended is synced already.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}

// next fills the edits in and applies them to a copy of the state.
func (w *Writer) next(edits []*VersionEdit) (*State, error) {
	r := newReplay(w.State())
	r.comparator, r.numLevels = w.o.Comparator, w.o.NumLevels
	for _, e := range edits {
		w.fill(e, r.st)
		if err := r.apply(e); err != nil {
			return nil, fmt.Errorf("version edit: %w", err)
		}
	}
	st, err := r.finish()
	if err != nil {
		return nil, fmt.Errorf("version edit: %w", err)
	}
	st.MarkFileNumberUsed(w.nextFile.Load() - 1)
	return st, nil
}

// fill completes an edit that follows st.
func (w *Writer) fill(e *VersionEdit, st *State) {
	lastSeq := st.LastSeq
	for _, n := range e.NewFiles {
		w.MarkFileNumberUsed(n.Meta.Number)
		lastSeq = max(lastSeq, n.Meta.LargestSeq)
	}
	if !e.AddColumnFamily.Set && !e.DropColumnFamily && !e.PrevLogNumber.Set {
		e.PrevLogNumber = Some(st.PrevLogNumber)
	}
	if e.DropColumnFamily {
		e.MaxColumnFamily = Some(max(st.MaxColumnFamily, e.ColumnFamily)) // the id is not used again
	}
	e.NextFileNumber = Some(max(w.nextFile.Load(), e.NextFileNumber.Value))
	e.LastSeq = Some(max(lastSeq, e.LastSeq.Value))
}

func (w *Writer) publish(next *State, manifestNumber uint64) {
	next.ManifestNumber, next.ManifestSize = manifestNumber, w.size
	w.epochMu.Lock()
	for _, f := range next.Families {
		w.epochs[f.ID] = max(w.epochs[f.ID], f.NextEpoch)
	}
	w.epochMu.Unlock()
	w.state.Store(next)
}

func (w *Writer) stick(err error) error {
	err = fmt.Errorf("%s: %w", ManifestBase(w.State().ManifestNumber), err)
	w.sticky.Store(&err)
	return err
}

// put adds an edit to what flush writes.
func (w *Writer) put(e *VersionEdit) error {
	w.buf = e.Append(w.buf[:0])
	return w.rec.Append(w.buf)
}

// putFlipped is put; with the bug of that name each second edit comes before the one
// that it follows.
func (w *Writer) putFlipped(e *VersionEdit) error {
	if !mutation.On(mutation.FlipEdits) {
		return w.put(e)
	}
	if w.held == nil {
		w.held = e
		return nil
	}
	first := w.held
	w.held = nil
	if err := w.put(e); err != nil {
		return err
	}
	return w.put(first)
}

// flush writes and syncs what is put.
func (w *Writer) flush() error {
	n, err := w.file.Write(w.out.Bytes())
	w.size += int64(n)
	w.out.Reset()
	if err != nil {
		return err
	}
	killpoint.Here("MANIFEST written")
	if mutation.On(mutation.SkipManifestSync) {
		return nil
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	killpoint.Here("MANIFEST synced")
	return nil
}

// startFile writes a new MANIFEST: a snapshot of the state before edits, then
// the edits. Then it switches CURRENT and publishes next.
func (w *Writer) startFile(next *State, edits []*VersionEdit) error {
	number := w.NewFileNumber()
	for _, e := range edits {
		e.NextFileNumber.Value = max(e.NextFileNumber.Value, number+1)
	}
	next.MarkFileNumberUsed(number)
	old := w.file
	err := w.writeSnapshot(number, edits)
	if err != nil {
		// Best effort: the file is in nobody's way, but the disk may be full.
		_ = w.fs.Remove(ManifestName(w.dir, number))
	} else {
		err = SetCurrent(w.fs, w.dir, number)
	}
	if err != nil {
		err = w.stick(fmt.Errorf("start of %s: %w", ManifestBase(number), err))
		if old != nil {
			err = errors.Join(err, old.Close())
		}
		if w.file != nil && w.file != old {
			w.file.Close()
		}
		w.file = nil
		return err
	}
	w.publish(next, number)
	if old != nil {
		old.Close() // synced long ago; CURRENT no longer names it
	}
	return nil
}

// writeSnapshot makes the new file, whole and synced.
func (w *Writer) writeSnapshot(number uint64, edits []*VersionEdit) error {
	f, err := w.fs.Create(ManifestName(w.dir, number))
	if err != nil {
		return err
	}
	w.file, w.size = f, 0
	w.out.Reset()
	w.rec = record.NewWriter(&w.out, 0, false)
	st := w.State()
	for _, e := range st.Snapshot(w.o.WriteDBID) {
		if err := w.put(e); err != nil {
			return err
		}
	}
	w.limit = max(w.o.MaxFileSize, 2*int64(w.out.Len()))
	if st.LastCompactedManifestSize.Set { // RocksDB 11.8 tunes its own limit by this
		if err := w.put(&VersionEdit{LastCompactedManifestSize: Some(uint64(w.out.Len()))}); err != nil {
			return err
		}
	}
	counters := &VersionEdit{PrevLogNumber: Some(st.PrevLogNumber), NextFileNumber: Some(w.nextFile.Load()), LastSeq: Some(st.LastSeq)}
	if st.MaxColumnFamily > 0 {
		counters.MaxColumnFamily = Some(st.MaxColumnFamily)
	}
	for _, e := range append([]*VersionEdit{counters}, edits...) {
		if err := w.put(e); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	// The file's directory entry must be there before CURRENT names it.
	return w.fs.SyncDir(w.dir)
}
