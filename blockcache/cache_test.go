package blockcache

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

func newCache(t testing.TB, o Options) *Cache {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fill writes what a block of k must hold.
func fill(b []byte, k Key) {
	x := k.hash() | 1
	for i := 0; i < len(b); i++ {
		if i%8 == 0 {
			x = x*0x9E3779B97F4A7C15 + 1
		}
		b[i] = byte(x >> (i % 8 * 8))
	}
}

func check(t testing.TB, b []byte, k Key) {
	t.Helper()
	want := make([]byte, len(b))
	fill(want, k)
	for i := range b {
		if b[i] != want[i] {
			t.Errorf("block %v of %d bytes differs at byte %d", k, len(b), i)
			return
		}
	}
}

// insert caches a block of n bytes and reports whether there was room.
func insert(t testing.TB, c *Cache, k Key, n int, p Priority) bool {
	h, b := c.Reserve(k, n, Data, p)
	if h == 0 {
		return false
	}
	fill(b, k)
	h, b = c.Publish(h, n)
	check(t, b, k)
	c.Release(h)
	return true
}

func find(t testing.TB, c *Cache, k Key) bool {
	h, b := c.Lookup(k, Data)
	if h == 0 {
		return false
	}
	check(t, b, k)
	c.Release(h)
	return true
}

func TestBlocksOfAllSizesComeBackUntilEvicted(t *testing.T) {
	for _, capacity := range []int64{1 << 20, 40 << 20} {
		c := newCache(t, Options{Capacity: capacity, EstimatedEntryCharge: 1024})
		rng := rand.New(rand.NewPCG(3, uint64(capacity)))
		var total int64
		for i := range 3000 {
			n := rng.IntN(8000)
			if i%100 == 0 {
				n = rng.IntN(300 << 10)
			}
			k := Key{1, uint64(i) * 4099}
			if !insert(t, c, k, n, Low) || !find(t, c, k) {
				t.Fatalf("block %d of %d bytes was not kept for a moment", i, n)
			}
			if total += int64(n); total < capacity/2 && i > 0 && !find(t, c, Key{1, 0}) {
				t.Errorf("the first block is gone after %d bytes of %d", total, capacity)
			}
		}
		st := c.Stats()
		if st.Usage > capacity || st.Usage < capacity/3 {
			t.Errorf("capacity %d: usage %d", capacity, st.Usage)
		}
		if st.PinnedUsage != 0 || st.Evictions == 0 || st.Blocks != int64(st.Inserts-st.Evictions) {
			t.Errorf("capacity %d: %+v", capacity, st)
		}
		kept := 0
		for i := range 3000 {
			if find(t, c, Key{1, uint64(i) * 4099}) {
				kept++
			}
		}
		if int64(kept) != st.Blocks {
			t.Errorf("capacity %d: %d blocks found, %d counted", capacity, kept, st.Blocks)
		}
	}
}

func TestHeldBlocksStayAndStrictCapacityRefuses(t *testing.T) {
	for _, strict := range []bool{false, true} {
		c := newCache(t, Options{Capacity: 1 << 20, StrictCapacityLimit: strict, Shards: 1})
		var held []Handle
		var blocks [][]byte
		refused := false
		for i := range 400 {
			k := Key{7, uint64(i)}
			h, b := c.Reserve(k, 4096, Data, Low)
			if h == 0 {
				refused = true
				break
			}
			fill(b, k)
			h, b = c.Publish(h, len(b))
			held, blocks = append(held, h), append(blocks, b)
		}
		if strict != refused {
			t.Errorf("strict %v: refused %v after %d blocks", strict, refused, len(held))
		}
		if st := c.Stats(); strict && st.Usage > 1<<20 || st.PinnedUsage != int64(len(held))*4096 {
			t.Errorf("strict %v: %+v", strict, st)
		}
		for i, b := range blocks {
			check(t, b, Key{7, uint64(i)})
		}
		for _, h := range held {
			c.Release(h)
		}
		if !insert(t, c, Key{8, 1}, 4096, Low) {
			t.Errorf("strict %v: no room after everything was released", strict)
		}
		if st := c.Stats(); st.PinnedUsage != 0 {
			t.Errorf("strict %v: %d bytes still pinned", strict, st.PinnedUsage)
		}
	}
}

func TestScanDoesNotWashOutWhatIsUsed(t *testing.T) {
	c := newCache(t, Options{Capacity: 4 << 20, Shards: 1})
	const hot = 300
	for i := range uint64(hot) {
		insert(t, c, Key{1, i}, 4000, Low)
		find(t, c, Key{1, i})
	}
	insert(t, c, Key{3, 1}, 4000, High)
	for i := range uint64(5000) { // a scan of five times the capacity
		insert(t, c, Key{2, i}, 4000, Low)
		if i%2 == 0 {
			find(t, c, Key{1, i / 2 % hot})
		}
	}
	kept := 0
	for i := range uint64(hot) {
		if find(t, c, Key{1, i}) {
			kept++
		}
	}
	if kept < hot*8/10 {
		t.Errorf("%d of %d used blocks survived the scan", kept, hot)
	}
}

func TestChangingBlockSizesMovesMemoryBetweenClasses(t *testing.T) {
	c := newCache(t, Options{Capacity: 4 << 20, Shards: 1, EstimatedEntryCharge: 1024})
	for round, n := range []int{1000, 4200, 15000, 100000, 300, 60000, 4200} {
		count := min(3<<20/(n+n/4), 2000)
		for range 2 { // what the first pass could not keep, the second does
			for i := range count {
				if k := (Key{uint64(round), uint64(i)}); !find(t, c, k) {
					insert(t, c, k, n, Low)
				}
			}
		}
		kept := 0
		for i := range count {
			if find(t, c, Key{uint64(round), uint64(i)}) {
				kept++
			}
		}
		if kept < count*7/10 {
			t.Errorf("round %d: of %d blocks of %d bytes, %d are there", round, count, n, kept)
		}
		if u := c.Usage(); u > 4<<20 {
			t.Errorf("round %d: usage %d", round, u)
		}
	}
}

func TestDuplicateInsertKeepsTheFirst(t *testing.T) {
	c := newCache(t, Options{Capacity: 1 << 20})
	k := Key{1, 1}
	h1, b1 := c.Reserve(k, 100, Data, Low)
	h2, b2 := c.Reserve(k, 100, Data, Low)
	if find(t, c, k) {
		t.Error("a block is visible before Publish")
	}
	fill(b1, k)
	fill(b2, k)
	h1, b1 = c.Publish(h1, 100)
	h2, b2 = c.Publish(h2, 100)
	if h1 != h2 || &b1[0] != &b2[0] {
		t.Error("two blocks of one key")
	}
	c.Release(h1)
	c.Release(h2)
	h3, _ := c.Reserve(Key{1, 2}, 100, Data, Low)
	c.Abort(h3)
	if st := c.Stats(); st.Blocks != 1 || st.PinnedUsage != 0 {
		t.Errorf("%+v", st)
	}
}

func TestCapacityShrinksGrowsAndIsChargedForMemoryElsewhere(t *testing.T) {
	c := newCache(t, Options{Capacity: 8 << 20, Shards: 2})
	load := func() {
		for i := range uint64(4000) {
			insert(t, c, Key{1, i}, 4096, Low)
		}
	}
	for _, step := range []struct {
		capacity, charge int64
	}{{8 << 20, 0}, {3 << 20, 0}, {16 << 20, 0}, {16 << 20, 12 << 20}, {16 << 20, -12 << 20}, {0, 0}} {
		if err := c.SetCapacity(step.capacity); err != nil {
			t.Fatal(err)
		}
		c.AddCharge(Memtables, step.charge)
		room := step.capacity - max(step.charge, 0)
		if u := c.Usage(); u > room {
			t.Errorf("%+v: usage %d right after", step, u)
		}
		if room == 0 {
			break
		}
		load()
		if u := c.Usage(); u > room || u < min(room, 14<<20)/2 {
			t.Errorf("%+v: usage %d", step, u)
		}
	}
	if err := c.SetCapacity(1 << 40); !errors.Is(err, ErrReserve) {
		t.Errorf("grew beyond the reserve: %v", err)
	}
}

func TestForgetEvictsAFile(t *testing.T) {
	c := newCache(t, Options{Capacity: 8 << 20})
	for i := range uint64(100) {
		insert(t, c, Key{1, i}, 4096, Low)
		insert(t, c, Key{2, i}, 4096, Low)
	}
	c.Forget(1)
	for i := range uint64(100) {
		if find(t, c, Key{1, i}) || !find(t, c, Key{2, i}) {
			t.Fatalf("block %d: the wrong file was forgotten", i)
		}
	}
}

func TestConcurrentUseNeverShowsAnotherBlock(t *testing.T) {
	c := newCache(t, Options{Capacity: 2 << 20, Shards: 2, EstimatedEntryCharge: 1024})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 9))
			var held []Handle
			var blocks [][]byte
			var ks []Key
			for range 20000 {
				id := rng.Uint64N(3000)
				if rng.IntN(2) == 0 {
					id = rng.Uint64N(100)
				}
				k := Key{1, id}
				n := 200 + int(k.hash()%3000)
				if id%200 == 0 {
					n = 40000
				}
				h, b := c.Lookup(k, Data)
				if h == 0 {
					if h, b = c.Reserve(k, n, Data, Priority(id%2)); h == 0 {
						continue
					}
					if rng.IntN(20) == 0 {
						c.Abort(h)
						continue
					}
					fill(b, k)
					h, b = c.Publish(h, n)
				}
				if len(b) != n {
					t.Errorf("block %v has %d bytes, expected %d", k, len(b), n)
				}
				check(t, b, k)
				if held = append(held, h); len(held) < 8 {
					blocks, ks = append(blocks, b), append(ks, k)
					continue
				}
				for i := range blocks {
					check(t, blocks[i], ks[i])
				}
				for _, h := range held {
					c.Release(h)
				}
				held, blocks, ks = held[:0], blocks[:0], ks[:0]
			}
			for _, h := range held {
				c.Release(h)
			}
		})
	}
	wg.Wait()
	st := c.Stats()
	if st.PinnedUsage != 0 || st.Usage > 2<<20 || st.Evictions == 0 {
		t.Errorf("%+v", st)
	}
	// Every slot that no block needs any more must end searches again.
	for _, s := range c.shards {
		s.evictIf(func(Key) bool { return true })
		for i := range s.slots.n {
			if m := s.slot(i).meta.Load(); m != 0 {
				t.Fatalf("slot %d of an empty cache: meta %#x", i, m)
			}
		}
		if s.usedBytes != 0 || s.used != 0 {
			t.Fatalf("an empty shard uses %d bytes, %d slots", s.usedBytes, s.used)
		}
	}
}

