package tracebuf

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/internal/prefetch"
	"github.com/flatrock-db/flatrock/mmapfs"
)

const (
	recordHdr = 12
	ahead     = 2 * prefetch.Line // of a record are asked for before it is written
)

// chunk is memory that one producer fills from the beginning. At rest all but mem is zero.
type chunk struct {
	tail   uint64 // bytes that hold records; the producer's, like sealed
	sealed uint64 // 1 when no more will come
	_      [112]byte
	head   uint64 // bytes that were handed on; the consumer's
	mem    []byte
	_      [96]byte
}

// producer writes records, for one goroutine at a time.
type producer struct {
	inside uint64 // 1 from before the time of a record is taken until it is published
	last   uint64 // the time of the latest record
	chunk  *chunk // nil for none
	mem    []byte // the chunk's
	pos    int    // in mem
	serial uint64
	number uint64 // in Collector.producers
	plain  bool
	_      [56]byte
	// dropped counts what found no room.
	dropped atomic.Uint64
	_       [120]byte
}

// lease is the right to use a producer while it goes from one goroutine to the next.
type lease struct{ p *producer }

// store writes a word that the consumer reads: after all that was written before.
func (p *producer) store(to *uint64, v uint64) {
	if mmapfs.PlainStores && p.plain {
		*to = v
		return
	}
	atomic.StoreUint64(to, v)
}

// seal tells the consumer that it may free the chunk when it has read it.
func (p *producer) seal() {
	if p.chunk != nil {
		p.store(&p.chunk.sealed, 1)
		p.chunk, p.mem, p.pos = nil, nil, 0
	}
}

// Slot is room for one record. The zero Slot is none.
type Slot struct {
	l       *lease
	c       *Collector
	next    int
	nanos   uint64
	Payload []byte // to be filled
}

// OK reports whether there is room; if not, the record has been counted as dropped, or the
// Collector is closed.
func (s *Slot) OK() bool { return s.l != nil }

// Serial is a number, not zero, that no other call gets from this Collector.
func (s *Slot) Serial() uint64 {
	p := s.l.p
	p.serial++
	return p.serial<<20 | p.number&(1<<20-1)
}

// Reserve finds room for a record of n bytes of payload, and notes the time. Unless it
// fails, Publish must follow at once.
func (c *Collector) Reserve(n int) Slot {
	need := (recordHdr + n + 7) &^ 7
	l := c.leases.get()
	p := l.p
	p.store(&p.inside, 1)
	if c.closed.Load() {
		c.leave(l)
		return Slot{}
	}
	nanos := uint64(time.Since(c.start))
	if need > c.size/4 || p.pos+need > len(p.mem) && !c.refill(p) {
		p.dropped.Add(1)
		c.leave(l)
		return Slot{}
	}
	// The next record's lines: the consumer read them when the chunk was used before, and to take
	// them from its core costs much more than to write them.
	prefetch.SpanToWrite(p.mem, p.pos+need, p.pos+need+ahead)
	b := p.mem[p.pos : p.pos+need]
	binary.LittleEndian.PutUint64(b, nanos)
	binary.LittleEndian.PutUint32(b[8:], uint32(n))
	return Slot{l: l, c: c, next: p.pos + need, nanos: nanos, Payload: b[recordHdr : recordHdr+n : recordHdr+n]}
}

// refill goes on in a new chunk.
func (c *Collector) refill(p *producer) bool {
	p.seal()
	if p.chunk = c.take(); p.chunk == nil {
		return false
	}
	p.mem = p.chunk.mem
	return true
}

// Publish hands the record over.
func (s *Slot) Publish() {
	p := s.l.p
	p.pos = s.next
	p.store(&p.chunk.tail, uint64(s.next))
	p.store(&p.last, s.nanos)
	s.c.leave(s.l)
}

// Drop counts a record as dropped that never came to Reserve.
func (c *Collector) Drop() {
	l := c.leases.get()
	l.p.dropped.Add(1)
	c.leave(l)
}

func (c *Collector) leave(l *lease) {
	l.p.store(&l.p.inside, 0)
	c.leases.put(l)
}
