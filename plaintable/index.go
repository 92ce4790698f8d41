package plaintable

import (
	"encoding/binary"
	"iter"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// Values of a bucket in the hash index.
const (
	emptyBucket = 0x7fffffff // this and above, without subIndexBit: no row
	subIndexBit = 0x80000000 // the rest is an offset in the sub-index; without it, of a row
)

// maxBuckets bounds a hash table, whose block must fit a file.
const maxBuckets = MaxFileSize / 4

// index is a decoded hash index, in the file or in memory:
//
//	varint32 buckets ‖ varint32 prefixes ‖ fixed32 bucket[buckets] ‖ sub-index
//	sub-index record := varint32 count ‖ fixed32 row offset[count]
type index struct {
	slots    prefixhash.Slots // of bucket.Count() buckets; nil if there is no index
	sub      []byte
	bucket   prefixhash.Buckets
	off      int64 // of the block in the file, -1 if built in memory
	subOff   int64 // of the sub-index in the file
	prefixes uint32
}

// decodeIndex decodes the index block b, which starts at offset off of file.
// Buckets and records are checked when they are used.
func decodeIndex(file string, off int64, b []byte) (index, error) {
	n, p := uvarint32(b, 0)
	if p < 0 || n == 0 {
		return index{}, keys.Corruptf(file, off, "index: expected a number of buckets, found % x", b[:min(len(b), 8)])
	}
	prefixes, p := uvarint32(b, p)
	if p < 0 {
		return index{}, keys.Corruptf(file, off, "index: expected a number of prefixes, found % x", b[:min(len(b), 16)])
	}
	if uint64(n)*4 > uint64(len(b)-p) {
		return index{}, keys.Corruptf(file, off, "index: expected %d buckets of 4 bytes, found %d bytes", n, len(b)-p)
	}
	end := p + int(n)*4
	return index{
		slots: prefixhash.Slots(b[p:end:end]), sub: b[end:], bucket: prefixhash.NewBuckets(n),
		off: off, subOff: off + int64(end), prefixes: prefixes,
	}, nil
}

// at is the value of the bucket of a prefix hash.
func (x *index) at(hash uint32) uint32 { return x.slots.At(x.bucket.Of(hash)) }

// record returns the row offsets of the sub-index record at offset p: fixed32
// each, at least one, in row order. ok is false on damage.
func (x *index) record(p int) (offsets []byte, ok bool) {
	n, p := uvarint32(x.sub, p)
	if p < 0 || n == 0 || uint64(n)*4 > uint64(len(x.sub)-p) {
		return nil, false
	}
	return x.sub[p : p+int(n)*4], true
}

func (x *index) recordError(file string, p int) error {
	var found []byte
	if p < len(x.sub) {
		found = x.sub[p:min(len(x.sub), p+16)]
	}
	off := int64(-1)
	if x.off >= 0 {
		off = x.subOff + int64(p)
	}
	return keys.Corruptf(file, off, "index: expected a record of row offsets at %d in a sub-index of %d bytes, found % x", p, len(x.sub), found)
}

// indexBuilder collects index records in row order: hash of the prefix and offset.
type indexBuilder struct {
	sparseness int
	records    packed
	prefixes   uint32
	inPrefix   int
	due        bool
}

// begins tells the builder that the next row has a prefix other than the last one's.
func (b *indexBuilder) begins() {
	b.prefixes++
	b.inPrefix = 0
	b.due = true
}

// row adds the row at offset off. A record goes only to seekable rows: when one is
// due at another row, it waits for the next seekable row, unlike RocksDB's,
// which then reads rows that it cannot decode.
func (b *indexBuilder) row(hash, off uint32, seekable bool) {
	if b.due && seekable {
		b.records.add(uint64(hash)<<32 | uint64(off))
		b.due = false
	}
	b.inPrefix++
	if b.sparseness == 0 || b.inPrefix%b.sparseness == 0 {
		b.due = true
	}
}

// buckets is how many buckets a table of prefixes needs; 0 if they are too many.
func bucketsFor(prefixes uint32, ratio float64) uint32 {
	if ratio <= 0 {
		return 1
	}
	n := float64(prefixes) * (1.0 / ratio)
	if n >= maxBuckets {
		return 0
	}
	return uint32(n) + 1
}

// sizeBound bounds the encoded size of the index.
func (b *indexBuilder) sizeBound(buckets uint32) int64 {
	// Each record takes four bytes; a count of one byte is shared by two
	// records or more, and a longer count by more than 127.
	n := int64(b.records.n)
	return 2*coding.MaxVarint32Len + 4*int64(buckets) + 4*n + (n+1)/2 + coding.MaxVarint32Len
}

// headerLen is the encoded size of what comes before the buckets.
func (b *indexBuilder) headerLen(buckets uint32) int {
	return coding.UvarintLen(uint64(buckets)) + coding.UvarintLen(uint64(b.prefixes))
}

// build encodes the index at the front of dst, which must be zero and hold
// sizeBound bytes, and returns the part used. The bucket array counts records
// first, then holds the place of the next one, and then what the format says,
// so that no memory but dst is needed.
func (b *indexBuilder) build(dst []byte, buckets uint32) []byte {
	head := coding.AppendUvarint(dst[:0], uint64(buckets))
	head = coding.AppendUvarint(head, uint64(b.prefixes))
	slots := prefixhash.Slots(dst[len(head) : len(head)+int(buckets)*prefixhash.SlotLen])
	sub := dst[len(head)+len(slots):]
	bucket := prefixhash.NewBuckets(buckets)
	for rec := range b.records.all() {
		i := bucket.Of(uint32(rec >> 32))
		slots.Set(i, slots.At(i)+1)
	}
	end := 0
	for i := range buckets {
		n := slots.At(i)
		v := uint32(emptyBucket)
		if n > 1 {
			end += binary.PutUvarint(sub[end:], uint64(n))
			v = subIndexBit | uint32(end)
			end += int(n) * 4
		}
		slots.Set(i, v)
	}
	for rec := range b.records.all() {
		i := bucket.Of(uint32(rec >> 32))
		v := slots.At(i)
		if v&subIndexBit == 0 {
			slots.Set(i, uint32(rec))
			continue
		}
		at := v &^ subIndexBit
		binary.LittleEndian.PutUint32(sub[at:], uint32(rec))
		slots.Set(i, v+4)
	}
	start := 0
	for i := range buckets {
		if slots.At(i)&subIndexBit != 0 {
			slots.Set(i, subIndexBit|uint32(start))
			n, p := uvarint32(sub, start)
			start = p + int(n)*4
		}
	}
	return dst[:len(head)+len(slots)+end]
}

// packed is a list that grows without copying.
type packed struct {
	parts [][]uint64
	n     int
}

const packedPart = 1 << 15

func (l *packed) add(v uint64) {
	if l.n%packedPart == 0 {
		// The first part grows by doubling, so that a small file costs little.
		var part []uint64
		if l.n > 0 {
			part = make([]uint64, 0, packedPart)
		}
		l.parts = append(l.parts, part)
	}
	last := &l.parts[len(l.parts)-1]
	*last = append(*last, v)
	l.n++
}

func (l *packed) all() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, part := range l.parts {
			for _, v := range part {
				if !yield(v) {
					return
				}
			}
		}
	}
}
