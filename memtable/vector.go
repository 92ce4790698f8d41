package memtable

import "github.com/flatrock-db/flatrock/internal/keys"

// Vector: entries are appended and not sorted until somebody reads in order, or
// until the memtable is immutable. It is for bulk loads: nothing is as fast to
// write, and a Get of the live memtable looks at every unsorted entry.

// vectorScan is how many unsorted entries a Get looks through before it would
// rather sort them: past that, sorting once costs less than scanning again.
const vectorScan = 512

func (m *MemTable) appendVector(key []byte, trailer uint64, value []byte) error {
	// An entry newer than all others can equal none of them; only writers that do
	// not go by rising sequence numbers pay for a search.
	seq := keys.Seq(trailer)
	if newest := m.maxSeq.Load(); seq > newest || m.newest.Load() == 0 {
		m.maxSeq.Store(seq)
	} else if m.vectorHas(key, trailer) {
		return ErrDuplicate
	}
	newest := m.newest.Load()
	n, ok := m.newNode(1, key, value)
	if !ok {
		return ErrFull
	}
	n.write(1, key, trailer, value, uint32(newest))
	m.seal(n, key, trailer, value)
	m.publishNewest(n, newest)
	return nil
}

func (m *MemTable) getVector(look *keys.Lookup) (value []byte, trailer uint64, ok bool) {
	n := m.searchVector(look.UserKey, look.Trailer())
	if n.none() {
		return nil, 0, false
	}
	return n.value(), n.trailer(), true
}

func (m *MemTable) vectorHas(key []byte, trailer uint64) bool {
	n := m.searchVector(key, trailer)
	return !n.none() && n.trailer() == trailer
}

// searchVector finds the entry of key with the greatest trailer at most trailer.
func (m *MemTable) searchVector(key []byte, trailer uint64) node {
	newest := m.newest.Load()
	set := m.currentRuns()
	if uint32(newest>>32) > set.entries+vectorScan && m.runs.mu.TryLock() {
		m.buildRunsLocked()
		m.runs.mu.Unlock()
		set.release()
		set = m.currentRuns()
	}
	var best node
	var bestTrailer uint64
	consider := func(n node) {
		if t := n.trailer(); t <= trailer && (best.none() || t > bestTrailer) {
			best, bestTrailer = n, t
		}
	}
	// A set may have been built since newest was read, and then covers all of it:
	// count, rather than wait for the link that the set begins at.
	link := uint32(newest)
	for unsorted := int64(newest>>32) - int64(set.entries); unsorted > 0; unsorted-- {
		n := m.at(link)
		if n.keyLen() == len(key) && m.order.Compare(n.key(), key) == 0 {
			consider(n)
		}
		link = n.older()
	}
	for _, r := range set.runs {
		if i := m.searchRun(r.links, key, trailer); i < len(r.links) {
			if n := m.at(r.links[i]); m.order.Compare(n.key(), key) == 0 {
				consider(n)
			}
		}
	}
	set.release()
	return best
}
