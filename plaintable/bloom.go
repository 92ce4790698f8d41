package plaintable

import (
	"math/bits"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// bloomProbes is how many bits a hash sets; files do not store it.
const bloomProbes = 6

// bloomKind says where the bits of a hash are.
type bloomKind uint8

const (
	noBloom     bloomKind = iota
	flatBloom             // anywhere: bloom_locality 0
	linesBloom            // in one line: bloom_locality above 0
	memoryBloom           // anywhere, in a filter built at open
)

// bloomFilter is a bloom filter over 32-bit hashes:
//
//	delta = rotr32(h, 17)
//	flat:  six times: bit = h mod bits; h += delta
//	lines: line = rotr32(h, 11) mod lines
//	       six times: bit = h mod line size; h = rotr32(h, log2(line size)) + delta
//
// Bit b of an area is bit b%8 of byte b/8. A line has 512 bits; RocksDB on
// processors with lines of 128 bytes writes 1024, which shows in the block's size.
type bloomFilter struct {
	kind     bloomKind
	lineLog  uint8 // log2 of the bits in a line
	data     []byte
	mod      prefixhash.Buckets // by the number of bits, or of lines
	inMemory *bloom.BloomFilter
}

// bloomSize is the geometry of a new filter of at least bits bits: bytes, and lines
// (0 for a flat one).
func bloomSize(bits, locality uint32) (size int64, lines uint32) {
	if locality == 0 {
		return (int64(bits) + 7) / 8, 0
	}
	lines = uint32((uint64(bits) + 511) / 512)
	if lines%2 == 0 {
		lines++
	}
	return int64(lines) * 64, lines
}

// newFlatBloom is a flat filter over data, whose size gives the number of bits.
func newFlatBloom(data []byte) bloomFilter {
	return bloomFilter{kind: flatBloom, data: data, mod: prefixhash.NewBuckets(uint32(len(data)) * 8)}
}

func newLinesBloom(data []byte, lines uint32, lineLog uint8) bloomFilter {
	return bloomFilter{kind: linesBloom, data: data, mod: prefixhash.NewBuckets(lines), lineLog: lineLog}
}

// newMemoryBloom is an empty filter of size bytes in words, zero memory that
// outlives it.
func newMemoryBloom(words []uint64, size int64) bloomFilter {
	m := uint(size) * 8
	return bloomFilter{kind: memoryBloom, inMemory: bloom.FromWithM(words, m, bloomProbes), mod: prefixhash.NewBuckets(uint32(m))}
}

// decodeBloom makes a filter of the bloom block b, at offset off of file; lines
// is what the properties say.
func decodeBloom(file string, off int64, b []byte, lines uint64) (bloomFilter, error) {
	switch {
	case len(b) == 0 || len(b) > (1<<32-1)/8:
		return bloomFilter{}, keys.Corruptf(file, off, "bloom: expected 1 to %d bytes, found %d", (1<<32-1)/8, len(b))
	case lines == 0:
		return newFlatBloom(b), nil
	case lines <= uint64(len(b)) && uint64(len(b)) == lines*64:
		return newLinesBloom(b, uint32(lines), 9), nil
	case lines <= uint64(len(b)) && uint64(len(b)) == lines*128:
		return newLinesBloom(b, uint32(lines), 10), nil
	}
	return bloomFilter{}, keys.Corruptf(file, off, "bloom: expected %d lines of 64 or 128 bytes, found %d bytes", lines, len(b))
}

// add sets the bits of h.
func (f *bloomFilter) add(h uint32) {
	delta := bits.RotateLeft32(h, -17)
	switch f.kind {
	case flatBloom:
		for range bloomProbes {
			bit := f.mod.Of(h)
			f.data[bit>>3] |= 1 << (bit & 7)
			h += delta
		}
	case linesBloom:
		line := f.line(h)
		mask := uint32(1)<<f.lineLog - 1
		for range bloomProbes {
			bit := h & mask
			line[bit>>3] |= 1 << (bit & 7)
			h = bits.RotateLeft32(h, -int(f.lineLog)) + delta
		}
	case memoryBloom:
		set := f.inMemory.BitSet()
		for range bloomProbes {
			set.Set(uint(f.mod.Of(h)))
			h += delta
		}
	}
}

func (f *bloomFilter) line(h uint32) []byte {
	size := uint(1) << (f.lineLog - 3)
	i := uint(f.mod.Of(bits.RotateLeft32(h, -11))) * size
	return f.data[i : i+size]
}

// mayContain reports whether all bits of h are set. It has no branch between
// the probes, so that their cache misses overlap with each other and with
// whatever the caller loads next.
func (f *bloomFilter) mayContain(h uint32) bool {
	delta := bits.RotateLeft32(h, -17)
	all := byte(1)
	switch f.kind {
	case noBloom:
	case flatBloom:
		for range bloomProbes {
			bit := f.mod.Of(h)
			all &= f.data[bit>>3] >> (bit & 7)
			h += delta
		}
	case linesBloom:
		line := f.line(h)
		mask := uint32(1)<<f.lineLog - 1
		for range bloomProbes {
			bit := h & mask
			all &= line[bit>>3] >> (bit & 7)
			h = bits.RotateLeft32(h, -int(f.lineLog)) + delta
		}
	case memoryBloom:
		return f.mayContainInMemory(h, delta)
	}
	return all&1 != 0
}

func (f *bloomFilter) mayContainInMemory(h, delta uint32) bool {
	var at [bloomProbes]uint64
	for i := range at {
		at[i] = uint64(h)
		h += delta
	}
	return f.inMemory.TestLocations(at[:])
}
