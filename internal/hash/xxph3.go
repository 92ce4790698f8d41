package hash

import (
	"encoding/binary"
	"math/bits"
)

// XXPH3 is the 64-bit hash of RocksDB's filters from format version 5 on: XXH3
// as it was in xxHash 0.7.2, seed 0, frozen when upstream changed it. Final XXH3
// differs at every length. (Fact sheet block-table, section 9.1.)
func XXPH3(b []byte) uint64 {
	n := len(b)
	switch {
	case n > 16:
		if n <= 128 {
			return xxph17to128(b)
		}
		if n <= 240 {
			return xxph129to240(b)
		}
		return xxphLong(b)
	case n > 8:
		x := binary.LittleEndian.Uint64(b) ^ xxphSecret0
		y := binary.LittleEndian.Uint64(b[n-8:]) ^ xxphSecret8
		return xxphAvalanche(uint64(n) + x + y + mulFold(x, y))
	case n > 3:
		x := uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<32
		k := x ^ xxphSecret0
		m := uint64(n) + (k^k>>51)*xxphP32a
		return xxphAvalanche((m ^ m>>47) * xxphP64b)
	case n > 0:
		c := uint32(b[0]) | uint32(b[n>>1])<<8 | uint32(b[n-1])<<16 | uint32(n)<<24
		const secret = xxphSecret0 & 0xffffffff
		return xxphAvalanche((uint64(c) ^ secret) * xxphP64a)
	}
	return mulFold(xxphSecret0, xxphP64b)
}

const (
	xxphP32a = 0x9E3779B1
	xxphP32b = 0x85EBCA77
	xxphP32c = 0xC2B2AE3D
	xxphP64a = 0x9E3779B185EBCA87
	xxphP64b = 0xC2B2AE3D27D4EB4F
	xxphP64c = 0x165667B19E3779F9
	xxphP64d = 0x85EBCA77C2B2AE63
	xxphP64e = 0x27D4EB2F165667C5

	// The first two words of xxphSecret.
	xxphSecret0 = 0xbe4ba423396cfeb8
	xxphSecret8 = 0x1cad21f72c81017c
)

const xxphSecret = "" +
	"\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe\x7c\x01\x81\x2c\xf7\x21\xad\x1c\xde\xd4\x6d\xe9\x83\x90\x97\xdb\x72\x40\xa4\xa4\xb7\xb3\x67\x1f" +
	"\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78\x82\x5a\xd0\x7d\xcc\xff\x72\x21\xb8\x08\x46\x74\xf7\x43\x24\x8e\xe0\x35\x90\xe6\x81\x3a\x26\x4c" +
	"\x3c\x28\x52\xbb\x91\xc3\x00\xcb\x88\xd0\x65\x8b\x1b\x53\x2e\xa3\x71\x64\x48\x97\xa2\x0d\xf9\x4e\x38\x19\xef\x46\xa9\xde\xac\xd8" +
	"\xa8\xfa\x76\x3f\xe3\x9c\x34\x3f\xf9\xdc\xbb\xc7\xc7\x0b\x4f\x1d\x8a\x51\xe0\x4b\xcd\xb4\x59\x31\xc8\x9f\x7e\xc9\xd9\x78\x73\x64" +
	"\xea\xc5\xac\x83\x34\xd3\xeb\xc3\xc5\x81\xa0\xff\xfa\x13\x63\xeb\x17\x0d\xdd\x51\xb7\xf0\xda\x49\xd3\x16\x55\x26\x29\xd4\x68\x9e" +
	"\x2b\x16\xbe\x58\x7d\x47\xa1\xfc\x8f\xf8\xb8\xd1\x7a\xd0\x31\xce\x45\xcb\x3a\x8f\x95\x16\x04\x28\xaf\xd7\xfb\xca\xbb\x4b\x40\x7e"

// xxphWords[i] is the secret's eight bytes from i on.
var xxphWords = func() (w [len(xxphSecret) - 7]uint64) {
	for i := range w {
		w[i] = binary.LittleEndian.Uint64([]byte(xxphSecret[i : i+8]))
	}
	return
}()

func mulFold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func xxphAvalanche(h uint64) uint64 {
	h ^= h >> 37
	h *= xxphP64c
	return h ^ h>>32
}

// xxphMix folds the first 16 bytes of b with the secret at s.
func xxphMix(b []byte, s int) uint64 {
	_ = b[15]
	return mulFold(binary.LittleEndian.Uint64(b)^xxphWords[s], binary.LittleEndian.Uint64(b[8:])^xxphWords[s+8])
}

func xxph17to128(b []byte) uint64 {
	n := len(b)
	acc := uint64(n) * xxphP64a
	for j := (n - 1) / 32; j >= 0; j-- {
		acc += xxphMix(b[16*j:], 32*j) + xxphMix(b[n-16*(j+1):], 32*j+16)
	}
	return xxphAvalanche(acc)
}

func xxph129to240(b []byte) uint64 {
	n := len(b)
	acc := uint64(n) * xxphP64a
	for j := range 8 {
		acc += xxphMix(b[16*j:], 16*j)
	}
	acc = xxphAvalanche(acc)
	for j := 8; j < n/16; j++ {
		acc += xxphMix(b[16*j:], 16*(j-8)+3)
	}
	acc += xxphMix(b[n-16:], 119)
	return xxphAvalanche(acc)
}

func xxphLong(b []byte) uint64 {
	n := uint64(len(b))
	last := b[len(b)-64:]
	acc := [8]uint64{xxphP32c, xxphP64a, xxphP64b, xxphP64c, xxphP64d, xxphP32b, xxphP64e, xxphP32a}
	for stripe := 0; len(b) >= 64; b = b[64:] {
		xxphStripe(&acc, b, 8*stripe)
		if stripe++; stripe == 16 {
			stripe = 0
			for i := range acc {
				acc[i] = (acc[i] ^ acc[i]>>47 ^ xxphWords[128+8*i]) * xxphP32a
			}
		}
	}
	if len(b) != 0 {
		xxphStripe(&acc, last, 121)
	}
	r := n * xxphP64a
	for i := range 4 {
		r += mulFold(acc[2*i]^xxphWords[11+16*i], acc[2*i+1]^xxphWords[19+16*i])
	}
	return xxphAvalanche(r)
}

func xxphStripe(acc *[8]uint64, b []byte, s int) {
	_ = b[63]
	for i := range acc {
		d := binary.LittleEndian.Uint64(b[8*i:])
		k := d ^ xxphWords[s+8*i]
		acc[i] += d + (k&0xffffffff)*(k>>32)
	}
}
