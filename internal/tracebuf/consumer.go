package tracebuf

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

func (c *Collector) consume() {
	tick := time.NewTimer(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.work()
			tick.Reset(interval)
		case <-c.stop:
			c.helpers.Wait()
			c.closed.Store(true)
			c.look(math.MaxInt64, time.Time{})
			c.consumer.Pause()
			return
		}
	}
}

// work takes turns at looking until nothing is left. With more goroutines than processors, none of which
// ever waits, each goroutine gets one time slice in so many; if that is too little, as
// records are left at the end of a turn, helpers take turns too. Only one of them looks at a time.
func (c *Collector) work() {
	for {
		// Whoever was woken by a timer has what is left of somebody else's slice; who comes
		// from the queue has a whole one.
		runtime.Gosched()
		if !c.looking.TryLock() {
			continue
		}
		done := c.look(0, time.Now().Add(turn))
		c.consumer.Pause()
		c.looking.Unlock()
		select {
		case <-c.stop:
			return
		default:
		}
		if done {
			return
		}
		if c.helping.Add(1) <= maxHelpers {
			c.helpers.Go(func() {
				c.work()
				c.helping.Add(-1)
			})
		} else {
			c.helping.Add(-1)
		}
	}
}

// cursor walks what a chunk had when the consumer looked.
type cursor struct {
	chunk    *chunk
	index    int
	pos, end uint64
	nanos    int64 // of the record at pos
	sealed   bool
}

// load reads the time of the record at pos.
func (u *cursor) load() bool {
	if u.pos >= u.end {
		return false
	}
	u.nanos = int64(binary.LittleEndian.Uint64(u.chunk.mem[u.pos:]))
	return true
}

// look hands on all records up to a time before which no more will come, or until the
// deadline, and then reports false. A limit of math.MaxInt64 is for the last look: no more
// will come at all.
func (c *Collector) look(limit int64, deadline time.Time) bool {
	limit = max(limit, c.settled(limit == math.MaxInt64))
	c.consumer.Begin(min(limit, int64(time.Since(c.start))))
	all := c.cursors[:0]
	c.found, c.handed = 0, 0
	for w := range c.used {
		for v := c.used[w].Load(); v != 0; v &= v - 1 {
			i := w*64 + bits.TrailingZeros64(v)
			u := cursor{chunk: &c.chunks[i], index: i}
			u.sealed = atomic.LoadUint64(&u.chunk.sealed) != 0 // first: then tail is the last
			u.pos, u.end = u.chunk.head, atomic.LoadUint64(&u.chunk.tail)
			if u.load() {
				c.found += u.end - u.pos
				all = append(all, u)
			} else if u.sealed {
				c.release(&u)
			}
		}
	}
	c.cursors = all
	return c.merge(all, limit, deadline)
}

// settled is a time before which no more records will come.
func (c *Collector) settled(last bool) int64 {
	now := int64(time.Since(c.start))
	if c.plain {
		mmapfs.FenceAll()
	}
	c.mu.Lock()
	producers := c.producers
	c.mu.Unlock()
	limit := now
	for i, p := range producers {
		if len(c.clear) <= i {
			c.clear = append(c.clear, 0)
		}
		if last {
			p.await()
		}
		if atomic.LoadUint64(&p.inside) == 0 {
			c.clear[i] = now
			continue
		}
		limit = min(limit, max(c.clear[i], int64(atomic.LoadUint64(&p.last))))
	}
	if last {
		return math.MaxInt64
	}
	return max(limit, now-int64(c.lateness))
}

// await waits until nobody is inside: whoever is must not find its memory freed. That takes some
// nanoseconds, or for as long as the scheduler has stopped it.
func (p *producer) await() {
	for spin := 0; atomic.LoadUint64(&p.inside) != 0; spin++ {
		if spin < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(nap)
		}
	}
}

// release frees a chunk that was read to its end.
func (c *Collector) release(u *cursor) {
	u.chunk.head = 0
	atomic.StoreUint64(&u.chunk.tail, 0)
	atomic.StoreUint64(&u.chunk.sealed, 0)
	c.used[u.index/64].And(^(uint64(1) << (u.index % 64)))
}

// merge hands on the records of the cursors in the order of time. It reports false
// if the deadline came first.
func (c *Collector) merge(all []cursor, until int64, deadline time.Time) bool {
	// all stays sorted: the oldest comes first, and goes on until another is older. Which that
	// is costs little to find, as few producers run at the same time.
	slices.SortFunc(all, func(a, b cursor) int { return cmp.Compare(a.nanos, b.nanos) })
	n := 0
	for len(all) > 0 && all[0].nanos <= until {
		if n >= checkEvery {
			if n = 0; !deadline.IsZero() && time.Now().After(deadline) {
				return false
			}
		}
		u, limit := &all[0], until
		if len(all) > 1 {
			limit = min(limit, all[1].nanos)
		}
		more := true
		for more && u.nanos <= limit {
			b := u.chunk.mem[u.pos:]
			size := binary.LittleEndian.Uint32(b[8:])
			whole := uint64(recordHdr+size+7) &^ 7
			c.handed += whole
			c.consumer.Consume(u.nanos, b[recordHdr:recordHdr+size:recordHdr+size])
			u.pos += whole
			more = u.load()
			n++
		}
		u.chunk.head = u.pos
		if !more {
			if u.sealed {
				c.release(u)
			}
			all = all[1:]
			continue
		}
		for i := 1; i < len(all) && all[i].nanos < all[i-1].nanos; i++ {
			all[i], all[i-1] = all[i-1], all[i]
		}
	}
	return true
}
