package main

import (
	"sync/atomic"
	"time"
)

// pacer holds a rate that several threads share. Each take reserves the next stretch
// of time and sleeps until it begins. A thread that could not run for a while catches
// up, by at most a second's worth, so that the rate holds on average. A nil pacer
// does not wait.
type pacer struct {
	perUnit float64 // ns
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
	return &pacer{perUnit: 1e9 / perSecond, start: time.Now(), halt: halt}
}

// take waits until n units may be used.
func (p *pacer) take(n int64) {
	if p == nil {
		return
	}
	cost := int64(float64(n) * p.perUnit)
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
