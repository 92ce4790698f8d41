package hash

import (
	"encoding/binary"
	"math/bits"
)

const (
	xxh32P1 = 0x9E3779B1
	xxh32P2 = 0x85EBCA77
	xxh32P3 = 0xC2B2AE3D
	xxh32P4 = 0x27D4EB2F
	xxh32P5 = 0x165667B1
)

// XXH32 is xxHash's 32-bit function with seed 0 over the concatenation of b and
// tail. The two parts spare block trailers, which hash the contents and then
// the type byte, a copy of the contents; tail may be longer than a byte.
func XXH32(b []byte, tail ...byte) uint32 {
	n := len(b) + len(tail)
	var h uint32
	if n >= 16 {
		v2, v3 := uint32(xxh32P2), uint32(0)
		v1, v4 := v2, v3
		v1 += xxh32P1 // wraps, as constants may not
		v4 -= xxh32P1
		for len(b) >= 16 {
			v1 = xxh32Round(v1, binary.LittleEndian.Uint32(b))
			v2 = xxh32Round(v2, binary.LittleEndian.Uint32(b[4:]))
			v3 = xxh32Round(v3, binary.LittleEndian.Uint32(b[8:]))
			v4 = xxh32Round(v4, binary.LittleEndian.Uint32(b[12:]))
			b = b[16:]
		}
		if len(tail) > 0 {
			b = append(append(make([]byte, 0, 32), b...), tail...)
			tail = nil
			for len(b) >= 16 {
				v1 = xxh32Round(v1, binary.LittleEndian.Uint32(b))
				v2 = xxh32Round(v2, binary.LittleEndian.Uint32(b[4:]))
				v3 = xxh32Round(v3, binary.LittleEndian.Uint32(b[8:]))
				v4 = xxh32Round(v4, binary.LittleEndian.Uint32(b[12:]))
				b = b[16:]
			}
		}
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	} else {
		h = xxh32P5
		if len(tail) > 0 {
			b = append(append(make([]byte, 0, 16), b...), tail...)
		}
	}
	h += uint32(n)
	for len(b) >= 4 {
		h += binary.LittleEndian.Uint32(b) * xxh32P3
		h = bits.RotateLeft32(h, 17) * xxh32P4
		b = b[4:]
	}
	for _, c := range b {
		h += uint32(c) * xxh32P5
		h = bits.RotateLeft32(h, 11) * xxh32P1
	}
	h ^= h >> 15
	h *= xxh32P2
	h ^= h >> 13
	h *= xxh32P3
	h ^= h >> 16
	return h
}

func xxh32Round(v, w uint32) uint32 { return bits.RotateLeft32(v+w*xxh32P2, 13) * xxh32P1 }
