package dbbench

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// pacer holds a rate that several threads share. Each take reserves the next stretch
// of time and sleeps until it begins. A thread that could not run for a while catches
// up, by at most a second's worth, so that the rate holds on average. A nil pacer
// does not wait.
type pacer struct {
	perUnit atomic.Uint64 // ns, the bits of a float64
	next    atomic.Int64
	start   time.Time
	halt    <-chan struct{} // closed: nobody waits any more
}

// maxCatchUp bounds the burst after a pause. A writer beside many readers that never
// wait is preempted as they are, and then queues behind all of them: 24 readers on two
// busy cores kept it away for some hundred milliseconds.
const maxCatchUp = int64(time.Second)

// newPacer returns a pacer of so many units a second, nil for zero.
func newPacer(perSecond float64, halt <-chan struct{}) *pacer {
	if perSecond <= 0 {
		return nil
	}
	p := &pacer{start: time.Now(), halt: halt}
	p.setRate(perSecond)
	return p
}

// setRate is the rate of what is taken from now on.
func (p *pacer) setRate(perSecond float64) { p.perUnit.Store(math.Float64bits(1e9 / perSecond)) }

// take waits until n units may be used.
func (p *pacer) take(n int64) {
	if p == nil {
		return
	}
	cost := int64(float64(n) * math.Float64frombits(p.perUnit.Load()))
	for {
		now := int64(time.Since(p.start))
		at := p.next.Load()
		begin := max(at, now-maxCatchUp)
		if p.next.CompareAndSwap(at, begin+cost) {
			p.sleep(time.Duration(begin - now))
			return
		}
	}
}

func (p *pacer) sleep(d time.Duration) {
	switch {
	case d <= 0:
	case d < 10*time.Millisecond:
		time.Sleep(d)
	default:
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-p.halt:
			timer.Stop()
		}
	}
}

// sineWrites gives the writers of a benchmark a rate that follows a sine, set anew every interval:
// before the first one it is that of the flags. The second result ends it.
func (b *bench) sineWrites(pace *pacer, halted <-chan struct{}) (*pacer, func()) {
	const unlimited = 1e15
	if pace == nil {
		pace = newPacer(unlimited, halted)
	}
	begin, f := time.Now(), &b.c.mix
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(time.Duration(min(max(b.c.sineWritesInterval, 1), 1<<40)) * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				pace.setRate(max(f.sineAt(time.Since(begin).Seconds()), 1))
			}
		}
	})
	return pace, func() { close(stop); done.Wait() }
}
