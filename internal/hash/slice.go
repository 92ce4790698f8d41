// Package hash holds the hashes and checksums that RocksDB's files freeze, one
// a file, each proved by the fact sheets' vectors. Final XXH3, XXH64 and XXH32
// come from libraries; what is here is what no library has.
package hash

import "encoding/binary"

// SliceSeed seeds RocksDB's GetSliceHash, which plain tables and the data block
// hash index use.
const SliceSeed = 397

// Slice is RocksDB's GetSliceHash: Hash32 with SliceSeed.
func Slice(b []byte) uint32 { return Hash32(b, SliceSeed) }

// Hash32 is RocksDB's legacy 32-bit hash, a Murmur-like function whose trailing
// bytes are sign extended (fact sheets plain-table section 3 and block-table
// section 9.2).
func Hash32(b []byte, seed uint32) uint32 {
	const m = 0xc6a4a793
	h := seed ^ uint32(len(b))*m
	for len(b) >= 4 {
		h += binary.LittleEndian.Uint32(b)
		h *= m
		h ^= h >> 16
		b = b[4:]
	}
	switch len(b) {
	case 3:
		h += uint32(int32(int8(b[2]))) << 16
		fallthrough
	case 2:
		h += uint32(int32(int8(b[1]))) << 8
		fallthrough
	case 1:
		h += uint32(int32(int8(b[0])))
		h *= m
		h ^= h >> 24
	}
	return h
}
