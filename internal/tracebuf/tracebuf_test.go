package tracebuf

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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

func put(c *Collector, who, i uint32) bool {
	n := 8 + int(i%200)
	s := c.Reserve(n)
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
				if put(c, who, i) {
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
	before := c.Dropped()
	if put(c, 0, 0) {
		t.Error("a record was taken after Close")
	}
	if d := c.Dropped(); d != before {
		t.Errorf("%d records count as dropped after Close, %d before", d, before)
	}
}

func TestRecordsAreDroppedAndCountedWhenNobodyTakesThem(t *testing.T) {
	hold := make(chan struct{})
	got := &collected{t: t, next: map[uint32]uint32{}, hold: hold}
	c, err := New(minChunks*smallestChunk, got)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	const total = 5000
	for i := range uint32(total) {
		if put(c, 1, i) {
			taken++
		}
	}
	if d := c.Dropped(); d == 0 || int(d)+taken != total {
		t.Errorf("%d taken and %d dropped of %d", taken, d, total)
	}
	if s := c.Reserve(c.Largest() + 8); s.OK() {
		t.Error("a record larger than a quarter of a chunk was taken")
	}
	close(hold)
	c.Close()
	if got.n != taken {
		t.Errorf("%d records came, %d were taken", got.n, taken)
	}
}

func TestRecordThatIsBeingWrittenHoldsBackNewerOnes(t *testing.T) {
	got := &collected{t: t, next: map[uint32]uint32{}}
	c, err := New(1<<20, got)
	if err != nil {
		t.Fatal(err)
	}
	c.looking.Lock()
	c.lateness = time.Hour
	c.looking.Unlock()
	s := c.Reserve(8)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range uint32(100) {
			put(c, 2, i)
		}
		for after := got.pauses.Load() + 2; got.pauses.Load() < after; {
			runtime.Gosched()
		}
	}()
	<-done
	c.looking.Lock()
	if got.n != 0 {
		t.Errorf("%d records came before an older one that was being written", got.n)
	}
	c.looking.Unlock()
	binary.LittleEndian.PutUint64(s.Payload, 1)
	s.Publish()
	c.Close()
	if got.n != 101 || got.backward != 0 {
		t.Errorf("%d records came, %d of them after newer ones; want 101 in order", got.n, got.backward)
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
		s := c.Reserve(8)
		if n := s.Serial(); seen[n] {
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
	if n := testing.AllocsPerRun(1000, func() { put(c, 1, i); i++ }); n != 0 {
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
		if s := c.Reserve(64); s.OK() {
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

// shares notes how far the looks say that they have come.
type shares struct {
	t       *testing.T
	c       *Collector
	last    float64 // of this look
	records int
}

func (s *shares) Begin(int64) { s.last = 0 }
func (s *shares) Pause()      {}

func (s *shares) Consume(int64, []byte) {
	now := s.c.Share()
	if now <= s.last || now > 1 {
		s.t.Errorf("record %d: share %v after %v", s.records, now, s.last)
	}
	s.last = now
	s.records++
}

// TestShareGrowsToAll goes over the ends of chunks, where a part is left unused.
func TestShareGrowsToAll(t *testing.T) {
	s := &shares{t: t}
	c, err := New(1, s)
	if err != nil {
		t.Fatal(err)
	}
	s.c = c
	records := 0
	for i := range uint32(2000) {
		for !put(c, 1, i) {
			runtime.Gosched()
		}
		records++
	}
	c.Close()
	if s.records != records || s.last != 0 && s.last != 1 {
		t.Errorf("%d records of %d, the last look ended with share %v", s.records, records, s.last)
	}
}
