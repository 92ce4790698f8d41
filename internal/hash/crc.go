package hash

import (
	"hash/crc32"
	"math/bits"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C is the CRC with the Castagnoli polynomial.
func CRC32C(b []byte) uint32 { return crc32.Update(0, castagnoli, b) }

// ExtendCRC32C continues crc, which covers some bytes, over the bytes b that follow them.
func ExtendCRC32C(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

const maskDelta = 0xa282ead8

// Mask is the form in which a CRC32C is stored: the CRC of bytes that contain
// their own CRC would otherwise be weak.
func Mask(crc uint32) uint32 { return bits.RotateLeft32(crc, -15) + maskDelta }

// Unmask undoes Mask.
func Unmask(masked uint32) uint32 { return bits.RotateLeft32(masked-maskDelta, 15) }
