package ratelimit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRate: what goes through in ten seconds is what was asked for.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{BytesPerSec: 1 << 20})
		ctx, start := context.Background(), time.Now()
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := 0; time.Since(start) < 10*time.Second; i++ {
					must(t, l.Request(ctx, int64(1+(i*7919+w)%300_000), Priority(w)))
				}
			})
		}
		wg.Wait()
		var total int64
		for p := range priorities {
			b, _ := l.Total(p)
			total += b
		}
		rate := float64(total) / time.Since(start).Seconds()
		if rate < 0.95*(1<<20) || rate > 1.1*(1<<20) {
			t.Errorf("%.0f bytes a second, want about %d", rate, 1<<20)
		}
	})
}

// TestNothingIsSaved: idle time does not add up to a burst.
func TestNothingIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{BytesPerSec: 1000})
		time.Sleep(time.Hour)
		start := time.Now()
		must(t, l.Request(context.Background(), 1000, Low))
		if d := time.Since(start); d != 900*time.Millisecond {
			t.Errorf("ten periods' bytes took %v, want 900 ms", d)
		}
	})
}

// TestOrder: users before flushes before compactions, first come first served
// among equals; and by fairness once in a while the other way round.
func TestOrder(t *testing.T) {
	for _, unfair := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := New(Options{BytesPerSec: 1000}) // 100 a period
			l.rnd = func(int) int {
				if unfair {
					return 0
				}
				return 1
			}
			must(t, l.Request(context.Background(), 100, Low)) // the first period is spent
			var mu sync.Mutex
			got := ""
			ask := func(name string, p Priority) {
				go func() {
					must(t, l.Request(context.Background(), 100, p))
					mu.Lock()
					got += name
					mu.Unlock()
				}()
				synctest.Wait()
			}
			ask("l", Low)
			ask("L", Low)
			ask("m", Mid)
			ask("h", High)
			ask("H", High)
			ask("u", User)
			time.Sleep(time.Second)
			synctest.Wait()
			want := "uhHmlL"
			if unfair {
				want = "ulLmhH"
			}
			if got != want {
				t.Errorf("served in the order %s, want %s", got, want)
			}
		})
	}
}

// TestCancelledRequest leaves the queue, and those behind it go on.
func TestCancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{BytesPerSec: 10})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		done := make(chan error)
		go func() { done <- l.Request(ctx, 1000, High) }()
		synctest.Wait()
		start := time.Now()
		go func() { done <- l.Request(context.Background(), 5, Low) }()
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		must(t, <-done)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("the next waited %v", d)
		}
	})
}

// TestAutoTune: little demand lowers the limit to a twentieth, much raises it again.
func TestAutoTune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 20 << 20
		l := New(Options{BytesPerSec: most, AutoTuned: true})
		if l.BytesPerSec() != most/2 {
			t.Fatalf("it starts with %d, want half", l.BytesPerSec())
		}
		ctx := context.Background()
		for range 40 {
			time.Sleep(time.Second)
			must(t, l.Request(ctx, 10, Low))
		}
		if l.BytesPerSec() != most/tuneRange {
			t.Fatalf("without demand %d, want %d", l.BytesPerSec(), most/tuneRange)
		}
		start := time.Now()
		for time.Since(start) < 20*time.Minute {
			must(t, l.Request(ctx, 1<<20, Low))
		}
		if n := l.BytesPerSec(); n < most*9/10 || n > most {
			t.Fatalf("with all demand %d, want about %d", n, most)
		}
		l.SetBytesPerSec(1 << 20)
		if l.BytesPerSec() != 1<<20 {
			t.Fatal("SetBytesPerSec")
		}
	})
}

func TestModes(t *testing.T) {
	for m, want := range map[Mode][2]bool{WritesOnly: {false, true}, ReadsOnly: {true, false}, AllIO: {true, true}} {
		if got := [2]bool{m.Reads(), m.Writes()}; got != want {
			t.Errorf("mode %d: %v", m, got)
		}
	}
}
