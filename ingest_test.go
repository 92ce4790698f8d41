package flatrock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// ingestFamilies are families of both formats, and one in reverse order.
func ingestFamilies() map[string]*ColumnFamilyOptions {
	appendOp, err := ParseMergeOperator("stringappend")
	if err != nil {
		panic(err)
	}
	small := func(o ColumnFamilyOptions) *ColumnFamilyOptions {
		o.WriteBufferSize, o.TargetFileSizeBase, o.MaxBytesForLevelBase, o.MaxBytesForLevelMultiplier = 64<<10, 8<<10, 24<<10, 4
		o.MergeOperator = appendOp
		return &o
	}
	return map[string]*ColumnFamilyOptions{
		"default": small(ColumnFamilyOptions{Table: BlockBasedTableOptions{BlockSize: 256, FilterPolicy: BloomFilter(8)}}),
		"plain": small(ColumnFamilyOptions{
			PrefixExtractor: FixedPrefix(3), MemTable: MemTableOptions{Kind: HashSkipList, BucketCount: 64}, Table: PlainTableOptions{},
		}),
		"universal": small(ColumnFamilyOptions{CompactionStyle: CompactionStyleUniversal, Table: BlockBasedTableOptions{BlockSize: 300, FilterPolicy: BloomFilter(10)}}),
		"total":     small(ColumnFamilyOptions{Table: PlainTableOptions{HashTableRatio: TotalOrder, StoreIndexInFile: Off}}),
		"reverse":   small(ColumnFamilyOptions{Comparator: ReverseBytewise, Compression: ZSTDCompression, Table: BlockBasedTableOptions{IndexType: TwoLevelIndexSearch, MetadataBlockSize: 128, BlockSize: 200}}),
	}
}

func ingestOptions(fsys mmapfs.FS, families map[string]*ColumnFamilyOptions) *Options {
	o := &Options{FS: fsys, CreateIfMissing: true, CreateMissingColumnFamilies: true, BlockCacheSize: 1 << 20}
	for name, f := range families {
		o.ColumnFamilies = append(o.ColumnFamilies, ColumnFamilyDescriptor{name, f})
	}
	return o
}

// externalOf makes a file of sorted entries; a value of "-" is a delete.
func externalOf(t testing.TB, cf *ColumnFamily, path string, entries map[string]string, ranges ...[2]string) {
	t.Helper()
	w, err := NewSstFileWriter(path, &SstFileWriterOptions{Family: cf, FS: cf.db.fs})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ks := slices.SortedFunc(maps.Keys(entries), func(a, b string) int { return cf.order.Compare([]byte(a), []byte(b)) })
	for _, k := range ks {
		if v := entries[k]; v == "-" {
			err = w.Delete([]byte(k))
		} else {
			err = w.Put([]byte(k), []byte(v))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range ranges {
		if err := w.DeleteRange([]byte(r[0]), []byte(r[1])); err != nil {
			t.Fatal(err)
		}
	}
	about := w.FileSize()
	if info, err := w.Finish(); err != nil || about <= 0 || info.FileSize <= 0 {
		t.Fatalf("a file of about %d bytes: %+v, %v", about, info, err)
	}
}

// contents reads a family forward, backward and by Get.
func contents(cf *ColumnFamily, ro *ReadOptions) (map[string]string, error) {
	it, err := cf.NewIterator(ro)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	m, backward := map[string]string{}, 0
	for k, v := range it.All() {
		m[string(k)] = string(v)
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		if m[string(it.Key())] != string(it.Value()) {
			return nil, fmt.Errorf("backward, %q is %q; forward it was %q", it.Key(), it.Value(), m[string(it.Key())])
		}
		backward++
	}
	if err := it.Err(); err != nil || backward != len(m) {
		return nil, fmt.Errorf("%d keys forward, %d backward, %v", len(m), backward, err)
	}
	for k, v := range m {
		if got, err := cf.Get(ro, []byte(k), nil); err != nil || string(got) != v {
			return nil, fmt.Errorf("Get(%q) = %q, %v; the iterator has %q", k, got, err, v)
		}
	}
	return m, nil
}

func compareContents(t *testing.T, what string, cf *ColumnFamily, ro *ReadOptions, want map[string]string) {
	t.Helper()
	got, err := contents(cf, ro)
	if err != nil {
		t.Fatalf("%s, family %s: %v", what, cf.Name(), err)
	}
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("%s, family %s: key %q is %.40q, want %.40q", what, cf.Name(), k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s, family %s: %d keys, want %d", what, cf.Name(), len(got), len(want))
	}
}

// levelsOf is how many files each level has.
func levelsOf(cf *ColumnFamily) (n []int) {
	cf.db.mu.Lock()
	defer cf.db.mu.Unlock()
	for _, files := range cf.files.version.Levels {
		n = append(n, len(files))
	}
	return n
}

// TestIngestModel mixes ingestions with writes, snapshots, flushes, compactions and
// reopening, and compares with maps.
func TestIngestModel(t *testing.T) {
	seeds, steps := 8, 500
	if testing.Short() {
		seeds, steps = 2, 150
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			ingestModel(t, rand.New(rand.NewPCG(uint64(seed), 41)), steps)
		})
	}
}

