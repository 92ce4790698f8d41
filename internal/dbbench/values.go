package dbbench

import "math/rand/v2"

// valuePiece is the length of the pieces of which values consist; each shrinks to
// the compression ratio.
const valuePiece = 100

// valueSource gives values that compress to a given fraction. As db_bench's, they are
// slices of one buffer, so that a value costs no time to make.
type valueSource struct {
	buffer []byte
	at     int
	c      *config
	rng    *rand.Rand
	fixed  int // value size; negative: drawn by the distribution
}

// values are those of the thread's benchmark.
func (t *thread) values() *valueSource { return newValueSource(t.c, t.rng, t.p.valueSize) }

// newValueSource makes the buffer. Each thread has its own. size is that of values of
// fixed size.
func newValueSource(c *config, rng *rand.Rand, size int64) *valueSource {
	v := &valueSource{c: c, rng: rng, fixed: -1}
	longest := int(c.valueSizeMax)
	if c.valueSizeDistribution == "fixed" {
		v.fixed = int(size)
		longest = v.fixed
	}
	v.buffer = make([]byte, 0, max(1<<20, longest)+valuePiece)
	for len(v.buffer) < cap(v.buffer)-valuePiece {
		v.buffer = appendCompressible(v.buffer, rng, c.compressionRatio, valuePiece)
	}
	return v
}

// next is a value, valid for good; callers must not change it.
func (v *valueSource) next() []byte {
	n := v.fixed
	if n < 0 {
		n = v.draw()
	}
	return v.sized(n)
}

// sized is a value of n bytes, which no more than the longest of the flags may be.
func (v *valueSource) sized(n int) []byte {
	n = min(n, len(v.buffer))
	if v.at+n > len(v.buffer) {
		v.at = 0
	}
	v.at += n
	return v.buffer[v.at-n : v.at]
}

// draw is a value size by --value_size_distribution_type.
func (v *valueSource) draw() int {
	low, high := v.c.valueSizeMin, v.c.valueSizeMax
	if v.c.valueSizeDistribution == "uniform" {
		return int(low + v.rng.Int64N(high-low+1))
	}
	// Normal: nearly all sizes lie within three deviations; the rest is clamped.
	mean, deviation := float64(low+high)/2, float64(high-low)/6
	return int(min(max(v.rng.NormFloat64()*deviation+mean, float64(low)), float64(high)))
}

// appendCompressible appends n bytes: random printable ones for the fraction ratio,
// then the same again.
func appendCompressible(dst []byte, rng *rand.Rand, ratio float64, n int) []byte {
	raw := min(max(int(float64(n)*ratio), 1), n)
	start := len(dst)
	for range raw {
		dst = append(dst, byte(' '+rng.IntN(95)))
	}
	for len(dst)-start < n {
		dst = append(dst, dst[start:start+min(raw, n-(len(dst)-start))]...)
	}
	return dst
}
