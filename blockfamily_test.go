package flatrock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestBlockOptionsComeBack: every option of a block-based family that RocksDB
// stores is in the OPTIONS file, and comes back from there.
func TestBlockOptionsComeBack(t *testing.T) {
	table := BlockBasedTableOptions{
		BlockSize: 8000, BlockSizeDeviation: 7, BlockRestartInterval: 5, IndexBlockRestartInterval: 3, MetadataBlockSize: 2000,
		FormatVersion: 4, IndexType: TwoLevelIndexSearch, IndexShortening: ShortenSeparatorsAndSuccessor, PartitionFilters: true,
		DataBlockIndexType: DataBlockBinaryAndHash, DataBlockHashTableUtilRatio: 0.5, Checksum: XXHash64, FilterPolicy: RibbonFilter(9.5),
		WholeKeyFiltering: Off, EnableIndexCompression: Off, OptimizeFiltersForMemory: true, UseDeltaEncoding: On,
		NoBlockCache: true, CacheIndexAndFilterBlocks: true, PinL0FilterAndIndexBlocksInCache: true,
		InitialAutoReadaheadSize: 16 << 10, MaxAutoReadaheadSize: 1 << 20, NumFileReadsForAutoReadahead: ReadaheadAtOnce,
	}
	v := reflect.ValueOf(table)
	for i := range v.NumField() {
		if f := v.Type().Field(i); v.Field(i).IsZero() && f.Name != "BlockAlign" { // it excludes compression
			t.Errorf("the test leaves out %s", f.Name)
		}
	}
	dict := CompressionOptions{WindowBits: -15, Level: 7, Strategy: 1, MaxDictBytes: 1 << 14, ZstdMaxTrainBytes: 1 << 20, ParallelThreads: 3, MaxDictBufferBytes: 1 << 25}
	bottom := DefaultCompressionOptions()
	bottom.MaxDictBytes = 5000
	given := &ColumnFamilyOptions{
		PrefixExtractor: FixedPrefix(3), Table: table,
		Compression: SnappyCompression, CompressionPerLevel: []Compression{NoCompression, LZ4Compression, ZSTDCompression}, BottommostCompression: ZlibCompression,
		CompressionOptions: dict, BottommostCompressionOptions: &bottom,
	}
	fsys := mmapfs.NewMem()
	db := mustOpen(t, fsys, &Options{CreateIfMissing: true, ColumnFamily: given})
	db.Close()
	db = mustOpen(t, fsys, &Options{})
	got := db.DefaultColumnFamily().Options()
	want := given.withDefaults()
	gt := got.Table.(BlockBasedTableOptions)
	gt.UseDeltaEncoding = On // RocksDB 7.8 has no such name
	if gt != table {
		t.Errorf("\n got %+v\nwant %+v", gt, table)
	}
	if got.Compression != want.Compression || !reflect.DeepEqual(got.CompressionPerLevel, want.CompressionPerLevel) || got.BottommostCompression != want.BottommostCompression {
		t.Errorf("compression: %v %v %v", got.Compression, got.CompressionPerLevel, got.BottommostCompression)
	}
	if got.CompressionOptions != dict || got.BottommostCompressionOptions == nil || *got.BottommostCompressionOptions != bottom {
		t.Errorf("compression options: %+v %+v", got.CompressionOptions, got.BottommostCompressionOptions)
	}
	if c := db.Metrics().BlockCache; c.Capacity != 0 {
		t.Errorf("a family without block cache has one: %+v", c)
	}
}

