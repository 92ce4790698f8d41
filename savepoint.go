package flatrock

import (
	"slices"

	"github.com/flatrock-db/flatrock/internal/wal"
)

// savePoint is what a batch held when SetSavePoint was called.
type savePoint struct {
	mark wal.Mark
	use  []familyUse
	err  error
}

// SetSavePoint remembers what the batch holds, for RollbackToSavePoint. Save points
// nest; Reset forgets them. RocksDB: SetSavePoint.
func (b *Batch) SetSavePoint() {
	b.saves = append(b.saves, savePoint{b.rep.Mark(), slices.Clone(b.use), b.err})
}

// RollbackToSavePoint drops what was added since the newest save point, that point
// itself, and an error that an operation since then left behind. Without a save
// point it returns ErrNoSavePoint and changes nothing. RocksDB: RollbackToSavePoint.
func (b *Batch) RollbackToSavePoint() error {
	n := len(b.saves) - 1
	if n < 0 {
		return ErrNoSavePoint
	}
	s := b.saves[n]
	b.rep.RollbackTo(s.mark)
	clear(b.use)
	b.use, b.err = append(b.use[:0], s.use...), s.err
	b.saves = b.saves[:n]
	return nil
}

// PopSavePoint forgets the newest save point and keeps what was added since. Without
// one it returns ErrNoSavePoint. RocksDB: PopSavePoint.
func (b *Batch) PopSavePoint() error {
	n := len(b.saves) - 1
	if n < 0 {
		return ErrNoSavePoint
	}
	b.saves = b.saves[:n]
	return nil
}

// SetMaxBytes bounds Size: an operation that would pass n bytes is left out, and
// the batch then fails with ErrBatchFull, until RollbackToSavePoint or Reset. Zero, the
// default, means no limit. RocksDB: the max_bytes of a WriteBatch.
func (b *Batch) SetMaxBytes(n int) { b.max = max(n, 0) }

// Err is why Write would refuse the batch: the first operation that could not work. Nil
// if all is well so far.
func (b *Batch) Err() error { return b.err }
