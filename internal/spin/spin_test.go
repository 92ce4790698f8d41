package spin

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestUntil: it ends at once when done, in the end when not, and says which; it does not allocate.
func TestUntil(t *testing.T) {
	var w Waiter
	looks := 0
	if !w.Until(func() bool { looks++; return looks == 3 }) || looks != 3 {
		t.Errorf("done at the third look, %d looks", looks)
	}
	looks = 0
	if !w.Until(func() bool { looks++; return looks == turns+1 }) {
		t.Error("done at the last look is done")
	}
	looks = 0
	if w.Until(func() bool { looks++; return false }) || looks != turns+1 {
		t.Errorf("never done, %d looks, want %d", looks, turns+1)
	}
	var flag atomic.Bool
	if n := testing.AllocsPerRun(10, func() { w.Until(func() bool { return flag.Load() }) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// TestWaitsInVainAreGivenUp, but for a sample, and come back once they pay.
func TestWaitsInVainAreGivenUp(t *testing.T) {
	var w Waiter
	wait := func(after int) (looks int) {
		w.Until(func() bool { looks++; return looks > after })
		return looks
	}
	for range mostCredit {
		wait(1)
	}
	for range mostCredit/vain + 1 {
		if wait(2*turns) != turns+1 {
			t.Fatal("a credit is not used up by so few")
		}
	}
	long := 0
	for range 3 * sample {
		if wait(2*turns) > 1 {
			long++
		}
	}
	if long != 3 {
		t.Errorf("%d waits of %d, want 3", long, 3*sample)
	}
	for range sample {
		wait(1)
	}
	if wait(5) != 6 {
		t.Error("no wait after one that paid")
	}
}

// TestMutex: one at a time is in, and who comes while it is held for long gets it in the end.
func TestMutex(t *testing.T) {
	var m Mutex
	n := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				m.Lock()
				n++
				m.Unlock()
			}
		})
	}
	wg.Wait()
	if n != 8000 {
		t.Errorf("%d of 8000", n)
	}
	m.Lock()
	got := make(chan bool)
	go func() {
		m.Lock()
		got <- true
	}()
	for range 3 {
		if m.TryLock() {
			t.Fatal("taken twice")
		}
		runtime.Gosched()
	}
	m.Unlock()
	<-got
	m.Unlock()
}
