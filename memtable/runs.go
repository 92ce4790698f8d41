package memtable

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// Kinds without a total order of their own give one to iterators through sorted
// runs: arrays of links, in internal key order, that together hold each entry
// once. A set of runs covers the entries up to some point of the insertion order
// and is never changed. An iterator that finds the newest set too old walks the
// chain of older links (M5) back to where the set ends, sorts those links, and
// merges runs so that each is more than twice as long as the next. So there are
// at most 32, and an entry is merged O(log n) times whatever iterators do.
//
//	R1 The runs of a set hold each of the oldest set.entries entries exactly once.
//	R2 Within a run, links are in internal key order.
//	R3 A set and its runs are not changed once published; the memory of a run is
//	   freed when no set that holds it is in use.
//
// Builders exclude each other by a mutex; neither writers nor iterators that
// have their set ever take it.

// runs is the run keeping of one memtable.
type runs struct {
	mu    sync.Mutex // held by builders
	set   atomic.Pointer[runSet]
	bytes atomic.Int64
}

// runSet is counted: one for being current, one for each user.
type runSet struct {
	refs    atomic.Int64
	runs    []*run // longest first
	entries uint32
}

// run is one sorted array of links; its count is that of the sets that hold it.
type run struct {
	links []uint32
	refs  atomic.Int64
	mem   *links
}

// init publishes the set of no entries.
func (r *runs) init() {
	s := &runSet{}
	s.refs.Store(1)
	r.set.Store(s)
}

// currentRuns takes the newest set, however old. No lock.
func (m *MemTable) currentRuns() *runSet {
	for {
		if s := m.runs.set.Load(); s.acquire() {
			return s
		}
		// It was replaced and dropped in between: there is a newer one.
	}
}

func (s *runSet) acquire() bool {
	for {
		refs := s.refs.Load()
		if refs == 0 {
			return false
		}
		if s.refs.CompareAndSwap(refs, refs+1) {
			return true
		}
	}
}

func (s *runSet) release() {
	if s.refs.Add(-1) != 0 {
		return
	}
	for _, r := range s.runs {
		r.release()
	}
}

func (r *run) release() {
	if r.refs.Add(-1) == 0 {
		r.mem.free()
		r.links = nil
	}
}

// acquireRuns takes a set that holds every entry inserted before the call,
// building it if need be.
func (m *MemTable) acquireRuns() *runSet {
	s := m.currentRuns()
	if s.entries == uint32(m.newest.Load()>>32) {
		return s
	}
	s.release()
	m.runs.mu.Lock()
	m.buildRunsLocked()
	s = m.currentRuns()
	m.runs.mu.Unlock()
	return s
}

// buildRunsLocked publishes a set that holds every entry inserted before the call.
func (m *MemTable) buildRunsLocked() {
	old := m.runs.set.Load()
	newest := m.newest.Load()
	entries := uint32(newest >> 32)
	if entries == old.entries {
		return
	}
	fresh := m.newRun(int(entries - old.entries))
	link := uint32(newest)
	for i := len(fresh.links) - 1; i >= 0; i-- {
		fresh.links[i] = link
		link = m.at(link).older()
	}
	m.sortLinks(fresh.links, sortChunk)

	kept := slices.Clone(old.runs)
	borrowed := len(kept) // of the runs in kept, those that old holds too
	for len(kept) > 0 && len(kept[len(kept)-1].links) <= 2*len(fresh.links) {
		last := kept[len(kept)-1]
		merged := m.newRun(len(last.links) + len(fresh.links))
		m.mergeLinks(merged.links, last.links, fresh.links)
		fresh.mem.free()
		fresh, kept = merged, kept[:len(kept)-1]
		borrowed--
	}
	for _, r := range kept[:borrowed] {
		r.refs.Add(1)
	}
	fresh.refs.Store(1)
	set := &runSet{runs: append(kept, fresh), entries: entries}
	set.refs.Store(1)
	m.runs.set.Store(set)
	old.release()
}

func (r *runs) free() {
	if s := r.set.Swap(nil); s != nil {
		s.release()
	}
}

func (m *MemTable) newRun(n int) *run {
	mem := newLinks(n, &m.runs.bytes)
	return &run{links: mem.array, mem: mem}
}

// offHeapLinks is the number of links from which an array leaves the Go heap.
const offHeapLinks = 16 << 10

// links is an array of links, off the Go heap if it is large.
type links struct {
	array []uint32
	arena *mmapfs.Arena // nil on the Go heap
	total *atomic.Int64 // counts the bytes of all arrays
}

func newLinks(n int, total *atomic.Int64) *links {
	l := &links{total: total}
	if n >= offHeapLinks {
		l.array, l.arena = mappedLinks(n)
	}
	if l.arena == nil { // small, or the system has no mapping to give
		l.array = make([]uint32, n)
	}
	total.Add(4 * int64(n))
	return l
}

func (l *links) free() {
	l.total.Add(-4 * int64(len(l.array)))
	if l.arena != nil {
		l.arena.Free()
	}
	l.array, l.arena = nil, nil
}