func TestHitsAllocateNothing(t *testing.T) {
	c := newCache(t, Options{Capacity: 8 << 20})
	insert(t, c, Key{1, 1}, 4096, Low)
	if n := testing.AllocsPerRun(100, func() {
		h, _ := c.Lookup(Key{1, 1}, Data)
		c.Release(h)
		if h, _ := c.Lookup(Key{1, 2}, Data); h != 0 {
			t.Error("found what is not there")
		}
	}); n != 0 {
		t.Errorf("a hit and a miss allocate %v times", n)
	}
	i := uint64(10)
	if n := testing.AllocsPerRun(1000, func() {
		i++
		h, _ := c.Reserve(Key{1, i}, 4096, Data, Low)
		h, _ = c.Publish(h, 4096)
		c.Release(h)
	}); n >= 1 {
		t.Errorf("an insert allocates %v times", n)
	}
}

func TestLargeCacheLeavesTheGoHeapAlone(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := newCache(t, Options{Capacity: 4 << 30})
	for i := range uint64(20000) {
		insert(t, c, Key{1, i}, 4096, Low)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("a cache of 4 GiB takes %d bytes of Go heap", grown)
	}
	if used := mmapfs.OffHeap().Arenas["block cache"].Used; used < 20000*4096 {
		t.Errorf("%d bytes of the cache's memory are accounted for", used)
	}
}

