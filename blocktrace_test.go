package flatrock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/internal/tracefile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// traceOf reads a block cache trace.
func traceOf(t *testing.T, file []byte) (all []tracefile.BlockAccess) {
	t.Helper()
	r, err := tracefile.NewBlockReader(bytes.NewReader(file), "trace")
	if err != nil {
		t.Fatal(err)
	}
	for {
		var a tracefile.BlockAccess
		switch err := r.Read(&a); {
		case err == io.EOF:
			return all
		case err != nil:
			t.Fatal(err)
		}
		a.BlockKey, a.Name, a.ReferencedKey = bytes.Clone(a.BlockKey), bytes.Clone(a.Name), bytes.Clone(a.ReferencedKey)
		all = append(all, a)
	}
}

func mustTrace(t *testing.T, db *DB, o *BlockCacheTraceOptions, w io.Writer) {
	t.Helper()
	if err := db.StartBlockCacheTrace(o, w); err != nil {
		t.Fatal(err)
	}
}

func mustEndTrace(t *testing.T, db *DB) TraceSummary {
	t.Helper()
	s, err := db.EndBlockCacheTrace()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBlockCacheTraceTellsEveryAccess: the trace has exactly the hits and misses
// that the cache counts, from every caller, with what belongs to each.
func TestBlockCacheTraceTellsEveryAccess(t *testing.T) {
	for name, o := range map[string]BlockBasedTableOptions{
		"held":        {FilterPolicy: BloomFilter(10)},
		"cached":      {FilterPolicy: BloomFilter(10), CacheIndexAndFilterBlocks: true},
		"partitioned": {FilterPolicy: BloomFilter(10), IndexType: TwoLevelIndexSearch, PartitionFilters: true, MetadataBlockSize: 512},
	} {
		t.Run(name, func(t *testing.T) {
			db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{Table: o, DisableAutoCompactions: true}})
			other, err := db.CreateColumnFamily("other", &ColumnFamilyOptions{Table: o})
			if err != nil {
				t.Fatal(err)
			}
			var file bytes.Buffer
			before := db.Metrics().BlockCache
			mustTrace(t, db, nil, &file)
			if err := db.StartBlockCacheTrace(nil, io.Discard); !errors.Is(err, ErrBusy) {
				t.Errorf("a second trace: %v", err)
			}
			model := fillBlocks(t, db, 1000)
			if err := other.Put(nil, []byte("k"), []byte("v")); err != nil {
				t.Fatal(err)
			}
			if err := other.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			mustGet(t, other, "k", "v")
			snap, err := db.NewSnapshot()
			if err != nil {
				t.Fatal(err)
			}
			defer snap.Release()
			gets := 0
			for i := range 300 {
				key := fmt.Sprintf("key%06d", i*3)
				gets++
				mustGet(t, db.DefaultColumnFamily(), key, model[key])
			}
			key := "key000001"
			if _, err := db.Get(&ReadOptions{Snapshot: snap, FillCache: Off}, []byte(key), nil); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Get(nil, []byte("key000001x"), nil); !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			if _, err := db.MultiGet(nil, [][]byte{[]byte("key000010"), []byte("key000500"), []byte("key000502")}, nil); err != nil {
				t.Fatal(err)
			}
			it, err := db.NewIterator(nil)
			if err != nil {
				t.Fatal(err)
			}
			for range it.All() {
			}
			it.Close()
			if err := db.VerifyChecksum(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := db.CompactRange(context.Background(), &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
				t.Fatal(err)
			}
			after := db.Metrics().BlockCache
			sum := mustEndTrace(t, db)
			mustGet(t, other, "k", "v") // not in it
			all := traceOf(t, file.Bytes())
			if int(sum.Records) != len(all) || sum.Dropped != 0 || int(sum.Bytes) != file.Len() || sum.Full {
				t.Errorf("%+v, and %d accesses in %d bytes", sum, len(all), file.Len())
			}

			got := map[string]uint64{}
			callers := map[table.Caller]int{}
			ids := map[uint64]string{}
			last := uint64(0)
			for _, a := range all {
				kind := map[tracefile.Type]string{tracefile.DataBlock: "data", tracefile.IndexBlock: "index", tracefile.FilterBlock: "filter"}[a.Type]
				got[fmt.Sprint(kind, a.Hit)]++
				callers[a.Caller]++
				if a.Micros < last {
					t.Fatalf("an access at %d after one at %d", a.Micros, last)
				}
				last = a.Micros
				family := map[uint64]string{0: DefaultColumnFamilyName, 1: "other"}[a.Family]
				if string(a.Name) != family || a.Level > 6 || a.File == 0 || a.Size == 0 {
					t.Fatalf("%+v", a)
				}
				if !a.Caller.PointRead() {
					continue
				}
				user, _, ok := keys.Split(a.ReferencedKey)
				if !ok || a.GetID == 0 {
					t.Fatalf("a point read without key or number: %+v", a)
				}
				if a.Caller == table.CallerGet {
					if k, ok := ids[a.GetID]; ok && k != string(user) {
						t.Fatalf("Get %d asked for %q and %q", a.GetID, k, user)
					}
				}
				ids[a.GetID] = string(user)
				if value, there := model[string(user)], a.KeyExists; a.Type == tracefile.DataBlock && there {
					if a.Level == 6 || value == "" || a.KeyCount == 0 {
						continue // older versions
					}
					if a.DataSize != uint64(len(user)+8+len(value)) && a.Level == 0 {
						t.Fatalf("data of %d bytes for %q: %+v", a.DataSize, value, a)
					}
				}
			}
			for kind := range map[string]bool{"data": true, "index": true, "filter": true} {
				for hit, counts := range map[bool][2]uint64{true: {after.Hits[kind], before.Hits[kind]}, false: {after.Misses[kind], before.Misses[kind]}} {
					if want, got := counts[0]-counts[1], got[fmt.Sprint(kind, hit)]; got != want {
						t.Errorf("%s blocks, hit %v: %d in the trace, the cache counts %d", kind, hit, got, want)
					}
				}
			}
			want := []table.Caller{table.CallerGet, table.CallerMultiGet, table.CallerIterator, table.CallerCompaction}
			if o.CacheIndexAndFilterBlocks {
				want = append(want, table.CallerFlush, table.CallerCompactionRefill, table.CallerVerifyChecksum)
			}
			for _, c := range want {
				if callers[c] == 0 {
					t.Errorf("no access by %v: %v", c, callers)
				}
			}
			if callers[table.CallerUncategorized] != 0 {
				t.Errorf("%d accesses by nobody", callers[table.CallerUncategorized])
			}
			for i := uint64(1); i <= uint64(len(ids)); i++ {
				if ids[i] == "" {
					t.Fatalf("the numbers of %d Gets leave out %d", len(ids), i)
				}
			}
		})
	}
}

