package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/flatrock-db/flatrock/internal/record"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Reader reads the records of one log by the rules of a recovery mode. Not safe
// for concurrent use.
type Reader struct {
	rec    *record.Reader
	closer io.Closer // nil over a plain io.Reader
	name   string
	mode   RecoveryMode

	zip         *decompressor // nil in an uncompressed log
	compression bool          // the compression was set
	anything    bool          // a record or another fact was read
	limit       int64         // of a decompressed record, as Limit says
	sizes       []TimestampSize
	pred        Predecessor
	hasPred     bool

	err     error // what Next returns from now on
	reason  error
	reports int
}

// Open opens the log file path of that number.
func Open(fsys mmapfs.FS, path string, number uint64, mode RecoveryMode) (*Reader, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	r := NewReader(f, filepath.Base(path), number, mode)
	r.closer = f
	return r, nil
}

// OpenAt opens a log and begins behind a record that ended at off. What stands
// before must have been read: a compressed log says so in its first record, and
// is opened with Open.
func OpenAt(fsys mmapfs.FS, path string, number uint64, mode RecoveryMode, off int64) (*Reader, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Reader{name: filepath.Base(path), mode: mode, closer: f, anything: off > 0}
	start := off / record.BlockSize * record.BlockSize
	src := io.NewSectionReader(f, start, math.MaxInt64-start)
	r.rec = record.NewReader(src, r.name, number, record.ReaderOptions{Meta: r.meta, Start: off})
	return r, nil
}

// NewReader reads a log from src; name is the base name for errors.
func NewReader(src io.Reader, name string, number uint64, mode RecoveryMode) *Reader {
	r := &Reader{name: name, mode: mode}
	r.rec = record.NewReader(src, name, number, record.ReaderOptions{Meta: r.meta})
	return r
}

// Limit makes the Reader end at a record of more than n bytes decompressed with a
// *RecordTooLargeError, whatever the mode; zero means the 4 GiB of the format, beyond which a record is damage.
// It is set before the first Next.
func (r *Reader) Limit(n int64) { r.limit = n }

// Next returns the next record, borrowed until the following call, or io.EOF at
// what the mode takes as the end. Damage that the mode does not pass over is an
// error that matches keys.ErrCorruption, and ends reading. Errors of the file are
// returned as they are.
func (r *Reader) Next() ([]byte, error) {
	for r.err == nil {
		payload, err := r.rec.Next()
		if err == nil {
			r.anything = true
			if r.zip != nil {
				var large *RecordTooLargeError
				if payload, err = r.zip.decompress(payload); errors.As(err, &large) && r.limit > 0 {
					large.File, large.Offset = r.name, r.rec.Offset()
				} else if err != nil {
					err = r.rec.Damagef(r.rec.Offset(), record.BadInsideRecord, "expected a zstd frame, found %v", err)
				}
			}
		}
		if err == nil && len(payload) < HeaderLen {
			err = r.rec.Damagef(r.rec.Offset(), record.BadInsideRecord, "log record too small: expected a batch of %d bytes or more, found %d", HeaderLen, len(payload))
		}
		if err == nil {
			return payload, nil
		}
		var d *record.Damage
		if errors.As(err, &d) {
			r.judge(d)
		} else {
			r.err = err
		}
	}
	return nil, r.err
}

// judge applies the mode to damage: it sets r.err, or leaves it nil to read on.
func (r *Reader) judge(d *record.Damage) {
	strict := r.mode == AbsoluteConsistency || r.mode == PointInTimeRecovery
	report, end := true, false
	switch d.Condition {
	case record.TruncatedHeader, record.TruncatedBody, record.TruncatedRecord:
		report, end = strict, true
	case record.OldRecord:
		report = d.InRecord && r.mode != TolerateCorruptedTailRecords
		end = r.mode != SkipAnyCorruptedRecords
	case record.ChecksumMismatch, record.BadLength:
		if r.mode == TolerateCorruptedTailRecords && d.Recycled {
			report, end = false, true
		}
	}
	if report {
		r.reports++
		if r.mode != SkipAnyCorruptedRecords {
			r.err, r.reason = d, d
			return
		}
	}
	if end {
		r.err, r.reason = io.EOF, d
	}
}

// Reason says why reading ended before the end of the file: the damage, whether
// Next returned it or took it as the end. It is nil after a clean end.
func (r *Reader) Reason() error { return r.reason }

