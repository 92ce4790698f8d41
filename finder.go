package flatrock

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// finder chooses the file of a sorted level for a key. It keeps, of each bound, the
// eight bytes after those that all bounds of the level share, as numbers: they
// mostly decide, where comparing the keys themselves would cost a call and a
// mispredicted branch for each step.
type finder struct {
	order    keys.Order
	bytewise bool
	shared   []byte
	smallest []uint64
	largest  []uint64
}

// newFinder is for a level's files in key order.
func newFinder(order keys.Order, level []tableRef) *finder {
	f := &finder{order: order, bytewise: order.Bytewise()}
	if !f.bytewise || len(level) == 0 {
		return f
	}
	// In order, what the first and the last bound share all others share, too.
	first, last := level[0].smallest, level[len(level)-1].largest
	n := 0
	for n < min(len(first), len(last)) && first[n] == last[n] {
		n++
	}
	f.shared = first[:n]
	for _, r := range level {
		f.smallest = append(f.smallest, wordOf(r.smallest[n:]))
		f.largest = append(f.largest, wordOf(r.largest[n:]))
	}
	return f
}

// wordOf is the first eight bytes of b as a number, zeros standing for those that
// it lacks: of two words that differ, the smaller one belongs to the smaller key.
func wordOf(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var w uint64
	for i, c := range b {
		w |= uint64(c) << (56 - 8*i)
	}
	return w
}

// find is the first file of the level that may hold the key, or -1.
func (f *finder) find(level []tableRef, key []byte) int {
	n := len(f.shared)
	if !f.bytewise || len(key) < n || string(key[:n]) != string(f.shared) {
		return findFile(f.order, level, key)
	}
	w := wordOf(key[n:])
	// The first file whose largest word is not below w: no branch but the loop's.
	at, left := 0, len(f.largest)
	for left > 1 {
		half := left >> 1
		next := at + half
		if f.largest[next-1] < w {
			at = next
		}
		left -= half
	}
	for ; at < len(f.largest); at++ {
		if f.largest[at] > w || f.largest[at] == w && f.order.Compare(level[at].largest, key) >= 0 {
			break
		}
	}
	if at == len(f.largest) || f.smallest[at] > w || f.smallest[at] == w && f.order.Compare(key, level[at].smallest) < 0 {
		return -1
	}
	return at
}

// findFile is finder.find by comparing keys.
func findFile(o keys.Order, level []tableRef, key []byte) int {
	lo, hi := 0, len(level)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if o.Compare(level[mid].largest, key) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(level) || o.Compare(key, level[lo].smallest) < 0 {
		return -1
	}
	return lo
}

// nextFile is the file after i if it may hold older entries of the key: old
// versions of RocksDB cut files between two entries of one user key.
func nextFile(level []tableRef, look *keys.Lookup, i int) int {
	if i++; i < len(level) && level[i].handle.cf.order.Compare(look.UserKey, level[i].smallest) == 0 {
		return i
	}
	return -1
}
