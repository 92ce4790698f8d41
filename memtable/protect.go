package memtable

import (
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Protection of entries (Options.Protection): each has a sum of its key, trailer and value
// behind the value, made from what Add was given. What a read returns is compared with its
// sum, and so is the neighbour that proves that nothing lies in between; with
// VerifyOnSeek all entries that a search compares are. Links are not covered, but they
// are followed only to what lies in the arena.

// seal writes the sum of a new node.
func (m *MemTable) seal(n node, key []byte, trailer uint64, value []byte) {
	if m.sumLen != 0 {
		s := entrySum(key, trailer, value)
		s.Put(m.sumOf(n))
	}
}

func entrySum(key []byte, trailer uint64, value []byte) hash.EntrySum {
	s := hash.NewEntrySum(0)
	s.Bytes(key)
	s.Word(trailer)
	s.Bytes(value)
	return s
}

// damaged is the error for the entry at an offset of the arena.
func (m *MemTable) damaged(off int64) error {
	return keys.Corruptf("memtable", off, "an entry changed in memory after it was written: it does not match its checksum")
}

// verify compares the node behind link with its sum.
func (m *MemTable) verify(link uint32) error {
	if m.lies(link) {
		n := m.at(link)
		if s := entrySum(n.key(), n.trailer(), n.value()); s.Matches(m.sumOf(n)) {
			return nil
		}
	}
	return m.damaged(int64(link) * linkUnit)
}

// verifyNode is verify for a node; none is right.
func (m *MemTable) verifyNode(n node) error {
	if n.none() {
		return nil
	}
	return m.verify(m.link(n))
}

// search finds the last node before (key, trailer) and the first at or after it, none
// where there is none, and proves both.
func (m *MemTable) search(l list, key []byte, trailer uint64) (before, after node, equal bool, err error) {
	at, above := l.head, uint32(0)
	steps := int64(0)
	for level := l.height - 1; ; {
		link := at.next(level)
		if link != 0 && link != above {
			if m.verifyOnSeek {
				if err := m.verify(link); err != nil {
					return node{}, node{}, false, err
				}
			}
			// A damaged link could lead round in a circle.
			if steps++; !m.lies(link) || steps > 2*m.Entries()+1024 {
				return node{}, node{}, false, m.damaged(int64(link) * linkUnit)
			}
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
	if at != l.head {
		before = at
	}
	if above != 0 {
		after = m.at(above)
		equal = m.order.Compare(after.key(), key) == 0
	}
	if err = m.verifyNode(before); err == nil {
		err = m.verifyNode(after)
	}
	if err == nil && (!before.none() && m.compare(before, key, trailer) >= 0 || !after.none() && m.compare(after, key, trailer) < 0) {
		err = m.damaged(m.offsetOf(at))
	}
	if err != nil {
		return node{}, node{}, false, err
	}
	return before, after, equal, nil
}

// proveRun checks that entries on both sides of index i of a run, where a search for the
// target ended, say so.
func (m *MemTable) proveRun(links []uint32, i int, key []byte, trailer uint64) error {
	if i > 0 {
		if err := m.verify(links[i-1]); err != nil {
			return err
		}
		if m.compare(m.at(links[i-1]), key, trailer) >= 0 {
			return m.damaged(int64(links[i-1]) * linkUnit)
		}
	}
	if i < len(links) {
		if err := m.verify(links[i]); err != nil {
			return err
		}
		if m.compare(m.at(links[i]), key, trailer) < 0 {
			return m.damaged(int64(links[i]) * linkUnit)
		}
	}
	return nil
}

// Protected reports whether entries have sums, and Find is to be used for Get.
func (m *MemTable) Protected() bool { return m.sumLen != 0 }

// Find is Get with protection: an entry that changed is an error, which matches
// keys.ErrCorruption.
func (m *MemTable) Find(look *keys.Lookup) (value []byte, trailer uint64, ok bool, err error) {
	if m.sumLen == 0 {
		value, trailer, ok = m.Get(look)
		return value, trailer, ok, nil
	}
	if m.kind == Vector {
		n, err := m.searchVectorChecked(look.UserKey, look.Trailer())
		if err != nil || n.none() {
			return nil, 0, false, err
		}
		return n.value(), n.trailer(), true, nil
	}
	if !m.mayHaveKey(look.UserKey, look.PrefixLen, look.Hash) {
		return nil, 0, false, nil
	}
	_, n, equal, err := m.search(m.listOf(look.PrefixLen, look.Hash), look.UserKey, look.Trailer())
	if err != nil || !equal {
		return nil, 0, false, err
	}
	return n.value(), n.trailer(), true, nil
}

// searchVectorChecked is searchVector that proves its answer. Every entry that is not
// sorted yet is checked: any of them might be the one.
func (m *MemTable) searchVectorChecked(key []byte, trailer uint64) (best node, err error) {
	newest := m.newest.Load()
	set := m.currentRuns()
	defer set.release()
	link := uint32(newest)
	for unsorted := int64(newest>>32) - int64(set.entries); unsorted > 0; unsorted-- {
		if err := m.verify(link); err != nil {
			return node{}, err
		}
		n := m.at(link)
		if t := n.trailer(); t <= trailer && m.order.Compare(n.key(), key) == 0 && (best.none() || t > best.trailer()) {
			best = n
		}
		link = n.older()
	}
	for _, r := range set.runs {
		i := m.searchRun(r.links, key, trailer)
		if err := m.proveRun(r.links, i, key, trailer); err != nil {
			return node{}, err
		}
		if i < len(r.links) {
			if n := m.at(r.links[i]); m.order.Compare(n.key(), key) == 0 && (best.none() || n.trailer() > best.trailer()) {
				best = n
			}
		}
	}
	return best, nil
}

// checkedIterator is the iterator of a protected memtable: it checks each entry that it
// comes to.
type checkedIterator struct {
	table.Iterator
	m    *MemTable
	pos  *position
	hash *hashIterator // nil over a skip list
	err  error
}

func (m *MemTable) newCheckedIterator() table.Iterator {
	if m.kind == SkipList {
		it := &listIterator{m: m}
		return &checkedIterator{Iterator: it, m: m, pos: &it.position}
	}
	it := &hashIterator{m: m}
	return &checkedIterator{Iterator: it, m: m, pos: &it.position, hash: it}
}

func (c *checkedIterator) Err() error { return c.err }

// land ends a move at the inner iterator's entry.
func (c *checkedIterator) land(err error) bool {
	if err == nil {
		err = c.m.verifyNode(c.pos.cur)
	}
	if c.err = err; err != nil {
		return c.pos.set(node{})
	}
	return c.pos.Valid()
}

func (c *checkedIterator) SeekGE(userKey []byte, trailer uint64) bool {
	if c.hash == nil {
		_, n, _, err := c.m.search(c.m.main, userKey, trailer)
		c.pos.set(n)
		return c.land(err)
	}
	c.hash.SeekGE(userKey, trailer)
	return c.land(c.proveRuns(0, userKey, trailer))
}

func (c *checkedIterator) SeekLT(userKey []byte, trailer uint64) bool {
	if c.hash == nil {
		n, _, _, err := c.m.search(c.m.main, userKey, trailer)
		c.pos.set(n)
		return c.land(err)
	}
	c.hash.SeekLT(userKey, trailer)
	return c.land(c.proveRuns(1, userKey, trailer))
}

// proveRuns proves the places in all runs; by is how far they lie before those of SeekGE.
func (c *checkedIterator) proveRuns(by int, userKey []byte, trailer uint64) error {
	for i := range c.hash.cursors {
		k := &c.hash.cursors[i]
		if err := c.m.proveRun(k.links, k.pos+by, userKey, trailer); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkedIterator) SeekPrefixGE(look *keys.Lookup, trailer uint64) bool {
	ok := c.Iterator.SeekPrefixGE(look, trailer)
	m := c.m
	if m.kind == Vector || look.PrefixLen < 0 {
		if c.hash != nil && len(c.hash.cursors) > 0 {
			return c.land(c.proveRuns(0, look.UserKey, trailer))
		}
		return c.land(nil)
	}
	if !ok && !m.mayHavePrefix(look.PrefixLen, look.Hash) {
		return c.land(nil)
	}
	_, n, _, err := m.search(m.listOf(look.PrefixLen, look.Hash), look.UserKey, trailer)
	if err != nil || n.none() || !m.hasPrefix(n, look.UserKey, look.PrefixLen) {
		n = node{}
	}
	c.pos.set(n) // the inner iterator may have met damage, or an older state
	return c.land(err)
}

func (c *checkedIterator) First() bool { c.Iterator.First(); return c.land(nil) }
func (c *checkedIterator) Last() bool  { c.Iterator.Last(); return c.land(nil) }

func (c *checkedIterator) Next() bool {
	if link := c.pos.cur.next(0); c.hash == nil && link != 0 && !c.m.lies(link) {
		c.pos.set(node{})
		return c.land(c.m.damaged(int64(link) * linkUnit))
	}
	c.Iterator.Next()
	return c.land(nil)
}

func (c *checkedIterator) Prev() bool {
	if c.hash == nil {
		n := c.pos.cur
		return c.SeekLT(n.key(), n.trailer())
	}
	c.Iterator.Prev()
	return c.land(nil)
}

func (c *checkedIterator) Close() error { return c.Iterator.Close() }
