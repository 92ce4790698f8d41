// Package ratelimit shares a budget of bytes a second among writers, and readers, of files: RocksDB's
// rate limiter.
//
// Time is cut into refill periods. Each brings the same number of bytes, which go to those who
// wait, first come first served within a priority. Users come first; then flushes, then the rest,
// but now and then (once in Fairness times) the rest come before flushes, so
// that they do not starve. What a period leaves is not saved for later.
//
// A limiter may tune itself: once in a hundred periods it looks at how many of them ran
// dry. Few mean that the limit is higher than needed, and it is lowered, down to a twentieth of what was
// given; many mean that it holds work up, and it is raised, up to what was given.
package ratelimit

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Priority says who asks. RocksDB: Env::IOPriority.
type Priority int

// Priorities, least first.
const (
	Low  Priority = iota // compactions
	Mid                  // what helps users soon
	High                 // flushes
	User                 // somebody waits for it
	priorities
)

// Mode says what is limited.
type Mode int

// Modes. RocksDB: RateLimiter::Mode.
const (
	WritesOnly Mode = iota
	ReadsOnly
	AllIO
)

// Reads reports whether reads are limited, Writes whether writes are.
func (m Mode) Reads() bool { return m != WritesOnly }

// Writes reports whether writes are limited.
func (m Mode) Writes() bool { return m != ReadsOnly }

// Options configures a Limiter. RocksDB: NewGenericRateLimiter.
type Options struct {
	// BytesPerSec is the limit; with AutoTuned its upper bound. It must be positive.
	// RocksDB: rate_bytes_per_sec.
	BytesPerSec int64
	// RefillPeriod is how often bytes are handed out. Longer means larger bursts, shorter more
	// waking up. Zero means 100 ms. RocksDB: refill_period_us.
	RefillPeriod time.Duration
	// Fairness is how seldom a lower priority comes before a higher one: once in so many
	// periods. Zero means 10. RocksDB: fairness.
	Fairness int
	// Mode is what is limited. RocksDB: mode, whose default is WritesOnly too.
	Mode Mode
	// AutoTuned adapts the limit to the demand. RocksDB: auto_tuned.
	AutoTuned bool
}

const (
	refillsPerTune = 100
	tuneRange      = 20 // the least is this part of the most
	tuneStep       = 5  // per cent
	lowWatermark   = 50 // per cent of the periods that ran dry
	highWatermark  = 90
)

// Limiter hands out bytes. Safe for concurrent use, by several databases too.
type Limiter struct {
	o Options // BytesPerSec is the most that tuning may reach

	mu        sync.Mutex
	rate      int64 // bytes a second
	perPeriod int64
	available int64
	next      time.Time // of the next refill
	queues    [priorities][]*request
	armed     bool // a timer waits for next
	drained   int64
	tuned     time.Time
	bytes     [priorities]int64
	requests  [priorities]int64
	rnd       func(n int) int // for tests
}

// request waits for bytes.
type request struct {
	left    int64
	granted chan struct{}
}

// New makes a limiter. It panics if BytesPerSec is not positive.
func New(o Options) *Limiter {
	if o.BytesPerSec <= 0 {
		panic("ratelimit: BytesPerSec must be positive")
	}
	if o.RefillPeriod <= 0 {
		o.RefillPeriod = 100 * time.Millisecond
	}
	if o.Fairness <= 0 {
		o.Fairness = 10
	}
	l := &Limiter{o: o, tuned: time.Now(), rnd: rand.IntN}
	rate := o.BytesPerSec
	if o.AutoTuned {
		rate = max(1, rate/2)
	}
	l.setRate(rate)
	return l
}

// Mode is what the limiter limits.
func (l *Limiter) Mode() Mode { return l.o.Mode }

// BytesPerSec is the limit at present.
func (l *Limiter) BytesPerSec() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rate
}

// SetBytesPerSec changes the limit; with AutoTuned the upper bound, from which it starts again.
func (l *Limiter) SetBytesPerSec(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.o.BytesPerSec = max(n, 1)
	l.setRate(l.o.BytesPerSec)
}

