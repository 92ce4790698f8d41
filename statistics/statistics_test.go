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

	"github.com/flatrock-db/flatrock/internal/perf"
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
			gets := s.NewGets()
			defer s.FreeGets(gets)
			for i := range 1000 {
				s.Add(uint32(g), BytesWritten, 3)
				s.Record(uint32(g), BytesPerWrite, uint64(i))
				gets.End(gets.Start(), []int{Memory, 0, 1, 5, Nowhere}[i%5], 10*(i%5&1), &perf.Tally{})
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
	gets, tally := s.NewGets(), perf.Tally{}
	for b.Loop() {
		gets.End(gets.Start(), Memory, 100, &tally)
	}
}

func BenchmarkGetParallel(b *testing.B) {
	s := New()
	b.RunParallel(func(pb *testing.PB) {
		gets, tally := s.NewGets(), perf.Tally{}
		for pb.Next() {
			gets.End(gets.Start(), Memory, 100, &tally)
		}
	})
}

// TestPointReadsCountAllTheirTickers: reads of every shape add up to what counting each ticker by
// itself would give, beside others who add up, and after Reset only what came since.
func TestPointReadsCountAllTheirTickers(t *testing.T) {
	s := New()
	want := map[Ticker]uint64{}
	n, found := uint64(0), uint64(0)
	gets := s.NewGets()
	for range 3 {
		gets.End(gets.Start(), Memory, 7, &perf.Tally{CachedBytes: 9})
	}
	s.Reset()
	for _, level := range []int{Memory, 0, 1, 2, 6, Nowhere} {
		for positive := range uint32(4) {
			for useful := range uint32(12) {
				for trues := range uint32(3) {
					for _, size := range []int{0, 100, 1 << 33} {
						cached := uint64(size) * uint64(positive)
						gets.End(gets.Start(), level, size, &perf.Tally{CachedBytes: cached, FilterPositive: positive, FilterUseful: useful, FilterTrue: trues, PrefixChecked: trues, PrefixUseful: trues / 2})
						n++
						want[BytesRead] += uint64(size)
						want[BlockCacheBytesRead] += cached
						want[BloomFilterFullPositive] += uint64(positive)
						want[BloomFilterFullTruePositive] += uint64(trues)
						want[BloomFilterUseful] += uint64(useful)
						want[BloomFilterPrefixChecked] += uint64(trues)
						want[BloomFilterPrefixUseful] += uint64(trues / 2)
						if level != Nowhere {
							found++
						}
					}
				}
			}
		}
	}
	var wg sync.WaitGroup
	const each, many = 5000, 4
	for range many {
		wg.Go(func() {
			own := s.NewGets()
			defer s.FreeGets(own)
			for i := range each {
				own.End(own.Start(), Memory, 1000, &perf.Tally{CachedBytes: 999})
				if i%1000 == 0 && s.Ticker(BytesRead) < want[BytesRead] {
					t.Error("a sum goes back")
				}
			}
		})
	}
	wg.Wait()
	want[BytesRead] += many * each * 1000
	want[BlockCacheBytesRead] += many * each * 999
	n, found = n+many*each, found+many*each
	want[NumberKeysRead] = n
	for ticker, w := range want {
		if got := s.Ticker(ticker); got != w {
			t.Errorf("%s: %d, want %d", ticker, got, w)
		}
	}
	if g, f := s.gets(); g != n || f != found {
		t.Errorf("%d reads, %d found, want %d and %d", g, f, n, found)
	}
	if len(s.readers) > 1+many || len(s.idle) != len(s.readers)-1 {
		t.Errorf("%d readers, %d idle: those given back are not used again", len(s.readers), len(s.idle))
	}
}
