// Package tracebuf collects records from many goroutines and hands them to one, in the
// order of time, without ever making the many wait: for traces.
//
// Memory is cut into stripes, each a ring. A producer takes the stripe that its hint
// names, or one of the next if somebody is in it or it is full; it writes its record, and
// leaves. When all that it looks at are taken or full, the record is dropped and counted.
// No allocation, no system call, and no cache line that all producers write.
//
// The consumer looks at all stripes every few milliseconds. It enters each for a moment, so
// that whatever is older than the beginning of the look is there, and merges these records
// by their times. A producer that the scheduler stopped inside of a stripe is waited for
// up to lateness; what it writes after that is handed on late.
//
//	ring   := record*
//	record := fixed32 length, of everything ‖ fixed32 bytes of payload ‖ fixed64 nanoseconds ‖
//	          payload ‖ padding to 8 bytes
//	        | fixed32 length ‖ fixed32 skip         up to the end of the ring
package tracebuf

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

const (
	inside    = 1 // in tail: somebody is
	stripes   = 64
	probes    = 8 // stripes that a producer looks at
	recordHdr = 16
	skip      = 1<<32 - 1
	interval  = 4 * time.Millisecond
	lateness  = 20 * time.Millisecond
	// DefaultBytes is what a Collector has if it is not told.
	DefaultBytes = 64 << 20
	minRing      = 4 << 10
)

// stripe is one ring. Whoever sets the low bit of tail owns it: positions are multiples
// of 8, so that storing one both publishes and lets go.
type stripe struct {
	tail    atomic.Uint64
	ring    []byte
	serial  uint64 // guarded by inside; see Slot.Serial
	closed  bool   // guarded by inside
	_       [64]byte
	head    atomic.Uint64 // written by the consumer
	dropped atomic.Uint64
	_       [112]byte
}

// Consumer is who gets the records. All calls come from one goroutine.
type Consumer interface {
	// Begin comes before each look at the stripes, with the time up to which it goes.
	Begin(nanos int64)
	// Consume gets a record, in the order of time. The payload is borrowed.
	Consume(nanos int64, payload []byte)
	// Pause comes after each look at the stripes, whether or not there were records.
	Pause()
}

// Collector collects records. Safe for concurrent use.
type Collector struct {
	start   time.Time
	stripes [stripes]stripe
	mask    uint64 // of a position in a ring
	arena   *mmapfs.Arena

	consumer Consumer
	stop     chan struct{}
	done     sync.WaitGroup
	once     sync.Once
}

// New begins to collect, in so many bytes of memory outside of the Go heap; zero means
// DefaultBytes. Close ends it.
func New(bytes int64, consumer Consumer) (*Collector, error) {
	if bytes <= 0 {
		bytes = DefaultBytes
	}
	size := int64(minRing)
	for size*2*stripes <= bytes && size < 1<<30 {
		size *= 2
	}
	a, err := mmapfs.NewArena(stripes*size+64, mmapfs.ArenaOptions{Name: "trace buffers"})
	if err != nil {
		return nil, err
	}
	c := &Collector{start: time.Now(), mask: uint64(size - 1), arena: a, consumer: consumer, stop: make(chan struct{})}
	for i := range c.stripes {
		off, ok := a.Alloc(uint32(size), 64)
		if !ok {
			a.Free()
			return nil, fmt.Errorf("tracebuf: no room for %d rings of %d bytes", stripes, size)
		}
		c.stripes[i].ring = a.Bytes()[off : off+uint64(size) : off+uint64(size)]
	}
	c.done.Go(c.consume)
	return c, nil
}

// Start is the time from which nanoseconds count.
func (c *Collector) Start() time.Time { return c.start }

// Largest is the largest payload that Reserve takes: a quarter of a ring.
func (c *Collector) Largest() int { return int(c.mask+1)/4 - recordHdr }

// Slot is room for one record. The zero Slot is none.
type Slot struct {
	s       *stripe
	next    uint64
	Payload []byte // to be filled
}

// OK reports whether there is room; if not, the record has been counted as dropped.
func (s *Slot) OK() bool { return s.s != nil }

// Serial is a number, not zero, that no other call gets from this Collector.
func (s *Slot) Serial(c *Collector) uint64 {
	s.s.serial++
	return s.s.serial*stripes + uint64(s.s.index(c))
}

func (s *stripe) index(c *Collector) int {
	for i := range c.stripes {
		if s == &c.stripes[i] {
			return i
		}
	}
	return 0
}

// Reserve finds room for a record of n bytes of payload, and notes the time. Unless it
// fails, Publish must follow at once. hint spreads goroutines over the stripes.
func (c *Collector) Reserve(hint uint32, n int) Slot {
	need := uint64(recordHdr+n+7) &^ 7
	for try := range uint32(probes) {
		s := &c.stripes[(hint+try)%stripes]
		tail := s.tail.Load()
		if tail&inside != 0 || !s.tail.CompareAndSwap(tail, tail|inside) {
			continue
		}
		if b, next := s.room(tail, need, c.mask); b != nil {
			binary.LittleEndian.PutUint32(b, uint32(need))
			binary.LittleEndian.PutUint32(b[4:], uint32(n))
			binary.LittleEndian.PutUint64(b[8:], uint64(time.Since(c.start)))
			return Slot{s: s, next: next, Payload: b[recordHdr : recordHdr+n : recordHdr+n]}
		}
		s.tail.Store(tail)
	}
	c.stripes[hint%stripes].dropped.Add(1)
	return Slot{}
}

