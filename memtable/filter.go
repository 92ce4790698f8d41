package memtable

import "github.com/flatrock-db/flatrock/internal/hash"

// A filter over hashes answers most Gets of keys that are not in the memtable,
// which are most Gets, without the miss of a bucket or node: it is a hundredth of
// the arena, and stays in a nearer cache. It is a Bloom filter of 32-bit words:
// three bits of one word per hash. RocksDB has it as memtable_prefix_bloom.

const (
	wholeKeySalt = 0x5bd1e995 // keeps a whole key's bits apart from those of an equal prefix
)

type filter struct {
	off   uint64 // arena offset of the first word
	words uint64 // zero: no filter, everything may be there
	whole bool   // whole keys are in it as well
}

// place is the word of a hash and the bits that must be set there. One multiply
// mixes enough: what passes wrongly (under 4% of absent keys when the arena is
// full of 130-byte entries) is bounded by the 32-bit hash that plain tables
// froze, which maps many keys of decimal digits to one value.
func (f *filter) place(h uint32) (off uint64, bits uint32) {
	x := uint64(h) * 0x9e3779b97f4a7c15
	off = f.off + (x>>32*f.words)>>32*4
	return off, 1<<(x>>17&31) | 1<<(x>>22&31) | 1<<(x>>27&31)
}

func (m *MemTable) filterAdd(h uint32) {
	off, bits := m.filter.place(h)
	m.orWord(off, bits)
}

// filterMayHave reports false only if no Add of that hash has returned. The
// memtable must have a filter.
func (m *MemTable) filterMayHave(h uint32) bool {
	off, bits := m.filter.place(h)
	return m.loadWord(off)&bits == bits
}

// mayHavePrefix is false if no key of the prefix is in the memtable.
func (m *MemTable) mayHavePrefix(prefixLen int, hash uint32) bool {
	return m.filter.words == 0 || prefixLen < 0 || m.filterMayHave(hash)
}

// mayHaveKey is false if key is not in the memtable.
func (m *MemTable) mayHaveKey(key []byte, prefixLen int, hash uint32) bool {
	if m.filter.whole {
		return m.filterMayHave(wholeKeyHash(key))
	}
	return m.mayHavePrefix(prefixLen, hash)
}

func wholeKeyHash(key []byte) uint32 { return hash.Hash32(key, wholeKeySalt) }

// filterKey enters a key. Whether that comes before or after its node is linked,
// a reader that misses either began before the Add returned.
func (m *MemTable) filterKey(key []byte, prefixLen int, hash uint32) {
	if m.filter.words == 0 {
		return
	}
	if prefixLen >= 0 {
		m.filterAdd(hash)
	}
	if m.filter.whole {
		m.filterAdd(wholeKeyHash(key))
	}
}
