package cachesim

// clock is the textbook's: blocks in a ring in the order of their coming, each with
// a bit that a use sets; the hand clears bits, and evicts where one is clear.
type clock struct {
	capacity, used int64
	index          map[uint64]int32
	ring           []clockSlot
	free           []int32
	hand           int
}

type clockSlot struct {
	block uint64
	size  int64 // 0: empty
	heat  uint8
}

func newClock(capacity int64) *clock {
	return &clock{capacity: capacity, index: map[uint64]int32{}}
}

func (c *clock) Used() int64 { return c.used }

func (c *clock) Access(a *Access) bool {
	if i, ok := c.index[a.Block]; ok {
		c.ring[i].heat = 1
		return true
	}
	if !a.Insert || a.Size > c.capacity || a.Size <= 0 {
		return false
	}
	for c.used+a.Size > c.capacity {
		if c.hand++; c.hand >= len(c.ring) {
			c.hand = 0
		}
		s := &c.ring[c.hand]
		switch {
		case s.size == 0:
		case s.heat > 0:
			s.heat--
		default:
			c.used -= s.size
			delete(c.index, s.block)
			s.size = 0
			c.free = append(c.free, int32(c.hand))
		}
	}
	i := int32(len(c.ring))
	if n := len(c.free); n > 0 {
		i, c.free = c.free[n-1], c.free[:n-1]
	} else {
		c.ring = append(c.ring, clockSlot{})
	}
	c.ring[i] = clockSlot{block: a.Block, size: a.Size}
	c.index[a.Block] = i
	c.used += a.Size
	return false
}

// flatrock is the policy of package blockcache: slots in the order of a hash, of which
// the hand sees to all in turn; a block enters lukewarm (index and filter blocks hot), is hot
// once it is found, and cools by one degree each time the hand comes by.
type flatrock struct {
	capacity, used int64
	slots          []clockSlot
	limit          int // blocks at most: the slots of a cache fill before its memory does if blocks are small
	count          int
	hand           int
}

// As in package blockcache.
const (
	entryCharge = 4096
	hot         = 3
)

func newFlatrock(capacity int64, every float64) *flatrock {
	limit := (2*float64(capacity/entryCharge) + 64) * 7 / 8 / every
	return &flatrock{capacity: part(capacity, every), limit: int(max(limit, 1)), slots: make([]clockSlot, 64)}
}

func (f *flatrock) Used() int64 { return f.used }

func (f *flatrock) home(block uint64) int {
	return int(Mix(block+1) >> 32 * uint64(len(f.slots)) >> 32)
}

func (f *flatrock) find(block uint64) (at int, ok bool) {
	for at = f.home(block); f.slots[at].size != 0; at = f.next(at) {
		if f.slots[at].block == block {
			return at, true
		}
	}
	return at, false
}

func (f *flatrock) next(i int) int {
	if i++; i == len(f.slots) {
		return 0
	}
	return i
}

func (f *flatrock) Access(a *Access) bool {
	i, ok := f.find(a.Block)
	if ok {
		f.slots[i].heat = hot
		return true
	}
	if !a.Insert || a.Size > f.capacity || a.Size <= 0 {
		return false
	}
	for f.count > 0 && (f.used+a.Size > f.capacity || f.count >= f.limit) {
		f.cool()
	}
	if f.count >= len(f.slots)-len(f.slots)/8-1 {
		f.grow()
	}
	i, _ = f.find(a.Block)
	heat := uint8(1)
	if a.High {
		heat = hot
	}
	f.slots[i] = clockSlot{block: a.Block, size: a.Size, heat: heat}
	f.count++
	f.used += a.Size
	return false
}

// grow doubles the slots, which begin few: most simulated caches are never full.
func (f *flatrock) grow() {
	old := f.slots
	f.slots = make([]clockSlot, 2*len(old))
	f.hand = f.hand * len(f.slots) / len(old)
	for _, s := range old {
		if s.size != 0 {
			i, _ := f.find(s.block)
			f.slots[i] = s
		}
	}
}

func (f *flatrock) cool() {
	i := f.hand
	s := &f.slots[i]
	switch {
	case s.size == 0:
		f.hand = f.next(i)
	case s.heat > 0:
		s.heat--
		f.hand = f.next(i)
	default:
		f.used -= s.size
		f.count--
		f.remove(i) // what moves to this slot is next
	}
}

// remove empties slot i and moves up what was displaced by it.
func (f *flatrock) remove(i int) {
	for j := f.next(i); f.slots[j].size != 0; j = f.next(j) {
		home := f.home(f.slots[j].block)
		// May j's block lie at i: is its home not between i and j?
		if between := i < home && home <= j || j < i && (home > i || home <= j); !between {
			f.slots[i] = f.slots[j]
			i = j
		}
	}
	f.slots[i] = clockSlot{}
}
