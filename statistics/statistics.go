// Package statistics counts what a database does, under RocksDB's names: tickers,
// which only grow, and histograms of times and sizes.
//
// Counters are spread over stripes (package stripe), each with cache lines of its own,
// and are added up by whoever asks. Point reads, the most frequent of all, count where they need no
// atomic addition (see Gets): one costs about 5 ns, a look at the clock some 40. So at the
// levels below ExceptTimeForMutex the times of reads, seeks and writes are samples,
// one in SampleEvery; the histogram's count is exact all the same, and its sum is
// that of the samples, scaled.
package statistics

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/internal/stripe"
)

// Level says how much is counted. Higher ones cost more.
type Level int32

// The levels of RocksDB. ExceptDetailedTimers, the default of New, has all tickers,
// sizes, and times; the times of frequent operations are samples.
const (
	DisableAll Level = iota
	ExceptHistogramOrTimers
	ExceptTimers
	ExceptDetailedTimers
	ExceptTimeForMutex
	All
)

// ExceptTickers counts no tickers, as DisableAll.
const ExceptTickers = DisableAll

// SampleEvery is how many frequent operations share one look at the clock.
const SampleEvery = 64

// Statistics counts. It may be shared by several databases. Safe for concurrent
// use; a nil *Statistics counts nothing.
type Statistics struct {
	level   atomic.Int32
	mask    uint32
	stripes []stripeOf

	mu      sync.Mutex
	sources map[*Source]struct{} // counters that somebody else keeps
	readers []*Gets              // all there are
	idle    []*Gets              // those of readers that nobody owns
}

// stripeOf is the counters of some goroutines.
type stripeOf struct {
	tickers [numTickers]atomic.Uint64
	calls   [numHistograms]atomic.Uint64 // of sampled histograms
	hists   [numHistograms]atomic.Pointer[histogram]
	_       [64]byte
}

// New returns Statistics at level ExceptDetailedTimers.
func New() *Statistics {
	n := 1
	for n < min(max(8, 4*runtime.GOMAXPROCS(0)), stripe.Count) {
		n *= 2
	}
	s := &Statistics{mask: uint32(n - 1), stripes: make([]stripeOf, n), sources: map[*Source]struct{}{}}
	s.level.Store(int32(ExceptDetailedTimers))
	return s
}

// Level is how much is counted.
func (s *Statistics) Level() Level { return Level(s.level.Load()) }

// SetLevel changes how much is counted.
func (s *Statistics) SetLevel(l Level) { s.level.Store(int32(l)) }

func (s *Statistics) at(stripe uint32) *stripeOf { return &s.stripes[stripe&s.mask] }

// Stripe is where the calling goroutine had best count.
func Stripe() uint32 { return stripe.Current() }

// Add adds n to t, on a stripe of the caller's choice.
func (s *Statistics) Add(stripe uint32, t Ticker, n uint64) {
	if s == nil || n == 0 || s.Level() <= ExceptTickers {
		return
	}
	s.at(stripe).tickers[t].Add(n)
}

// Record adds a value to h: microseconds for times, but nanoseconds where RocksDB's
// name says so, or a size.
func (s *Statistics) Record(stripe uint32, h Histogram, v uint64) {
	if s == nil || s.Level() <= ExceptHistogramOrTimers {
		return
	}
	s.record(stripe, h, v*unit(h))
}

// Time adds the time since start to h. It is for operations that take long.
func (s *Statistics) Time(stripe uint32, h Histogram, start time.Time) {
	if s != nil && s.Level() > ExceptTimers {
		s.record(stripe, h, uint64(max(time.Since(start), 0)))
	}
}

// TimeOf adds a time that somebody else took to h.
func (s *Statistics) TimeOf(stripe uint32, h Histogram, d time.Duration) {
	if s != nil && s.Level() > ExceptTimers {
		s.record(stripe, h, uint64(max(d, 0)))
	}
}

func (s *Statistics) record(stripe uint32, h Histogram, v uint64) {
	at := s.at(stripe)
	p := at.hists[h].Load()
	if p == nil {
		p = new(histogram)
		if !at.hists[h].CompareAndSwap(nil, p) {
			p = at.hists[h].Load()
		}
	}
	p.record(v)
}

// Timing is a sample under way. The zero Timing is none.
type Timing struct {
	start time.Time
	on    bool
}

// Sampled reports whether the operation is a sample.
func (t Timing) Sampled() bool { return t.on }

// Start counts a frequent operation and begins to measure it if it is a sample.
func (s *Statistics) Start(stripe uint32, h Histogram) (t Timing) {
	if s == nil {
		return t
	}
	level := s.Level()
	if level <= ExceptTimers {
		return t
	}
	if n := s.at(stripe).calls[h].Add(1); level > ExceptDetailedTimers || n%SampleEvery == 1 {
		t.start, t.on = time.Now(), true
	}
	return t
}

// End records what Start began.
func (s *Statistics) End(stripe uint32, h Histogram, t Timing) {
	if t.on {
		s.record(stripe, h, uint64(max(time.Since(t.start), 0)))
	}
}

// Source is a set of counters that somebody else keeps, such as a block cache.
type Source struct {
	count func(add func(Ticker, uint64))
	base  [numTickers]uint64 // what Reset found
}

// Attach includes counters that count reports, all of which only grow. They are counted
// from now on.
func (s *Statistics) Attach(count func(add func(Ticker, uint64))) *Source {
	if s == nil {
		return nil
	}
	src := &Source{count: count}
	src.count(func(t Ticker, n uint64) { src.base[t] += n })
	s.mu.Lock()
	s.sources[src] = struct{}{}
	s.mu.Unlock()
	return src
}

// Detach keeps what the source has counted and forgets it.
func (s *Statistics) Detach(src *Source) {
	if s == nil || src == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.sources[src]; !ok {
		return
	}
	delete(s.sources, src)
	var now [numTickers]uint64
	src.count(func(t Ticker, n uint64) { now[t] += n })
	for t := range now {
		if n := now[t] - src.base[t]; n > 0 {
			s.stripes[0].tickers[t].Add(n)
		}
	}
}

// tickersNow adds everything up.
func (s *Statistics) tickersNow() *[numTickers]uint64 {
	sum := new([numTickers]uint64)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.stripes {
		at := &s.stripes[i]
		for t := range sum {
			sum[t] += at.tickers[t].Load()
		}
	}
	for _, g := range s.readers {
		c := g.now()
		c.addTo(sum)
	}
	if s.Level() > ExceptTickers {
		for src := range s.sources {
			for t, b := range src.base {
				sum[t] -= b
			}
			src.count(func(t Ticker, n uint64) { sum[t] += n })
		}
	}
	return sum
}

// Ticker is the count of t.
func (s *Statistics) Ticker(t Ticker) uint64 {
	if t >= numTickers {
		return 0
	}
	return s.tickersNow()[t]
}

// Reset sets everything to zero. What is counted meanwhile may be lost.
func (s *Statistics) Reset() {
	for i := range s.stripes {
		at := &s.stripes[i]
		for t := range at.tickers {
			at.tickers[t].Store(0)
		}
		for h := range at.hists {
			at.calls[h].Store(0)
			at.hists[h].Store(nil)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.readers {
		g.base = g.load()
	}
	for src := range s.sources {
		clear(src.base[:])
		src.count(func(t Ticker, n uint64) { src.base[t] += n })
	}
}
