package wal

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// HeaderLen is the size in bytes of a batch's header, its sequence number and
// count.
const HeaderLen = 12

// Kinds that occur in batches only, besides those of package keys. The column
// family variants are decoded to the plain kind with Op.CF set.
const (
	KindLogData               keys.Kind = 0x03 // Key is the blob; not applied
	KindBeginPrepare          keys.Kind = 0x09
	KindEndPrepare            keys.Kind = 0x0a // Key is the transaction's name (xid)
	KindCommit                keys.Kind = 0x0b // Key is the xid
	KindRollback              keys.Kind = 0x0c // Key is the xid
	KindNoop                  keys.Kind = 0x0d
	KindBeginPersistedPrepare keys.Kind = 0x12 // of write-prepared transactions
	KindBeginUnprepare        keys.Kind = 0x13 // of write-unprepared transactions
	KindCommitWithTimestamp   keys.Kind = 0x15 // Key is the xid, Value the commit timestamp
)

// The column family variants on disk.
const (
	tagCFDelete              = 0x04
	tagCFValue               = 0x05
	tagCFMerge               = 0x06
	tagCFSingleDelete        = 0x08
	tagCFRangeDelete         = 0x0e
	tagCFBlobIndex           = 0x10
	tagCFEntity              = 0x17
	tagCFValuePreferredSeqno = 0x19
)

// ErrTooLarge is the refusal of a key or value of 4 GiB or more, or of an
// operation that makes a batch hold more than 2^32-1 of them.
var ErrTooLarge = errors.New("wal: too large for a batch")

// PutHeader encodes the header of a batch of count counting operations, the first
// of which takes sequence number seq.
func PutHeader(dst *[HeaderLen]byte, seq uint64, count uint32) {
	binary.LittleEndian.PutUint64(dst[:], seq)
	binary.LittleEndian.PutUint32(dst[8:], count)
}

// Batch builds a WriteBatch in RocksDB's encoding, which is also its log record.
// The zero value is an empty batch. Keys and values are copied in. A batch that is
// Reset keeps its memory, and then allocates only to grow. Not safe for concurrent
// use.
type Batch struct {
	rep   []byte // header and operations; empty means an empty batch
	count uint32
	last  int // where the operation begins that was added last
}

// Put sets key to value in column family cf. Like every operation it may return
// ErrTooLarge, and then has changed nothing.
func (b *Batch) Put(cf uint32, key, value []byte) error {
	return b.add2(keys.KindValue, tagCFValue, cf, key, value)
}

// Merge adds an operand to key.
func (b *Batch) Merge(cf uint32, key, operand []byte) error {
	return b.add2(keys.KindMerge, tagCFMerge, cf, key, operand)
}

// PutEntity sets key to an encoded wide-column entity.
func (b *Batch) PutEntity(cf uint32, key, entity []byte) error {
	return b.add2(keys.KindEntity, tagCFEntity, cf, key, entity)
}

// PutBlobIndex sets key to a value stored in a blob file.
func (b *Batch) PutBlobIndex(cf uint32, key, index []byte) error {
	return b.add2(keys.KindBlobIndex, tagCFBlobIndex, cf, key, index)
}

// TimedPut sets key to value, written at unixTime seconds. RocksDB: TimedPut.
func (b *Batch) TimedPut(cf uint32, key, value []byte, unixTime uint64) error {
	if tooLarge(value, 8) {
		return ErrTooLarge
	}
	if err := b.begin(keys.KindValuePreferredSeqno, tagCFValuePreferredSeqno, cf, key, nil); err != nil {
		return err
	}
	b.rep = coding.AppendSlice(b.rep, key)
	b.rep = binary.AppendUvarint(b.rep, uint64(len(value))+8)
	b.rep = append(b.rep, value...)
	b.rep = binary.LittleEndian.AppendUint64(b.rep, unixTime)
	return nil
}

// DeleteRange deletes the keys from begin up to, and without, end.
func (b *Batch) DeleteRange(cf uint32, begin, end []byte) error {
	return b.add2(keys.KindRangeDelete, tagCFRangeDelete, cf, begin, end)
}

// Delete deletes key.
func (b *Batch) Delete(cf uint32, key []byte) error {
	return b.add1(keys.KindDelete, tagCFDelete, cf, key)
}

// SingleDelete deletes a key that was put once since it was last deleted.
func (b *Batch) SingleDelete(cf uint32, key []byte) error {
	return b.add1(keys.KindSingleDelete, tagCFSingleDelete, cf, key)
}

// LogData puts a blob into the log that recovery skips. It takes no sequence
// number.
func (b *Batch) LogData(blob []byte) error { return b.mark(KindLogData, blob) }

// Noop appends the marker that a transaction's batch begins with.
func (b *Batch) Noop() { b.init(); b.rep = append(b.rep, byte(KindNoop)) }

// BeginPrepare opens a prepared section: operations up to EndPrepare take effect
// only when a later batch commits the transaction.
func (b *Batch) BeginPrepare() { b.init(); b.rep = append(b.rep, byte(KindBeginPrepare)) }

