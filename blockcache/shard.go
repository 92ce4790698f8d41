package blockcache

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/spin"
	"github.com/flatrock-db/flatrock/mmapfs"
)

const (
	oneRef     = uint64(1)
	refMask    = uint64(1)<<24 - 1
	clockShift = 24
	clockMask  = uint64(3) << clockShift
	stateShift = 26
	stateMask  = uint64(3) << stateShift
	typeShift  = 28
	typeMask   = uint64(7) << typeShift
	largeBit   = uint64(1) << 31
	claimedBit = uint64(1) << 32 // see Annotate
	notedBit   = uint64(1) << 33
	foundBit   = uint64(1) << 34 // found since it was published
	droppedBit = uint64(1) << 35 // see Drop
	passedUnit = uint64(1) << 40

	stateEmpty   = uint64(0)
	stateBusy    = uint64(1) << stateShift // being filled or emptied
	stateVisible = uint64(2) << stateShift
	findMask     = stateMask | droppedBit // what can be found is visible and not dropped

	sizeBits = 28
	maxBlock = 1<<sizeBits - 1
)

// shard is one part of a cache.
type shard struct {
	// Fixed after newShard.
	index     uint64
	slots     slotTable
	pages     *mmapfs.Arena
	pageBase  pointer
	pageSize  int
	maxPages  int
	strict    bool
	large     []atomic.Pointer[mmapfs.Arena] // by index; a slot with largeBit holds one
	arenaOpts mmapfs.ArenaOptions

	ahead sync.WaitGroup // of populateAhead

	stats  stats
	reused atomic.Uint32 // see learn

	mu spin.Mutex // guards what follows, and every change of a slot's state
	store
	hand int // the next slot that the sweep looks at
	used int // slots that are not empty
}

func newShard(c *Cache, index int, capacity int64) (*shard, error) {
	o := mmapfs.ArenaOptions{HugePages: c.opts.HugePages, Placement: c.opts.Placement, Name: "block cache"}
	s := &shard{index: uint64(index), strict: c.opts.StrictCapacityLimit, arenaOpts: o}
	s.pageSize = usualPage
	if capacity < 16<<20 {
		s.pageSize = 64 << 10
	}
	s.maxPages = int(2*capacity/int64(s.pageSize)) + 4
	n := int(capacity/int64(c.opts.EstimatedEntryCharge))*2 + 64
	var err error
	if s.slots, err = newSlotTable(n, o); err != nil {
		return nil, err
	}
	if s.pages, err = mmapfs.NewArena(int64(s.maxPages+1)*int64(s.pageSize), o); err != nil {
		s.slots.arena.Free()
		return nil, err
	}
	s.pageBase = s.pages.Base()
	s.reused.Store(1 << 16)
	s.large = make([]atomic.Pointer[mmapfs.Arena], s.maxPages*4)
	s.store.init(s, capacity)
	return s, nil
}

func (s *shard) free() {
	s.ahead.Wait()
	for i := range s.large {
		if a := s.large[i].Load(); a != nil {
			a.Free()
		}
	}
	s.slots.arena.Free()
	s.pages.Free()
}

func (s *shard) handle(i int) Handle { return Handle(s.index<<32|uint64(i)) + 1 }

// home is the slot where the search for a hash begins.
func (s *shard) home(hash uint64) int {
	hi, _ := bits.Mul64(hash<<24|hash>>40, uint64(s.slots.n))
	return int(hi)
}

func (s *shard) next(i int) int {
	if i++; i == s.slots.n {
		return 0
	}
	return i
}

// lookup finds and holds a block; i is -1 if it is not there. m is its meta.
func (s *shard) lookup(k Key, hash uint64) (i int, m uint64, b []byte) {
	i = s.home(hash)
	for range s.slots.n {
		sl := s.slot(i)
		m = sl.meta.Load()
		if m&findMask == stateVisible && sl.offset.Load() == k.Offset && sl.file.Load() == k.File {
			m = sl.meta.Add(oneRef)
			// Held from here on: if the slot is visible now it cannot be emptied, and
			// if it still has the key it is the block.
			if m&findMask == stateVisible && sl.offset.Load() == k.Offset && sl.file.Load() == k.File {
				if m&clockMask != clockMask {
					sl.meta.Or(clockMask | foundBit)
				}
				return i, m, s.bytes(m, sl.loc.Load())
			}
			m = sl.meta.Add(^uint64(oneRef - 1))
		}
		if m < passedUnit {
			return -1, 0, nil
		}
		i = s.next(i)
	}
	return -1, 0, nil
}

// bytes is where a held slot's block lies.
func (s *shard) bytes(meta, loc uint64) []byte {
	n := int(loc & maxBlock)
	if meta&largeBit != 0 {
		return s.large[loc>>sizeBits].Load().Bytes()[largeStart : largeStart+n : largeStart+n]
	}
	return s.pageBytes(loc>>sizeBits<<3, n)
}