func BenchmarkHit(b *testing.B) {
	c := newCache(b, Options{Capacity: 256 << 20})
	const blocks = 20000
	for i := range uint64(blocks) {
		insert(b, c, Key{1, i * 4101}, 4096, Low)
	}
	b.SetBytes(4096)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		x := uint64(1)
		var sum uint64
		for pb.Next() {
			x = x*6364136223846793005 + 1442695040888963407
			h, blk := c.Lookup(Key{1, x >> 33 % blocks * 4101}, Data)
			sum += binary.LittleEndian.Uint64(blk)
			c.Release(h)
		}
		runtime.KeepAlive(sum)
	})
}

func BenchmarkInsertEvict(b *testing.B) {
	c := newCache(b, Options{Capacity: 64 << 20})
	i := uint64(0)
	b.SetBytes(4300)
	b.ReportAllocs()
	for b.Loop() {
		i++
		h, _ := c.Reserve(Key{1, i}, 4300, Data, Low)
		h, _ = c.Publish(h, 4300)
		c.Release(h)
	}
}

// TestOneAnnotatesAndOthersSeeAllOfIt has readers race for blocks that others evict.
func TestOneAnnotatesAndOthersSeeAllOfIt(t *testing.T) {
	c := newCache(t, Options{Capacity: 1 << 20, Shards: 1})
	const n, note = 3000, 64
	var wrote, read atomic.Int64
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 5))
			for range 20000 {
				k := Key{1, rng.Uint64N(500)}
				h, b, noted, _ := c.LookupNoted(k, Data)
				switch {
				case h == 0:
					if h, b = c.Reserve(k, n+note, Data, Low); h == 0 {
						t.Error("no room")
						return
					}
					fill(b[:n], k)
					clear(b[n:])
					h, _ = c.Publish(h, n+note)
				case noted:
					read.Add(1)
					check(t, b[n:], Key{2, k.Offset})
				case c.Annotate(h):
					wrote.Add(1)
					if c.Annotate(h) {
						t.Error("a block can be annotated twice")
					}
					fill(b[n:], Key{2, k.Offset})
					c.Annotated(h)
				}
				c.Release(h)
			}
		})
	}
	wg.Wait()
	if st := c.Stats(); wrote.Load() > int64(st.Inserts) || wrote.Load() < 1000 || read.Load() < 1000 || st.Evictions == 0 {
		t.Errorf("%d annotations written, %d read; %+v", wrote.Load(), read.Load(), st)
	}
}