// EndPrepare closes the section of transaction xid.
func (b *Batch) EndPrepare(xid []byte) error { return b.mark(KindEndPrepare, xid) }

// Commit commits the prepared transaction xid.
func (b *Batch) Commit(xid []byte) error { return b.mark(KindCommit, xid) }

// Rollback drops the prepared transaction xid.
func (b *Batch) Rollback(xid []byte) error { return b.mark(KindRollback, xid) }

func (b *Batch) init() {
	if len(b.rep) == 0 {
		b.rep = append(b.rep, emptyHeader[:]...)
	}
}

var emptyHeader [HeaderLen]byte

// lengths compare as uint64, so that the check also compiles where int has 32 bits.
func tooLarge(p []byte, extra int) bool { return uint64(len(p))+uint64(extra) > math.MaxUint32 }

func (b *Batch) begin(kind keys.Kind, cfTag byte, cf uint32, key, value []byte) error {
	if tooLarge(key, 0) || tooLarge(value, 0) || b.count == math.MaxUint32 {
		return ErrTooLarge
	}
	b.init()
	b.count++
	b.last = len(b.rep)
	if cf == 0 {
		b.rep = append(b.rep, byte(kind))
	} else {
		b.rep = append(b.rep, cfTag)
		b.rep = binary.AppendUvarint(b.rep, uint64(cf))
	}
	return nil
}

func (b *Batch) add1(kind keys.Kind, cfTag byte, cf uint32, key []byte) error {
	if err := b.begin(kind, cfTag, cf, key, nil); err != nil {
		return err
	}
	b.rep = coding.AppendSlice(b.rep, key)
	return nil
}

func (b *Batch) add2(kind keys.Kind, cfTag byte, cf uint32, key, value []byte) error {
	if err := b.begin(kind, cfTag, cf, key, value); err != nil {
		return err
	}
	b.rep = coding.AppendSlice(b.rep, key)
	b.rep = coding.AppendSlice(b.rep, value)
	return nil
}

func (b *Batch) mark(kind keys.Kind, s []byte) error {
	if tooLarge(s, 0) {
		return ErrTooLarge
	}
	b.init()
	b.rep = append(b.rep, byte(kind))
	b.rep = coding.AppendSlice(b.rep, s)
	return nil
}

// Append adds the operations of other behind those of b.
func (b *Batch) Append(other *Batch) error {
	if uint64(b.count)+uint64(other.count) > math.MaxUint32 {
		return ErrTooLarge
	}
	b.init()
	b.rep = append(b.rep, other.Records()...)
	b.count += other.count
	return nil
}

// Count is how many operations take a sequence number.
func (b *Batch) Count() uint32 { return b.count }

// Size is the encoded size in bytes, header included.
func (b *Batch) Size() int { return max(len(b.rep), HeaderLen) }

// Empty reports whether nothing was added, markers and log data included.
func (b *Batch) Empty() bool { return len(b.rep) <= HeaderLen }

// SetSequence gives the first counting operation its number.
func (b *Batch) SetSequence(seq uint64) {
	b.init()
	binary.LittleEndian.PutUint64(b.rep, seq)
}

// Sequence is the number set last; zero before.
func (b *Batch) Sequence() uint64 {
	if len(b.rep) == 0 {
		return 0
	}
	return binary.LittleEndian.Uint64(b.rep)
}

// Bytes is the encoded batch, borrowed until the batch changes.
func (b *Batch) Bytes() []byte {
	b.init()
	binary.LittleEndian.PutUint32(b.rep[8:], b.count)
	return b.rep
}

// Records is the encoded operations without the header, borrowed until the batch
// changes. A group of batches is logged as one record: a header with the first
// sequence number and the sum of the counts, then the Records of each.
func (b *Batch) Records() []byte {
	if len(b.rep) == 0 {
		return nil
	}
	return b.rep[HeaderLen:]
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.rep = b.rep[:0]
	b.count = 0
}

// Load makes b a copy of an encoded batch, which it checks whole. An error leaves
// b empty.
func (b *Batch) Load(encoded []byte) error {
	b.Reset()
	if err := Validate(encoded); err != nil {
		return err
	}
	b.rep = append(b.rep, encoded...)
	b.count = binary.LittleEndian.Uint32(encoded[8:])
	return nil
}

// Last decodes the operation that was added last, borrowed from the batch; false if there
// is none that takes a sequence number.
func (b *Batch) Last(op *Op) bool {
	if b.last < HeaderLen || b.last >= len(b.rep) {
		return false
	}
	d := decodeRecords(b.rep[b.last:])
	return d.Next(op)
}

// Mark remembers the end of the batch for RollbackTo.
func (b *Batch) Mark() Mark { return Mark{len(b.rep), b.count} }

// RollbackTo drops what was added since m was taken from this batch.
func (b *Batch) RollbackTo(m Mark) { b.rep, b.count = b.rep[:m.size], m.count }

// Mark is a place in a batch.
type Mark struct {
	size  int
	count uint32
}