func (l *Limiter) setRate(n int64) {
	l.rate = n
	l.perPeriod = max(1, int64(float64(n)*l.o.RefillPeriod.Seconds()))
}

// Burst is the most that one Request may take at once: a period's bytes. Larger ones take several.
func (l *Limiter) Burst() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.perPeriod
}

// Total is how many bytes and requests of a priority have gone through.
func (l *Limiter) Total(p Priority) (bytes, requests int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes[p], l.requests[p]
}

// Request waits until n bytes may be read or written. It ends early with the error of
// ctx; bytes that it had been given by then are lost.
func (l *Limiter) Request(ctx context.Context, n int64, p Priority) error {
	for n > 0 {
		part := min(n, l.Burst())
		if err := l.request(ctx, part, p); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

func (l *Limiter) request(ctx context.Context, n int64, p Priority) error {
	l.mu.Lock()
	now := time.Now()
	l.tune(now)
	l.requests[p]++
	l.bytes[p] += n
	if !l.armed && !l.next.After(now) {
		l.refill(now)
	}
	taken := min(n, l.available)
	l.available -= taken
	if taken == n {
		l.mu.Unlock()
		return nil
	}
	r := &request{left: n - taken, granted: make(chan struct{})}
	l.queues[p] = append(l.queues[p], r)
	l.arm(now)
	l.mu.Unlock()
	select {
	case <-r.granted:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.queues[p] {
		if other == r {
			l.queues[p] = append(l.queues[p][:i:i], l.queues[p][i+1:]...)
			break
		}
	}
	return ctx.Err()
}

// arm sets a timer for the next refill, if somebody waits.
func (l *Limiter) arm(now time.Time) {
	if l.armed {
		return
	}
	for _, q := range l.queues {
		if len(q) > 0 {
			l.armed = true
			l.drained++
			time.AfterFunc(l.next.Sub(now), l.wake)
			return
		}
	}
}

// wake refills and hands out.
func (l *Limiter) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.armed = false
	l.refill(now)
	for _, p := range l.order() {
		for len(l.queues[p]) > 0 && l.available > 0 {
			r := l.queues[p][0]
			taken := min(r.left, l.available)
			l.available -= taken
			if r.left -= taken; r.left > 0 {
				break
			}
			l.queues[p] = l.queues[p][1:]
			close(r.granted)
		}
	}
	l.arm(now)
}

func (l *Limiter) refill(now time.Time) {
	l.available = l.perPeriod
	l.next = now.Add(l.o.RefillPeriod)
}

// order is who is served first this time.
func (l *Limiter) order() [priorities]Priority {
	rest := [2]Priority{Mid, Low}
	if l.rnd(l.o.Fairness) == 0 {
		rest = [2]Priority{Low, Mid}
	}
	if l.rnd(l.o.Fairness) == 0 {
		return [priorities]Priority{User, rest[0], rest[1], High}
	}
	return [priorities]Priority{User, High, rest[0], rest[1]}
}

// tune adapts the limit to how many periods ran dry.
func (l *Limiter) tune(now time.Time) {
	elapsed := now.Sub(l.tuned)
	if !l.o.AutoTuned || elapsed < refillsPerTune*l.o.RefillPeriod {
		return
	}
	periods := int64((elapsed + l.o.RefillPeriod - time.Microsecond) / l.o.RefillPeriod)
	dry := l.drained * 100 / periods
	l.drained, l.tuned = 0, now
	most, least := l.o.BytesPerSec, max(1, l.o.BytesPerSec/tuneRange)
	rate := l.rate
	switch {
	case dry == 0:
		rate = least
	case dry < lowWatermark:
		rate = max(least, int64(float64(rate)*100/(100+tuneStep)))
	case dry > highWatermark:
		rate = min(most, int64(float64(rate)*(100+tuneStep)/100))
	}
	if rate != l.rate {
		l.setRate(rate)
	}
}
