package hash

import (
	"encoding/binary"
	"math/bits"
)

// EntrySum is a checksum of an entry in memory: of a key, a number, and a value, in this
// order. It is never stored in files. It has two halves that are computed from the same
// loads:
//
//   - m, products of 64-bit words folded to 64 bits, of which an owner keeps so many
//     bytes: whatever happens to an entry is missed with probability 2^-8 for each;
//   - x, the words added without carry, kept as one byte: a change that is
//     confined to one byte, or to eight adjacent bits, is never missed by it.
//
// The zero value is not ready: begin with NewEntrySum.
type EntrySum struct{ m, x uint64 }

// Odd numbers without structure.
const (
	entryK0 = 0xa0761d6478bd642f
	entryK1 = 0xe7037ed1a0b428db
	entryK2 = 0x8ebc6af09c88c6e3
	entryK3 = 0x589965cc75374cc3
)

// MaxEntrySum is how many bytes Put writes at most: for eight bytes an entry.
const MaxEntrySum = 9

// NewEntrySum begins the sum of the entry at a place, so that an entry in the place of
// another one is not taken for it.
func NewEntrySum(place uint64) EntrySum {
	return EntrySum{m: place*entryK1 ^ entryK0, x: place}
}

func entryFold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// Word adds a number.
func (s *EntrySum) Word(v uint64) {
	s.m = bits.RotateLeft64(s.m+entryFold(v^entryK1, entryK2), 23)
	s.x ^= v
}

// Bytes adds a string. Its length is part of the sum. The products do not wait for one
// another: what tells places apart is a key that moves on.
func (s *EntrySum) Bytes(b []byte) {
	m, x, k := s.m, s.x, uint64(len(b))*entryK3
	for ; len(b) >= 32; b = b[32:] {
		w := (*[32]byte)(b)
		w0, w1 := binary.LittleEndian.Uint64(w[0:8]), binary.LittleEndian.Uint64(w[8:16])
		w2, w3 := binary.LittleEndian.Uint64(w[16:24]), binary.LittleEndian.Uint64(w[24:32])
		m += entryFold(w0^k, w1^entryK0) + entryFold(w2^entryK1, w3+k)
		x ^= w0 ^ w1 ^ w2 ^ w3
		k += entryK2
	}
	var w0, w1 uint64
	if len(b) >= 16 {
		w := (*[16]byte)(b)
		w0, w1 = binary.LittleEndian.Uint64(w[0:8]), binary.LittleEndian.Uint64(w[8:16])
		m += entryFold(w0^k, w1^entryK2)
		x ^= w0 ^ w1
		b = b[16:]
		k += entryK1
		w0, w1 = 0, 0
	}
	// Each byte is to be in x once.
	if len(b) >= 8 {
		w0 = binary.LittleEndian.Uint64(b)
		b = b[8:]
	}
	i := 0
	if len(b) >= 4 {
		w1 = uint64(binary.LittleEndian.Uint32(b))
		i = 4
	}
	for ; i < len(b); i++ {
		w1 |= uint64(b[i]) << (8 * i)
	}
	s.m = m + entryFold(w0^k^entryK3, w1^entryK0)
	s.m = bits.RotateLeft64(s.m, 23)
	s.x = x ^ w0 ^ w1
}

// parity folds x to a byte in which every bit of each byte of x counts.
func (s *EntrySum) parity() byte {
	x := s.x ^ s.x>>32
	x ^= x >> 16
	return byte(x ^ x>>8)
}

// words is all of the sum, the parity byte in the second result.
func (s *EntrySum) words() (uint64, byte) {
	return entryFold(s.m^entryK1, entryK3), s.parity()
}

// Full is all of the sum in one number, for those who keep eight bytes and no parity.
func (s *EntrySum) Full() uint64 {
	m, p := s.words()
	return m ^ uint64(p)<<56
}

// Put writes the sum to dst: a parity byte, and 1, 2, 4 or 8 bytes that fill the rest of it.
func (s *EntrySum) Put(dst []byte) {
	m, p := s.words()
	dst[0] = p
	switch len(dst) {
	case 2:
		dst[1] = byte(m)
	case 3:
		binary.LittleEndian.PutUint16(dst[1:], uint16(m))
	case 5:
		binary.LittleEndian.PutUint32(dst[1:], uint32(m))
	case 9:
		binary.LittleEndian.PutUint64(dst[1:], m)
	}
}

// Matches reports whether Put would write what stored is.
func (s *EntrySum) Matches(stored []byte) bool {
	m, p := s.words()
	switch len(stored) {
	case 2:
		return binary.LittleEndian.Uint16(stored) == uint16(p)|uint16(byte(m))<<8
	case 3:
		return stored[0] == p && binary.LittleEndian.Uint16(stored[1:]) == uint16(m)
	case 5:
		return stored[0] == p && binary.LittleEndian.Uint32(stored[1:]) == uint32(m)
	case 9:
		return stored[0] == p && binary.LittleEndian.Uint64(stored[1:]) == m
	}
	return false
}

// EntrySumLen is the length of what Put writes for a protection of 1, 2, 4 or 8 bytes
// an entry; zero for none.
func EntrySumLen(protection int) int {
	if protection == 0 {
		return 0
	}
	return protection + 1
}

// ValidProtection reports whether n bytes an entry is a strength that RocksDB knows.
func ValidProtection(n int) bool { return n == 0 || n == 1 || n == 2 || n == 4 || n == 8 }
