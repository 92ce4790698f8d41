package blockcache

import (
	"runtime"
	"slices"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// blockHeader lies before each block of a page.
type blockHeader struct {
	slot uint32 // of the block, plus one; 0 when free
	next uint32 // block index plus one of the next free block of the page
}

const headerSize = 8

// BlockOverhead is what a block takes in the cache beside its bytes.
const BlockOverhead = headerSize

// classSizes are the block sizes of pages of pageSize bytes, headers included. Down
// to 2 KiB they are the fractions of a page, which waste nothing at its end; they
// begin with a quarter. Below there are 64 steps to the double, as far as
// the alignment allows.
func classSizes(pageSize int) (sizes []int) {
	for base := 256; base < 2048; base *= 2 {
		for size := base; size < 2*base; size += max(base/64, 8) {
			sizes = append(sizes, size)
		}
	}
	for n := pageSize / 2048; n >= 4; n-- {
		sizes = append(sizes, pageSize/n&^7)
	}
	return sizes
}

// usual are the classes of shards that are not tiny.
var usual = classSizes(usualPage)

const usualPage = 256 << 10

// Usable is how many bytes a block may have that takes no more memory in a cache of 16 MiB or more a shard than one of n bytes.
func Usable(n int) int {
	if n+headerSize > usualPage/4 {
		return int(largeCost(n)) - largeStart
	}
	class, _ := slices.BinarySearch(usual, n+headerSize)
	return usual[class] - headerSize
}

// lenders is, for each class, the end of the classes of which it may take blocks:
// those that are less than a sixteenth larger. A block of about the size that is
// needed serves as well as one of just that size.
func lenders(sizes []int) []int {
	ends := make([]int, len(sizes))
	for i, size := range sizes {
		ends[i] = i + 1
		for ends[i] < len(sizes) && sizes[ends[i]] <= size+size/16 {
			ends[i]++
		}
	}
	return ends
}

// page is what the store knows of a page.
type page struct {
	class int32  // -1 when it belongs to none
	live  int32  // blocks in use
	free  uint32 // block index plus one of the first free block
	fresh uint32 // blocks that were never used, from here on
	pos   int32  // in its class's list of pages with room; -1 if not in it
}

// store hands out the memory of a shard, under the shard's mutex.
//
// Invariants:
//
//	S1 A page with a class and room is in roomy[class], and no other page is.
//	S2 usedBytes = pageSize · pages with a class + the mappings of large blocks.
//	S3 spare pages have no class; those in resident may still have memory.
type store struct {
	s          *shard
	sizes      []int // by class
	lenders    []int // by class
	capacity   int64
	usedBytes  int64
	pagesOf    []page
	opened     int     // pages that were ever used
	populated  int64   // up to where memory exists, or is being made to, by populateAhead
	classPages []int32 // how many pages each class has
	resident   []int32 // spare pages that may have memory
	discarded  []int32 // spare pages that have none
	roomy      [][]int32
	freeIndex  []int32 // unused indexes of shard.large below largeEnd
	largeEnd   int
	largeSlot  []uint32 // the slot of each large block
	hotLarge   int      // where the search for a large block to evict goes on
	hotPage    int      // where the search for a page to empty goes on
}

func (st *store) init(s *shard, capacity int64) {
	st.s, st.capacity = s, capacity
	st.pagesOf = make([]page, s.maxPages)
	st.sizes = classSizes(s.pageSize)
	st.lenders = lenders(st.sizes)
	st.roomy = make([][]int32, len(st.sizes))
	st.largeSlot = make([]uint32, len(s.large))
	st.classPages = make([]int32, len(st.sizes))
}

// reach is the largest capacity that the reserved address space can serve.
func (s *shard) reach() int64 { return int64(s.maxPages-4) * int64(s.pageSize) }

// pageStart is the offset of page p in the arena; offset 0 is never a page.
func (s *shard) pageStart(p int) uint64 { return uint64(p+1) * uint64(s.pageSize) }

// alloc finds memory for a block of n bytes. off is its offset in the page
// arena, or an index into large.
func (s *shard) alloc(n int) (off uint64, large, ok bool) {
	if n+headerSize > s.pageSize/4 {
		i, ok := s.allocLarge(n)
		return uint64(i), true, ok
	}
	class, _ := slices.BinarySearch(s.sizes, n+headerSize)
	if off, ok := s.fromClass(class); ok {
		return off, false, true
	}
	if s.usedBytes+int64(s.pageSize) <= s.capacity {
		if p, ok := s.takePage(class); ok {
			off, ok = s.fromPage(p)
			return off, false, ok
		}
	}
	// The sweep evicts what is cold, of any class, until that frees a block of this
	// class or a page. A class with few pages has little to hope for from it.
	if s.pagesFor(class)*8 >= s.opened-len(s.resident)-len(s.discarded) {
		evicted := 0
		for looked := 0; looked < 4*s.slots.n && evicted < 64; looked++ {
			if !s.cool() {
				continue
			}
			evicted++
			if off, ok := s.fromClass(class); ok {
				return off, false, true
			}
			if s.usedBytes+int64(s.pageSize) <= s.capacity {
				break
			}
		}
	}
	for tries := 0; s.usedBytes+int64(s.pageSize) > s.capacity; tries++ {
		if tries == 8 || !s.emptyAPage() {
			break
		}
	}
	if off, ok := s.fromClass(class); ok {
		return off, false, true
	}
	if s.usedBytes+int64(s.pageSize) <= s.capacity || !s.strict {
		if p, ok := s.takePage(class); ok {
			off, ok = s.fromPage(p)
			return off, false, ok
		}
	}
	return 0, false, false
}

// fromClass takes a block from a page with room of the class or one that lends to it.
func (s *shard) fromClass(class int) (off uint64, ok bool) {
	for _, list := range s.roomy[class:s.lenders[class]] {
		if len(list) > 0 {
			return s.fromPage(int(list[len(list)-1]))
		}
	}
	return 0, false
}

// pagesFor counts the pages of which a class may take blocks.
func (s *shard) pagesFor(class int) (n int) {
	for _, pages := range s.classPages[class:s.lenders[class]] {
		n += int(pages)
	}
	return n
}

func (s *shard) perPage(class int32) uint32 { return uint32(s.pageSize / s.sizes[class]) }

func (s *shard) fromPage(p int) (off uint64, ok bool) {
	pg := &s.pagesOf[p]
	size := uint64(s.sizes[pg.class])
	var block uint64
	switch {
	case pg.free != 0:
		block = uint64(pg.free - 1)
		pg.free = s.header(s.pageStart(p) + block*size).next
	case pg.fresh < s.perPage(pg.class):
		block = uint64(pg.fresh)
		pg.fresh++
	default:
		return 0, false
	}
	pg.live++
	if pg.free == 0 && pg.fresh == s.perPage(pg.class) {
		s.dropRoomy(p)
	}
	return s.pageStart(p) + block*size + headerSize, true
}

// takePage gives a spare page to a class.
func (s *shard) takePage(class int) (p int, ok bool) {
	switch {
	case len(s.resident) > 0:
		p = int(s.resident[len(s.resident)-1])
		s.resident = s.resident[:len(s.resident)-1]
	case len(s.discarded) > 0:
		p = int(s.discarded[len(s.discarded)-1])
		s.discarded = s.discarded[:len(s.discarded)-1]
	case s.opened < s.maxPages:
		p = s.opened
		if off, ok := s.pages.Alloc(uint32(s.pageSize), uint32(s.pageSize)); !ok || off != s.pageStart(p) {
			return 0, false
		}
		s.opened++
		s.populateAhead()
	default:
		return 0, false
	}
	s.pagesOf[p] = page{class: int32(class), pos: -1}
	s.addRoomy(p)
	s.classPages[class]++
	s.usedBytes += int64(s.pageSize)
	return p, true
}

// aheadStep is how much memory is made to exist before it is used: a huge page.
const aheadStep = 2 << 20

// populateAhead has a goroutine make the huge page exist that comes after the one in which pages are opened now: the first
// touch of memory costs more than reading a block into it. A shard that is not large, or that is nearly full, does without.
func (s *shard) populateAhead() {
	end := s.pageStart(s.opened)
	next := int64(end+aheadStep-1) &^ (aheadStep - 1)
	if s.capacity < 8*aheadStep || next+aheadStep > s.capacity || next < s.populated || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	s.populated = next + aheadStep
	// It is an optimisation: what fails is touched later.
	s.ahead.Go(func() { _ = s.pages.Populate(next, aheadStep) })
}

func (s *shard) addRoomy(p int) {
	pg := &s.pagesOf[p]
	pg.pos = int32(len(s.roomy[pg.class]))
	s.roomy[pg.class] = append(s.roomy[pg.class], int32(p))
}

func (s *shard) dropRoomy(p int) {
	pg := &s.pagesOf[p]
	list := s.roomy[pg.class]
	last := list[len(list)-1]
	list[pg.pos] = last
	s.pagesOf[last].pos = pg.pos
	s.roomy[pg.class] = list[:len(list)-1]
	pg.pos = -1
}

// freeBlock gives back the block whose bytes begin at off. The page of the last
// one becomes spare.
func (s *shard) freeBlock(off uint64) {
	p := int(off/uint64(s.pageSize)) - 1
	pg := &s.pagesOf[p]
	h := s.header(off - headerSize)
	h.slot = 0
	h.next = pg.free
	pg.free = uint32((off-headerSize-s.pageStart(p))/uint64(s.sizes[pg.class])) + 1
	pg.live--
	if pg.pos < 0 {
		s.addRoomy(p)
	}
	if pg.live == 0 {
		s.dropRoomy(p)
		s.classPages[pg.class]--
		pg.class = -1
		s.usedBytes -= int64(s.pageSize)
		s.resident = append(s.resident, int32(p))
	}
}

// emptyAPage evicts what is coldest by the byte among a few pages and a few large
// blocks of which nothing is held: the blocks of a page, which makes it spare,
// or a large block. It reports whether anything was freed.
func (s *shard) emptyAPage() bool {
	best, bestHeat := -1, 0
	for looked, candidates := 0, 0; looked < s.opened && candidates < 8; looked++ {
		if s.hotPage++; s.hotPage >= s.opened {
			s.hotPage = 0
		}
		heat, ok := s.heat(s.hotPage)
		if !ok {
			continue
		}
		candidates++
		if best < 0 || heat < bestHeat {
			best, bestHeat = s.hotPage, heat
		}
	}
	large := false
	for looked, candidates := 0, 0; looked < s.largeEnd && candidates < 4; looked++ {
		if s.hotLarge++; s.hotLarge >= s.largeEnd {
			s.hotLarge = 0
		}
		if s.large[s.hotLarge].Load() == nil {
			continue
		}
		m := s.slot(int(s.largeSlot[s.hotLarge])).meta.Load()
		if m&stateMask != stateVisible || m&refMask != 0 {
			continue
		}
		candidates++
		if heat := heatUnit * (1 + int(m&clockMask>>clockShift)); best < 0 || heat < bestHeat {
			best, bestHeat, large = s.hotLarge, heat, true
		}
	}
	switch {
	case best < 0:
		return false
	case large:
		return s.evict(int(s.largeSlot[best]))
	}
	s.eachBlock(best, func(slot int) { s.evict(slot) })
	return s.pagesOf[best].class < 0
}

// heatUnit is the heat of a byte that is cold.
const heatUnit = 1024

// heat is how much a page's bytes are used on average; ok is false if it has no class or a
// block of it is held.
func (s *shard) heat(p int) (heat int, ok bool) {
	if s.pagesOf[p].class < 0 {
		return 0, false
	}
	ok = true
	s.eachBlock(p, func(slot int) {
		m := s.slot(slot).meta.Load()
		if m&stateMask != stateVisible || m&refMask != 0 {
			ok = false
		}
		heat += 1 + int(m&clockMask>>clockShift)
	})
	return heat * s.sizes[s.pagesOf[p].class] / (s.pageSize / heatUnit), ok
}

// eachBlock calls do with the slot of each block in use of a page; do may free it.
func (s *shard) eachBlock(p int, do func(slot int)) {
	pg := &s.pagesOf[p]
	size := uint64(s.sizes[pg.class])
	for b := range pg.fresh {
		if slot := s.header(s.pageStart(p) + uint64(b)*size).slot; slot != 0 {
			do(int(slot) - 1)
		}
	}
}

// largeStart is where the bytes of a large block begin in its arena.
const largeStart = 64

// largeCost is what a large block takes: whole pages of the system.
func largeCost(n int) int64 { return (int64(n) + largeStart + 4095) &^ 4095 }

func (s *shard) allocLarge(n int) (index int, ok bool) {
	cost := largeCost(n)
	s.discardSpare(cost)
	for looked := 0; looked < 4*s.slots.n && s.usedBytes+cost > s.capacity && cost <= s.capacity; looked++ {
		s.cool()
	}
	for s.usedBytes+cost > s.capacity && cost <= s.capacity && s.emptyAPage() {
	}
	s.discardSpare(cost)
	if s.usedBytes+cost > s.capacity && s.strict {
		return 0, false
	}
	switch {
	case len(s.freeIndex) > 0:
		index = int(s.freeIndex[len(s.freeIndex)-1])
	case s.largeEnd < len(s.large):
		index = s.largeEnd
	default:
		return 0, false
	}
	o := s.arenaOpts
	o.HugePages = o.HugePages && cost >= 4<<20
	a, err := mmapfs.NewArena(cost, o)
	if err != nil {
		return 0, false
	}
	if off, ok := a.Alloc(uint32(n), largeStart); !ok || off != largeStart {
		a.Free()
		return 0, false
	}
	if index == s.largeEnd {
		s.largeEnd++
	} else {
		s.freeIndex = s.freeIndex[:len(s.freeIndex)-1]
	}
	s.large[index].Store(a)
	s.usedBytes += a.Reserved()
	return index, true
}

func (s *shard) freeLarge(index int) {
	a := s.large[index].Swap(nil)
	s.usedBytes -= a.Reserved()
	a.Free()
	s.freeIndex = append(s.freeIndex, int32(index))
}

// discardSpare gives the memory of spare pages back until n more bytes fit
// beside them.
func (s *shard) discardSpare(n int64) {
	for len(s.resident) > 0 && s.usedBytes+n+int64(len(s.resident))*int64(s.pageSize) > s.capacity {
		p := s.resident[len(s.resident)-1]
		s.resident = s.resident[:len(s.resident)-1]
		s.discarded = append(s.discarded, p)
		// An error leaves the memory where it is, which costs only that.
		_ = s.pages.Discard(int64(s.pageStart(int(p))), int64(s.pageSize))
	}
}

func (s *shard) setCapacity(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity = n
	for looked := 0; looked < 4*s.slots.n && s.usedBytes > s.capacity; looked++ {
		s.cool()
	}
	for s.usedBytes > s.capacity && s.emptyAPage() {
	}
	s.discardSpare(0)
}