// TestSampledTraceKeepsWholeBlocks: of the same reads, a trace of one block in five has the
// accesses of the blocks that it has as the full trace has them.
func TestSampledTraceKeepsWholeBlocks(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, BlockCacheSize: 200 << 10,
		ColumnFamily: &ColumnFamilyOptions{Table: BlockBasedTableOptions{BlockSize: 512}}})
	fillBlocks(t, db, 5000)
	if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	history := func(every uint64) (map[string]string, uint64) {
		var file bytes.Buffer
		mustTrace(t, db, &BlockCacheTraceOptions{SamplingFrequency: every}, &file)
		for i := range 20000 {
			if _, err := db.Get(nil, fmt.Appendf(nil, "key%06d", i*7919%5000), nil); err != nil {
				t.Fatal(err)
			}
		}
		mustEndTrace(t, db)
		byBlock := map[string]string{}
		last := uint64(0)
		for _, a := range traceOf(t, file.Bytes()) {
			if every > 1 && a.GetID <= last {
				t.Fatalf("Get %d after %d", a.GetID, last)
			}
			last = a.GetID
			byBlock[string(a.BlockKey)] += fmt.Sprintf("%x ", a.ReferencedKey)
		}
		return byBlock, last
	}
	full, lastFull := history(1)
	some, last := history(5)
	if len(some) < len(full)/10 || len(some) > len(full)/3 {
		t.Errorf("%d of %d blocks are in a sample of one in five", len(some), len(full))
	}
	for block, h := range some {
		if full[block] != h {
			t.Errorf("block %x has another history in the sample", block)
		}
	}
	if lastFull != 20000 || last < 19000 || last > 20000 {
		t.Errorf("the last Get has number %d, and %d in the sample; want 20000 and about as many", lastFull, last)
	}
}

// gate is a writer that stands still between the first write and release.
type gate struct {
	writes  atomic.Int64
	open    chan struct{}
	release func()
	bytes.Buffer
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	g.release = sync.OnceFunc(func() { close(g.open) })
	return g
}

