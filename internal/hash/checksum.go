package hash

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"
)

// ChecksumType is the number by which a footer names the checksum of its
// file's blocks (fact sheet block-table, section 3.2).
type ChecksumType uint8

// The checksum types. ChecksumXXH3 is RocksDB's default.
const (
	ChecksumNone ChecksumType = iota
	ChecksumCRC32C
	ChecksumXXH32
	ChecksumXXH64
	ChecksumXXH3
	numChecksums
)

// Valid reports whether t is a type that this package computes.
func (t ChecksumType) Valid() bool { return t < numChecksums }

// String is RocksDB's option value, such as "kXXH3".
func (t ChecksumType) String() string {
	switch t {
	case ChecksumNone:
		return "kNoChecksum"
	case ChecksumCRC32C:
		return "kCRC32c"
	case ChecksumXXH32:
		return "kxxHash"
	case ChecksumXXH64:
		return "kxxHash64"
	case ChecksumXXH3:
		return "kXXH3"
	}
	return fmt.Sprintf("ChecksumType(%d)", uint8(t))
}

// ParseChecksumType is the inverse of String.
func ParseChecksumType(s string) (ChecksumType, bool) {
	for t := range numChecksums {
		if t.String() == s {
			return t, true
		}
	}
	return 0, false
}

// Checksum is the checksum of b ‖ last, as block trailers store it: contents,
// then the compression type byte. t must be valid. No allocation.
func Checksum(t ChecksumType, b []byte, last byte) uint32 {
	switch t {
	case ChecksumCRC32C:
		return Mask(ExtendCRC32C(CRC32C(b), lastByte[last:int(last)+1]))
	case ChecksumXXH32:
		return XXH32(b, last)
	case ChecksumXXH64:
		return uint32(xxh64Last(b, last))
	case ChecksumXXH3:
		return uint32(xxh3.Hash(b)) ^ uint32(last)*0x6b9083d9
	}
	return 0
}

// ChecksumWhole is the checksum of b where the last byte is part of b, as the
// footer has it. Value 0 for an empty b.
func ChecksumWhole(t ChecksumType, b []byte) uint32 {
	if len(b) == 0 {
		return 0
	}
	return Checksum(t, b[:len(b)-1], b[len(b)-1])
}

// lastByte holds each byte value at its own index, so that a single byte can be
// passed as a slice without escaping.
var lastByte = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
	}
	return
}()

func xxh64Last(b []byte, last byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	d.Write(b)
	d.Write(lastByte[last : int(last)+1])
	return d.Sum64()
}
