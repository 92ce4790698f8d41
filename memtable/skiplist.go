package memtable

import "bytes"

// list is an ordered list of nodes behind a head tower. Height is that of the
// head; a list of height 1 is a linked list, whatever the heights of its nodes.
type list struct {
	head   node
	height int
}

// seekGE finds the first node at or after (key, trailer); none if there is none.
// equal reports whether its user key is key.
func (m *MemTable) seekGE(l list, key []byte, trailer uint64) (n node, equal bool) {
	at, above := l.head, uint32(0) // above: the node known to be at or after the target
	for level := l.height - 1; ; {
		link := at.next(level)
		if link != 0 && link != above {
			n := m.at(link)
			m.touchBelow(at, level, link)
			var c int
			if m.bytewise {
				c = bytes.Compare(n.key(), key)
			} else {
				c = m.order.Compare(n.key(), key)
			}
			if c < 0 || c == 0 && n.trailer() > trailer {
				at = n
				continue
			}
			above, equal = link, c == 0
		}
		if level == 0 {
			break
		}
		level--
	}
	// A node that came in between two levels' looks is met on the lowest level: the
	// last node compared there, or above it, is the first at or after the target.
	if above == 0 {
		return node{}, false
	}
	return m.at(above), equal
}

// touchBelow loads the node that a search compares after link's if it goes down,
// so that the two misses overlap: most of a search's time is such misses.
func (m *MemTable) touchBelow(at node, level int, link uint32) {
	if level > 0 {
		if below := at.next(level - 1); below != link {
			m.at(below).touch()
		}
	}
}

// seekLT finds the last node before (key, trailer); none if there is none.
func (m *MemTable) seekLT(l list, key []byte, trailer uint64) node {
	at, above := l.head, uint32(0)
	for level := l.height - 1; ; {
		link := at.next(level)
		if link != 0 && link != above {
			n := m.at(link)
			if m.compare(n, key, trailer) < 0 {
				at = n
				continue
			}
			above = link
		}
		if level == 0 {
			break
		}
		level--
	}
	if at == l.head {
		return node{}
	}
	return at
}

func (m *MemTable) first(l list) node {
	if link := l.head.next(0); link != 0 {
		return m.at(link)
	}
	return node{}
}

// following is the node after n on the lowest level.
func (m *MemTable) following(n node) node {
	if link := n.next(0); link != 0 {
		return m.at(link)
	}
	return node{}
}

func (m *MemTable) last(l list) node {
	at := l.head
	for level := l.height - 1; level >= 0; {
		if link := at.next(level); link != 0 {
			at = m.at(link)
		} else {
			level--
		}
	}
	if at == l.head {
		return node{}
	}
	return at
}

// splice is where a new node goes: on each level between the last node before it
// and the link to the first node after it.
type splice struct {
	before [maxHeight]node
	after  [maxHeight]uint32
}

// find fills s for the levels of l; false if (key, trailer) is there already.
func (m *MemTable) find(l list, s *splice, key []byte, trailer uint64) bool {
	at, above := l.head, uint32(0)
	for level := l.height - 1; level >= 0; {
		link := at.next(level)
		if link != 0 && link != above {
			n := m.at(link)
			m.touchBelow(at, level, link)
			c := m.compare(n, key, trailer)
			if c < 0 {
				at = n
				continue
			}
			if c == 0 {
				return false
			}
			above = link
		}
		s.before[level], s.after[level] = at, link
		level--
	}
	return true
}

// insert adds an entry to a list of a hash memtable, whose writers come one at a
// time: no link of the splice can have moved.
//
// The node is allocated and written before its place is found: the loads of the
// bucket and of the filter's word, which miss the caches, are begun first and
// waited for last. (No locked instruction may lie in between: it would wait for
// them.) A duplicate, which is rare, costs its bytes of the arena.
func (m *MemTable) insert(l list, key []byte, trailer uint64, value []byte, prefixLen int, hash uint32) error {
	// A node's height does not depend on the list's: a linked list's nodes have
	// towers for the skip list that it may become.
	height := m.randomHeight(max(l.height, m.height))
	newest := m.newest.Load()
	n, ok := m.newNode(height, key, value)
	if !ok {
		return ErrFull
	}
	l.head.touch()
	m.mayHavePrefix(prefixLen, hash)
	n.write(height, key, trailer, value, uint32(newest))
	m.seal(n, key, trailer, value)
	var s splice
	if !m.find(l, &s, key, trailer) {
		return ErrDuplicate
	}
	link := m.link(n)
	height = min(height, l.height)
	for level := range height {
		n.initNext(level, s.after[level])
	}
	// From the lowest level up, so that a node met on any level is also on those below.
	for level := range height {
		s.before[level].setNext(level, link)
	}
	m.filterKey(key, prefixLen, hash)
	m.publishNewest(n, newest)
	return nil
}

// insertConcurrent adds an entry beside other writers.
func (m *MemTable) insertConcurrent(l list, key []byte, trailer uint64, value []byte) (n node, err error) {
	if m.takeTail(key, trailer) {
		s := &m.tail.s
		for level := range l.height {
			if s.after[level] = s.before[level].next(level); s.after[level] != 0 && !m.advance(s, level, key, trailer) {
				m.dropTail(node{})
				return node{}, ErrDuplicate
			}
		}
		n, err = m.insertAt(l, s, key, trailer, value)
		m.dropTail(n)
		return n, err
	}
	var s splice
	if !m.find(l, &s, key, trailer) {
		return node{}, ErrDuplicate
	}
	n, err = m.insertAt(l, &s, key, trailer, value)
	if err == nil && s.after[0] == 0 {
		m.setTail(&s, n)
	}
	return n, err
}

// insertAt adds an entry where s says: each level's link is swapped if it is still
// what the splice saw, and otherwise the search goes on from there.
func (m *MemTable) insertAt(l list, s *splice, key []byte, trailer uint64, value []byte) (node, error) {
	height := m.randomHeight(l.height)
	n, ok := m.newNode(height, key, value)
	if !ok {
		return node{}, ErrFull
	}
	n.write(height, key, trailer, value, 0)
	m.seal(n, key, trailer, value)
	link := m.link(n)
	for level := range height {
		for {
			// Readers may see the node from level 0 up while its upper links are set.
			n.setNext(level, s.after[level])
			if s.before[level].casNext(level, s.after[level], link) {
				break
			}
			if !m.advance(s, level, key, trailer) {
				// Another writer inserted the very same key first: the node stays unlinked.
				return node{}, ErrDuplicate
			}
		}
	}
	return n, nil
}

// advance moves one level of s forward over nodes that came meanwhile; false if
// one of them equals (key, trailer), which is only possible on level 0.
func (m *MemTable) advance(s *splice, level int, key []byte, trailer uint64) bool {
	at := s.before[level]
	for {
		link := at.next(level)
		if link != 0 {
			n := m.at(link)
			c := m.compare(n, key, trailer)
			if c < 0 {
				at = n
				continue
			}
			if c == 0 {
				return false
			}
		}
		s.before[level], s.after[level] = at, link
		return true
	}
}
