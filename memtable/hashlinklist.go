package memtable

import "math"

// HashLinkList: an array of buckets of two words, in the order of a tower:
//
//	-4  state: zero while the bucket holds at most one entry; a count, stored as
//	    2^32-1 minus the number of entries; or the link of a head tower
//	 0  link to the first entry
//
// A bucket is a linked list in key order until an insert finds more than the
// threshold in it; then a head tower is built over the same nodes, and the state
// becomes its link. States only move forward. Arenas end before the links that
// could be mistaken for counts (MaxReserve).

const linkState = 1 // the state word is where a tower would have its level 1

func (m *MemTable) linkHead(hash uint32) node {
	return m.atOffset(m.bucketOff + uint64(m.buckets.Of(hash))*linkUnit + 4)
}

// isTower tells a link to a head tower from a count.
func isTower(state uint32) bool { return state != 0 && state < math.MaxUint32-maxThreshold }

// linkBucket is the list of a hash. A reader that took the linked list just
// before it became a skip list misses only entries that are newer than the read.
func (m *MemTable) linkBucket(hash uint32) list {
	head := m.linkHead(hash)
	if state := head.next(linkState); isTower(state) {
		return list{m.at(state), m.height}
	}
	return list{head, 1}
}

func (m *MemTable) insertLinkBucket(key []byte, trailer uint64, value []byte, prefixLen int, hash uint32) error {
	head := m.linkHead(hash)
	state := head.next(linkState)
	if isTower(state) {
		return m.insert(list{m.at(state), m.height}, key, trailer, value, prefixLen, hash)
	}
	var count uint32 // entries before this one
	switch {
	case state != 0:
		count = math.MaxUint32 - state
	case head.next(0) != 0:
		count = 1
	}
	if count >= m.threshold {
		if tower, ok := m.upgrade(head); ok {
			return m.insert(tower, key, trailer, value, prefixLen, hash)
		}
		// No room for a tower; the list goes on, and so does its count, which is
		// held at the threshold to stay in its range.
	}
	if err := m.insert(list{head, 1}, key, trailer, value, prefixLen, hash); err != nil {
		return err
	}
	if count > 0 {
		head.setNext(linkState, math.MaxUint32-min(count+1, m.threshold))
	}
	return nil
}

// upgrade turns the linked list behind head into a skip list over the same
// nodes, whose upper links nobody has looked at so far.
func (m *MemTable) upgrade(head node) (list, bool) {
	tower, ok := m.newTower(m.height)
	if !ok {
		return list{}, false
	}
	var tails [maxHeight]node
	for level := range tails {
		tails[level] = tower
	}
	tower.initNext(0, head.next(0))
	for link := head.next(0); link != 0; {
		n := m.at(link)
		for level := 1; level < min(n.height(), m.height); level++ {
			tails[level].initNext(level, link)
			tails[level] = n
		}
		link = n.next(0)
	}
	head.setNext(linkState, m.link(tower))
	return list{tower, m.height}, true
}
