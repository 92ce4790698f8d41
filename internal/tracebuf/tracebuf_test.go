package tracebuf

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// collected is a Consumer that checks what it gets.
type collected struct {
	t        *testing.T
	nanos    int64
	backward int
	next     map[uint32]uint32 // by producer
	n        int
	pauses   atomic.Int64
	hold     chan struct{} // Consume waits until it is closed; nil for never
}

func (c *collected) Consume(nanos int64, b []byte) {
	if c.hold != nil {
		<-c.hold
	}
	if nanos < c.nanos {
		c.backward++
	}
	c.nanos = nanos
	who, i := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	for _, x := range b[8:] {
		if x != byte(who) {
			c.t.Errorf("record %d of producer %d is damaged", i, who)
		}
	}
	if i < c.next[who] {
		c.t.Errorf("record %d of producer %d came after %d", i, who, c.next[who]-1)
	}
	c.next[who] = i + 1
	c.n++
}

func (c *collected) Begin(int64) {}

func (c *collected) Pause() { c.pauses.Add(1) }

func put(c *Collector, hint, who, i uint32) bool {
	n := 8 + int(i%200)
	s := c.Reserve(hint, n)
	if !s.OK() {
		return false
	}
	binary.LittleEndian.PutUint32(s.Payload, who)
	binary.LittleEndian.PutUint32(s.Payload[4:], i)
	for j := 8; j < n; j++ {
		s.Payload[j] = byte(who)
	}
	s.Publish()
	return true
}

func TestEveryRecordComesOnceAndInOrder(t *testing.T) {
	got := &collected{t: t, next: map[uint32]uint32{}}
	c, err := New(64<<20, got)
	if err != nil {
		t.Fatal(err)
	}
	const producers, each = 8, 20000
	var wg sync.WaitGroup
	for who := range uint32(producers) {
		wg.Go(func() {
			for i := uint32(0); i < each; {
				if put(c, who/2*5, who, i) { // two to a stripe
					i++
				} else {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	c.Close()
	if got.n != producers*each {
		t.Errorf("%d records came, want %d", got.n, producers*each)
	}
	if got.backward != 0 {
		t.Errorf("%d records came after newer ones", got.backward)
	}
	c.Close()
	if put(c, 0, 0, 0) {
		t.Error("a record was taken after Close")
	}
}

func TestRecordsAreDroppedAndCountedWhenNobodyTakesThem(t *testing.T) {
	hold := make(chan struct{})
	got := &collected{t: t, next: map[uint32]uint32{}, hold: hold}
	c, err := New(stripes*minRing, got)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	const total = 5000
	for i := range uint32(total) {
		if put(c, 3, 1, i) {
			taken++
		}
	}
	if d := c.Dropped(); d == 0 || int(d)+taken != total {
		t.Errorf("%d taken and %d dropped of %d", taken, d, total)
	}
	if s := c.Reserve(0, c.Largest()+8); s.OK() {
		t.Error("a record larger than a quarter of a ring was taken")
	}
	close(hold)
	c.Close()
	if got.n != taken {
		t.Errorf("%d records came, %d were taken", got.n, taken)
	}
}

func TestSerialsDiffer(t *testing.T) {
	got := &collected{t: t, next: map[uint32]uint32{}}
	c, err := New(1<<20, got)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seen := map[uint64]bool{0: true}
	for i := range uint32(500) {
		s := c.Reserve(i, 8)
		if n := s.Serial(c); seen[n] {
			t.Fatalf("serial %d came twice", n)
		} else {
			seen[n] = true
		}
		binary.LittleEndian.PutUint64(s.Payload, uint64(i))
		s.Publish()
	}
}

func TestReserveAllocatesNothing(t *testing.T) {
	got := &collected{t: t, next: map[uint32]uint32{}}
	c, err := New(1<<20, got)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	i := uint32(0)
	if n := testing.AllocsPerRun(1000, func() { put(c, 9, 1, i); i++ }); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

// Bench: a record of 64 bytes by one producer, the consumer beside it.
func BenchmarkReserve(b *testing.B) {
	c, err := New(0, nothing{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for b.Loop() {
		if s := c.Reserve(1, 64); s.OK() {
			s.Payload[0] = 1
			s.Publish()
		}
	}
	b.ReportMetric(float64(c.Dropped())/float64(b.N), "dropped/op")
}

type nothing struct{}

func (nothing) Consume(int64, []byte) {}
func (nothing) Begin(int64)           {}
func (nothing) Pause()                {}
