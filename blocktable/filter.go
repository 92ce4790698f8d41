package blocktable

import (
	"encoding/binary"
	"math/bits"

	"github.com/flatrock-db/flatrock/internal/hash"
)

// filterMetaLen is the metadata at the end of every filter block: what kind of
// filter it is, and its parameters.
const filterMetaLen = 5

// First metadata bytes.
const (
	filterNewBloom = 0xff
	filterRibbon   = 0xfe
)

// filterMayMatch asks a filter block about a key or prefix. False means that it
// was not added. Filters of unknown kinds answer true.
func filterMayMatch(f, entry []byte) bool {
	n := len(f) - filterMetaLen
	if n <= 0 {
		return false // nothing was added
	}
	data, m := f[:n], f[n:]
	switch c := m[0]; {
	case c == 0:
		return true
	case c == filterNewBloom:
		if m[1] != 0 || m[2]>>5 != 0 || m[2] == 0 || m[2] > 30 || m[3]|m[4] != 0 || n%bloomLine != 0 {
			return true
		}
		return newBloomMayMatch(data, int(m[2]), hash.XXPH3(entry))
	case c == filterRibbon:
		blocks := uint32(m[2]) | uint32(m[3])<<8 | uint32(m[4])<<16
		if blocks < 2 {
			return true
		}
		return ribbonMayMatch(data, m[1], blocks, hash.XXPH3(entry))
	case c >= 0x80:
		return true // reserved
	}
	return legacyBloomMayMatch(data, int(m[0]), binary.LittleEndian.Uint32(m[1:]), hash.Hash32(entry, legacyBloomSeed))
}

const (
	bloomLine       = 64 // bytes
	legacyBloomSeed = 0xbc9f1d34
)

// newBloomMayMatch probes a FastLocalBloom filter: all probes of a key lie in one
// cache line.
func newBloomMayMatch(data []byte, probes int, h uint64) bool {
	hi, _ := bits.Mul64(h<<32, uint64(len(data)/bloomLine))
	line := data[hi*bloomLine:][:bloomLine]
	x := uint32(h >> 32)
	for range probes {
		bit := x >> 23
		if line[bit>>3]>>(bit&7)&1 == 0 {
			return false
		}
		x *= 0x9e3779b9
	}
	return true
}

// legacyBloomMayMatch probes the Bloom filter of format versions below 5.
func legacyBloomMayMatch(data []byte, probes int, lines uint32, h uint32) bool {
	if lines == 0 || uint32(len(data))%lines != 0 {
		return true
	}
	size := uint32(len(data)) / lines
	if size == 0 || size&(size-1) != 0 {
		return true
	}
	line := data[h%lines*size:][:size]
	delta := h>>17 | h<<15
	for range probes {
		bit := h & (8*size - 1)
		if line[bit>>3]>>(bit&7)&1 == 0 {
			return false
		}
		h += delta
	}
	return true
}

// u128 is a 128-bit word.
type u128 struct{ hi, lo uint64 }

func (a u128) and(b u128) u128 { return u128{a.hi & b.hi, a.lo & b.lo} }
func (a u128) xor(b u128) u128 { return u128{a.hi ^ b.hi, a.lo ^ b.lo} }
func (a u128) parity() int     { return bits.OnesCount64(a.hi^a.lo) & 1 }

func (a u128) shl(n uint) u128 {
	switch {
	case n == 0:
		return a
	case n >= 64:
		return u128{a.lo << (n - 64), 0}
	}
	return u128{a.hi<<n | a.lo>>(64-n), a.lo << n}
}

func (a u128) shr(n uint) u128 {
	switch {
	case n == 0:
		return a
	case n >= 64:
		return u128{0, a.hi >> (n - 64)}
	}
	return u128{a.hi >> n, a.lo>>n | a.hi<<(64-n)}
}

func (a u128) trailingZeros() int {
	if a.lo != 0 {
		return bits.TrailingZeros64(a.lo)
	}
	return 64 + bits.TrailingZeros64(a.hi)
}

func (a u128) isZero() bool { return a.hi|a.lo == 0 }

const (
	ribbonSegment = 16  // bytes
	ribbonBlock   = 128 // slots
	ribbonMaxCols = 32
)

// ribbonHash is what a key's hash becomes under a seed: where its band starts,
// its coefficients, and its result row.
func ribbonHash(h uint64, seed byte, slots uint64) (start uint64, coeff u128, want uint32) {
	h = (h ^ uint64(ribbonRawSeed(seed))) * 0x6193d459236a3a0d
	start, _ = bits.Mul64(h, slots-(ribbonBlock-1))
	a := h * 0xc28f82822b650bed
	coeff = u128{a, a ^ 0xc367844a6e52731d | 1}
	return start, coeff, uint32(bits.ReverseBytes64(a))
}

func ribbonRawSeed(seed byte) uint32 {
	var s uint64 = uint64(seed)
	t := s * 0xc78219a23eeadd03
	return uint32(t ^ t&0xf0f0f0f0f0f0f0f0>>4)
}

// ribbonLayout is how many columns the blocks of a filter have: those below
// fewer have one less than cols.
func ribbonLayout(segments, blocks uint64) (cols, fewer uint64) {
	cols = (segments + blocks - 1) / blocks
	fewer = cols*blocks - segments
	if cols > ribbonMaxCols {
		return ribbonMaxCols, 0
	}
	return cols, fewer
}

func loadU128(b []byte) u128 {
	return u128{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b)}
}

func ribbonMayMatch(data []byte, seed byte, blocks uint32, h uint64) bool {
	segments := uint64(len(data) / ribbonSegment)
	if segments < uint64(blocks) {
		return true
	}
	start, coeff, want := ribbonHash(h, seed, ribbonBlock*uint64(blocks))
	cols, fewer := ribbonLayout(segments, uint64(blocks))
	b := start / ribbonBlock
	seg := b*cols - min(b, fewer)
	if b < fewer {
		cols--
	}
	k := uint(start % ribbonBlock)
	need := cols
	if k > 0 {
		need += cols
	}
	if seg+need > segments {
		return true
	}
	left, right := coeff.shl(k), u128{}
	if k > 0 {
		right = coeff.shr(ribbonBlock - k)
	}
	for c := range cols {
		s := loadU128(data[(seg+c)*ribbonSegment:]).and(left)
		if k > 0 {
			s = s.xor(loadU128(data[(seg+cols+c)*ribbonSegment:]).and(right))
		}
		if s.parity() != int(want>>c&1) {
			return false
		}
	}
	return true
}