// reserve takes a slot and memory for a block, and holds it, not yet visible.
func (s *shard) reserve(k Key, hash uint64, n int, t BlockType, p Priority) (i int, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= s.slots.n-s.slots.n/8 && !s.sweepSlot() {
		return -1, nil
	}
	off, large, ok := s.alloc(n)
	if !ok {
		return -1, nil
	}
	i = s.home(hash)
	for s.slot(i).meta.Load()&stateMask != stateEmpty {
		s.slot(i).meta.Add(passedUnit)
		i = s.next(i)
	}
	s.used++
	sl := s.slot(i)
	sl.file.Store(k.File)
	sl.offset.Store(k.Offset)
	clock := uint64(1) << clockShift
	if p == High {
		clock = clockMask
	}
	add := stateBusy | clock | uint64(t)<<typeShift | oneRef
	if large {
		add |= largeBit
		s.largeSlot[off] = uint32(i)
		sl.loc.Store(off<<sizeBits | uint64(n))
	} else {
		s.header(off - headerSize).slot = uint32(i) + 1
		sl.loc.Store(off>>3<<sizeBits | uint64(n))
	}
	m := sl.meta.Add(add) // an empty slot has none of these bits but passing readers
	return i, s.bytes(m, sl.loc.Load())
}

// publish makes a reserved slot visible, or drops it in favour of the same block
// that was published first.
func (s *shard) publish(i, n int) (int, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.slot(i)
	k := Key{sl.file.Load(), sl.offset.Load()}
	if j, _, b := s.lookup(k, k.hash()); j >= 0 {
		s.empty(i, k)
		sl.meta.Add(^uint64(oneRef - 1))
		return j, b
	}
	loc := sl.loc.Load()
	loc = loc&^maxBlock | min(loc&maxBlock, uint64(n))
	sl.loc.Store(loc)
	m := sl.meta.Add(stateVisible - stateBusy)
	s.stats.inserts.Add(1)
	t := m & typeMask >> typeShift
	s.stats.adds[t].Add(1)
	s.stats.addBytes[t].Add(loc & maxBlock)
	return i, s.bytes(m, loc)
}

func (s *shard) abort(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.slot(i)
	s.empty(i, Key{sl.file.Load(), sl.offset.Load()})
	sl.meta.Add(^uint64(oneRef - 1))
}

// evict empties a visible slot that nobody holds; false if somebody does.
func (s *shard) evict(i int) bool {
	sl := s.slot(i)
	for {
		m := sl.meta.Load()
		if m&stateMask != stateVisible || m&refMask != 0 {
			return false
		}
		if sl.meta.CompareAndSwap(m, m&^stateMask|stateBusy) {
			break
		}
	}
	s.learn(sl.meta.Load())
	s.empty(i, Key{sl.file.Load(), sl.offset.Load()})
	s.stats.evictions.Add(1)
	return true
}

// learn takes from an evicted data block whether it was found again. reused is the
// share of the latest that were, in units of 1/65536.
func (s *shard) learn(m uint64) {
	if BlockType(m&typeMask>>typeShift) != Data {
		return
	}
	v := s.reused.Load()
	v -= v >> 6
	if m&foundBit != 0 {
		v += 1 << (16 - 6)
	}
	s.reused.Store(v)
}

// empty frees the memory of a busy slot and makes it empty. Readers that pass by
// may hold it for a moment; they see that it is not visible and look no further.
func (s *shard) empty(i int, k Key) {
	sl := s.slot(i)
	loc := sl.loc.Load()
	if sl.meta.Load()&largeBit != 0 {
		s.freeLarge(int(loc >> sizeBits))
	} else {
		s.freeBlock(loc >> sizeBits << 3)
	}
	sl.meta.And(^(clockMask | stateMask | typeMask | largeBit | claimedBit | notedBit | foundBit | droppedBit))
	s.used--
	for j := s.home(k.hash()); j != i; j = s.next(j) {
		s.slot(j).meta.Add(^(passedUnit - 1))
	}
}

// cool looks at the slot under the hand, cools or evicts it, and moves on.
func (s *shard) cool() (evicted bool) {
	i := s.hand
	s.hand = s.next(i)
	m := s.slot(i).meta.Load()
	if m&stateMask != stateVisible || m&refMask != 0 {
		return false
	}
	if m&clockMask != 0 {
		s.slot(i).meta.Add(^(uint64(1)<<clockShift - 1))
		return false
	}
	return s.evict(i)
}

// sweepSlot evicts one block for the sake of its slot.
func (s *shard) sweepSlot() bool {
	for range 5 * s.slots.n {
		if s.cool() {
			return true
		}
	}
	return false
}

func (s *shard) evictIf(match func(Key) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.slots.n {
		sl := s.slot(i)
		if sl.meta.Load()&stateMask == stateVisible && match(Key{sl.file.Load(), sl.offset.Load()}) {
			s.evict(i)
		}
	}
}
