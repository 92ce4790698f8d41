// Package tracebuf collects records from many goroutines and hands them to one, in the
// order of time, without ever making the many wait: for traces.
//
// Memory is cut into chunks. A goroutine that has a record takes a producer from a pool,
// which each processor has one of at hand; nobody else has it meanwhile. It writes the record
// into the producer's chunk, and takes a new chunk, the first that is free, when one is full. If
// none is free, the record is dropped and counted. No allocation, no system call, no
// lock, and where the processor keeps stores in order not even an atomic operation, but for
// the one that takes a chunk.
//
// The consumer looks at all chunks every few milliseconds. Each is in the order of time
// by itself; it merges them up to the moment of the look. A goroutine that the scheduler has stopped in
// the middle of a record holds back what is newer than that for up to lateness: whatever it
// writes after that is handed on late.
//
//	chunk  := record*
//	record := fixed64 nanoseconds ‖ fixed32 bytes of payload ‖ payload ‖ padding to 8 bytes
package tracebuf

import (
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

const (
	// minChunks is how many chunks there are at least, of a size from smallest to largest.
	minChunks     = 64
	smallestChunk = 4 << 10
	largestChunk  = 64 << 10
	// interval is how long the consumer rests between looks.
	interval = 10 * time.Millisecond
	// turn is for how long it works before it lets others, a little less than Go's time slice; it asks for
	// the time after so many records. maxHelpers may take turns beside it.
	turn       = 8 * time.Millisecond
	checkEvery = 1 << 10
	maxHelpers = 7
	nap        = 100 * time.Microsecond
	lateness   = time.Second
	// DefaultBytes is what a Collector has if it is not told: what some hundred milliseconds of two
	// processors' block accesses take, in memory that is only touched if it is needed.
	DefaultBytes = 64 << 20
)

// Consumer is who gets the records. There is one call at a time.
type Consumer interface {
	// Begin comes before the records of each look, with the time up to which they go.
	Begin(nanos int64)
	// Consume gets a record, in the order of time. The payload is borrowed.
	Consume(nanos int64, payload []byte)
	// Pause comes after each look, whether or not there were records.
	Pause()
}

// Collector collects records. Safe for concurrent use.
type Collector struct {
	start  time.Time
	closed atomic.Bool
	plain  bool // ordinary stores announce, see mmapfs.PlainStores
	size   int  // of a chunk
	chunks []chunk
	used   []atomic.Uint64 // a bit a chunk
	leases leases

	mu        sync.Mutex
	producers []*producer // all that there ever were
	free      []*producer // without a lease

	arena    *mmapfs.Arena
	consumer Consumer
	looking  sync.Mutex // whoever looks holds it
	clear    []int64    // by producer: when it was last seen outside; guarded by looking
	cursors  []cursor   // guarded by looking
	lateness time.Duration
	helping  atomic.Int32
	helpers  sync.WaitGroup
	stop     chan struct{}
	done     sync.WaitGroup
	once     sync.Once

	// Of the look under way, in bytes; guarded by looking.
	found, handed uint64
}

// New begins to collect, in so many bytes of memory outside of the Go heap; zero means
// DefaultBytes. Close ends it.
func New(bytes int64, consumer Consumer) (*Collector, error) {
	if bytes <= 0 {
		bytes = DefaultBytes
	}
	size := int64(smallestChunk)
	for size < largestChunk && size*2*minChunks <= bytes {
		size *= 2
	}
	n := max(bytes/size/64*64, minChunks)
	a, err := mmapfs.NewArena(n*size+64, mmapfs.ArenaOptions{Name: "trace buffers"})
	if err != nil {
		return nil, err
	}
	c := &Collector{
		start: time.Now(), plain: mmapfs.PlainStores && mmapfs.CanFenceAll(), size: int(size), chunks: make([]chunk, n),
		used: make([]atomic.Uint64, n/64), arena: a, consumer: consumer, lateness: lateness, stop: make(chan struct{}),
	}
	for i := range c.chunks {
		off, ok := a.Alloc(uint32(size), 64)
		if !ok {
			a.Free()
			return nil, fmt.Errorf("tracebuf: no room for %d chunks of %d bytes", n, size)
		}
		c.chunks[i].mem = a.Bytes()[off : off+uint64(size) : off+uint64(size)]
	}
	c.leases.init(c.lend)
	c.done.Go(c.consume)
	return c, nil
}

// Share is how much the record that Consume has got, and those before it, are of all that this
// look found: more than 0, and 1 at the last one of the last look. Only Consume may ask.
func (c *Collector) Share() float64 { return float64(c.handed) / float64(c.found) }

// lend is a lease of a producer that nobody has. When the pool lets go of it, another may
// have the producer.
func (c *Collector) lend() *lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	var p *producer
	if n := len(c.free); n > 0 {
		p, c.free = c.free[n-1], c.free[:n-1]
	} else {
		p = &producer{plain: c.plain, number: uint64(len(c.producers))}
		c.producers = append(c.producers, p)
	}
	l := &lease{p}
	runtime.AddCleanup(l, c.giveBack, p)
	return l
}

// giveBack takes a producer whose lease is gone.
func (c *Collector) giveBack(p *producer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.seal()
	c.free = append(c.free, p)
}

// take marks a free chunk as used, or returns nil if there is none.
func (c *Collector) take() *chunk {
	for w := range c.used {
		for v := c.used[w].Load(); v != 1<<64-1; v = c.used[w].Load() {
			if b := bits.TrailingZeros64(^v); c.used[w].CompareAndSwap(v, v|1<<b) {
				return &c.chunks[w*64+b]
			}
		}
	}
	return nil
}

// Start is the time from which nanoseconds count.
func (c *Collector) Start() time.Time { return c.start }

// Largest is the largest payload that Reserve takes: a quarter of a chunk.
func (c *Collector) Largest() int { return c.size/4 - recordHdr }

// Dropped is how many records found no room.
func (c *Collector) Dropped() (n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.producers {
		n += p.dropped.Load()
	}
	return n
}

// Close hands on what is there, ends the consumer, and frees the memory. Reserve fails
// from then on, uncounted. It may be called twice.
func (c *Collector) Close() {
	c.once.Do(func() {
		close(c.stop)
		c.done.Wait()
		c.arena.Free()
	})
}
