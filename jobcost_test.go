package flatrock

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/numa"
	"github.com/flatrock-db/flatrock/statistics"
)

// TestCPUTimeOfJobs: compactions, also in parts, and flushes tell the CPU time they took, in
// rocksdb.cfstats and as a histogram beside that of their times.
func TestCPUTimeOfJobs(t *testing.T) {
	st := statistics.New()
	db, err := Open("db", &Options{CreateIfMissing: true, FS: mmapfs.NewMem(), Statistics: st, MaxSubcompactions: 2, ColumnFamily: &ColumnFamilyOptions{DisableAutoCompactions: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for round := range 3 {
		for i := range 3000 {
			if err := db.Put(nil, fmt.Appendf(nil, "key%06d", i*3+round), make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	times, cpu := st.Histogram(statistics.CompactionTime), st.Histogram(statistics.CompactionCPUTime)
	if times.Count == 0 || cpu.Count != times.Count {
		t.Errorf("%d CPU times of %d compactions", cpu.Count, times.Count)
	}
	stats, ok := db.GetMapProperty("rocksdb.cfstats")
	if !ok {
		t.Fatal("no rocksdb.cfstats")
	}
	for _, name := range []string{"compaction.L0.CompMergeCPU", "compaction.Sum.CompMergeCPU"} {
		seconds, err := strconv.ParseFloat(stats[name], 64)
		if err != nil || (seconds > 0) != (numa.ThreadCPUTime() > 0) {
			t.Errorf("%s: %q", name, stats[name])
		}
	}
}

// TestWaitsForTheMutexAreCounted at level All, and only there.
func TestWaitsForTheMutexAreCounted(t *testing.T) {
	fight := func(st *statistics.Statistics, enough func() bool) {
		m := &dbMutex{stats: st}
		held := 0
		for round := 0; !enough(); round++ {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 1000 {
						m.Lock()
						for range 100 {
							held++
						}
						m.Unlock()
					}
				})
			}
			wg.Wait()
			if want := (round + 1) * 4 * 1000 * 100; held != want {
				t.Fatalf("%d, want %d: two held the mutex at once", held, want)
			}
		}
	}
	st := statistics.New()
	st.SetLevel(statistics.All)
	fight(st, func() bool { return st.Ticker(statistics.DBMutexWaitMicros) > 0 })
	st = statistics.New()
	rounds := 0
	fight(st, func() bool { rounds++; return rounds > 3 })
	if n := st.Ticker(statistics.DBMutexWaitMicros); n != 0 {
		t.Errorf("%d µs at the default level", n)
	}
	fight(nil, func() bool { rounds++; return rounds > 8 })
}

// TestFiltersOfPlainTablesAreCounted, in statistics and in a PerfContext.
func TestFiltersOfPlainTablesAreCounted(t *testing.T) {
	st := statistics.New()
	db, err := Open("db", &Options{CreateIfMissing: true, FS: mmapfs.NewMem(), Statistics: st, ColumnFamily: &ColumnFamilyOptions{
		PrefixExtractor: FixedPrefix(8), Table: PlainTableOptions{BloomBitsPerKey: 10}}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const n = 1000
	key := func(i int) []byte { return fmt.Appendf(nil, "%08x%d", uint32(i)*2654435761, i%7) }
	for i := range n {
		if err := db.Put(nil, key(i), []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	perf := &PerfContext{Level: PerfEnableCount}
	ro := &ReadOptions{Perf: perf}
	found := 0
	for i := range 2 * n {
		if _, err := db.Get(ro, key(i), nil); err == nil {
			found++
		}
	}
	checked, useful := st.Ticker(statistics.BloomFilterPrefixChecked), st.Ticker(statistics.BloomFilterPrefixUseful)
	if found != n || checked < n || checked > 2*n || useful < n*9/10 || useful > checked-n {
		t.Errorf("%d found; %d filters were asked, %d spared a read", found, checked, useful)
	}
	if perf.BloomSSTHitCount != checked-useful || perf.BloomSSTMissCount != useful {
		t.Errorf("perf context: %d and %d, statistics: %d of %d", perf.BloomSSTHitCount, perf.BloomSSTMissCount, useful, checked)
	}
}
