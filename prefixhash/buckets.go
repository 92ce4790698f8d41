package prefixhash

import (
	"encoding/binary"
	"math/bits"
)

// Buckets reduces hashes to bucket numbers: hash mod count, which plain table
// files freeze, by two multiplications instead of a division. Memtables use the
// same reduction. The zero Buckets has no bucket; use NewBuckets. It is a small
// value, safe to copy and to use concurrently.
type Buckets struct {
	// reciprocal is ceil(2^64 / count), zero for a count of one. Its low product
	// with a hash is the fraction hash/count, which times count is the remainder,
	// exactly for every 32-bit hash and count (Lemire, Kaser, Kurz 2019).
	reciprocal uint64
	count      uint32
}

// NewBuckets reduces to numbers below count. A count of zero counts as one.
func NewBuckets(count uint32) Buckets {
	count = max(count, 1)
	return Buckets{reciprocal: ^uint64(0)/uint64(count) + 1, count: count}
}

// Count is the number of buckets.
func (b Buckets) Count() uint32 { return b.count }

// Of is the bucket of a hash: h mod Count.
func (b Buckets) Of(h uint32) uint32 {
	hi, _ := bits.Mul64(b.reciprocal*uint64(h), uint64(b.count))
	return uint32(hi)
}

// SlotLen is the size of one bucket of Slots in bytes.
const SlotLen = 4

// Slots is an array of little-endian 32-bit buckets over memory that somebody
// else owns: a plain table's index in a mapped file, or one being built.
type Slots []byte

// At is the value of bucket i, which must be below len(s)/SlotLen.
func (s Slots) At(i uint32) uint32 {
	return binary.LittleEndian.Uint32(s[uint64(i)*SlotLen:])
}

// Set stores the value of bucket i. Not safe beside readers.
func (s Slots) Set(i, value uint32) {
	binary.LittleEndian.PutUint32(s[uint64(i)*SlotLen:], value)
}
