package iterator

import (
	"bytes"
	"errors"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// direction is the way the sources stand relative to the current entry: in
// forward, each source is at its first entry at or after it; in backward, at its
// last entry at or before it.
type direction int8

const (
	unpositioned direction = iota
	forward
	backward
)

// source is one input with its current entry held close, so that comparing
// costs no call into it.
type source struct {
	key     []byte
	trailer uint64
	it      table.Iterator
	index   int
	absent  bool // answered SeekPrefixGE with false and was not positioned since
}

// load reads the entry that the source stands on after ok, the answer of a
// positioning call.
func (s *source) load() {
	s.key = s.it.UserKey()
	s.trailer = s.it.Trailer()
}

// ranked is a source in the heap with the first bytes of its key, so that most comparisons look at nothing else: the
// sources and their keys lie far apart in memory.
type ranked struct {
	head uint64
	*source
}

// Merging walks the entries of several sources as one, in internal key order. Of
// equal internal keys the one from the earlier source comes first. It implements
// table.Iterator.
//
// The zero Merging is ready for Init. The sources lie in a binary heap by their
// current entries. A step of the top source costs one comparison while the same
// source goes on winning; with one source there are none.
//
// In prefix mode a source that has nothing with the prefix is left alone until
// the walk leaves the prefix. Only then is it positioned, where the walk began:
// what it has from there on lies beyond the prefix.
type Merging struct {
	order    keys.Order
	bytewise bool
	dir      direction
	heap     []ranked // sources that stand on an entry; heap[0] is the current one
	sources  []source // newest first
	rival    int      // index in heap of the better child of heap[0]; 0 if not known
	err      error

	prefixer  Prefixer
	stay      bool   // become invalid instead of leaving the prefix
	absent    int    // sources that are absent
	target    []byte // key of the last SeekPrefixGE, copied when a source was absent
	targetTr  uint64
	prefixLen int
}

// NewMerging returns a Merging over sources, newest first, which it closes when
// it is closed.
func NewMerging(order keys.Order, sources ...table.Iterator) *Merging {
	m := new(Merging)
	m.Init(order, sources)
	return m
}

// Init makes m walk sources, newest first, reusing its memory. What it held
// before is forgotten, not closed; sources itself is not kept.
func (m *Merging) Init(order keys.Order, sources []table.Iterator) {
	clear(m.sources[:cap(m.sources)])
	m.order, m.bytewise = order, order.Bytewise()
	m.sources = m.sources[:0]
	for i, it := range sources {
		m.sources = append(m.sources, source{it: it, index: i})
	}
	m.heap = m.heap[:0]
	m.dir, m.err, m.absent = unpositioned, nil, 0
	m.prefixer, m.stay = nil, false
}

// SetPrefix tells m how to recognise the end of a prefix after SeekPrefixGE.
// Without it, m assumes the end at the first step. With stay, m becomes invalid
// when a forward walk that began with SeekPrefixGE and has absent sources leaves
// the prefix, and so never positions the absent ones for nothing.
func (m *Merging) SetPrefix(p Prefixer, stay bool) { m.prefixer, m.stay = p, stay }

// Valid reports whether m stands on an entry.
func (m *Merging) Valid() bool { return len(m.heap) > 0 }

// UserKey is the user key of the current entry, borrowed until the next move.
func (m *Merging) UserKey() []byte { return m.heap[0].key }

// Trailer is the trailer of the current entry.
func (m *Merging) Trailer() uint64 { return m.heap[0].trailer }

// Value is the value of the current entry, borrowed until the next move.
func (m *Merging) Value() []byte { return m.heap[0].it.Value() }

// SourceIndex says which source the current entry comes from.
func (m *Merging) SourceIndex() int { return m.heap[0].index }

// Err is the error that made m invalid, nil at an end.
func (m *Merging) Err() error { return m.err }

// Close closes all sources and returns the first error of doing so.
func (m *Merging) Close() error {
	var errs error
	for i := range m.sources {
		if err := m.sources[i].it.Close(); err != nil {
			errs = errors.Join(errs, err)
		}
	}
	clear(m.sources[:cap(m.sources)])
	m.sources, m.heap = m.sources[:0], m.heap[:0]
	return errs
}

// begin forgets the position before a seek.
func (m *Merging) begin(d direction) {
	m.heap = m.heap[:0]
	m.dir, m.err, m.absent = d, nil, 0
}

// add puts s, just positioned with the answer ok, into the heap's slice without
// ordering it. It reports false if s failed.
func (m *Merging) add(s *source, ok bool) bool {
	s.absent = false
	if ok {
		s.load()
		m.heap = append(m.heap, m.rank(s))
		return true
	}
	if err := s.it.Err(); err != nil {
		return m.fail(err)
	}
	return true
}

// rank puts the first bytes of the key that s has loaded beside it; zero where the order is another one.
func (m *Merging) rank(s *source) ranked {
	if m.bytewise {
		return ranked{keys.Head(s.key), s}
	}
	return ranked{0, s}
}

func (m *Merging) fail(err error) bool {
	m.err = err
	m.heap = m.heap[:0]
	m.absent = 0
	return false
}

// SeekGE moves to the first entry at or after (userKey, trailer), which must not
// be borrowed from m.
func (m *Merging) SeekGE(userKey []byte, trailer uint64) bool {
	m.begin(forward)
	for i := range m.sources {
		s := &m.sources[i]
		if !m.add(s, s.it.SeekGE(userKey, trailer)) {
			return false
		}
	}
	return m.order0()
}

// SeekLT moves to the last entry before (userKey, trailer), which must not be
// borrowed from m.
func (m *Merging) SeekLT(userKey []byte, trailer uint64) bool {
	m.begin(backward)
	for i := range m.sources {
		s := &m.sources[i]
		if !m.add(s, s.it.SeekLT(userKey, trailer)) {
			return false
		}
	}
	return m.order0()
}

// First moves to the first entry of all.
func (m *Merging) First() bool {
	m.begin(forward)
	for i := range m.sources {
		s := &m.sources[i]
		if !m.add(s, s.it.First()) {
			return false
		}
	}
	return m.order0()
}

// Last moves to the last entry of all.
func (m *Merging) Last() bool {
	m.begin(backward)
	for i := range m.sources {
		s := &m.sources[i]
		if !m.add(s, s.it.Last()) {
			return false
		}
	}
	return m.order0()
}

// SeekPrefixGE is table.Iterator's: false if no source has the prefix at or after
// the key.
func (m *Merging) SeekPrefixGE(look *keys.Lookup, trailer uint64) bool {
	m.begin(forward)
	absent := 0
	for i := range m.sources {
		s := &m.sources[i]
		ok := s.it.SeekPrefixGE(look, trailer)
		if !m.add(s, ok) {
			return false
		}
		if !ok {
			s.absent = true
			absent++
		}
	}
	if absent == len(m.sources) {
		return false
	}
	if m.absent = absent; absent > 0 {
		m.target = append(m.target[:0], look.UserKey...)
		m.targetTr, m.prefixLen = trailer, look.PrefixLen
	}
	return m.order0()
}

// order0 makes a heap of what add collected.
func (m *Merging) order0() bool {
	m.rival = 0
	if n := len(m.heap); n > 1 {
		for i := n/2 - 1; i >= 0; i-- {
			m.sift(i)
		}
	}
	return len(m.heap) > 0
}

// Next moves to the next entry.
func (m *Merging) Next() bool {
	if m.dir != forward {
		return m.turn(forward)
	}
	s := m.heap[0].source
	if !s.it.Next() {
		return m.pop(s)
	}
	s.load()
	m.heap[0] = m.rank(s)
	if len(m.heap) > 1 {
		m.siftTop()
	}
	if m.absent > 0 && !m.inPrefix() {
		return m.leavePrefix()
	}
	return true
}

// Prev moves to the previous entry.
func (m *Merging) Prev() bool {
	if m.dir != backward {
		return m.turn(backward)
	}
	s := m.heap[0].source
	if !s.it.Prev() {
		return m.pop(s)
	}
	s.load()
	m.heap[0] = m.rank(s)
	if len(m.heap) > 1 {
		m.siftTop()
	}
	return true
}

// pop takes the top source out of the heap: it came to its end, or failed.
func (m *Merging) pop(s *source) bool {
	if err := s.it.Err(); err != nil {
		return m.fail(err)
	}
	last := len(m.heap) - 1
	m.heap[0] = m.heap[last]
	m.heap = m.heap[:last]
	m.rival = 0
	if last > 1 {
		m.sift(0)
	}
	if m.absent > 0 && (last == 0 || !m.inPrefix()) {
		return m.leavePrefix()
	}
	return last > 0
}

// turn changes the direction and takes one step. The other sources are seeked
// rather than stepped, since they may be absent, at an end, or skipped ahead.
func (m *Merging) turn(d direction) bool {
	cur := m.heap[0].source
	m.heap = m.heap[:0]
	m.dir, m.absent = d, 0
	for i := range m.sources {
		s := &m.sources[i]
		if s == cur {
			continue
		}
		var ok bool
		if d == forward {
			ok = s.it.SeekGE(cur.key, cur.trailer)
		} else {
			ok = s.it.SeekLT(cur.key, cur.trailer)
		}
		if !m.add(s, ok) {
			return false
		}
	}
	var ok bool
	if d == forward {
		ok = cur.it.Next()
	} else {
		ok = cur.it.Prev()
	}
	return m.add(cur, ok) && m.order0()
}

// inPrefix reports whether the current entry has the prefix of the last
// SeekPrefixGE.
func (m *Merging) inPrefix() bool {
	key, n := m.heap[0].key, m.prefixLen
	return len(key) >= n && bytes.Equal(key[:n], m.target[:n]) &&
		m.prefixer != nil && m.prefixer.PrefixLen(key) == n
}

// leavePrefix positions the sources that had nothing with the prefix, now that
// the others have nothing more with it either.
func (m *Merging) leavePrefix() bool {
	m.absent = 0
	if m.stay {
		m.heap = m.heap[:0]
		return false
	}
	for i := range m.sources {
		if s := &m.sources[i]; s.absent && !m.add(s, s.it.SeekGE(m.target, m.targetTr)) {
			return false
		}
	}
	return m.order0()
}

// SkipForward moves every source from index on that stands before userKey to its
// first entry at or after it. The caller knows that nothing there matters, for a
// range tombstone covers it. m must be moving forward; userKey must not be
// borrowed from m.
func (m *Merging) SkipForward(index int, userKey []byte) bool {
	return m.skip(index, userKey, func(s *source) (bool, bool) {
		if m.order.Compare(s.key, userKey) >= 0 {
			return true, true
		}
		return s.it.SeekGE(userKey, firstTrailer), false
	})
}

// SkipBackward moves every source from index on that stands at or after userKey
// to its last entry before it, like SkipForward the other way.
func (m *Merging) SkipBackward(index int, userKey []byte) bool {
	return m.skip(index, userKey, func(s *source) (bool, bool) {
		if m.order.Compare(s.key, userKey) < 0 {
			return true, true
		}
		return s.it.SeekLT(userKey, firstTrailer), false
	})
}

func (m *Merging) skip(index int, userKey []byte, move func(*source) (ok, stays bool)) bool {
	n := 0
	for _, s := range m.heap {
		if s.index >= index {
			ok, stays := move(s.source)
			if !ok {
				if err := s.it.Err(); err != nil {
					return m.fail(err)
				}
				continue
			}
			if !stays {
				s.load()
				s = m.rank(s.source)
			}
		}
		m.heap[n] = s
		n++
	}
	m.heap = m.heap[:n]
	m.order0()
	if m.absent > 0 && (n == 0 || !m.inPrefix()) {
		return m.leavePrefix()
	}
	return n > 0
}

// before reports whether a comes ahead of b in the current direction.
func (m *Merging) before(a, b *ranked) bool {
	if a.head != b.head {
		return (a.head < b.head) == (m.dir == forward)
	}
	return m.beforeAll(a.source, b.source)
}

// beforeAll is before by the whole keys.
func (m *Merging) beforeAll(a, b *source) bool {
	var c int
	if m.bytewise {
		c = bytes.Compare(a.key, b.key)
	} else {
		c = m.order.Compare(a.key, b.key)
	}
	if c == 0 {
		switch {
		case a.trailer > b.trailer:
			c = -1
		case a.trailer < b.trailer:
			c = 1
		default:
			c = a.index - b.index
		}
	}
	if m.dir == forward {
		return c < 0
	}
	return c > 0
}

// siftTop moves the top source, which took a step, down to its place. While it
// goes on winning that is one comparison, with a rival that stays the same.
func (m *Merging) siftTop() {
	h := m.heap
	if m.rival == 0 {
		m.rival = 1
		if len(h) > 2 && m.before(&h[2], &h[1]) {
			m.rival = 2
		}
	}
	r := m.rival
	if !m.before(&h[r], &h[0]) {
		return
	}
	m.rival = 0
	h[0], h[r] = h[r], h[0]
	m.sift(r)
}

// sift moves the source at i down to its place.
func (m *Merging) sift(i int) {
	h := m.heap
	s := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && m.before(&h[right], &h[child]) {
			child = right
		}
		if !m.before(&h[child], &s) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = s
}

var _ table.Iterator = (*Merging)(nil)
