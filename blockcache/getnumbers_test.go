package blockcache

import "testing"

// TestNumbersOfASampleFollowTheCount: whatever time passes between them, the Gets of a sample share the
// numbers up to the cache's count, and the last one has it.
func TestNumbersOfASampleFollowTheCount(t *testing.T) {
	g := getNumbers{every: 5, start: 100}
	look := func(count uint64, first, gets uint64) {
		t.Helper()
		before := g.given
		g.stretch(100 + count)
		for i := range gets {
			share := func() float64 { return float64(i+1) / float64(gets) }
			n := g.number(first+i, share)
			if n <= before || n > count {
				t.Fatalf("Get %d of %d has number %d after %d, the count is %d", i, gets, n, before, count)
			}
			if again := g.number(first+i, share); again != n {
				t.Fatalf("Get %d has numbers %d and %d", i, n, again)
			}
			before = n
		}
		if gets > 0 && before != count {
			t.Fatalf("the last of %d Gets has number %d, the count is %d", gets, before, count)
		}
	}
	look(0, 1, 0)
	look(1000, 1, 200)
	look(1010, 201, 10) // all of them are in the sample
	look(5000, 211, 0)
	look(20000, 211, 3)
	look(20000, 214, 0)

	all := getNumbers{every: 1}
	for i := uint64(1); i < 2000; i++ {
		if n := all.number(i+7, nil); n != i {
			t.Fatalf("Get %d has number %d in a full trace", i, n)
		}
	}
}