// fillBlocks writes n keys of two versions into levels 0 and deeper, and some into memory.
func fillBlocks(t *testing.T, db *DB, n int) (model map[string]string) {
	t.Helper()
	model = map[string]string{}
	put := func(i, round int) {
		k, v := fmt.Sprintf("key%06d", i), fmt.Sprintf("value %d of round %d, %s", i, round, strings.Repeat("x", i%50))
		model[k] = v
		if err := db.Put(nil, []byte(k), []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	for round, every := range []int{1, 3, 20} {
		for i := 0; i < n; i += every {
			put(i, round)
		}
		var err error
		switch round {
		case 0:
			err = db.CompactRange(context.Background(), nil, nil, nil)
		case 1:
			err = db.Flush(context.Background(), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return model
}

// TestBlockReadModes: reads give the same through the block cache, without it,
// through a mapping, and around the page cache; and in a directory in memory as elsewhere, where the
// system has one.
func TestBlockReadModes(t *testing.T) {
	const n = 3000
	for name, o := range map[string]*Options{
		"cached":             {},
		"no cache":           {ColumnFamily: &ColumnFamilyOptions{Table: BlockBasedTableOptions{NoBlockCache: true}}},
		"mapped":             {AllowMmapReads: true, ColumnFamily: &ColumnFamilyOptions{Compression: NoCompression, Table: BlockBasedTableOptions{FilterPolicy: BloomFilter(10)}}},
		"mapped, compressed": {AllowMmapReads: true},
		"mapped, partitioned": {AllowMmapReads: true, ColumnFamily: &ColumnFamilyOptions{Compression: NoCompression,
			Table: BlockBasedTableOptions{IndexType: TwoLevelIndexSearch, PartitionFilters: true, FilterPolicy: BloomFilter(10), MetadataBlockSize: 300, NoBlockCache: true}}},
		"memory":               {},
		"memory, no cache":     {ColumnFamily: &ColumnFamilyOptions{Compression: NoCompression, Table: BlockBasedTableOptions{NoBlockCache: true}}},
		"memory, system calls": {MapMemoryFiles: Off},
		"direct":               {UseDirectReads: true},
		"direct, small cache":  {UseDirectReads: true, BlockCacheSize: 1 << 20, ColumnFamily: &ColumnFamilyOptions{Compression: NoCompression}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cf := ColumnFamilyOptions{}
			if o.ColumnFamily != nil {
				cf = *o.ColumnFamily
			}
			cf.TargetFileSizeBase, cf.DisableAutoCompactions = 40<<10, true
			o.ColumnFamily, o.CreateIfMissing = &cf, true
			dir := t.TempDir()
			if strings.HasPrefix(name, "memory") {
				if shm, err := os.MkdirTemp("/dev/shm", "flatrock-test"); err == nil {
					t.Cleanup(func() { os.RemoveAll(shm) })
					dir = shm
				}
			}
			db, err := Open(dir, o)
			if o.UseDirectReads && errors.Is(err, ErrNotSupported) {
				t.Logf("no direct reads here: %v", err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			model := fillBlocks(t, db, n)
			if got := db.defaultCF.state.Load().files.faultable; got != o.AllowMmapReads {
				t.Errorf("reads run under the guard: %v", got)
			}
			var ks [][]byte
			for i := range n + 10 {
				ks = append(ks, fmt.Appendf(nil, "key%06d", i))
			}
			results, err := db.MultiGet(nil, ks, nil)
			if err != nil {
				t.Fatal(err)
			}
			var p PinnedValue
			for i, k := range ks {
				want, ok := model[string(k)]
				v, err := db.Get(nil, k, nil)
				perr := db.GetPinned(nil, k, &p)
				if !ok {
					if !errors.Is(err, ErrNotFound) || !errors.Is(perr, ErrNotFound) || !errors.Is(results[i].Err, ErrNotFound) {
						t.Fatalf("%s: %v, %v, %v", k, err, perr, results[i].Err)
					}
					continue
				}
				if err := errors.Join(err, perr, results[i].Err); err != nil || string(v) != want || string(p.Value()) != want || string(results[i].Value) != want {
					t.Fatalf("%s: %q %q %q, %v", k, v, p.Value(), results[i].Value, err)
				}
			}
			p.Release()
			for _, ro := range []*ReadOptions{nil, {ReadaheadSize: 64 << 10}, {FillCache: Off, VerifyChecksums: Off}} {
				it, err := db.NewIterator(ro)
				if err != nil {
					t.Fatal(err)
				}
				i := 0
				for k, v := range it.All() {
					if string(k) != string(ks[i]) || string(v) != model[string(k)] {
						t.Fatalf("iterator: %q=%q at %d", k, v, i)
					}
					i++
				}
				for ok := it.Last(); ok; ok = it.Prev() {
					if i--; string(it.Key()) != string(ks[i]) {
						t.Fatalf("iterator, backward: %q at %d", it.Key(), i)
					}
				}
				if err := it.Close(); err != nil || i != 0 {
					t.Fatalf("iterator: %d left, %v", i, err)
				}
			}
			if err := db.VerifyChecksum(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := db.CompactRange(context.Background(), &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
				t.Fatal(err)
			}
			if v, err := db.Get(nil, ks[7], nil); err != nil || string(v) != model[string(ks[7])] {
				t.Fatalf("after the compaction: %q, %v", v, err)
			}
		})
	}
}

// TestReadModesThatCannotBe are refused by Open, not by the first flush.
func TestReadModesThatCannotBe(t *testing.T) {
	_, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, UseDirectReads: true})
	wantErr(t, "direct reads in memory", err, ErrNotSupported, "UseDirectReads")
	_, err = Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, UseDirectReads: true, AllowMmapReads: true})
	wantErr(t, "direct and mapped", err, ErrInvalidArgument, "AllowMmapReads")
}

// TestReadOptionsOfBlocks: FillCache Off leaves the cache as it is, VerifyChecksums
// Off trusts what storage gives; both for every kind of read.
func TestReadOptionsOfBlocks(t *testing.T) {
	dir := t.TempDir()
	o := &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{Compression: NoCompression, DisableAutoCompactions: true}}
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	value := []byte("a value that storage will change")
	if err := db.Put(nil, []byte("k"), value); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatal(tables, err)
	}
	b, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, value)
	b[at] = 'A'
	if err := os.WriteFile(tables[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	reads := map[string]func(*ReadOptions) ([]byte, error){
		"Get": func(ro *ReadOptions) ([]byte, error) { return db.Get(ro, []byte("k"), nil) },
		"GetPinned": func(ro *ReadOptions) ([]byte, error) {
			var p PinnedValue
			defer p.Release()
			err := db.GetPinned(ro, []byte("k"), &p)
			return bytes.Clone(p.Value()), err
		},
		"MultiGet": func(ro *ReadOptions) ([]byte, error) {
			r, err := db.MultiGet(ro, [][]byte{[]byte("k")}, nil)
			if err != nil {
				return nil, err
			}
			return r[0].Value, r[0].Err
		},
		"Iterator": func(ro *ReadOptions) ([]byte, error) {
			it, err := db.NewIterator(ro)
			if err != nil {
				return nil, err
			}
			var v []byte
			if it.First() {
				v = bytes.Clone(it.Value())
			}
			return v, it.Close()
		},
	}
	for name, read := range reads {
		before := db.Metrics().BlockCache
		if _, err := read(nil); !errors.Is(err, ErrCorruption) || !strings.Contains(err.Error(), filepath.Base(tables[0])) {
			t.Errorf("%s: %v, want corruption of %s", name, err, filepath.Base(tables[0]))
		}
		v, err := read(&ReadOptions{VerifyChecksums: Off, FillCache: Off})
		if err != nil || string(v) != "A"+string(value[1:]) {
			t.Errorf("%s without checksums: %q, %v", name, v, err)
		}
		after := db.Metrics().BlockCache
		if after.Inserts != before.Inserts {
			t.Errorf("%s: FillCache Off put %d blocks in the cache", name, after.Inserts-before.Inserts)
		}
	}
	if _, err := reads["Get"](&ReadOptions{VerifyChecksums: Off}); err != nil {
		t.Fatal(err)
	}
	m := db.Metrics().BlockCache
	if m.Inserts != 1 || m.Blocks != 1 || m.Usage == 0 || m.PinnedUsage != 0 || m.Misses["data"] < 8 || m.Hits["data"] != 0 || m.Capacity != 32<<20 {
		t.Errorf("%+v", m)
	}
	if _, err := reads["Get"](nil); err != nil { // the cache is trusted
		t.Fatal(err)
	}
	if m = db.Metrics().BlockCache; m.Hits["data"] != 1 {
		t.Errorf("%+v", m)
	}
}

// TestIteratorBoundsSaveReads: an iterator between bounds gives what one without
// them gives there, in any mix of moves, and reads little beyond.
func TestIteratorBoundsSaveReads(t *testing.T) {
	for name, table := range map[string]BlockBasedTableOptions{
		"binary":      {NoBlockCache: true, BlockSize: 512},
		"partitioned": {NoBlockCache: true, BlockSize: 512, IndexType: TwoLevelIndexSearch, MetadataBlockSize: 256},
		"first key":   {NoBlockCache: true, BlockSize: 512, IndexType: BinarySearchWithFirstKey, FormatVersion: 2},
	} {
		t.Run(name, func(t *testing.T) {
			fault := mmapfs.NewFault(mmapfs.NewMem())
			const n = 4000
			db := mustOpen(t, fault, &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
				Table: table, TargetFileSizeBase: 64 << 10, DisableAutoCompactions: true, Compression: NoCompression,
			}})
			model := fillBlocks(t, db, n)
			key := func(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }
			rng := rand.New(rand.NewPCG(3, 4))
			for round := range 300 {
				lo := rng.IntN(n)
				hi := min(n+5, lo+rng.IntN(60))
				ro := &ReadOptions{LowerBound: key(lo), UpperBound: key(hi)}
				if round%5 == 0 {
					ro.ReadaheadSize = 1 << 20
				}
				it, err := db.NewIterator(ro)
				if err != nil {
					t.Fatal(err)
				}
				check := func(move string, ok bool, want int) {
					t.Helper()
					if inside := want >= lo && want < min(hi, n); ok != inside || ok && (!bytes.Equal(it.Key(), key(want)) || string(it.Value()) != model[string(key(want))]) {
						t.Fatalf("bounds %d to %d: %s: %v, want key %d; err %v", lo, hi, move, ok, want, it.Err())
					}
				}
				at := lo
				check("First", it.First(), at)
				for range 100 {
					switch m := rng.IntN(10); {
					case m == 0:
						at = max(lo, rng.IntN(n+5))
						check("SeekGE", it.SeekGE(key(at)), at)
					case m == 1:
						at = min(hi, n, rng.IntN(n)+1) - 1
						check("SeekLT", it.SeekLT(key(at+1)), at)
					case m == 2:
						at = min(hi, n) - 1
						check("Last", it.Last(), at)
					case it.Valid() && m < 7:
						at++
						check("Next", it.Next(), at)
					case it.Valid():
						at--
						check("Prev", it.Prev(), at)
					}
				}
				if err := it.Close(); err != nil {
					t.Fatal(err)
				}
			}

			// A walk over ten keys reads a few blocks of each run, forward and backward.
			reads := func(ro *ReadOptions, backward bool) int64 {
				before := fault.Count(mmapfs.OpRead)
				it, err := db.NewIterator(ro)
				if err != nil {
					t.Fatal(err)
				}
				defer it.Close()
				seen := 0
				if backward {
					for ok := it.SeekLT(key(1010)); ok && seen < 500; ok = it.Prev() {
						seen++
					}
				} else {
					for ok := it.SeekGE(key(1000)); ok && seen < 500; ok = it.Next() {
						seen++
					}
				}
				return fault.Count(mmapfs.OpRead) - before
			}
			for _, backward := range []bool{false, true} {
				bounded := reads(&ReadOptions{LowerBound: key(1000), UpperBound: key(1010)}, backward)
				free := reads(nil, backward)
				if bounded > 16 || free < 2*bounded {
					t.Errorf("backward=%v: %d reads between bounds, %d without", backward, bounded, free)
				}
			}
		})
	}
}

// TestChargesToTheBlockCache: memtables and readers take from the cache's capacity
// as long as they live.
func TestChargesToTheBlockCache(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{
		CreateIfMissing: true, BlockCacheSize: 32 << 20, ChargeMemtables: true, ChargeTableReaders: true,
		ColumnFamily: &ColumnFamilyOptions{WriteBufferSize: 4 << 20, DisableAutoCompactions: true, Table: BlockBasedTableOptions{FilterPolicy: BloomFilter(10)}},
	})
	if c := db.Metrics().BlockCache; c.Charged != 4<<20 {
		t.Errorf("%d bytes charged for an empty database with one memtable of 4 MiB", c.Charged)
	}
	fillBlocks(t, db, 2000)
	readers := db.Metrics().Families[DefaultColumnFamilyName].TableMemory
	if c := db.Metrics().BlockCache; readers == 0 || c.Charged != 4<<20+readers {
		t.Errorf("%d bytes charged for one memtable of 4 MiB and readers of %d", c.Charged, readers)
	}
	cache := db.cache
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if s := cache.Stats(); s.Charged != 0 {
		t.Errorf("%d bytes are still charged after Close", s.Charged)
	}
}
