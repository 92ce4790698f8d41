package cachesim

import (
	"math"
	"math/rand/v2"
	"testing"
)

// slowLRU is LRU written down.
type slowLRU struct {
	capacity, used int64
	list           []Access // oldest first
}

func (s *slowLRU) access(a Access) bool {
	hit := false
	for i := range s.list {
		if s.list[i].Block == a.Block {
			s.list = append(s.list[:i], s.list[i+1:]...)
			s.used -= a.Size
			hit = true
			break
		}
	}
	if !hit && (!a.Insert || a.Size > s.capacity) {
		return false
	}
	for s.used+a.Size > s.capacity {
		s.used -= s.list[0].Size
		s.list = s.list[1:]
	}
	s.list = append(s.list, a)
	s.used += a.Size
	return hit
}

func randomAccess(rng *rand.Rand) Access {
	block := uint64(rng.ExpFloat64() * 100)
	return Access{Block: Mix(block + 1), Size: int64(100 + block%7*50), Insert: rng.IntN(10) > 0, High: block%20 == 0}
}

func TestLRUIsLRUAndReuseDistancesPredictIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const capacity = 20000
	slow, fast := &slowLRU{capacity: capacity}, newLRU(capacity)
	d := NewDistances(1 << 16)
	all := &slowLRU{capacity: capacity}
	for i := range 20000 {
		a := randomAccess(rng)
		if want, got := slow.access(a), fast.Access(&a); got != want || fast.Used() != slow.used {
			t.Fatalf("access %d: hit %v with %d bytes, want %v with %d", i, got, fast.Used(), want, slow.used)
		}
		a.Insert = true
		want := all.access(a)
		if _, distance := d.Access(a.Block, a.Size); want != (distance >= 0 && distance <= capacity) {
			t.Fatalf("access %d: distance %d, hit %v in %d bytes", i, distance, want, capacity)
		}
	}
}

// TestPoliciesKeepTheirCapacityAndFindWhatTheyHave: whatever comes, no more bytes than the
// capacity; what was just let in is found; and a cache that holds everything misses
// each block once.
func TestPoliciesKeepTheirCapacityAndFindWhatTheyHave(t *testing.T) {
	for _, name := range Names() {
		for _, capacity := range []int64{0, 50, 5000, 300000, 1 << 30} {
			p, err := New(name, capacity, 1)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(2, uint64(capacity)))
			misses, blocks := 0, map[uint64]bool{}
			for range 20000 {
				a := randomAccess(rng)
				a.Insert = true
				before := p.Used()
				hit := p.Access(&a)
				if !hit {
					misses++
				}
				if p.Used() > capacity {
					t.Fatalf("%s: %d bytes of %d", name, p.Used(), capacity)
				}
				if !hit && p.Used() > before && !p.Access(&a) {
					t.Fatalf("%s of %d bytes does not find what it let in", name, capacity)
				}
				blocks[a.Block] = true
			}
			if capacity == 1<<30 && misses < len(blocks) || capacity == 1<<30 && name[0] != 'g' && misses != len(blocks) {
				t.Errorf("%s: %d misses of %d blocks that all fit", name, misses, len(blocks))
			}
			if capacity == 0 && misses != 20000 {
				t.Errorf("%s without capacity: %d misses", name, misses)
			}
		}
	}
	if _, err := New("random", 1, 1); err == nil {
		t.Error("an unknown policy was made")
	}
}

// TestFlatrockSlotsStayConsistent: blocks move up in the table when one before them is removed.
func TestFlatrockSlotsStayConsistent(t *testing.T) {
	f := newFlatrock(40000, 1)
	rng := rand.New(rand.NewPCG(3, 3))
	for range 20000 {
		a := randomAccess(rng)
		f.Access(&a)
		n, bytes := 0, int64(0)
		for _, s := range f.slots {
			if s.size != 0 {
				n++
				bytes += s.size
				if _, ok := f.find(s.block); !ok {
					t.Fatalf("block %x is in the table, and is not found", s.block)
				}
			}
		}
		if n != f.count || bytes != f.used {
			t.Fatalf("%d blocks of %d bytes, counted as %d of %d", n, bytes, f.count, f.used)
		}
	}
}

// TestDistancesStayBounded: with more blocks than are kept, the estimates are those of all.
func TestDistancesStayBounded(t *testing.T) {
	d := NewDistances(2000)
	rng := rand.New(rand.NewPCG(4, 4))
	sum, n := 0.0, 0
	for i := range 300000 {
		block := uint64(rng.IntN(20000)) * 0x9E3779B97F4A7C15
		if !d.Kept(block) {
			continue
		}
		if _, distance := d.Access(block, 100); distance >= 0 && i > 100000 {
			sum += float64(distance)
			n++
		}
		if len(d.blocks) > 2000 {
			t.Fatalf("%d blocks are followed, at most 2000 are to be", len(d.blocks))
		}
	}
	if b := d.Blocks(); math.Abs(b-20000) > 2500 {
		t.Errorf("%.0f blocks, there are 20000", b)
	}
	// Among n blocks used at random a reuse comes after n/2·2·(1-1/e…) others: half of all on average.
	if mean := sum / float64(n); math.Abs(mean-1e6) > 1.5e5 {
		t.Errorf("a mean reuse distance of %.0f bytes, want about %.0f", mean, 1e6)
	}
}
