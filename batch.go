package flatrock

import (
	"fmt"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/wal"
)

// Batch collects writes over any number of column families that become visible,
// and survive a crash, together or not at all. The zero value is empty and ready
// to use. A column family of nil means the default one. Keys and values are
// copied. Not safe for concurrent use.
//
// An operation that cannot work (a key outside the domain of the family's prefix
// extractor, a Merge without operator) is remembered and returned by Write, which
// then writes nothing.
type Batch struct {
	rep wal.Batch
	use []familyUse
	err error

	saves []savePoint
	max   int      // of SetMaxBytes; 0 for no limit
	mark  wal.Mark // with max: before the operation under way
	added int64    // what it adds to its family's bytes

	protection batchProtection
	kind       keys.Kind // of the operation under way
}

// familyUse is what a batch adds to one family.
type familyUse struct {
	cf      *ColumnFamily // nil: the default family
	entries int
	bytes   int64 // keys and values
	merges  bool  // has merge operands
	ranges  bool  // has range tombstones
}

// Reset empties b and keeps its memory.
func (b *Batch) Reset() {
	b.rep.Reset()
	clear(b.use)
	b.use = b.use[:0]
	b.err = nil
	b.saves = b.saves[:0]
}

// Count is the number of operations.
func (b *Batch) Count() int { return int(b.rep.Count()) }

// Size is the size in bytes of the batch in the log.
func (b *Batch) Size() int { return b.rep.Size() }

// Put sets key to value.
func (b *Batch) Put(cf *ColumnFamily, key, value []byte) {
	b.kind = keys.KindValue
	if u := b.account(cf, key, value); u != nil {
		b.done(u, b.rep.Put(familyID(cf), key, value))
	}
}

// Delete removes key.
func (b *Batch) Delete(cf *ColumnFamily, key []byte) {
	b.kind = keys.KindDelete
	if u := b.account(cf, key, nil); u != nil {
		b.done(u, b.rep.Delete(familyID(cf), key))
	}
}

// SingleDelete removes a key that was written exactly once; see DB.SingleDelete.
func (b *Batch) SingleDelete(cf *ColumnFamily, key []byte) {
	b.kind = keys.KindSingleDelete
	if u := b.account(cf, key, nil); u != nil {
		b.done(u, b.rep.SingleDelete(familyID(cf), key))
	}
}

// Merge adds an operand for key.
func (b *Batch) Merge(cf *ColumnFamily, key, operand []byte) {
	b.kind = keys.KindMerge
	if u := b.account(cf, key, operand); u != nil {
		u.merges = true
		b.done(u, b.rep.Merge(familyID(cf), key, operand))
	}
}

// DeleteRange removes the keys from start up to but not including end.
func (b *Batch) DeleteRange(cf *ColumnFamily, start, end []byte) {
	b.kind = keys.KindRangeDelete
	if u := b.accountAny(cf, start, end); u != nil { // bounds may be any bytes: no file stores them as keys
		u.ranges = true
		b.done(u, b.rep.DeleteRange(familyID(cf), start, end))
	}
}

// PutLogData adds bytes to the log that change no family: an annotation for
// whoever reads the log.
func (b *Batch) PutLogData(blob []byte) {
	if b.err == nil {
		b.err = b.rep.LogData(blob)
	}
}

// maxRecordBytes bounds keys and values: their lengths are 32-bit numbers in the files.
const maxRecordBytes = 1<<32 - 1

// account notes what an operation adds to a family; nil says that b has failed.
func (b *Batch) account(cf *ColumnFamily, key, value []byte) *familyUse {
	if b.err != nil {
		return nil
	}
	if cf != nil {
		if b.err = cf.checkKey(key); b.err != nil {
			return nil
		}
	}
	return b.accountAny(cf, key, value)
}

// accountAny is account for bytes that need not be a key of the family.
func (b *Batch) accountAny(cf *ColumnFamily, key, value []byte) *familyUse {
	if b.err != nil {
		return nil
	}
	if len(key) > maxRecordBytes || len(value) > maxRecordBytes {
		b.err = fmt.Errorf("%w: a key of %d and a value of %d bytes: each must be below 4 GiB", ErrInvalidArgument, len(key), len(value))
		return nil
	}
	u := b.lastUse(cf)
	n := int64(len(key)) + int64(len(value))
	u.entries++
	u.bytes += n
	b.protection.add(b, familyID(cf), key, value)
	if b.max > 0 {
		b.mark, b.added = b.rep.Mark(), n
	}
	return u
}

// done ends an operation that account began, with the error of encoding it.
func (b *Batch) done(u *familyUse, err error) {
	if b.err = err; err == nil && b.max > 0 && b.rep.Size() > b.max {
		b.rep.RollbackTo(b.mark)
		u.entries--
		u.bytes -= b.added
		b.err = fmt.Errorf("%w: %d bytes", ErrBatchFull, b.max)
	}
}

// lastUse finds the entry of a family, last one first: batches mostly stay with one.
func (b *Batch) lastUse(cf *ColumnFamily) *familyUse {
	for i := len(b.use) - 1; i >= 0; i-- {
		if b.use[i].cf == cf {
			return &b.use[i]
		}
	}
	b.use = append(b.use, familyUse{cf: cf})
	return &b.use[len(b.use)-1]
}

func familyID(cf *ColumnFamily) uint32 {
	if cf == nil {
		return 0
	}
	return cf.id
}
