package statistics

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for n := range numTickers {
		if name := n.String(); !strings.HasPrefix(name, "rocksdb.") || seen[name] {
			t.Errorf("ticker %d: name %q", n, name)
		}
		seen[n.String()] = true
		if got, ok := ParseTicker(n.String()); !ok || got != n {
			t.Errorf("%s parses as %v", n, got)
		}
	}
	for n := range numHistograms {
		if name := n.String(); !strings.HasPrefix(name, "rocksdb.") {
			t.Errorf("histogram %d: name %q", n, name)
		}
		if got, ok := ParseHistogram(n.String()); !ok || got != n {
			t.Errorf("%s parses as %v", n, got)
		}
	}
	if _, ok := ParseTicker("rocksdb.nothing"); ok || Ticker(9999).String() != "unknown" || Histogram(9999).String() != "unknown" {
		t.Error("unknown names")
	}
}

// TestStringIsRocksDBs compares the lines with what db_bench 7.8.3 printed, names and
// shape, in order.
func TestStringIsRocksDBs(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "rocksdb-7.8.3.txt"))
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`: [0-9.]+`)
	got := number.ReplaceAllString(New().String(), ": N")
	if w := number.ReplaceAllString(string(want), ": N"); got != w {
		g, l := strings.Split(got, "\n"), strings.Split(w, "\n")
		for i := range min(len(g), len(l)) {
			if g[i] != l[i] {
				t.Fatalf("line %d: %q, RocksDB has %q", i+1, g[i], l[i])
			}
		}
		t.Fatalf("%d lines, RocksDB has %d", len(g), len(l))
	}
}

func TestCountsAddUpOverStripes(t *testing.T) {
	s := New()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				s.Add(uint32(g), BytesWritten, 3)
				s.Record(uint32(g), BytesPerWrite, uint64(i))
				s.EndGet(uint32(g), s.StartGet(uint32(g)), []int{Memory, 0, 1, 5, Nowhere}[i%5], 10*(i%5&1))
			}
		})
	}
	wg.Wait()
	for ticker, want := range map[Ticker]uint64{BytesWritten: 24000, NumberKeysRead: 8000, MemtableHit: 1600, MemtableMiss: 6400,
		GetHitL0: 1600, GetHitL1: 1600, GetHitL2AndUp: 1600, BytesRead: 32000} {
		if got := s.Ticker(ticker); got != want {
			t.Errorf("%s: %d, want %d", ticker, got, want)
		}
	}
	if d := s.Histogram(BytesPerWrite); d.Count != 8000 || d.Sum != 8*499500 || d.Min != 0 || d.Max != 999 || math.Abs(d.Median-500) > 40 || math.Abs(d.Average-499.5) > 1 || math.Abs(d.Deviation-288.7) > 12 {
		t.Errorf("histogram %+v", d.Median)
	}
	if d := s.Histogram(DBGet); d.Count != 8000 {
		t.Errorf("%d reads were timed or stood for, want 8000", d.Count)
	}
	s.Reset()
	if n, d := s.Ticker(BytesWritten), s.Histogram(BytesPerWrite); n != 0 || d.Count != 0 {
		t.Errorf("after Reset: %d, %d", n, d.Count)
	}
}

func TestPercentilesAreWithinABucket(t *testing.T) {
	s := New()
	for v := uint64(1); v < 1e6; v = v*5/4 + 1 {
		s.Reset()
		s.Record(0, BytesPerRead, v)
		d := s.Histogram(BytesPerRead)
		if d.Median != float64(v) || d.P99 != float64(v) || d.Min != d.Max {
			t.Fatalf("one value %d: median %f, P99 %f", v, d.Median, d.P99)
		}
	}
	for i := range buckets - 1 {
		if b := bucketOf(uint64(bucketStart(i))); b != i {
			t.Fatalf("bucket %d starts in bucket %d", i, b)
		}
		if bucketStart(i+1) <= bucketStart(i) {
			t.Fatalf("bucket %d ends where it starts", i)
		}
	}
	if bucketOf(math.MaxUint64) != buckets-1 {
		t.Error("the largest value is not in the last bucket")
	}
}

func TestLevels(t *testing.T) {
	for level, want := range map[Level]string{
		DisableAll: "0 0 0", ExceptHistogramOrTimers: "1 0 0", ExceptTimers: "1 1 0", ExceptDetailedTimers: "1 1 1", All: "1 1 1",
	} {
		s := New()
		s.SetLevel(level)
		s.Add(0, BytesWritten, 1)
		s.Record(0, BytesPerWrite, 1)
		s.Time(0, FlushTime, time.Now())
		got := fmt.Sprint(s.Ticker(BytesWritten), s.Histogram(BytesPerWrite).Count, s.Histogram(FlushTime).Count)
		if got != want {
			t.Errorf("level %d: %s, want %s", level, got, want)
		}
	}
	s := New()
	s.SetLevel(All)
	for range 100 {
		s.End(3, DBSeek, s.Start(3, DBSeek))
	}
	if d := s.Histogram(DBSeek); d.total != 100 || d.Count != 100 {
		t.Errorf("at level All %d of 100 were timed", d.total)
	}
	s.Reset()
	s.SetLevel(ExceptDetailedTimers)
	for range 10 * SampleEvery {
		s.End(3, DBSeek, s.Start(3, DBSeek))
	}
	if d := s.Histogram(DBSeek); d.total != 10 || d.Count != 10*SampleEvery {
		t.Errorf("%d samples for %d, want 10 for %d", d.total, d.Count, 10*SampleEvery)
	}
}

func TestSources(t *testing.T) {
	s, n := New(), uint64(5)
	src := s.Attach(func(add func(Ticker, uint64)) { add(BlockCacheHit, n) })
	n += 7
	if got := s.Ticker(BlockCacheHit); got != 7 {
		t.Errorf("%d, want what came after Attach", got)
	}
	s.Reset()
	n += 2
	if got := s.Ticker(BlockCacheHit); got != 2 {
		t.Errorf("%d after Reset, want 2", got)
	}
	s.Detach(src)
	s.Detach(src)
	n += 100
	if got := s.Ticker(BlockCacheHit); got != 2 {
		t.Errorf("%d after Detach, want 2", got)
	}
}

func TestNilCountsNothing(t *testing.T) {
	var s *Statistics
	s.Add(0, BytesRead, 1)
	s.Record(0, BytesPerRead, 1)
	s.Time(0, DBGet, time.Now())
	s.End(0, DBGet, s.Start(0, DBGet))
	s.Detach(s.Attach(nil))
}

func BenchmarkGet(b *testing.B) {
	s := New()
	stripe := Stripe()
	for b.Loop() {
		s.EndGet(stripe, s.StartGet(stripe), Memory, 100)
	}
}

func BenchmarkGetParallel(b *testing.B) {
	s := New()
	b.RunParallel(func(pb *testing.PB) {
		stripe := Stripe()
		for pb.Next() {
			s.EndGet(stripe, s.StartGet(stripe), Memory, 100)
		}
	})
}
