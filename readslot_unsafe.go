package flatrock

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/statistics"
)

// readSlot says which read state one reader is using: a hazard pointer. A slot has one
// owner at a time, who alone writes it; those who retire a state look at all slots.
type readSlot struct {
	held  unsafe.Pointer   // *readState: of a live object, for the collector too
	index int              // in slotSet.all
	plain bool             // an ordinary store is enough, see mmapfs.PlainStores
	gets  *statistics.Gets // what the owner counts, nil without statistics
	_     [96]byte         // keeps other slots off the cache line, and off the one fetched with it
}

// hold announces that the owner uses s, or with nil that it uses none. Where the store is
// an ordinary one, it may become visible late, but not after mmapfs.FenceAll.
func (c *readSlot) hold(s *readState) {
	if mmapfs.PlainStores && c.plain {
		c.held = unsafe.Pointer(s)
		return
	}
	atomic.StorePointer(&c.held, unsafe.Pointer(s))
}

// holds reports whether the owner uses s.
func (c *readSlot) holds(s *readState) bool { return atomic.LoadPointer(&c.held) == unsafe.Pointer(s) }

// reader is the ownership of a slot while it goes from one reader to the next through
// a pool. When the pool lets go of one, the slot becomes free for another.
type reader struct{ slot *readSlot }

// stripe spreads what readers count: any number will do for statistics.
func (r *reader) stripe() uint32 { return uint32(r.slot.index) }

// slotSet is the slots of a database: as many as it ever had readers at once.
type slotSet struct {
	pool  sync.Pool // of *reader: a reader's processor mostly has one at hand
	plain bool
	stats *statistics.Statistics

	mu   sync.Mutex
	all  []*readSlot
	free []*readSlot
}

func (t *slotSet) init(stats *statistics.Statistics) {
	t.stats = stats
	t.plain = mmapfs.PlainStores && mmapfs.CanFenceAll()
	t.pool.New = func() any {
		r := &reader{slot: t.take()}
		runtime.AddCleanup(r, t.giveBack, r.slot)
		return r
	}
}

func (t *slotSet) take() *readSlot {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		c := t.free[n-1]
		t.free = t.free[:n-1]
		return c
	}
	c := &readSlot{index: len(t.all), plain: t.plain, gets: t.stats.NewGets()}
	t.all = append(t.all, c)
	return c
}

// giveBack frees the slot of a reader that the pool dropped. One that still holds a
// state was dropped by a caller without Close or Release: what it may still be
// reading must stay.
func (t *slotSet) giveBack(c *readSlot) {
	if c.holds(nil) {
		t.mu.Lock()
		t.free = append(t.free, c)
		t.mu.Unlock()
	}
}

// stopCounting gives the counters of idle slots back to the statistics, after which no read
// begins any more.
func (t *slotSet) stopCounting() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.all {
		if c.holds(nil) {
			t.stats.FreeGets(c.gets)
		}
	}
}

// holder is the index of a slot from the given one on whose owner uses s, -1 if there is none.
func (t *slotSet) holder(s *readState, from int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.all[from:] {
		if c.holds(s) {
			return c.index
		}
	}
	return -1
}