func (g *gate) Write(p []byte) (int, error) {
	if g.writes.Add(1) > 1 {
		<-g.open
	}
	return g.Buffer.Write(p)
}

// TestReadsDoNotWaitForATrace: a disk that stands still costs records, not time, and
// they are counted.
func TestReadsDoNotWaitForATrace(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{}})
	fillBlocks(t, db, 1000)
	g := newGate()
	t.Cleanup(g.release)
	mustTrace(t, db, &BlockCacheTraceOptions{BufferSize: 1 << 20}, g)
	accesses := uint64(0)
	for {
		if _, err := db.Get(nil, []byte("key000007"), nil); err != nil {
			t.Fatal(err)
		}
		if accesses++; accesses%1000 == 0 {
			if s, ok := db.BlockCacheTrace(); !ok {
				t.Fatal("no trace is being written")
			} else if s.Dropped > 1000 {
				break
			}
		}
	}
	g.release()
	sum := mustEndTrace(t, db)
	if n := len(traceOf(t, g.Bytes())); uint64(n) != sum.Records || sum.Records+sum.Dropped < accesses {
		t.Errorf("%d accesses in the file, %+v, of %d", n, sum, accesses)
	}
	if _, ok := db.BlockCacheTrace(); ok {
		t.Error("a trace is being written after its end")
	}
}

// limitedWriter fails after so many bytes.
type limitedWriter struct{ n int }

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.n -= len(p); w.n < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestTracesEndAtTheirSizeOrTheirWritersError(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{}})
	fillBlocks(t, db, 1000)
	read := func() {
		for i := range 1000 {
			if _, err := db.Get(nil, fmt.Appendf(nil, "key%06d", i), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	var file bytes.Buffer
	mustTrace(t, db, &BlockCacheTraceOptions{MaxTraceFileSize: 10000}, &file)
	read()
	if sum := mustEndTrace(t, db); !sum.Full || sum.Bytes > 10000 || sum.Bytes < 9000 || int(sum.Records) != len(traceOf(t, file.Bytes())) {
		t.Errorf("%+v with at most 10000 bytes, %d in the file", sum, file.Len())
	}
	mustTrace(t, db, nil, &limitedWriter{1000})
	read()
	if _, err := db.EndBlockCacheTrace(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a writer that failed: %v", err)
	}
	if err := db.StartBlockCacheTrace(nil, &limitedWriter{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a writer that fails at once: %v", err)
	}
	if err := db.StartBlockCacheTrace(nil, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("no writer: %v", err)
	}
	if _, err := db.EndBlockCacheTrace(); err != nil {
		t.Errorf("ending no trace: %v", err)
	}
	file.Reset()
	mustTrace(t, db, nil, &file)
	read()
	db.Close()
	if n := len(traceOf(t, file.Bytes())); n == 0 {
		t.Error("Close wrote nothing of the trace")
	}
	if err := db.StartBlockCacheTrace(nil, &file); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	none := mustOpen(t, mmapfs.NewMem(), nil)
	if err := none.StartBlockCacheTrace(nil, &file); !errors.Is(err, ErrNotSupported) {
		t.Errorf("without a block cache: %v", err)
	}
}

// TestTracingByManyReaders runs readers while traces begin and end; the race detector watches.
func TestTracingByManyReaders(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, BlockCacheSize: 100 << 10,
		ColumnFamily: &ColumnFamilyOptions{Table: BlockBasedTableOptions{BlockSize: 512, IndexType: TwoLevelIndexSearch, FilterPolicy: BloomFilter(10), PartitionFilters: true}}})
	fillBlocks(t, db, 2000)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			ks := [][]byte{[]byte("key000100"), []byte("key001000"), []byte("key001900")}
			for i := g; !stop.Load(); i++ {
				if _, err := db.Get(nil, fmt.Appendf(nil, "key%06d", i*31%2000), nil); err != nil {
					t.Error(err)
				}
				if _, err := db.MultiGet(nil, ks, nil); err != nil {
					t.Error(err)
				}
				if i%100 == 0 {
					it, err := db.NewIterator(nil)
					if err != nil {
						t.Error(err)
					}
					for range it.All() {
					}
					it.Close()
				}
			}
		})
	}
	for i := range 20 {
		var file bytes.Buffer
		mustTrace(t, db, &BlockCacheTraceOptions{SamplingFrequency: uint64(i % 3)}, &file)
		for range 200 {
			if _, err := db.Get(nil, []byte("key000502"), nil); err != nil {
				t.Fatal(err)
			}
		}
		if i == 10 {
			if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		sum := mustEndTrace(t, db)
		seen := map[uint64]bool{}
		for _, a := range traceOf(t, file.Bytes()) {
			seen[a.File] = true
		}
		if i%3 < 2 && (sum.Records+sum.Dropped < 200 || sum.Records == 0 || len(seen) == 0 || seen[0]) {
			t.Errorf("%+v, files %v", sum, maps.Collect(maps.All(seen)))
		}
	}
	stop.Store(true)
	wg.Wait()
}

