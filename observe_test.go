package flatrock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/statistics"
)

func TestStatisticsCountWhatHappens(t *testing.T) {
	for name, table := range map[string]TableFactory{"block": BlockBasedTableOptions{}, "plain": PlainTableOptions{HashTableRatio: TotalOrder}} {
		t.Run(name, func(t *testing.T) {
			st := statistics.New()
			db, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, Statistics: st,
				ColumnFamily: &ColumnFamilyOptions{Table: table, DisableAutoCompactions: true}})
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
			value := make([]byte, 100)
			for i := range 500 {
				if err := db.Put(&WriteOptions{Sync: i%100 == 0}, key(i), value); err != nil {
					t.Fatal(err)
				}
			}
			check := func(what string, want map[statistics.Ticker]uint64) {
				t.Helper()
				for ticker, n := range want {
					if got := st.Ticker(ticker); got != n {
						t.Errorf("%s: %s %d, want %d", what, ticker, got, n)
					}
				}
			}
			read := func(from, to int) {
				t.Helper()
				for i := from; i < to; i++ {
					if _, err := db.Get(nil, key(i), nil); err != nil && !errors.Is(err, ErrNotFound) {
						t.Fatal(err)
					}
				}
			}
			check("writes", map[statistics.Ticker]uint64{statistics.NumberKeysWritten: 500, statistics.WriteDoneBySelf: 500, statistics.WriteWithWAL: 500, statistics.WALFileSynced: 5})
			if st.Ticker(statistics.BytesWritten) < 500*108 || st.Ticker(statistics.WALFileBytes) < 500*108 {
				t.Errorf("%d bytes written, %d logged", st.Ticker(statistics.BytesWritten), st.Ticker(statistics.WALFileBytes))
			}
			if d := st.Histogram(statistics.DBWrite); d.Count != 500 {
				t.Errorf("%d writes timed or stood for", d.Count)
			}
			read(0, 600)
			check("reads of the memtable", map[statistics.Ticker]uint64{statistics.NumberKeysRead: 600, statistics.MemtableHit: 500, statistics.MemtableMiss: 100, statistics.BytesRead: 50000})
			if err := db.Flush(ctx, nil); err != nil {
				t.Fatal(err)
			}
			st.Reset()
			read(0, 100)
			check("reads of level 0", map[statistics.Ticker]uint64{statistics.NumberKeysRead: 100, statistics.MemtableMiss: 100, statistics.GetHitL0: 100})
			if err := db.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
				t.Fatal(err)
			}
			st.Reset()
			read(0, 100)
			check("reads below", map[statistics.Ticker]uint64{statistics.GetHitL2AndUp: 100, statistics.GetHitL0: 0})
			if name == "block" {
				if h, m := st.Ticker(statistics.BlockCacheHit), st.Ticker(statistics.BlockCacheMiss); h == 0 || m == 0 || st.Ticker(statistics.BlockCacheDataHit) > h || st.Ticker(statistics.BlockCacheDataAdd) != m {
					t.Errorf("block cache: %d hits, %d misses, %d adds", h, m, st.Ticker(statistics.BlockCacheDataAdd))
				}
			}
			st.Reset()
			var pinned PinnedValue
			for i := 450; i < 550; i++ {
				if err := db.GetPinned(nil, key(i), &pinned); err != nil && !errors.Is(err, ErrNotFound) {
					t.Fatal(err)
				}
			}
			pinned.Release()
			check("pinned reads", map[statistics.Ticker]uint64{statistics.NumberKeysRead: 100, statistics.GetHitL2AndUp: 50, statistics.BytesRead: 5000})
			var many [][]byte
			for i := 400; i < 600; i++ {
				many = append(many, key(i))
			}
			st.Reset()
			if _, err := db.MultiGet(nil, many, nil); err != nil {
				t.Fatal(err)
			}
			check("MultiGet", map[statistics.Ticker]uint64{statistics.NumberMultiGetCalls: 1, statistics.NumberMultiGetKeysRead: 200, statistics.NumberMultiGetKeysFound: 100,
				statistics.NumberMultiGetBytesRead: 10000, statistics.GetHitL2AndUp: 100, statistics.MemtableMiss: 200, statistics.NumberKeysRead: 0})
			it, err := db.NewIterator(nil)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for range it.All() {
				n++
			}
			it.SeekGE([]byte("z"))
			it.Last()
			it.Prev()
			if err := it.Close(); err != nil {
				t.Fatal(err)
			}
			check("iterator", map[statistics.Ticker]uint64{statistics.NumberDBSeek: 3, statistics.NumberDBSeekFound: 2, statistics.NumberDBNext: uint64(n),
				statistics.NumberDBNextFound: uint64(n - 1), statistics.NumberDBPrev: 1, statistics.NumberDBPrevFound: 1,
				statistics.IterBytesRead: uint64(n+2) * 108, statistics.NoIteratorCreated: 1, statistics.NoIteratorDeleted: 1})
			hits := st.Ticker(statistics.BlockCacheHit)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if st.Ticker(statistics.BlockCacheHit) < hits {
				t.Error("the counts of the block cache went with it")
			}
			if s := st.String(); !strings.Contains(s, "rocksdb.number.db.seek COUNT : 3\n") {
				t.Errorf("text:\n%s", s)
			}
		})
	}
}

