package blockcache

import (
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/stripe"
)

// Stats is a moment of a cache.
type Stats struct {
	Capacity    int64 // bytes
	Usage       int64 // bytes of pages and large blocks in use
	PinnedUsage int64 // bytes of blocks that are held
	Blocks      int64
	Charged     int64 // bytes of memory elsewhere that the capacity covers
	Hits        [NumBlockTypes]uint64
	Misses      [NumBlockTypes]uint64
	Inserts     uint64
	Evictions   uint64
}

const stripes = 16

// stats counts without that cores share cache lines.
type stats struct {
	stripes   [stripes]counters
	inserts   atomic.Uint64
	evictions atomic.Uint64
	adds      [NumBlockTypes]atomic.Uint64
	addBytes  [NumBlockTypes]atomic.Uint64
	failures  atomic.Uint64
}

type counters struct {
	hits, misses [NumBlockTypes + 1]atomic.Uint64 // PointData too
	_            [64]byte
}

func (s *stats) stripe() *counters { return &s.stripes[stripe.Current()&(stripes-1)] }

// Counts is what a cache has counted since it was made, by type of block.
type Counts struct {
	Hits, Misses, Adds, AddBytes [NumBlockTypes]uint64
	Failures                     uint64 // blocks for which no room was found
}

// Counts adds the counters up.
func (c *Cache) Counts() (n Counts) {
	for _, s := range c.shards {
		s.stats.addTo(&n)
	}
	return n
}

func (s *stats) addTo(n *Counts) {
	for i := range s.stripes {
		for t := range NumBlockTypes {
			n.Hits[t] += s.stripes[i].hits[t].Load()
			n.Misses[t] += s.stripes[i].misses[t].Load()
		}
		n.Hits[Data] += s.stripes[i].hits[PointData].Load()
		n.Misses[Data] += s.stripes[i].misses[PointData].Load()
	}
	for t := range NumBlockTypes {
		n.Adds[t] += s.adds[t].Load()
		n.AddBytes[t] += s.addBytes[t].Load()
	}
	n.Failures += s.failures.Load()
}

// Stats is Figures with PinnedUsage.
func (c *Cache) Stats() Stats {
	st := c.Figures()
	st.PinnedUsage = c.PinnedUsage()
	return st
}

// Figures adds the shards up, but for PinnedUsage.
func (c *Cache) Figures() Stats {
	n := c.Counts()
	st := Stats{Capacity: c.capacity.Load(), Hits: n.Hits, Misses: n.Misses}
	for i := range c.charged {
		st.Charged += c.charged[i].Load()
	}
	for _, s := range c.shards {
		st.Inserts += s.stats.inserts.Load()
		st.Evictions += s.stats.evictions.Load()
		s.mu.Lock()
		st.Usage += s.usedBytes
		st.Blocks += int64(s.used)
		s.mu.Unlock()
	}
	return st
}

// PinnedUsage is how many bytes of blocks are held. It walks over all slots, which takes a
// while in a large cache, but keeps nobody waiting.
func (c *Cache) PinnedUsage() (bytes int64) {
	for _, s := range c.shards {
		for i := range s.slots.n {
			if m := s.slot(i).meta.Load(); m&stateMask != stateEmpty && m&refMask != 0 {
				bytes += int64(s.slot(i).loc.Load() & maxBlock)
			}
		}
	}
	return bytes
}

// EachMemory calls f with each range of memory that the cache has used: its slots,
// its pages, and each large block. They begin on a page of the system and are borrowed for the
// call, during which the shard finds room for no block; hits go on.
func (c *Cache) EachMemory(f func(b []byte)) {
	for _, s := range c.shards {
		s.eachMemory(f)
	}
}

func (s *shard) eachMemory(f func(b []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.slots.arena.Bytes()[:s.slots.arena.Used()])
	if s.opened > 0 {
		f(s.pages.Bytes()[s.pageStart(0):s.pageStart(s.opened)])
	}
	for i := range s.largeEnd {
		if a := s.large[i].Load(); a != nil {
			f(a.Bytes())
		}
	}
}

// Usage is how many bytes of pages and large blocks are in use.
func (c *Cache) Usage() (bytes int64) {
	for _, s := range c.shards {
		s.mu.Lock()
		bytes += s.usedBytes
		s.mu.Unlock()
	}
	return bytes
}