func TestTracedReadsDoNotAllocate(t *testing.T) {
	for _, o := range []BlockBasedTableOptions{{}, {IndexType: TwoLevelIndexSearch, FilterPolicy: BloomFilter(10), PartitionFilters: true, MetadataBlockSize: 512}} {
		db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{Table: o}})
		fillBlocks(t, db, 1000)
		mustTrace(t, db, nil, io.Discard)
		buf := make([]byte, 0, 100)
		ks := [][]byte{[]byte("key000100"), []byte("key000300"), []byte("key000900")}
		var results []GetResult
		expectNoAllocs(t, "Get with a trace", func() {
			if _, err := db.Get(nil, ks[0], buf); err != nil {
				t.Fatal(err)
			}
		})
		expectNoAllocs(t, "MultiGet with a trace", func() {
			var err error
			if results, err = db.MultiGet(nil, ks, results); err != nil {
				t.Fatal(err)
			}
		})
		mustEndTrace(t, db)
	}
}

// TestTracesForgetFilesThatDidNotOpen: descriptions go with their files, also of those that were
// opened only to be checked, or in vain.
func TestTracesForgetFilesThatDidNotOpen(t *testing.T) {
	fs := mmapfs.NewMem()
	db := mustOpen(t, fs, &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{Table: BlockBasedTableOptions{}, DisableAutoCompactions: true, ParanoidFileChecks: true}})
	fillBlocks(t, db, 100)
	before := db.cache.Described()
	for range 3 {
		if err := db.Put(nil, []byte("key000001"), []byte("again")); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := db.cache.Described(); got != before+3 {
		t.Errorf("%d files are described, want %d", got, before+3)
	}
	db.mu.Lock()
	var meta manifest.FileMetadata
	for _, h := range db.defaultCF.tables {
		meta = *h.meta
	}
	db.mu.Unlock()
	meta.Size++
	if _, err := db.defaultCF.openTable(&meta, 0, table.CallerPrefetch); !errors.Is(err, ErrCorruption) {
		t.Fatalf("a file of the wrong size opened: %v", err)
	}
	if got := db.cache.Described(); got != before+3 {
		t.Errorf("%d files are described after one that did not open, want %d", got, before+3)
	}
}

// TestTracesNameIngestionAndSizes: who opened an ingested file, and who asked for the size of a range.
func TestTracesNameIngestionAndSizes(t *testing.T) {
	fs := mmapfs.NewMem()
	o := &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{DisableAutoCompactions: true, Table: BlockBasedTableOptions{
		BlockSize: 512, MetadataBlockSize: 512, IndexType: TwoLevelIndexSearch, CacheIndexAndFilterBlocks: true, FilterPolicy: BloomFilter(10)}}}
	db := mustOpen(t, fs, o)
	w, err := NewSstFileWriter("made.sst", &SstFileWriterOptions{FS: fs, ColumnFamily: o.ColumnFamily})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		if err := w.Put(fmt.Appendf(nil, "key%06d", i), []byte("a value")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	mustTrace(t, db, nil, &file)
	if err := db.IngestExternalFile(t.Context(), []string{"made.sst"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := db.GetApproximateSizes(nil, []KeyRange{{Start: []byte("key000100"), End: []byte("key002000")}}); err != nil {
		t.Fatal(err)
	}
	mustEndTrace(t, db)
	callers := map[table.Caller]int{}
	for _, a := range traceOf(t, file.Bytes()) {
		callers[a.Caller]++
	}
	for _, c := range []table.Caller{table.CallerExternalIngestion, table.CallerApproximateSize} {
		if callers[c] == 0 {
			t.Errorf("no access by %v: %v", c, callers)
		}
	}
	if callers[table.CallerUncategorized] != 0 {
		t.Errorf("accesses by nobody: %v", callers)
	}
}
