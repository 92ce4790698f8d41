package memtable

import (
	"bytes"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// position is the entry that an iterator stands on, if any.
type position struct{ cur node }

func (p *position) Valid() bool     { return !p.cur.none() }
func (p *position) UserKey() []byte { return p.cur.key() }
func (p *position) Trailer() uint64 { return p.cur.trailer() }
func (p *position) Value() []byte   { return p.cur.value() }
func (p *position) Err() error      { return nil }

func (p *position) set(n node) bool {
	p.cur = n
	return !n.none()
}

// hasPrefix reports whether n has the prefix of length prefixLen that key has.
func (m *MemTable) hasPrefix(n node, key []byte, prefixLen int) bool {
	k := n.key()
	if len(k) < prefixLen || !bytes.Equal(k[:prefixLen], key[:prefixLen]) {
		return false
	}
	return m.extractor == nil || m.extractor.PrefixLen(k) == prefixLen
}

// listIterator walks the list of a SkipList memtable.
type listIterator struct {
	position
	m *MemTable
}

func (it *listIterator) SeekGE(userKey []byte, trailer uint64) bool {
	n, _ := it.m.seekGE(it.m.main, userKey, trailer)
	return it.set(n)
}

func (it *listIterator) SeekPrefixGE(look *keys.Lookup, trailer uint64) bool {
	if !it.m.mayHavePrefix(look.PrefixLen, look.Hash) {
		return it.set(node{})
	}
	if !it.SeekGE(look.UserKey, trailer) {
		return false
	}
	if !it.m.hasPrefix(it.cur, look.UserKey, look.PrefixLen) {
		return it.set(node{})
	}
	return true
}

func (it *listIterator) SeekLT(userKey []byte, trailer uint64) bool {
	return it.set(it.m.seekLT(it.m.main, userKey, trailer))
}

func (it *listIterator) First() bool { return it.set(it.m.first(it.m.main)) }
func (it *listIterator) Last() bool  { return it.set(it.m.last(it.m.main)) }
func (it *listIterator) Next() bool  { return it.set(it.m.following(it.cur)) }

func (it *listIterator) Prev() bool { return it.SeekLT(it.cur.key(), it.cur.trailer()) }

func (it *listIterator) Close() error {
	it.cur = node{}
	return nil
}

// hashIterator walks a hash or vector memtable. SeekPrefixGE puts it into a
// bucket, where it stays as long as steps keep to the prefix; everything else
// happens in the sorted runs, which it takes when it first needs them and keeps.
type hashIterator struct {
	position
	m         *MemTable
	inBucket  bool
	bucket    list
	prefixLen int

	set     *runSet // nil until needed
	cursors []cursor
	heap    []int32 // indexes of cursors that stand on an entry; the current one first
	reverse bool
}

// cursor is a place in a run. Going forward it is at its first entry at or after
// the iterator's, in reverse at its last entry at or before; so turning round
// moves every cursor by one.
type cursor struct {
	links []uint32
	pos   int
	n     node // the entry at pos
}

func (it *hashIterator) SeekPrefixGE(look *keys.Lookup, trailer uint64) bool {
	m := it.m
	if m.kind == Vector || look.PrefixLen < 0 {
		if !it.SeekGE(look.UserKey, trailer) {
			return false
		}
		if look.PrefixLen >= 0 && !m.hasPrefix(it.cur, look.UserKey, look.PrefixLen) {
			return it.position.set(node{})
		}
		return true
	}
	if !m.mayHavePrefix(look.PrefixLen, look.Hash) {
		return it.position.set(node{})
	}
	it.inBucket, it.prefixLen = true, look.PrefixLen
	it.bucket = m.listOf(look.PrefixLen, look.Hash)
	n, _ := m.seekGE(it.bucket, look.UserKey, trailer)
	if !n.none() && !m.hasPrefix(n, look.UserKey, look.PrefixLen) {
		n = node{}
	}
	return it.position.set(n)
}

func (it *hashIterator) SeekGE(userKey []byte, trailer uint64) bool {
	it.takeRuns(false)
	for i := range it.cursors {
		c := &it.cursors[i]
		c.pos = it.m.searchRun(c.links, userKey, trailer)
	}
	return it.settle()
}

func (it *hashIterator) SeekLT(userKey []byte, trailer uint64) bool {
	it.takeRuns(true)
	for i := range it.cursors {
		c := &it.cursors[i]
		c.pos = it.m.searchRun(c.links, userKey, trailer) - 1
	}
	return it.settle()
}

func (it *hashIterator) First() bool {
	it.takeRuns(false)
	for i := range it.cursors {
		it.cursors[i].pos = 0
	}
	return it.settle()
}

func (it *hashIterator) Last() bool {
	it.takeRuns(true)
	for i := range it.cursors {
		it.cursors[i].pos = len(it.cursors[i].links) - 1
	}
	return it.settle()
}

func (it *hashIterator) Next() bool {
	if it.inBucket {
		at := it.cur
		if n := it.m.following(at); !n.none() && it.m.hasPrefix(n, at.key(), it.prefixLen) {
			return it.position.set(n)
		}
		// The entry itself may be too new for runs that were taken before.
		if !it.SeekGE(at.key(), at.trailer()) || it.cur != at {
			return it.Valid()
		}
	}
	if it.reverse {
		it.turn(false)
	}
	return it.step(1)
}

func (it *hashIterator) Prev() bool {
	if it.inBucket {
		at := it.cur
		n := it.m.seekLT(it.bucket, at.key(), at.trailer())
		if !n.none() && it.m.hasPrefix(n, at.key(), it.prefixLen) {
			return it.position.set(n)
		}
		return it.SeekLT(at.key(), at.trailer())
	}
	if !it.reverse {
		it.turn(true)
	}
	return it.step(-1)
}

// takeRuns enters the runs.
func (it *hashIterator) takeRuns(reverse bool) {
	it.inBucket, it.reverse = false, reverse
	if it.set != nil {
		return
	}
	it.set = it.m.acquireRuns()
	it.cursors = make([]cursor, len(it.set.runs))
	it.heap = make([]int32, 0, len(it.cursors))
	for i, r := range it.set.runs {
		it.cursors[i].links = r.links
	}
}

// settle builds the heap from the cursors' places.
func (it *hashIterator) settle() bool {
	it.heap = it.heap[:0]
	for i := range it.cursors {
		if it.load(&it.cursors[i]) {
			it.heap = append(it.heap, int32(i))
		}
	}
	for i := len(it.heap)/2 - 1; i >= 0; i-- {
		it.sift(i)
	}
	return it.top()
}

// load finds the node of c's place; false at either end.
func (it *hashIterator) load(c *cursor) bool {
	if uint(c.pos) >= uint(len(c.links)) {
		return false
	}
	c.n = it.m.at(c.links[c.pos])
	return true
}

func (it *hashIterator) top() bool {
	if len(it.heap) == 0 {
		return it.position.set(node{})
	}
	return it.position.set(it.cursors[it.heap[0]].n)
}

// touchAhead is how many entries before its turn a node is loaded, so that the
// misses of a scan overlap: a run's nodes lie all over the arena.
const touchAhead = 8

// step moves the current cursor by one in the iterator's direction.
func (it *hashIterator) step(by int) bool {
	c := &it.cursors[it.heap[0]]
	c.pos += by
	if i := c.pos + by*touchAhead; uint(i) < uint(len(c.links)) {
		it.m.at(c.links[i]).touch()
	}
	if !it.load(c) {
		last := len(it.heap) - 1
		it.heap[0] = it.heap[last]
		it.heap = it.heap[:last]
	}
	it.sift(0)
	return it.top()
}

// turn changes the direction of a valid iterator without moving it.
func (it *hashIterator) turn(reverse bool) {
	by := 1
	if reverse {
		by = -1
	}
	it.reverse = reverse
	current := it.heap[0]
	for i := range it.cursors {
		if int32(i) != current {
			it.cursors[i].pos += by
		}
	}
	it.settle()
}

func (it *hashIterator) before(a, b int32) bool {
	n := it.cursors[b].n
	c := it.m.compare(it.cursors[a].n, n.key(), n.trailer())
	return c < 0 != it.reverse
}

func (it *hashIterator) sift(i int) {
	h := it.heap
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && it.before(h[child+1], h[child]) {
			child++
		}
		if !it.before(h[child], h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

func (it *hashIterator) Close() error {
	if it.set != nil {
		it.set.release()
	}
	it.set, it.cursors, it.heap, it.inBucket, it.cur = nil, nil, nil, false, node{}
	return nil
}
