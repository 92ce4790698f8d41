package wal

import (
	"bytes"
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// Follows is what the first record of a log may say about the log before it: its
// number, and how many bytes of it had been written when this one began. Replay
// must have read the log before up to there; otherwise a crash of the machine has
// lost the end of that log, and what this one holds must not appear without it.
//
// It travels as log data in a batch without operations, which RocksDB passes over:
// the text of followsMagic, then varint64 number, varint64 size. RocksDB's own
// record for the same end (Predecessor) is not known to versions before 9.11.
type Follows struct {
	Number uint64
	Size   int64
}

const followsMagic = "flatrock.follows\x00"

// AppendFollows writes f as the first record of a log; seq is the number that the
// next operation will take.
func (w *Writer) AppendFollows(seq uint64, f Follows) error {
	blob := binary.AppendUvarint([]byte(followsMagic), f.Number)
	blob = binary.AppendUvarint(blob, uint64(f.Size))
	var b Batch
	if err := b.LogData(blob); err != nil {
		return err
	}
	b.SetSequence(seq)
	return w.Append(b.Bytes())
}

// IsFollows reports whether a record is what AppendFollows writes.
func IsFollows(batch []byte) bool {
	_, ok := decodeFollows(batch)
	return ok
}

// decodeFollows finds a Follows in the first batch of a log. Log data of any other
// form is somebody else's.
func decodeFollows(batch []byte) (f Follows, ok bool) {
	var op Op
	d := Decode(batch)
	if d.Count() != 0 || !d.Next(&op) || op.Kind != KindLogData {
		return f, false
	}
	rest, ok := bytes.CutPrefix(op.Key, []byte(followsMagic))
	if !ok {
		return f, false
	}
	number, n := binary.Uvarint(rest)
	if n <= 0 {
		return f, false
	}
	size, m := binary.Uvarint(rest[n:])
	if m <= 0 || n+m != len(rest) || size > 1<<62 {
		return f, false
	}
	return Follows{number, int64(size)}, true
}

// follows checks the first record of a log against what was read of the log before, and
// says which of the two is damaged.
func (r *Replayer) follows(rd *Reader, log uint64, batch []byte) (damaged uint64, err error) {
	f, ok := decodeFollows(batch)
	if !ok || f.Number < r.o.Oldest || r.o.Mode == SkipAnyCorruptedRecords {
		return log, nil
	}
	if end := r.ends[f.Number]; end < f.Size {
		return f.Number, keys.Corruptf(rd.Name(), rd.Offset(), "expected log %d before this one to hold %d bytes, found %d: its end is lost", f.Number, f.Size, end)
	}
	return log, nil
}
