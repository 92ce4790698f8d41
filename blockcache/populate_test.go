package blockcache

import (
	"runtime"
	"testing"
)

// A shard that fills makes the memory of its next pages exist before they are opened, and never more than it may have.
func TestMemoryIsMadeToExistAhead(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for _, c := range []struct {
		capacity int64
		ahead    bool
	}{{32 << 20, true}, {8 << 20, false}} {
		cache, err := New(Options{Capacity: c.capacity, Shards: 1, HugePages: true})
		if err != nil {
			t.Fatal(err)
		}
		s := cache.shards[0]
		for i := range uint64(c.capacity / 2048) { // more than fit
			k := Key{File: 1, Offset: i}
			h, b := cache.Reserve(k, 4000, Data, Low)
			if h == 0 {
				t.Fatalf("no room for block %d", i)
			}
			b[0], b[3999] = 1, 2
			h, _ = cache.Publish(h, 4000)
			cache.Release(h)
			if end := int64(s.pageStart(s.opened)); s.populated > 0 && (s.populated > s.capacity || s.populated > end+2*aheadStep) {
				t.Fatalf("memory exists up to %d, pages end at %d of %d", s.populated, end, s.capacity)
			}
		}
		if want := s.capacity - 2*aheadStep; c.ahead && s.populated < want || !c.ahead && s.populated != 0 {
			t.Errorf("capacity %d: memory exists up to %d", c.capacity, s.populated)
		}
		cache.Close()
	}
}