// TestBlocksOfSimilarSizesShareMemory replaces blocks of one size by slightly smaller
// ones, and mixes sizes that differ as those of 4 KiB blocks do.
func TestBlocksOfSimilarSizesShareMemory(t *testing.T) {
	const capacity = 16 << 20
	c := newCache(t, Options{Capacity: capacity, Shards: 1})
	rng := rand.New(rand.NewPCG(1, 2))
	const span = 6000
	size := func(id uint64) int { return 3900 + int(Key{9, id}.hash()%260) }
	for range 8 * span {
		k := Key{1, rng.Uint64N(span)}
		if !find(t, c, k) {
			insert(t, c, k, size(k.Offset), Low)
		}
	}
	st := c.Stats()
	if used := st.Blocks * 4030; used < capacity*95/100 {
		t.Errorf("%d blocks take %d of %d bytes", st.Blocks, used, capacity)
	}
}

func TestPromisingLearnsFromEvictedBlocks(t *testing.T) {
	c := newCache(t, Options{Capacity: 1 << 20, Shards: 1})
	promising := true
	for round, again := range []bool{false, true, false} {
		for i := range uint64(1000) {
			k := Key{uint64(round), i}
			insert(t, c, k, 4000, Low)
			h, _ := c.Lookup(k, Data)
			if h == 0 {
				t.Fatal("a block is gone at once")
			}
			promising = c.Promising(h)
			c.Release(h)
			if !again { // as if it had not been found
				s, slot := c.locate(h)
				s.slot(slot).meta.And(^foundBit)
			}
		}
		if promising != again {
			t.Errorf("round %d: promising %v after blocks found again: %v", round, promising, again)
		}
	}
}
