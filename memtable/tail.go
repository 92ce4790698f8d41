package memtable

import "sync/atomic"

// tail is where the last entry of a skip list is, after one went to the list's end: the
// next, if it comes after that too, as with keys in order, is inserted without a search. Entries in
// no order look at on, no more. RocksDB: the sequential splice of its InlineSkipList.
//
// Invariants:
//
//	S1 While on is set, before[0] of s was the last node of the list at some moment, and before[l]
//	   that of level l, or one before it. Nodes stay where they are, so each is a place
//	   to search on from for whatever comes after before[0].
//	S2 after of s means nothing.
type tail struct {
	on   atomic.Bool
	busy atomic.Bool // guards s: who finds it set does without
	s    splice
}

// takeTail gives the caller the splice for (key, trailer), which dropTail takes back; false if it is of no use.
func (m *MemTable) takeTail(key []byte, trailer uint64) bool {
	t := &m.tail
	if !t.on.Load() || !t.busy.CompareAndSwap(false, true) {
		return false
	}
	// Somebody who does not know of the tail may have inserted behind it; then it is too far away.
	if last := t.s.before[0]; t.on.Load() && last.next(0) == 0 && m.compare(last, key, trailer) < 0 {
		return true
	}
	t.on.Store(false)
	t.busy.Store(false)
	return false
}

// dropTail gives the splice back, after n was linked by it or, with none, was not.
func (m *MemTable) dropTail(n node) {
	t := &m.tail
	if n.none() {
		t.on.Store(false)
	} else {
		t.follow(n)
	}
	t.busy.Store(false)
}

// setTail remembers s, by which n went to the end of the list.
func (m *MemTable) setTail(s *splice, n node) {
	t := &m.tail
	if t.busy.CompareAndSwap(false, true) {
		t.s.before = s.before
		t.follow(n)
		t.on.Store(true)
		t.busy.Store(false)
	}
}

// follow makes n the last node of its levels.
func (t *tail) follow(n node) {
	for level := range n.height() {
		t.s.before[level] = n
	}
}
