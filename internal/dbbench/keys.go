package dbbench

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
)

// keyMaker turns numbers into keys with db_bench's bytes, so that either tool reads
// what the other filled:
//
//	key    := prefix? number padding
//	prefix := with keysPerPrefix only: number mod prefixes, big-endian in the first
//	          8 bytes (fewer if the prefix is shorter), then '0' up to prefixSize
//	number := big-endian, 8 bytes (the low ones, if the key has less room)
//	padding:  '0' up to keySize
//
// Proved by keys that db_bench 7.8.3 wrote (keys_test.go).
type keyMaker struct {
	keySize, prefixSize int
	prefixes            uint64 // number of prefixes; zero: no prefix
	existing            *existingKeys
}

func newKeyMaker(c *config) keyMaker {
	m := keyMaker{keySize: int(c.keySize), prefixSize: int(c.prefixSize)}
	if c.keysPerPrefix > 0 {
		m.prefixes = uint64(c.num) / uint64(c.keysPerPrefix)
	}
	return m
}

// buffer returns memory for one key, with the bytes that are the same in all keys.
// Each put needs the buffer of its own maker.
func (m *keyMaker) buffer() []byte {
	// Threads write their keys all the time: no two share a cache line, nor the pair of
	// lines that processors fetch together.
	key := make([]byte, m.keySize, max(m.keySize, ownLines))
	for i := range key {
		key[i] = '0'
	}
	return key
}

// put makes the key of number v in key, which buffer returned.
func (m *keyMaker) put(key []byte, v uint64) []byte {
	if m.existing != nil {
		return m.existing.append(key[:0], v)
	}
	if m.prefixes == 0 && len(key) >= 8 {
		binary.BigEndian.PutUint64(key, v)
		return key
	}
	rest := key
	if m.prefixes > 0 {
		putLow(rest[:min(m.prefixSize, 8)], v%m.prefixes)
		rest = rest[m.prefixSize:]
	}
	putLow(rest[:min(len(rest), 8)], v)
	return key
}

// putLow puts the low len(dst) bytes of v, the highest first.
func putLow(dst []byte, v uint64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte(v)
		v >>= 8
	}
}

// existingKeys holds the keys of a database, in one piece of memory.
type existingKeys struct {
	bytes []byte
	ends  []uint64
}

func (k *existingKeys) add(key []byte) {
	k.bytes = append(k.bytes, key...)
	k.ends = append(k.ends, uint64(len(k.bytes)))
}

func (k *existingKeys) count() int64 { return int64(len(k.ends)) }

func (k *existingKeys) append(dst []byte, i uint64) []byte {
	start := uint64(0)
	if i > 0 {
		start = k.ends[i-1]
	}
	return append(dst, k.bytes[start:k.ends[i]]...)
}

// permutation maps [0, n) onto itself in a random order, without the memory of a
// shuffled list: a bijection of the next power of two, walked until it falls into range.
type permutation struct {
	n, mask    uint64
	shift      uint
	mul1, mul2 uint64
	add        uint64
}

func newPermutation(n uint64, rng *rand.Rand) permutation {
	width := max(uint(bits.Len64(max(n, 2)-1)), 2)
	return permutation{
		n: n, mask: 1<<width - 1, shift: (width + 1) / 2,
		// Odd factors have an inverse modulo a power of two.
		mul1: rng.Uint64() | 1, mul2: rng.Uint64() | 1, add: rng.Uint64(),
	}
}

func (p *permutation) at(i uint64) uint64 {
	for {
		i = (i*p.mul1 + p.add) & p.mask
		i ^= i >> p.shift
		i = (i * p.mul2) & p.mask
		i ^= i >> p.shift
		i = (i * p.mul1) & p.mask
		i ^= i >> p.shift
		if i < p.n {
			return i
		}
	}
}

// keyOrder is the order in which a fill writes keys.
type keyOrder int

const (
	sequential keyOrder = iota
	random
	uniqueRandom
)

// keySource gives the numbers of the keys that a writer writes.
type keySource struct {
	order keyOrder
	num   uint64
	next  uint64
	perm  permutation
	rng   *rand.Rand
}

func newKeySource(order keyOrder, num uint64, rng *rand.Rand) keySource {
	return keySource{order: order, num: num, rng: rng, perm: newPermutation(num, rng)}
}

func (s *keySource) take() uint64 {
	switch s.order {
	case sequential:
		s.next++
		return s.next - 1
	case uniqueRandom:
		s.next++
		return s.perm.at(s.next - 1)
	}
	return s.rng.Uint64N(s.num)
}

// skewed draws a number below num as db_bench's --read_random_exp_range does: it
// falls exponentially from num, and is then scattered over the whole range.
func skewed(rng *rand.Rand, num uint64, expRange float64) uint64 {
	if expRange == 0 {
		return rng.Uint64N(num)
	}
	const scatter = 0x5bd1e995
	at := uint64(math.Exp(-rng.Float64()*expRange) * float64(num))
	hi, lo := bits.Mul64(at, scatter)
	return bits.Rem64(hi, lo, num)
}