func TestPerfContextOfReadsAndWrites(t *testing.T) {
	db := openDyn(t, mmapfs.NewMem(), &ColumnFamilyOptions{DisableAutoCompactions: true})
	defer db.Close()
	p := &PerfContext{Level: PerfEnableTime}
	for i := range 200 {
		if err := db.Put(&WriteOptions{Perf: p}, fmt.Appendf(nil, "key%05d", i), make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if p.WriteWALTime == 0 || p.WriteMemtableTime == 0 {
		t.Errorf("after writes: %s", p.NonZero())
	}
	p.Reset()
	ro := &ReadOptions{Perf: p}
	if _, err := db.Get(ro, []byte("key00007"), nil); err != nil {
		t.Fatal(err)
	}
	if p.GetFromMemtableCount != 1 || p.GetReadBytes != 100 || p.GetFromOutputFilesTime != 0 || p.GetFromMemtableTime == 0 {
		t.Errorf("a read of the memtable: %s", p.NonZero())
	}
	p.Level = PerfDisable
	p.Reset()
	if _, err := db.Get(ro, []byte("key00007"), nil); err != nil {
		t.Fatal(err)
	}
	if s := p.NonZero(); s != "" {
		t.Errorf("a disabled context counted: %s", s)
	}
	if s := p.String(); !strings.HasPrefix(s, "user_key_comparison_count = 0, block_cache_hit_count = 0, ") {
		t.Errorf("text %q", s)
	}
}

func TestBlocksAndFiltersAreCounted(t *testing.T) {
	st := statistics.New()
	db, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, Statistics: st, ColumnFamily: &ColumnFamilyOptions{
		DisableAutoCompactions: true, Table: BlockBasedTableOptions{FilterPolicy: BloomFilter(10)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 1000 {
		if err := db.Put(nil, fmt.Appendf(nil, "key%05d", i*2), make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	st.Reset()
	p := &PerfContext{Level: PerfEnableTime}
	ro := &ReadOptions{Perf: p}
	get := func(i int, want error) {
		t.Helper()
		p.Reset()
		if _, err := db.Get(ro, fmt.Appendf(nil, "key%05d", i), nil); !errors.Is(err, want) {
			t.Fatal(err)
		}
	}
	get(100, nil)
	if p.BlockReadCount != 1 || p.BlockReadByte < 100 || p.BlockReadTime == 0 || p.BlockCacheHitCount != 0 || p.BloomSSTHitCount != 1 || p.GetFromOutputFilesTime == 0 || p.IOStats.BytesRead != p.BlockReadByte {
		t.Errorf("the first read: %s%s", p.NonZero(), &p.IOStats)
	}
	get(100, nil)
	if p.BlockReadCount != 0 || p.BlockCacheHitCount != 1 {
		t.Errorf("the second read: %s", p.NonZero())
	}
	missed := 0
	for i := 1; i < 1000; i += 2 {
		get(i, ErrNotFound)
		missed += int(p.BloomSSTMissCount)
	}
	if missed < 450 {
		t.Errorf("the filter ruled out %d of 500", missed)
	}
	useful, positive, truly := st.Ticker(statistics.BloomFilterUseful), st.Ticker(statistics.BloomFilterFullPositive), st.Ticker(statistics.BloomFilterFullTruePositive)
	if int(useful) != missed || truly != 2 || useful+positive != 502 {
		t.Errorf("filter: useful %d, positive %d, truly %d", useful, positive, truly)
	}
	if st.Ticker(statistics.BlockCacheBytesRead) == 0 || st.Histogram(statistics.SSTReadMicros).Count == 0 {
		t.Error("bytes of the cache and reads of files are not counted")
	}
	var many [][]byte
	for i := range 50 {
		many = append(many, fmt.Appendf(nil, "key%05d", i*40))
	}
	p.Reset()
	if _, err := db.MultiGet(ro, many, nil); err != nil {
		t.Fatal(err)
	}
	if p.BlockReadCount+p.BlockCacheHitCount == 0 || p.MultiGetReadBytes != 5000 || p.BloomSSTHitCount != 50 {
		t.Errorf("MultiGet: %s", p.NonZero())
	}
	p.Reset()
	it, err := db.NewIterator(ro)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range it.All() {
		n++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if n != 1000 || p.BlockReadCount+p.BlockCacheHitCount < 20 || p.IterReadBytes != 108*1000 || p.SeekInternalSeekTime == 0 {
		t.Errorf("iterator over %d: %s", n, p.NonZero())
	}
}

// TestSkippedEntriesAreCounted: old versions and deletes that an iterator passes over, one by one and by a
// seek when they are many, are in the statistics and in the perf context.
func TestSkippedEntriesAreCounted(t *testing.T) {
	st := statistics.New()
	db, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, Statistics: st})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	put := func(key string, times int) {
		t.Helper()
		for range times {
			if err := db.Put(nil, []byte(key), []byte("v")); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("a", 4)
	put("b", 100)
	put("c", 1)
	if err := db.Delete(nil, []byte("c")); err != nil {
		t.Fatal(err)
	}
	put("d", 1)
	p := &PerfContext{}
	it, err := db.NewIterator(&ReadOptions{Perf: p})
	if err != nil {
		t.Fatal(err)
	}
	var seen string
	for it.First(); it.Valid(); it.Next() {
		seen += string(it.Key())
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if seen != "abd" {
		t.Fatalf("saw %q", seen)
	}
	// Three versions of a, a few of b before a seek takes over, the delete of c and what it hides.
	skips, reseeks := st.Ticker(statistics.NumberIterSkip), st.Ticker(statistics.NumberOfReseeksInIteration)
	if skips < 3+8+2 || skips > 3+15+2 || reseeks != 1 {
		t.Errorf("%d skips, %d seeks", skips, reseeks)
	}
	if p.InternalKeySkippedCount != skips || p.InternalDeleteSkippedCount != 1 {
		t.Errorf("the perf context: %s", p.NonZero())
	}
}