// room finds need bytes in one piece; next is the position after them.
func (s *stripe) room(tail, need, mask uint64) (b []byte, next uint64) {
	if s.closed || need > (mask+1)/4 {
		return nil, 0
	}
	at := tail & mask
	rest := uint64(0) // to the end of the ring, if the record does not fit there
	if at+need > mask+1 {
		rest = mask + 1 - at
	}
	if tail+rest+need-s.head.Load() > mask+1 {
		return nil, 0
	}
	if rest > 0 {
		binary.LittleEndian.PutUint32(s.ring[at:], uint32(rest))
		binary.LittleEndian.PutUint32(s.ring[at+4:], skip)
		at = 0
	}
	return s.ring[at : at+need], tail + rest + need
}

// Publish hands the record over.
func (s *Slot) Publish() { s.s.tail.Store(s.next) }

// Drop counts a record as dropped that never came to Reserve.
func (c *Collector) Drop(hint uint32) { c.stripes[hint%stripes].dropped.Add(1) }

// Dropped is how many records found no room.
func (c *Collector) Dropped() (n uint64) {
	for i := range c.stripes {
		n += c.stripes[i].dropped.Load()
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

func (c *Collector) consume() {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.look(false)
			c.consumer.Pause()
		case <-c.stop:
			c.look(true)
			c.consumer.Pause()
			return
		}
	}
}

// cursor walks what a stripe had when the consumer entered it.
type cursor struct {
	s        *stripe
	pos, end uint64
	nanos    int64 // of the record at pos
}

// load reads the time of the record at pos, over what is to be skipped.
func (u *cursor) load(mask uint64) bool {
	for u.pos < u.end {
		b := u.s.ring[u.pos&mask:]
		if binary.LittleEndian.Uint32(b[4:]) != skip {
			u.nanos = int64(binary.LittleEndian.Uint64(b[8:]))
			return true
		}
		u.pos += uint64(binary.LittleEndian.Uint32(b))
	}
	return false
}

// look hands on all records up to the time until. With last the stripes are closed.
func (c *Collector) look(last bool) {
	until := int64(time.Since(c.start))
	c.consumer.Begin(until)
	if last {
		until = 1<<63 - 1
	}
	var all [stripes]cursor
	n := 0
	patience := lateness
	if last {
		patience = 100 * lateness // whoever is inside must not find its memory freed
	}
	for i := range c.stripes {
		s := &c.stripes[i]
		if !last && s.tail.Load() == s.head.Load() {
			// Nothing there: what comes from now on is newer than until.
			continue
		}
		entered := s.enter(&patience, last)
		if last {
			s.closed = true
		}
		u := cursor{s: s, pos: s.head.Load(), end: s.tail.Load() &^ inside}
		if entered {
			s.tail.Store(u.end)
		}
		if u.load(c.mask) {
			all[n] = u
			n++
		}
	}
	c.merge(all[:n], until)
}

// enter takes the stripe, unless somebody is in it for longer than patience. With
// always it waits for good: a producer is inside for some nanoseconds, or for as long as
// the scheduler has stopped it.
func (s *stripe) enter(patience *time.Duration, always bool) bool {
	for spin := 0; ; spin++ {
		if tail := s.tail.Load(); tail&inside == 0 && s.tail.CompareAndSwap(tail, tail|inside) {
			return true
		}
		if spin < 100 {
			runtime.Gosched()
			continue
		}
		if *patience <= 0 && !always {
			return false
		}
		const nap = 100 * time.Microsecond
		time.Sleep(nap)
		*patience -= nap
	}
}

// merge hands on the records of the cursors in the order of time.
func (c *Collector) merge(all []cursor, until int64) {
	for len(all) > 0 {
		// The oldest, and how far it may go before another is the oldest.
		first, limit := 0, until
		for i := 1; i < len(all); i++ {
			if all[i].nanos < all[first].nanos {
				first = i
			}
		}
		for i := range all {
			if i != first {
				limit = min(limit, all[i].nanos)
			}
		}
		u := &all[first]
		more := true
		for more && u.nanos <= limit {
			at := u.pos & c.mask
			b := u.s.ring[at:]
			n := binary.LittleEndian.Uint32(b[4:])
			c.consumer.Consume(u.nanos, b[recordHdr:recordHdr+n:recordHdr+n])
			u.pos += uint64(binary.LittleEndian.Uint32(b))
			more = u.load(c.mask)
		}
		u.s.head.Store(u.pos)
		if !more || u.nanos > until {
			u.s.rewind(c.mask)
			all[first] = all[len(all)-1]
			all = all[:len(all)-1]
		}
	}
}

// rewind lets an empty ring begin at its start again, so that a stripe with little to
// do stays within little memory of the processor's cache.
func (s *stripe) rewind(mask uint64) {
	tail := s.tail.Load()
	if tail != s.head.Load() || !s.tail.CompareAndSwap(tail, tail|inside) {
		return
	}
	if !s.closed {
		tail = (tail + mask) &^ mask
		s.head.Store(tail)
	}
	s.tail.Store(tail)
}
