// Package hostile spoils the files of small databases, for tests that open and read what is left.
//
// What is spoiled blindly mostly ends at a checksum. Seal makes the checksums of a spoiled file right again,
// so that what the bytes say is believed: numbers out of range, lengths beyond the file, handles of
// blocks that point anywhere.
package hostile

import (
	"bytes"
	"math/rand/v2"
)

// Way is a way to spoil a file. Spoil owns b, which is not empty, and may return it; other is a second file of the same
// kind.
type Way struct {
	Name  string
	Spoil func(rng *rand.Rand, b, other []byte) []byte
}

// Ways are all of them.
var Ways = []Way{
	{"truncated", func(rng *rand.Rand, b, _ []byte) []byte { return b[:rng.IntN(len(b)+1)] }},
	{"empty", func(*rand.Rand, []byte, []byte) []byte { return nil }},
	{"bit flipped", func(rng *rand.Rand, b, _ []byte) []byte { b[rng.IntN(len(b))] ^= 1 << rng.IntN(8); return b }},
	{"extreme byte", func(rng *rand.Rand, b, _ []byte) []byte {
		b[rng.IntN(len(b))] = []byte{0, 1, 0x7f, 0x80, 0xfe, 0xff}[rng.IntN(6)]
		return b
	}},
	{"huge length", func(rng *rand.Rand, b, _ []byte) []byte {
		at := rng.IntN(len(b))
		copy(b[at:], "\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
		return b
	}},
	{"large length", func(rng *rand.Rand, b, _ []byte) []byte { // within 31 bits, as a varint
		at := rng.IntN(len(b))
		copy(b[at:], "\xff\xff\xff\xff\x07")
		return b
	}},
	{"zeroed", func(rng *rand.Rand, b, _ []byte) []byte {
		at := rng.IntN(len(b))
		clear(b[at:min(len(b), at+1+rng.IntN(200))])
		return b
	}},
	{"random tail", func(rng *rand.Rand, b, _ []byte) []byte {
		at := len(b) - min(len(b), 1+rng.IntN(80))
		for i := range b[at:] {
			b[at+i] = byte(rng.Uint32())
		}
		return b
	}},
	{"swapped", func(_ *rand.Rand, _, other []byte) []byte { return bytes.Clone(other) }},
	{"doubled", func(_ *rand.Rand, b, _ []byte) []byte { return append(b, b...) }},
	{"shifted", func(rng *rand.Rand, b, _ []byte) []byte {
		at := rng.IntN(len(b))
		return append(b[:at:at], append([]byte{byte(rng.Uint32())}, b[at:]...)...)
	}},
	{"a piece twice", func(rng *rand.Rand, b, _ []byte) []byte {
		from, to := rng.IntN(len(b)), rng.IntN(len(b))
		n := min(len(b)-from, len(b)-to, 1+rng.IntN(100))
		copy(b[to:to+n], b[from:from+n])
		return b
	}},
	{"pointers turned", func(rng *rand.Rand, b, _ []byte) []byte { return turn(rng, b) }},
}
