package statistics

import (
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/internal/perf"
)

// Point reads are counted where nobody else counts meanwhile: a reader owns its Gets for the time
// of the read, and adds to it by ordinary instructions (see bump), which cost a nanosecond where an
// atomic addition costs five. One counter says what kind of read it was, all that tickers
// want to know of it but bytes.

// What a point read ended with. Each counts for several tickers, which are added
// up from these.
const (
	hitMemtable = iota
	hitL0
	hitL1
	hitL2AndUp
	hitNothing
	outcomes
)

// A kind of read is its outcome, how many files filters spared it, and whether a filter let
// it pass to a file: the one that has the key, if any has. Other reads are rare, and
// count what is left by tickers of their own.
const (
	maxUseful = 8
	kinds     = outcomes * maxUseful * 2
)

// Gets counts the point reads of one reader at a time. Whoever owns it calls Start and
// End; ownership passes on in a way that orders memory, such as a sync.Pool. Others add up what it
// has counted at any time.
type Gets struct {
	owner  *Statistics
	stripe uint32 // of owner: what is rare is counted there
	due    uint32 // reads until the next sample

	bytes, cached uint64 // BytesRead, BlockCacheBytesRead
	kinds         [kinds]uint64
	_             [64]byte // others' counters may follow

	// Guarded by owner.mu.
	base getCounts // what Reset found
}

// getCounts are the counters of a Gets at one moment.
type getCounts struct {
	bytes, cached uint64
	kinds         [kinds]uint64
}

// NewGets returns counters for a reader, nil from a nil *Statistics.
func (s *Statistics) NewGets() *Gets {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		g := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return g
	}
	g := &Gets{owner: s, stripe: uint32(len(s.readers))}
	s.readers = append(s.readers, g)
	return g
}

// FreeGets gives counters back that nobody uses any more. What they have counted stays.
func (s *Statistics) FreeGets(g *Gets) {
	if s == nil || g == nil {
		return
	}
	s.mu.Lock()
	s.idle = append(s.idle, g)
	s.mu.Unlock()
}

// Start begins a point read, which End counts: the Timing measures it if it is a sample.
func (g *Gets) Start() (t Timing) {
	level := g.owner.Level()
	if level <= ExceptTimers {
		return t
	}
	if g.due--; int32(g.due) <= 0 || level > ExceptDetailedTimers {
		g.due = SampleEvery
		t.start, t.on = time.Now(), true
	}
	return t
}

// Memory is the level of a value that End was told came from a memtable, and
// Nowhere that of none at all.
const (
	Memory  = -1
	Nowhere = -2
)

// End counts a point read that found a value of so many bytes in a level,
// Memory or Nowhere. The tally is what the files did for it.
func (g *Gets) End(t Timing, level, size int, tally *perf.Tally) {
	if g.owner.Level() <= ExceptTickers {
		return
	}
	outcome := hitL2AndUp
	switch level {
	case Memory:
		outcome = hitMemtable
	case Nowhere:
		outcome = hitNothing
	case 0:
		outcome = hitL0
	case 1:
		outcome = hitL1
	}
	positive, useful := min(tally.FilterPositive, 1), min(tally.FilterUseful, maxUseful-1)
	bump(&g.kinds[(outcome*maxUseful+int(useful))*2+int(positive)], 1)
	bump(&g.bytes, uint64(size))
	bump(&g.cached, tally.CachedBytes)
	if expected := positive * inFile(outcome); tally.FilterPositive != positive || tally.FilterUseful != useful || tally.FilterTrue != expected || tally.PrefixChecked > 0 {
		g.endRare(tally, positive, useful, expected)
	}
	if t.on {
		g.owner.record(g.stripe, DBGet, uint64(max(time.Since(t.start), 0)))
		if level != Nowhere {
			g.owner.record(g.stripe, BytesPerRead, uint64(size))
		}
	}
}

// endRare counts what the kind of the read leaves out.
func (g *Gets) endRare(tally *perf.Tally, positive, useful, expected uint32) {
	at := g.owner.at(g.stripe)
	at.tickers[BloomFilterFullPositive].Add(uint64(tally.FilterPositive - positive))
	at.tickers[BloomFilterUseful].Add(uint64(tally.FilterUseful - useful))
	at.tickers[BloomFilterFullTruePositive].Add(uint64(tally.FilterTrue) - uint64(expected)) // may wrap, and the sum wraps back
	at.tickers[BloomFilterPrefixChecked].Add(uint64(tally.PrefixChecked))
	at.tickers[BloomFilterPrefixUseful].Add(uint64(tally.PrefixUseful))
}

// inFile is 1 if the outcome is a hit in a file.
func inFile(outcome int) uint32 {
	if outcome == hitMemtable || outcome == hitNothing {
		return 0
	}
	return 1
}

// now is what was counted since Reset. The caller holds owner.mu.
func (g *Gets) now() (c getCounts) {
	c = g.load()
	c.bytes -= g.base.bytes
	c.cached -= g.base.cached
	for k := range c.kinds {
		c.kinds[k] -= g.base.kinds[k]
	}
	return c
}

// load is what was counted ever.
func (g *Gets) load() (c getCounts) {
	c.bytes, c.cached = atomic.LoadUint64(&g.bytes), atomic.LoadUint64(&g.cached)
	for k := range c.kinds {
		c.kinds[k] = atomic.LoadUint64(&g.kinds[k])
	}
	return c
}

// addTo adds what was counted to the tickers.
func (c *getCounts) addTo(sum *[numTickers]uint64) {
	sum[BytesRead] += c.bytes
	sum[BlockCacheBytesRead] += c.cached
	for kind, n := range c.kinds {
		if n == 0 {
			continue
		}
		outcome, useful, positive := kind/2/maxUseful, uint64(kind/2%maxUseful), uint64(kind%2)
		sum[NumberKeysRead] += n
		sum[BloomFilterFullPositive] += positive * n
		sum[BloomFilterFullTruePositive] += positive * uint64(inFile(outcome)) * n
		sum[BloomFilterUseful] += useful * n
		switch outcome {
		case hitMemtable:
			sum[MemtableHit] += n
			continue
		case hitL0:
			sum[GetHitL0] += n
		case hitL1:
			sum[GetHitL1] += n
		case hitL2AndUp:
			sum[GetHitL2AndUp] += n
		}
		sum[MemtableMiss] += n
	}
}

// gets is how many point reads were counted.
func (s *Statistics) gets() (n, found uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.readers {
		c := g.now()
		for kind, k := range c.kinds {
			n += k
			if kind/2/maxUseful != hitNothing {
				found += k
			}
		}
	}
	return n, found
}
