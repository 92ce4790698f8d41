package hash

import (
	"testing"

	"github.com/cespare/xxhash/v2"
)

// vectorInput is the input of the fact sheet's vectors: byte i is 131·i + 7.
func vectorInput(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(131*i + 7)
	}
	return b
}

func TestXXH32AndXXH64Vectors(t *testing.T) {
	for _, v := range []struct {
		n   int
		x32 uint32
		x64 uint64
	}{
		{0, 0x02cc5d05, 0xef46db3751d8e999}, {1, 0x002e0d32, 0xa96c7f0ce858bbb7},
		{3, 0x7d92e8db, 0xbed43740ee6332bb}, {4, 0xf189ec97, 0xfa212ae44b3bb23d},
		{8, 0xc78aa5cd, 0x994b676b71ce94dd}, {15, 0x57055fe6, 0x09e6451ed2ff8b1d},
		{16, 0x64287c90, 0x94ad0095e72b24d5}, {17, 0x1c63fdc5, 0x1464f2eff23b5fe1},
		{32, 0x1e1bff83, 0x07f7b8e3bc5d6e25}, {33, 0x2934fd43, 0x09f85eeb4e1cbe9f},
		{100, 0xcc7d31ef, 0x9ddada11d3dc2d8f}, {1000, 0x47c1e8da, 0x0bf0bdbcc82eb373},
	} {
		in := vectorInput(v.n)
		if got := XXH32(in); got != v.x32 {
			t.Errorf("XXH32 of %d bytes: %08x, expected %08x", v.n, got, v.x32)
		}
		if got := xxhash.Sum64(in); got != v.x64 {
			t.Errorf("XXH64 of %d bytes: %016x, expected %016x", v.n, got, v.x64)
		}
		for cut := max(0, v.n-20); cut < v.n; cut++ {
			if got := XXH32(in[:cut], in[cut:]...); got != v.x32 {
				t.Errorf("XXH32 of %d bytes cut at %d: %08x, expected %08x", v.n, cut, got, v.x32)
			}
		}
	}
}

func TestTrailerChecksumVectors(t *testing.T) {
	for _, v := range []struct {
		n    int
		last byte
		sums [4]uint32 // crc32c, xxHash, xxHash64, XXH3
	}{
		{0, 0, [4]uint32{0x49258fd2, 0xcf65b03e, 0xdb052768, 0x38d394c2}},
		{0, 1, [4]uint32{0x43282b05, 0x3892f731, 0x1b21e730, 0x5343171b}},
		{0, 7, [4]uint32{0x11f7f846, 0x002e0d32, 0xe858bbb7, 0xc8200e2d}},
		{1, 0, [4]uint32{0x1fb200f1, 0x4eef2779, 0x78c057bc, 0xd0f4811f}},
		{1, 1, [4]uint32{0x1dabdda6, 0x976041c7, 0x12f600e1, 0xbb6402c6}},
		{1, 7, [4]uint32{0x577baa65, 0xc23b3eaf, 0x0728d57c, 0x20071bf0}},
		{4, 0, [4]uint32{0x88634d77, 0xa69285e5, 0x758bc161, 0x3443d03f}},
		{4, 1, [4]uint32{0x866a7120, 0xb24bab23, 0xaad32d6d, 0x5fd353e6}},
		{4, 7, [4]uint32{0xcebab5e3, 0xc459f06b, 0x9096d04f, 0xc4b04ad0}},
		{100, 0, [4]uint32{0xa0602048, 0x7bcce5c3, 0xafb93861, 0x6d4093d5}},
		{100, 1, [4]uint32{0x9e5dbc7f, 0xe6980680, 0x8023acad, 0x06d0100c}},
		{100, 7, [4]uint32{0xd68d87bc, 0xa513456e, 0x5d808743, 0x9db3093a}},
		{1000, 0, [4]uint32{0xed92c689, 0x5398969e, 0x88edf4a2, 0xef44331b}},
		{1000, 1, [4]uint32{0xef8b2a3e, 0xcc0bb17d, 0x7c5351ba, 0x84d4b0c2}},
		{1000, 7, [4]uint32{0x255b5cfd, 0xe10cdc04, 0x97630157, 0x1fb7a9f4}},
	} {
		in := vectorInput(v.n)
		if got := Checksum(ChecksumNone, in, v.last); got != 0 {
			t.Errorf("no checksum of %d bytes: %08x", v.n, got)
		}
		for i, want := range v.sums {
			if got := Checksum(ChecksumType(i+1), in, v.last); got != want {
				t.Errorf("%v of %d bytes and %d: %08x, expected %08x", ChecksumType(i+1), v.n, v.last, got, want)
			}
			if got := ChecksumWhole(ChecksumType(i+1), append(in[:v.n:v.n], v.last)); got != want {
				t.Errorf("%v of %d bytes ending in %d: %08x, expected %08x", ChecksumType(i+1), v.n, v.last, got, want)
			}
		}
	}
	in := vectorInput(4096)
	if n := testing.AllocsPerRun(10, func() {
		for c := range numChecksums {
			Checksum(c, in, 1)
		}
	}); n != 0 {
		t.Errorf("a checksum allocates %v times", n)
	}
}