func ingestModel(t *testing.T, rng *rand.Rand, steps int) {
	mem, families := mmapfs.NewMem(), ingestFamilies()
	db, err := Open("/db", ingestOptions(mem, families))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	now := model{}
	for name := range families {
		now[name] = map[string]string{}
	}
	names := slices.Sorted(maps.Keys(families))
	var snaps []*Snapshot
	var then []model
	check := func(what string) {
		t.Helper()
		for name := range families {
			compareContents(t, what, db.ColumnFamily(name), nil, now[name])
		}
		for i, s := range snaps {
			for name := range families {
				compareContents(t, what+", snapshot", db.ColumnFamily(name), &ReadOptions{Snapshot: s}, then[i][name])
			}
		}
	}
	key := func() string { return fmt.Sprintf("k%05d", rng.IntN(3000)) }
	for step := range steps {
		name := names[rng.IntN(len(names))]
		cf := db.ColumnFamily(name)
		switch n := rng.IntN(40); {
		case n < 14:
			k, v := key(), fmt.Sprintf("put %d", step)
			if err := cf.Put(nil, []byte(k), []byte(v)); err != nil {
				t.Fatal(err)
			}
			now[name][k] = v
		case n < 17:
			k := key()
			if err := cf.Delete(nil, []byte(k)); err != nil {
				t.Fatal(err)
			}
			delete(now[name], k)
		case n < 30:
			var args []IngestExternalFileArg
			for _, name := range names[rng.IntN(len(names)):] {
				cf := db.ColumnFamily(name)
				arg := IngestExternalFileArg{Family: cf, Options: &IngestExternalFileOptions{
					MoveFiles: rng.IntN(2) == 0, WriteGlobalSeqno: rng.IntN(3) == 0, VerifyChecksumsBeforeIngest: rng.IntN(2) == 0,
				}}
				for f := range 1 + rng.IntN(3) {
					path := fmt.Sprintf("/ext-%d-%s-%d.sst", step, name, f)
					entries := map[string]string{}
					from, spread := rng.IntN(3000), 1+rng.IntN(200)
					for range 1 + rng.IntN(60) {
						k := fmt.Sprintf("k%05d", from+rng.IntN(spread))
						entries[k] = fmt.Sprintf("file %d", step)
						if rng.IntN(5) == 0 {
							entries[k] = "-"
						}
					}
					var ranges [][2]string
					if _, block := cf.opts.Table.(BlockBasedTableOptions); block && rng.IntN(3) == 0 {
						a, b := fmt.Sprintf("k%05d", from), fmt.Sprintf("k%05d", from+rng.IntN(spread+50))
						if cf.order.Compare([]byte(a), []byte(b)) > 0 {
							a, b = b, a
						}
						if a != b {
							ranges = append(ranges, [2]string{a, b})
						}
					}
					externalOf(t, cf, path, entries, ranges...)
					arg.ExternalFiles = append(arg.ExternalFiles, path)
					for _, r := range ranges {
						for k := range now[name] {
							if cf.order.Compare([]byte(k), []byte(r[0])) >= 0 && cf.order.Compare([]byte(k), []byte(r[1])) < 0 {
								delete(now[name], k)
							}
						}
					}
					for k, v := range entries {
						if now[name][k] = v; v == "-" {
							delete(now[name], k)
						}
					}
				}
				args = append(args, arg)
			}
			if err := db.IngestExternalFiles(ctx, args); err != nil {
				t.Fatal(err)
			}
			for _, a := range args {
				for _, path := range a.ExternalFiles {
					if _, err := mem.Stat(path); (err == nil) == a.Options.MoveFiles {
						t.Fatalf("MoveFiles is %v, and Stat of the original: %v", a.Options.MoveFiles, err)
					}
					mem.Remove(path)
				}
			}
		case n < 33:
			s, err := db.NewSnapshot()
			if err != nil {
				t.Fatal(err)
			}
			snaps, then = append(snaps, s), append(then, now.clone())
			if len(snaps) > 3 {
				snaps[0].Release()
				snaps, then = snaps[1:], then[1:]
			}
		case n < 35:
			if err := cf.Flush(ctx, nil); err != nil {
				t.Fatal(err)
			}
		case n < 37:
			if err := cf.CompactRange(ctx, nil, nil, nil); err != nil {
				t.Fatal(err)
			}
		case n < 38:
			for _, s := range snaps {
				s.Release()
			}
			snaps, then = nil, nil
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if db, err = Open("/db", ingestOptions(mem, families)); err != nil {
				t.Fatal(err)
			}
			check("reopened")
		default:
			check(fmt.Sprintf("step %d", step))
		}
	}
	check("the end")
	for _, s := range snaps {
		s.Release()
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func dirNames(t *testing.T, fsys mmapfs.FS, dir string) []string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestIngestPlacement: a file goes as deep as it fits, takes a number only when it
// needs one, and flushes memtables that it overlaps.
func TestIngestPlacement(t *testing.T) {
	for _, format := range []string{"block", "plain"} {
		t.Run(format, func(t *testing.T) {
			cfo := &ColumnFamilyOptions{DisableAutoCompactions: true, LevelCompactionDynamicLevelBytes: Off, NumLevels: 4}
			if format == "plain" {
				cfo.Table = PlainTableOptions{HashTableRatio: TotalOrder}
			}
			db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: cfo})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			cf, ctx, files := db.DefaultColumnFamily(), context.Background(), 0
			ingest := func(o *IngestExternalFileOptions, ks ...string) error {
				t.Helper()
				files++
				path := fmt.Sprintf("/f%d.sst", files)
				entries := map[string]string{}
				for _, k := range ks {
					entries[k] = fmt.Sprint("file ", files)
				}
				externalOf(t, cf, path, entries)
				return db.IngestExternalFile(ctx, []string{path}, o)
			}
			want := func(seq uint64, levels ...int) {
				t.Helper()
				if got := levelsOf(cf); !slices.Equal(got, levels) || db.visibleSeq.Load() != seq {
					t.Fatalf("levels %v and sequence number %d, want %v and %d", got, db.visibleSeq.Load(), levels, seq)
				}
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(ingest(nil, "c", "m"))
			want(0, 0, 0, 0, 1)
			must(ingest(nil, "d", "e")) // a gap between keys of the file before, within its bounds
			want(0, 0, 0, 1, 1)
			must(ingest(nil, "x", "z"))
			want(0, 0, 0, 1, 2)
			must(ingest(nil, "d")) // over "d" in level 2
			want(1, 0, 1, 1, 2)
			must(db.Put(nil, []byte("y"), []byte("1")))
			must(ingest(nil, "y5")) // overlaps the memtable's range, and no key of it
			want(2, 0, 1, 2, 2)
			must(ingest(nil, "a", "y"))
			want(3, 2, 1, 2, 2) // the flushed memtable and the file
			s, err := db.NewSnapshot()
			must(err)
			must(ingest(nil, "zz1")) // nothing there, but a snapshot must not see it
			want(4, 2, 1, 2, 3)
			if _, err := db.Get(&ReadOptions{Snapshot: s}, []byte("zz1"), nil); !errors.Is(err, ErrNotFound) {
				t.Fatalf("the snapshot sees an ingested key: %v", err)
			}
			must(ingest(&IngestExternalFileOptions{SnapshotConsistency: Off}, "zz2"))
			want(4, 2, 1, 2, 4)
			s.Release()
			for _, refused := range []struct {
				o   IngestExternalFileOptions
				key string
			}{
				{IngestExternalFileOptions{AllowGlobalSeqno: Off}, "a"},
				{IngestExternalFileOptions{FailIfNotBottommostLevel: true}, "e"},
				{IngestExternalFileOptions{IngestBehind: true}, "q"},
			} {
				if err := ingest(&refused.o, refused.key); !errors.Is(err, ErrInvalidArgument) {
					t.Fatalf("%+v: %v", refused.o, err)
				}
			}
			must(db.Put(nil, []byte("y"), []byte("2")))
			if err := ingest(&IngestExternalFileOptions{AllowBlockingFlush: Off}, "y"); !errors.Is(err, ErrInvalidArgument) {
				t.Fatalf("AllowBlockingFlush off: %v", err)
			}
			want(5, 2, 1, 2, 4)
			// The refused files left nothing behind.
			n := 0
			for _, name := range dirNames(t, db.fs, "/db") {
				if strings.HasSuffix(name, ".sst") {
					n++
				}
			}
			if n != 9 {
				t.Fatalf("%d table files in the directory, want 9", n)
			}
			compareContents(t, "the end", cf, nil, map[string]string{
				"a": "file 6", "c": "file 1", "d": "file 4", "e": "file 2", "m": "file 1", "x": "file 3", "y": "2", "y5": "file 5", "z": "file 3", "zz1": "file 7", "zz2": "file 8"})
		})
	}
}

// TestIngestSeveralOverlappingFiles: the later file wins.
func TestIngestSeveralOverlappingFiles(t *testing.T) {
	for name, o := range ingestFamilies() {
		db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: o})
		if err != nil {
			t.Fatal(err)
		}
		cf := db.DefaultColumnFamily()
		externalOf(t, cf, "/1.sst", map[string]string{"aaa": "1", "bbb": "1", "ccc": "1"})
		externalOf(t, cf, "/2.sst", map[string]string{"bbb": "2", "ccc": "-"})
		externalOf(t, cf, "/3.sst", map[string]string{"bbb": "3"})
		if err := db.IngestExternalFile(context.Background(), []string{"/1.sst", "/2.sst", "/3.sst"}, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			compareContents(t, name, cf, nil, map[string]string{"aaa": "1", "bbb": "3"})
			if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIngestBehind: keys that exist win over files from behind, deletes too, before
// and after compactions of everything.
func TestIngestBehind(t *testing.T) {
	for name, cfo := range ingestFamilies() {
		mem := mmapfs.NewMem()
		o := &Options{FS: mem, CreateIfMissing: true, AllowIngestBehind: true, ColumnFamily: cfo}
		db, err := Open("/db", o)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		must(db.Put(nil, []byte("key1"), []byte("new")))
		must(db.Delete(nil, []byte("key2")))
		must(db.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil))
		must(db.Delete(nil, []byte("key3")))
		externalOf(t, db.DefaultColumnFamily(), "/old.sst", map[string]string{"key1": "old", "key2": "old", "key3": "old", "key4": "old"})
		must(db.IngestExternalFile(ctx, []string{"/old.sst"}, &IngestExternalFileOptions{IngestBehind: true}))
		for range 3 {
			compareContents(t, name, db.DefaultColumnFamily(), nil, map[string]string{"key1": "new", "key4": "old"})
			if n := levelsOf(db.DefaultColumnFamily()); n[6] != 1 {
				t.Fatalf("%s: levels %v", name, n)
			}
			must(db.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil))
			must(db.Close())
			// The OPTIONS file keeps it on.
			if db, err = Open("/db", &Options{FS: mem}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.IngestExternalFile(ctx, []string{"/old.sst"}, &IngestExternalFileOptions{IngestBehind: true}); !errors.Is(err, ErrInvalidArgument) {
			t.Fatalf("%s: a second file over the first one: %v", name, err)
		}
		must(db.Close())
	}
}

// TestIngestWritesTheNumber: WriteGlobalSeqno changes the copy and not the original,
// and a file that has a number from an earlier ingestion can be ingested again.
func TestIngestWritesTheNumber(t *testing.T) {
	mem := mmapfs.NewMem()
	o := &Options{FS: mem, CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{DisableAutoCompactions: true}}
	db, err := Open("/db", o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cf := context.Background(), db.DefaultColumnFamily()
	seqOf := func(path string) uint64 {
		t.Helper()
		r, err := OpenSstFile(path, &SstFileReaderOptions{FS: mem})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		return r.handle.block.GlobalSeq()
	}
	for i := range 3 {
		if err := db.Put(nil, fmt.Appendf(nil, "key%d", i), []byte("old")); err != nil {
			t.Fatal(err)
		}
	}
	externalOf(t, cf, "/a.sst", map[string]string{"key0": "a", "key1": "a"})
	if err := db.IngestExternalFile(ctx, []string{"/a.sst"}, &IngestExternalFileOptions{WriteGlobalSeqno: true}); err != nil {
		t.Fatal(err)
	}
	db.mu.Lock()
	meta := cf.files.version.Levels[0][0]
	db.mu.Unlock()
	inside := fmt.Sprintf("/db/%06d.sst", meta.Number)
	if seqOf("/a.sst") != 0 || seqOf(inside) != 4 || meta.LargestSeq != 4 || keys.Seq(meta.SmallestTrailer) != 4 {
		t.Fatalf("the original has %d, the copy %d, the MANIFEST %d", seqOf("/a.sst"), seqOf(inside), meta.LargestSeq)
	}
	// Once more, from a copy that has the number 4 in it.
	if err := copyFile(mem, inside, "/b.sst", int64(meta.Size)); err != nil {
		t.Fatal(err)
	}
	if err := db.Put(nil, []byte("key0"), []byte("newer")); err != nil {
		t.Fatal(err)
	}
	if err := db.IngestExternalFile(ctx, []string{"/b.sst"}, &IngestExternalFileOptions{MoveFiles: true}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		compareContents(t, "numbered", db.DefaultColumnFamily(), nil, map[string]string{"key0": "a", "key1": "a", "key2": "old"})
		if err := db.VerifyChecksum(ctx); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if db, err = Open("/db", o); err != nil {
			t.Fatal(err)
		}
	}
	db.Close()
}

// TestIngestRefuses: what is no file for the family is refused by name, and nothing changes.
func TestIngestRefuses(t *testing.T) {
	mem := mmapfs.NewMem()
	db, err := Open("/db", ingestOptions(mem, ingestFamilies()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	block, plain, reverse := db.DefaultColumnFamily(), db.ColumnFamily("plain"), db.ColumnFamily("reverse")
	externalOf(t, block, "/block.sst", map[string]string{"key": "v"})
	externalOf(t, reverse, "/reverse.sst", map[string]string{"key": "v"})
	if err := db.Put(nil, []byte("key"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(ctx, nil); err != nil {
		t.Fatal(err)
	}
	var inner string
	for _, n := range dirNames(t, mem, "/db") {
		if strings.HasSuffix(n, ".sst") {
			inner = "/db/" + n
		}
	}
	damaged, err := mem.OpenReadWrite("/block.sst")
	if err != nil {
		t.Fatal(err)
	}
	if err := copyFile(mem, "/block.sst", "/damaged.sst", int64(mustSize(t, damaged))); err != nil {
		t.Fatal(err)
	}
	damaged.Close()
	if damaged, err = mem.OpenReadWrite("/damaged.sst"); err != nil {
		t.Fatal(err)
	}
	if _, err := damaged.WriteAt([]byte{0xff}, 3); err != nil {
		t.Fatal(err)
	}
	damaged.Close()
	for _, c := range []struct {
		name string
		args []IngestExternalFileArg
		want error
		word string
	}{
		{"nothing", nil, ErrInvalidArgument, "nothing"},
		{"no files", []IngestExternalFileArg{{Family: block}}, ErrInvalidArgument, "no external files"},
		{"a family twice", []IngestExternalFileArg{{Family: block, ExternalFiles: []string{"/block.sst"}}, {ExternalFiles: []string{"/block.sst"}}}, ErrInvalidArgument, "twice"},
		{"another format", []IngestExternalFileArg{{Family: plain, ExternalFiles: []string{"/block.sst"}}}, ErrInvalidArgument, "block-based"},
		{"another comparator", []IngestExternalFileArg{{Family: block, ExternalFiles: []string{"/reverse.sst"}}}, ErrInvalidArgument, "rocksdb.ReverseBytewiseComparator"},
		{"a database's own file", []IngestExternalFileArg{{Family: block, ExternalFiles: []string{inner}}}, ErrInvalidArgument, "SstFileWriter"},
		{"no such file", []IngestExternalFileArg{{Family: block, ExternalFiles: []string{"/none.sst"}}}, nil, "none.sst"},
		{"a damaged file", []IngestExternalFileArg{{Family: block, ExternalFiles: []string{"/damaged.sst"}, Options: &IngestExternalFileOptions{VerifyChecksumsBeforeIngest: true}}}, ErrCorruption, "damaged.sst"},
		{"one bad of two", []IngestExternalFileArg{{Family: block, ExternalFiles: []string{"/block.sst"}}, {Family: plain, ExternalFiles: []string{"/block.sst"}}}, ErrInvalidArgument, "plain"},
	} {
		before := len(dirNames(t, mem, "/db"))
		err := db.IngestExternalFiles(ctx, c.args)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v, want an error that matches %v and says %q", c.name, err, c.want, c.word)
		}
		if after := len(dirNames(t, mem, "/db")); after != before {
			t.Errorf("%s: %d files in the directory became %d", c.name, before, after)
		}
	}
	other, err := db.CreateColumnFamily("other", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.IngestExternalFile(ctx, []string{"/block.sst"}, nil); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "default") {
		t.Errorf("a file made for another family: %v", err)
	}
}

func mustSize(t *testing.T, f mmapfs.File) int64 {
	t.Helper()
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestIngestIsAtomic fails the n-th file operation of an ingestion into two families,
// for every n. Afterwards, in the running database and after a kill and a crash of the machine,
// all of it is there or nothing; the originals are there unless it succeeded.
func TestIngestIsAtomic(t *testing.T) {
	for _, once := range []bool{true, false} {
		for _, moveFiles := range []bool{true, false} {
			t.Run(fmt.Sprintf("once=%v/move=%v", once, moveFiles), func(t *testing.T) {
				t.Parallel()
				step := 1
				if testing.Short() {
					step = 3
				}
				for n := 1; ; n += step {
					if ingestWithFault(t, n, once, moveFiles) == 0 {
						if n < 20 {
							t.Fatalf("an ingestion has only %d operations", n)
						}
						return
					}
				}
			})
		}
	}
}

func ingestWithFault(t *testing.T, n int, once, moveFiles bool) (injected int64) {
	t.Helper()
	mem := mmapfs.NewMem()
	fault := mmapfs.NewFault(mem)
	families := ingestFamilies()
	for _, name := range []string{"total", "reverse", "universal"} {
		delete(families, name)
	}
	db, err := Open("/db", ingestOptions(fault, families))
	if err != nil {
		t.Fatal(err)
	}
	old := map[string]string{"key1": "old", "key2": "old"}
	var args []IngestExternalFileArg
	for name := range families {
		cf := db.ColumnFamily(name)
		for k, v := range old {
			if err := cf.Put(nil, []byte(k), []byte(v)); err != nil {
				t.Fatal(err)
			}
		}
		path := "/" + name + ".sst"
		externalOf(t, cf, path, map[string]string{"key2": "new", "key3": "new"})
		args = append(args, IngestExternalFileArg{cf, []string{path}, &IngestExternalFileOptions{MoveFiles: moveFiles, WriteGlobalSeqno: n%2 == 0}})
	}
	if err := mem.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	fault.FailNth(n, mmapfs.OpAll, once)
	err = db.IngestExternalFiles(context.Background(), args)
	injected = fault.Injected()
	fault.FailNth(0, mmapfs.OpAll, true)
	if err != nil && !errors.Is(err, mmapfs.ErrInjected) {
		t.Fatalf("n=%d: %v does not match the injected error", n, err)
	}
	state := func(db *DB, what string) (done bool) {
		t.Helper()
		var got []map[string]string
		for name := range families {
			m, err := contents(db.ColumnFamily(name), nil)
			if err != nil {
				t.Fatalf("n=%d, %s: %v", n, what, err)
			}
			got = append(got, m)
		}
		if !maps.Equal(got[0], got[1]) {
			t.Fatalf("n=%d, %s: the families have %v and %v", n, what, got[0], got[1])
		}
		done = got[0]["key3"] != ""
		if want := map[string]string{"key1": "old", "key2": "new", "key3": "new"}; done && !maps.Equal(got[0], want) || !done && !maps.Equal(got[0], old) {
			t.Fatalf("n=%d, %s: %v", n, what, got[0])
		}
		return done
	}
	if done := state(db, "running"); done != (err == nil) {
		t.Fatalf("n=%d: the files are there: %v, and the ingestion said %v", n, done, err)
	}
	for what, fsys := range map[string]*mmapfs.MemFS{"killed": mem.Kill(), "power loss": mem.Crash(nil)} {
		again, oerr := Open("/db", ingestOptions(fsys, families))
		if oerr != nil {
			t.Fatalf("n=%d, %s: %v", n, what, oerr)
		}
		// What was not synced may be lost to the crash, but not what was ingested.
		if what == "killed" || err == nil {
			if done := state(again, what); err == nil && !done {
				t.Fatalf("n=%d, %s: an acknowledged ingestion is lost", n, what)
			}
		}
		live := map[string]bool{}
		for _, cf := range again.ColumnFamilies() {
			again.mu.Lock()
			for _, level := range cf.files.version.Levels {
				for _, m := range level {
					live[fmt.Sprintf("%06d.sst", m.Number)] = true
				}
			}
			again.mu.Unlock()
		}
		for _, name := range dirNames(t, fsys, "/db") {
			if strings.HasSuffix(name, ".sst") && !live[name] {
				t.Fatalf("n=%d, %s: %s is left over", n, what, name)
			}
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name := range families {
		_, serr := mem.Stat("/" + name + ".sst")
		if err != nil && serr != nil {
			t.Fatalf("n=%d: the ingestion failed (%v), and the original is gone: %v", n, err, serr)
		}
	}
	db.Close()
	return injected
}

// TestFilesThatWereMovedAreNotWrittenAgain: an ingestion moves a file by a link. When its old name could not be
// removed, or the process died before that, a new file of that name is another file.
func TestFilesThatWereMovedAreNotWrittenAgain(t *testing.T) {
	mem := mmapfs.NewMem()
	fault := mmapfs.NewFault(mem)
	db := mustOpen(t, fault, &Options{CreateIfMissing: true})
	cf := db.DefaultColumnFamily()
	externalOf(t, cf, "/external.sst", map[string]string{"a": "1", "b": "2"})
	fault.SetHook(func(op mmapfs.Op, name string) error {
		if op == mmapfs.OpRemove && name == "/external.sst" {
			return errors.New("injected")
		}
		return nil
	})
	err := db.IngestExternalFile(t.Context(), []string{"/external.sst"}, &IngestExternalFileOptions{MoveFiles: true})
	fault.SetHook(nil)
	if _, serr := mem.Stat("/external.sst"); serr != nil {
		t.Fatalf("the old name is gone: %v, %v", err, serr)
	}
	externalOf(t, cf, "/external.sst", map[string]string{"a": "3", "b": strings.Repeat("4", 1000)})
	if err := errors.Join(db.VerifyChecksum(t.Context()), db.Close()); err != nil {
		t.Errorf("the database's file was written to: %v", err)
	}
	db = mustOpen(t, mem, &Options{})
	if v, err := db.Get(nil, []byte("a"), nil); err != nil || string(v) != "1" {
		t.Errorf("%q %v, want 1", v, err)
	}
}