// Torn reports whether reading ended before the end of the file at what is no record of an earlier
// use of a recycled file.
func (r *Reader) Torn() bool {
	var d *record.Damage
	return errors.As(r.reason, &d) && !(d.Recycled || d.Condition == record.OldRecord)
}

// Reports is how many times damage was an error by RocksDB's rules; in mode
// SkipAnyCorruptedRecords reading went on.
func (r *Reader) Reports() int { return r.reports }

// Offset is where in the file the record that Next returned last begins.
func (r *Reader) Offset() int64 { return r.rec.Offset() }

// End is where in the file the record that Next returned last ends.
func (r *Reader) End() int64 { return r.rec.End() }

// Name is the base name of the file.
func (r *Reader) Name() string { return r.name }

// Compressed reports whether the log says, so far, that it is compressed.
func (r *Reader) Compressed() bool { return r.zip != nil }

// TimestampSizes are those that the log has recorded so far; borrowed.
func (r *Reader) TimestampSizes() []TimestampSize { return r.sizes }

// Predecessor is what the log says about the log before it, if it does.
func (r *Reader) Predecessor() (p Predecessor, ok bool) { return r.pred, r.hasPred }

// Hole reports whether so many zeros stood before the last record that part of
// the log may be missing there. A log written in order has fewer than a header; but in
// one that is being written, the zeros may have been overwritten since.
func (r *Reader) Hole() bool { return r.rec.SkippedZeros() >= record.MaxHeaderSize }

// Close closes the file.
func (r *Reader) Close() error {
	if r.zip != nil {
		r.zip.close()
		r.zip = nil
	}
	r.err = fs.ErrClosed
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// meta takes the facts about the log.
func (r *Reader) meta(t record.Type, payload []byte, at int64) error {
	switch t {
	case record.SetCompression:
		return r.setCompression(payload, at)
	case record.TimestampSizes:
		r.anything = true
		return r.setTimestampSizes(payload, at)
	case record.PredecessorInfo:
		r.anything = true
		if len(payload) != 24 {
			return r.rec.Damagef(at, record.BadMeta, "expected 24 bytes of predecessor info, found %d", len(payload))
		}
		r.pred = Predecessor{
			Number:  binary.LittleEndian.Uint64(payload),
			Size:    binary.LittleEndian.Uint64(payload[8:]),
			LastSeq: binary.LittleEndian.Uint64(payload[16:]),
		}
		r.hasPred = true
	}
	return nil
}

func (r *Reader) setCompression(payload []byte, at int64) error {
	switch {
	case r.compression:
		return r.rec.Damagef(at, record.BadMeta, "expected one compression type, found another")
	case r.anything:
		return r.rec.Damagef(at, record.BadMeta, "expected the compression type first, found it behind a record")
	case len(payload) != 4:
		return r.rec.Damagef(at, record.BadMeta, "expected 4 bytes of compression type, found %d", len(payload))
	}
	r.compression = true
	switch c := Compression(binary.LittleEndian.Uint32(payload)); c {
	case NoCompression:
		return nil
	case ZSTD:
		var err error
		r.zip, err = newDecompressor(r.limit)
		return err
	default:
		return fmt.Errorf("%s: %w: %v", r.name, ErrUnsupported, c)
	}
}

func (r *Reader) setTimestampSizes(payload []byte, at int64) error {
	if len(payload)%6 != 0 {
		return r.rec.Damagef(at, record.BadMeta, "expected rows of 6 bytes of timestamp sizes, found %d bytes", len(payload))
	}
	for ; len(payload) > 0; payload = payload[6:] {
		s := TimestampSize{binary.LittleEndian.Uint32(payload), binary.LittleEndian.Uint16(payload[4:])}
		if s.Size == 0 {
			return r.rec.Damagef(at, record.BadMeta, "expected a timestamp size above 0 for column family %d, found 0", s.CF)
		}
		if err := r.setTimestampSize(s, at); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) setTimestampSize(s TimestampSize, at int64) error {
	for _, have := range r.sizes {
		if have.CF != s.CF {
			continue
		}
		if have.Size != s.Size {
			return r.rec.Damagef(at, record.BadMeta, "expected timestamp size %d for column family %d as before, found %d", have.Size, s.CF, s.Size)
		}
		return nil
	}
	r.sizes = append(r.sizes, s)
	return nil
}
