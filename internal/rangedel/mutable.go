package rangedel

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Mutable holds the range tombstones of a live memtable. Any number of readers
// run beside a writer, without locks; writers exclude each other.
//
// It is a small log-structured tree: each Add makes a list of one, and lists are
// merged while the newer has at least half as many tombstones as the one before
// it. So there are at most log2(n) lists, a tombstone is fragmented again log2(n)
// times in its life, and a read asks each list. A reader sees the lists through
// one atomic pointer; tombstones above its sequence number do not count, so it
// may see newer ones safely.
type Mutable struct {
	order keys.Order

	mu    sync.Mutex // guards writes
	parts []part     // newest last; guarded by mu

	lists  atomic.Pointer[[]*List] // newest last
	count  atomic.Int64
	keyLen atomic.Int64
}

// part is a list beside the tombstones that it was made from, for merging.
type part struct {
	tombstones []table.Tombstone
	list       *List
}

// NewMutable returns an empty Mutable.
func NewMutable(order keys.Order) *Mutable { return &Mutable{order: order} }

// Add inserts the tombstone [start, end) at seq. The keys are copied. An empty
// range is ignored. Readers that begin later see it.
func (m *Mutable) Add(start, end []byte, seq uint64) {
	if m.order.Compare(start, end) >= 0 {
		return
	}
	both := make([]byte, 0, len(start)+len(end))
	both = append(append(both, start...), end...)
	n := len(start)
	t := table.Tombstone{Start: both[:n:n], End: both[n:], Seq: seq}

	m.mu.Lock()
	defer m.mu.Unlock()
	added := []table.Tombstone{t}
	keep := len(m.parts)
	for keep > 0 && 2*len(added) >= len(m.parts[keep-1].tombstones) {
		keep--
		added = append(slices.Clip(m.parts[keep].tombstones), added...)
	}
	m.parts = append(m.parts[:keep], part{added, New(m.order, added)})

	lists := make([]*List, len(m.parts))
	for i, p := range m.parts {
		lists[i] = p.list
	}
	m.keyLen.Add(int64(len(both)))
	m.lists.Store(&lists)
	m.count.Add(1)
}

// Count is the number of tombstones added. Zero lets a reader skip everything else.
func (m *Mutable) Count() int64 { return m.count.Load() }

// UsedBytes is about what the tombstones hold of the Go heap, in bytes.
func (m *Mutable) UsedBytes() int64 {
	const perTombstone = 160 // its struct twice, one or two fragments
	return m.keyLen.Load() + perTombstone*m.count.Load()
}

// Cover is List.Cover over all tombstones. No allocation.
func (m *Mutable) Cover(userKey []byte, seq uint64) uint64 {
	lists := m.lists.Load()
	if lists == nil {
		return 0
	}
	var newest uint64
	for _, l := range *lists {
		newest = max(newest, l.Cover(userKey, seq))
	}
	return newest
}

// AppendLists appends the lists that together hold the tombstones added so far.
// They stay as they are when more is added.
func (m *Mutable) AppendLists(dst []*List) []*List {
	if lists := m.lists.Load(); lists != nil {
		dst = append(dst, *lists...)
	}
	return dst
}

// Tombstones returns all tombstones added so far, oldest first; the keys are
// shared. A flush reads them when no writer is left.
func (m *Mutable) Tombstones() []table.Tombstone {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []table.Tombstone
	for _, p := range m.parts {
		all = append(all, p.tombstones...)
	}
	return all
}
