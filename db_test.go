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
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// ram are the options of a small RAM-resident family.
func ram() *ColumnFamilyOptions {
	return &ColumnFamilyOptions{
		PrefixExtractor: FixedPrefix(4),
		MemTable:        MemTableOptions{Kind: HashSkipList, BucketCount: 64},
		Table:           PlainTableOptions{},
	}
}

func mustOpen(t *testing.T, fsys mmapfs.FS, o *Options) *DB {
	t.Helper()
	if o == nil {
		o = &Options{CreateIfMissing: true, ColumnFamily: ram()}
	}
	o.FS = fsys
	db, err := Open("/db", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func mustGet(t *testing.T, cf *ColumnFamily, key, want string) {
	t.Helper()
	if v, err := cf.Get(nil, []byte(key), nil); err != nil || string(v) != want {
		t.Errorf("Get(%q) = %q, %v; want %q", key, v, err, want)
	}
}

func wantErr(t *testing.T, what string, err, target error, words ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v, want it to match %v", what, err, target)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not mention %q", what, err, w)
		}
	}
}

func TestSecondOpenerIsRefused(t *testing.T) {
	for name, fsys := range map[string]mmapfs.FS{"memory": mmapfs.NewMem(), "system": mmapfs.OS} {
		dir := filepath.Join(t.TempDir(), "db")
		db, err := Open(dir, &Options{FS: fsys, CreateIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(dir, &Options{FS: fsys})
		wantErr(t, name+": second Open", err, ErrLocked, "LOCK")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := Open(dir, &Options{FS: fsys})
		if err != nil {
			t.Fatalf("%s: Open after Close: %v", name, err)
		}
		again.Close()
	}
}

func TestOpenRefusals(t *testing.T) {
	fsys := mmapfs.NewMem()
	_, err := Open("/db", &Options{FS: fsys})
	wantErr(t, "no database", err, ErrNoDatabase, "/db")
	_, err = Open("", nil)
	wantErr(t, "no directory", err, ErrInvalidArgument)
	db := mustOpen(t, fsys, nil)
	db.Close()
	_, err = Open("/db", &Options{FS: fsys, ErrorIfExists: true})
	wantErr(t, "ErrorIfExists", err, ErrExists)
	_, err = Open("/db", &Options{FS: fsys, ColumnFamily: &ColumnFamilyOptions{Comparator: ReverseBytewise}})
	wantErr(t, "another comparator", err, ErrInvalidArgument, Bytewise.Name(), ReverseBytewise.Name())
	_, err = Open("/db", &Options{FS: fsys, ColumnFamilies: []ColumnFamilyDescriptor{{Name: "other"}}})
	wantErr(t, "a family that does not exist", err, ErrInvalidArgument, "other")
	_, err = Open("/db", &Options{FS: fsys, ColumnFamily: &ColumnFamilyOptions{Table: PlainTableOptions{}}})
	wantErr(t, "hash index without extractor", err, ErrInvalidArgument, "PrefixExtractor")
	_, err = Open("/db", &Options{FS: fsys, ColumnFamily: &ColumnFamilyOptions{Table: PlainTableOptions{HashTableRatio: TotalOrder, EncodingType: PrefixEncoding}}})
	wantErr(t, "prefix encoding without extractor", err, ErrInvalidArgument, "PrefixEncoding")
	_, err = Open("/db", &Options{FS: fsys, ColumnFamily: &ColumnFamilyOptions{Table: BlockBasedTableOptions{BlockAlign: true}}})
	wantErr(t, "BlockAlign with compression", err, ErrInvalidArgument, "BlockAlign")
}

// TestPlainFamiliesRefuseWhatTheyCannotStore: at the write, before anything is
// logged, and the database goes on.
func TestPlainFamiliesRefuseWhatTheyCannotStore(t *testing.T) {
	fixed := ram()
	fixed.Table = PlainTableOptions{UserKeyLen: 8}
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, ColumnFamily: ram(),
		ColumnFamilies: []ColumnFamilyDescriptor{{"fixed", fixed}}})
	wantErr(t, "short key", db.Put(nil, []byte("abc"), nil), ErrInvalidArgument, "domain", "abc")
	wantErr(t, "length", db.ColumnFamily("fixed").Put(nil, []byte("abcdefghi"), nil), ErrInvalidArgument, "UserKeyLen")
	wantErr(t, "DeleteRange", db.DeleteRange(nil, []byte("aaaa"), []byte("bbbb")), ErrNotSupported, "default")
	wantErr(t, "Merge", db.Merge(nil, []byte("aaaa"), nil), ErrNotSupported, "MergeOperator")
	var b Batch
	b.Put(nil, []byte("good"), []byte("v"))
	b.Put(nil, []byte("bad"), []byte("v"))
	wantErr(t, "batch", db.Write(nil, &b), ErrInvalidArgument, "bad")
	if _, err := db.Get(nil, []byte("good"), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("a refused batch left a key: %v", err)
	}
	wantErr(t, "Sync and DisableWAL", db.Write(&WriteOptions{Sync: true, DisableWAL: true}, &Batch{}), ErrInvalidArgument)
	if err := db.Put(nil, []byte("good"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	mustGet(t, db.DefaultColumnFamily(), "good", "v")
	if _, err := db.Get(nil, []byte("x"), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get outside the domain: %v, want not found", err)
	}
}

// TestOpenNeedsNoOptions: what was given at creation is in the OPTIONS file and comes back from there.
func TestOpenNeedsNoOptions(t *testing.T) {
	fsys := mmapfs.NewMem()
	given := modelFamilies()
	o := &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true}
	for name, f := range given {
		if strings.HasPrefix(f.MergeOperator.Name(), "test.") || f.Comparator == (shortFirst{}) {
			delete(given, name) // a program's own
			continue
		}
		o.ColumnFamilies = append(o.ColumnFamilies, ColumnFamilyDescriptor{name, f})
	}
	db := mustOpen(t, fsys, o)
	want := map[string]*ColumnFamilyOptions{}
	for _, cf := range db.ColumnFamilies() {
		want[cf.Name()] = cf.Options()
	}
	db.Close()
	db = mustOpen(t, fsys, &Options{})
	if n := len(db.ColumnFamilies()); n != len(given) {
		t.Fatalf("%d families, want %d", n, len(given))
	}
	for _, cf := range db.ColumnFamilies() {
		w, g := *want[cf.Name()], *cf.Options()
		if w.PrefixExtractor.Name() != g.PrefixExtractor.Name() || w.MergeOperator.Name() != g.MergeOperator.Name() || w.Comparator.Name() != g.Comparator.Name() {
			t.Errorf("%s: extractor, operator or comparator differ: %+v, want %+v", cf.Name(), g, w)
		}
		w.PrefixExtractor, w.MergeOperator, w.Comparator = g.PrefixExtractor, g.MergeOperator, g.Comparator
		switch wt := w.Table.(type) {
		case PlainTableOptions:
			// Memory, loading and verification are the process's business: they are not stored.
			if gt := g.Table.(PlainTableOptions); wt.format() != gt.format() {
				t.Errorf("%s: %+v, want %+v", cf.Name(), gt, wt)
			}
			w.Table = g.Table
		case BlockBasedTableOptions:
			if gt := g.Table.(BlockBasedTableOptions); !reflect.DeepEqual(wt.format(), gt.format()) {
				t.Errorf("%s: %+v, want %+v", cf.Name(), gt.format(), wt.format())
			}
			w.Table = g.Table
			w.Compression = cmpDefault(w.Compression)
		}
		w.LevelCompactionDynamicLevelBytes, g.LevelCompactionDynamicLevelBytes = On, On
		if w.Table.tableFactoryName() == "PlainTable" {
			w.Compression, g.Compression = 0, 0
		}
		if !reflect.DeepEqual(w.MemTable, g.MemTable) && w.MemTable.Kind != SkipList && w.MemTable.Kind != Vector {
			t.Errorf("%s: memtable %+v, want %+v", cf.Name(), g.MemTable, w.MemTable)
		}
		w.MemTable = g.MemTable
		if !reflect.DeepEqual(w, g) {
			t.Errorf("%s:\n got %+v\nwant %+v", cf.Name(), g, w)
		}
	}
	// RocksDB fails on names that it does not know: the file has none but those it writes itself.
	known := map[string]bool{}
	golden, err := optionsfile.Load(mmapfs.OS, "testdata/golden/db/d04_levels_plain/db", 7)
	if err != nil {
		t.Fatal(err)
	}
	goldenBlock, err := optionsfile.Load(mmapfs.OS, "testdata/golden/db/d03_levels_block/db", 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(golden.Sections, goldenBlock.Sections...) {
		for _, opt := range s.Options {
			known[s.Title+"/"+opt.Key] = true
		}
	}
	known["DBOptions/wal_dir"] = true // left out there, since it was not set
	ours, _, err := optionsfile.LoadLatest(fsys, "/db")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range ours.Sections {
		for _, opt := range s.Options {
			if !known[s.Title+"/"+opt.Key] {
				t.Errorf("the OPTIONS file has %s in %s, which RocksDB 7.8 does not write", opt.Key, s.Title)
			}
		}
	}
}

func TestDropColumnFamily(t *testing.T) {
	fsys := mmapfs.NewMem()
	db := mustOpen(t, fsys, nil)
	cf, err := db.CreateColumnFamily("gone", ram())
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.CreateColumnFamily("gone", nil)
	wantErr(t, "creating it twice", err, ErrExists)
	for i := range 100 {
		if err := cf.Put(nil, fmt.Appendf(nil, "key%d", i), []byte("v")); err != nil {
			t.Fatal(err)
		}
		if i == 50 {
			if err := cf.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	it, err := cf.NewIterator(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.DropColumnFamily(cf); err != nil {
		t.Fatal(err)
	}
	n := 0
	for range it.All() {
		n++
	}
	if n != 100 || it.Err() != nil {
		t.Errorf("an open iterator sees %d keys of 100 after the drop: %v", n, it.Err())
	}
	wantErr(t, "Put", cf.Put(nil, []byte("key1"), nil), ErrColumnFamilyDropped)
	_, err = cf.Get(nil, []byte("key1"), nil)
	wantErr(t, "Get", err, ErrColumnFamilyDropped)
	wantErr(t, "dropping it twice", db.DropColumnFamily(cf), ErrColumnFamilyDropped)
	wantErr(t, "dropping the default family", db.DropColumnFamily(db.DefaultColumnFamily()), ErrInvalidArgument)
	it.Close()
	names, err := fsys.List("/db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			t.Errorf("%s of the dropped family is still there", name)
		}
	}
	db.Close()
	db = mustOpen(t, fsys, &Options{})
	if db.ColumnFamily("gone") != nil {
		t.Error("the family is back after reopening")
	}
	again, err := db.CreateColumnFamily("gone", ram())
	if err != nil || again.ID() == cf.ID() {
		t.Fatalf("a new family of the same name: id %v, %v; ids are not used again", again, err)
	}
	if _, err := again.Get(nil, []byte("key1"), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("the new family has old keys: %v", err)
	}
}

func TestReadOnly(t *testing.T) {
	fsys := mmapfs.NewMem()
	db := mustOpen(t, fsys, nil)
	for i := range 1000 {
		if err := db.Put(nil, fmt.Appendf(nil, "key%04d", i), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	// A reader beside the writer sees what is in the log at that moment.
	before, _ := fsys.List("/db")
	r, err := Open("/db", &Options{FS: fsys, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	mustGet(t, r.DefaultColumnFamily(), "key0999", "v")
	wantErr(t, "Put", r.Put(nil, []byte("key0000"), nil), ErrReadOnly)
	wantErr(t, "Flush", r.Flush(context.Background(), nil), ErrReadOnly)
	_, err = r.CreateColumnFamily("x", nil)
	wantErr(t, "CreateColumnFamily", err, ErrReadOnly)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if after, _ := fsys.List("/db"); !reflect.DeepEqual(before, after) {
		t.Errorf("reading changed the directory: %v, before %v", after, before)
	}
}

func TestClosedDatabase(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), nil)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "Put", db.Put(nil, []byte("key1"), nil), ErrClosed)
	_, err := db.Get(nil, []byte("key1"), nil)
	wantErr(t, "Get", err, ErrClosed)
	_, err = db.NewIterator(nil)
	wantErr(t, "NewIterator", err, ErrClosed)
	_, err = db.NewSnapshot()
	wantErr(t, "NewSnapshot", err, ErrClosed)
	_, err = db.MultiGet(nil, [][]byte{[]byte("key1")}, nil)
	wantErr(t, "MultiGet", err, ErrClosed)
	wantErr(t, "Flush", db.Flush(context.Background(), nil), ErrClosed)
	wantErr(t, "CompactRange", db.CompactRange(context.Background(), nil, nil, nil), ErrClosed)
	wantErr(t, "SyncWAL", db.SyncWAL(), ErrClosed)
	wantErr(t, "Close", db.Close(), ErrClosed)
}

// TestLogsAreBounded: a family that is rarely written does not keep all logs alive.
func TestLogsAreBounded(t *testing.T) {
	fsys := mmapfs.NewMem()
	busy := ram()
	busy.WriteBufferSize = 64 << 10
	db := mustOpen(t, fsys, &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, ColumnFamily: busy, MaxTotalWALSize: 300 << 10,
		ColumnFamilies: []ColumnFamilyDescriptor{{"idle", ram()}}})
	idle := db.ColumnFamily("idle")
	if err := idle.Put(nil, []byte("key0"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 1000)
	for i := range 5000 {
		if err := db.Put(nil, fmt.Appendf(nil, "key%d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	db.mu.Lock()
	var total int64
	for _, l := range db.logs {
		total += l.end
	}
	n := len(db.logs)
	db.mu.Unlock()
	if total > 1<<20 {
		t.Errorf("%d live logs of %d bytes; the limit is 300 KiB", n, total)
	}
	mustGet(t, idle, "key0", "v")
}

// TestUnloggedWritesSurviveClose: DisableWAL loses on a crash, not on Close.
func TestUnloggedWritesSurviveClose(t *testing.T) {
	fsys := mmapfs.NewMem()
	db := mustOpen(t, fsys, nil)
	if err := db.Put(&WriteOptions{DisableWAL: true}, []byte("key1"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	killed := fsys.Kill()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = mustOpen(t, fsys, &Options{})
	mustGet(t, db.DefaultColumnFamily(), "key1", "v")
	db = mustOpen(t, killed, &Options{})
	if _, err := db.Get(nil, []byte("key1"), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("after a kill: %v; the write was not logged", err)
	}
}

func TestValuesLargerThanTheWriteBuffer(t *testing.T) {
	fsys := mmapfs.NewMem()
	o := ram()
	o.WriteBufferSize = 64 << 10
	db := mustOpen(t, fsys, &Options{CreateIfMissing: true, ColumnFamily: o})
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	for i := range 3 {
		if err := db.Put(nil, fmt.Appendf(nil, "big%d", i), big); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Put(nil, []byte("empty"), nil); err != nil {
		t.Fatal(err)
	}
	db.Close()
	db = mustOpen(t, fsys, &Options{})
	for i := range 3 {
		mustGet(t, db.DefaultColumnFamily(), fmt.Sprint("big", i), string(big))
	}
	mustGet(t, db.DefaultColumnFamily(), "empty", "")
}

// TestReadersAndWritersTogether runs everything at once; the race detector and
// the counters of each key watch. Readers must see counters only grow.
func TestReadersAndWritersTogether(t *testing.T) {
	o := ram()
	o.WriteBufferSize = 128 << 10
	o.TargetFileSizeBase = 64 << 10
	block := &ColumnFamilyOptions{WriteBufferSize: 128 << 10, TargetFileSizeBase: 64 << 10}
	db, err := Open(t.TempDir(), &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, ColumnFamily: o,
		ColumnFamilies: []ColumnFamilyDescriptor{{"block", block}}, BlockCacheSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	cfs := db.ColumnFamilies()
	const nKeys, writers = 64, 2
	rounds := 3000
	if testing.Short() {
		rounds = 600
	}
	pad := strings.Repeat("p", 200)
	var stop atomic.Bool
	var writing, wg sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			var b Batch
			for n := 1; n <= rounds && !t.Failed(); n++ {
				b.Reset()
				for _, cf := range cfs { // one batch: the families agree at any snapshot
					for k := w; k < nKeys; k += writers * 4 {
						b.Put(cf, fmt.Appendf(nil, "key%03d", k), fmt.Appendf(nil, "%08d%s", n, pad))
					}
				}
				if err := db.Write(&WriteOptions{Sync: n%500 == 0}, &b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for r := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 1))
			last := map[string]string{}
			buf := make([]byte, 0, 300)
			for !stop.Load() && !t.Failed() {
				cf := cfs[rng.IntN(len(cfs))]
				switch rng.IntN(4) {
				case 0, 1:
					k := fmt.Sprintf("key%03d", rng.IntN(nKeys))
					v, err := cf.Get(nil, []byte(k), buf)
					if err != nil && !errors.Is(err, ErrNotFound) {
						t.Error(err)
						return
					}
					id := cf.Name() + k
					if string(v) < last[id] {
						t.Errorf("%s went back from %.8s to %.8s", id, last[id], v)
						return
					}
					last[id] = string(v)
				case 2:
					s, err := db.NewSnapshot()
					if err != nil {
						t.Error(err)
						return
					}
					k := []byte(fmt.Sprintf("key%03d", rng.IntN(nKeys)))
					a, aerr := cfs[0].Get(&ReadOptions{Snapshot: s}, k, nil)
					b, berr := cfs[1].Get(&ReadOptions{Snapshot: s}, k, nil)
					if string(a) != string(b) || errors.Is(aerr, ErrNotFound) != errors.Is(berr, ErrNotFound) {
						t.Errorf("%s at one snapshot: %.8s %v and %.8s %v", k, a, aerr, b, berr)
					}
					s.Release()
				case 3:
					it, err := cf.NewIterator(nil)
					if err != nil {
						t.Error(err)
						return
					}
					prev := ""
					for k := range it.All() {
						if string(k) <= prev {
							t.Errorf("iterator out of order: %q after %q", k, prev)
						}
						prev = string(k)
					}
					if err := it.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Go(func() {
		for !stop.Load() && !t.Failed() {
			for _, cf := range cfs {
				if err := cf.CompactRange(context.Background(), nil, nil, nil); err != nil {
					t.Error(err)
				}
			}
		}
	})
	writing.Wait()
	stop.Store(true)
	wg.Wait()
	if err := db.VerifyChecksum(context.Background()); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCompactRangeCanBeCancelled: a cancelled compaction loses nothing and leaves no files.
func TestCompactRangeCanBeCancelled(t *testing.T) {
	fsys := mmapfs.NewMem()
	db := mustOpen(t, fsys, nil)
	for i := range 20000 {
		if err := db.Put(nil, fmt.Appendf(nil, "key%06d", i), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wantErr(t, "CompactRange", db.CompactRange(ctx, nil, nil, nil), context.Canceled)
	mustGet(t, db.DefaultColumnFamily(), "key019999", "v")
	if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	mustGet(t, db.DefaultColumnFamily(), "key000000", "v")
}

// TestObsoleteFilesGo: after compactions and Close nothing is left that no version names.
func TestObsoleteFilesGo(t *testing.T) {
	fsys := mmapfs.NewMem()
	o := ram()
	o.WriteBufferSize = 64 << 10
	db := mustOpen(t, fsys, &Options{CreateIfMissing: true, ColumnFamily: o})
	for i := range 30000 {
		if err := db.Put(nil, fmt.Appendf(nil, "key%06d", i%5000), []byte("some value")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	live := map[string]bool{}
	for _, level := range db.manifest.Version(0).Levels {
		for _, f := range level {
			live[fmt.Sprintf("%06d.sst", f.Number)] = true
		}
	}
	check := func(when string) {
		t.Helper()
		names, err := fsys.List("/db")
		if err != nil {
			t.Fatal(err)
		}
		logs, manifests := 0, 0
		for _, n := range names {
			switch {
			case strings.HasSuffix(n, ".sst") && !live[n]:
				t.Errorf("%s: %s is not live", when, n)
			case strings.HasSuffix(n, ".log"):
				logs++
			case strings.HasPrefix(n, "MANIFEST"):
				manifests++
			case strings.HasSuffix(n, ".dbtmp"):
				t.Errorf("%s: %s", when, n)
			}
		}
		if logs > 1 || manifests > 1 {
			t.Errorf("%s: %d logs and %d MANIFESTs", when, logs, manifests)
		}
	}
	check("after compaction")
	// Garbage of a crash goes at the next Open.
	for _, n := range []string{"/db/999999.sst", "/db/000001.log", "/db/000002.dbtmp"} {
		f, err := fsys.Create(n)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	db.Close()
	db = mustOpen(t, fsys, &Options{})
	check("after reopening")
}

// TestDamagedTableIsNamed flips a byte of a table file: the check on demand, at open and in the background find it.
func TestDamagedTableIsNamed(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, &Options{CreateIfMissing: true, ColumnFamily: ram()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		if err := db.Put(nil, fmt.Appendf(nil, "key%06d", i), []byte("some value")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.VerifyChecksum(context.Background()); err != nil {
		t.Fatal(err)
	}
	db.Close()
	tables, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
	b, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/3] ^= 0x10
	if err := os.WriteFile(tables[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(tables[0])
	for _, mode := range []VerifyMode{VerifyOnDemand, VerifyInBackground, VerifyAtOpen} {
		o := ram()
		o.Table = PlainTableOptions{Verify: mode}
		db, err := Open(dir, &Options{ColumnFamily: o})
		switch mode {
		case VerifyAtOpen:
			wantErr(t, "Open", err, ErrCorruption, name)
			continue
		case VerifyOnDemand:
			wantErr(t, "VerifyChecksum", db.VerifyChecksum(context.Background()), ErrCorruption, name)
			db.Close()
		case VerifyInBackground:
			err := db.waitUntil(context.Background(), func() (bool, error) { return false, db.background })
			wantErr(t, "background error", err, ErrCorruption, name)
			wantErr(t, "Put", db.Put(nil, []byte("key1"), nil), ErrBackground, name)
			wantErr(t, "Close", db.Close(), ErrBackground)
		}
	}
}

// TestWritesSlowDown: with level 0 at the slowdown trigger, writes are delayed and
// counted, and go on; with automatic compactions off they are not.
func TestWritesSlowDown(t *testing.T) {
	for _, auto := range []bool{true, false} {
		fsys := mmapfs.NewFault(mmapfs.NewMem())
		o := ram()
		o.Level0FileNumCompactionTrigger, o.Level0SlowdownWritesTrigger = 2, 2
		o.DisableAutoCompactions = true
		db := mustOpen(t, fsys, &Options{CreateIfMissing: true, ColumnFamily: o})
		for i := range 2 {
			// The same key twice: files that overlap cannot just be moved down.
			if err := db.Put(nil, []byte("key0"), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
			if err := db.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		db.Close()
		// The compaction that would empty level 0 waits until the test has looked.
		looked := make(chan struct{})
		fsys.SetHook(func(op mmapfs.Op, name string) error {
			if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") {
				<-looked
			}
			return nil
		})
		o.DisableAutoCompactions = !auto
		db = mustOpen(t, fsys, &Options{ColumnFamily: o, DelayedWriteRate: 1 << 20})
		value := make([]byte, 4<<10)
		for i := range 4 {
			if err := db.Put(nil, fmt.Appendf(nil, "key%d", i), value); err != nil {
				t.Fatal(err)
			}
		}
		if n := db.Metrics().Stalls["level0-slowdown"]; (n > 0) != auto {
			t.Errorf("automatic compactions %v: delayed %d times", auto, n)
		}
		close(looked)
		db.Close()
	}
}

// TestStrayFileWithAHugeNumber: counting on from it would wrap around to the
// numbers of files that exist.
func TestStrayFileWithAHugeNumber(t *testing.T) {
	fsys := mmapfs.NewMem()
	mustOpen(t, fsys, nil).Close()
	const stray = "18446744073709551615.sst"
	f, err := fsys.Create("/db/" + stray)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	_, err = Open("/db", &Options{FS: fsys})
	wantErr(t, "Open", err, ErrInvalidArgument, stray)
	if err := fsys.Remove("/db/" + stray); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, fsys, &Options{})
}

// TestInfoLogsDoNotCountAsFiles: RocksDB's LOG.old files have a time in their names,
// from which the numbers of new files must not go on.
func TestInfoLogsDoNotCountAsFiles(t *testing.T) {
	fsys := mmapfs.NewMem()
	mustOpen(t, fsys, nil).Close()
	for _, name := range []string{"LOG", "LOG.old.1796069819925344", "COMPACTION_PROGRESS-1796069819925344"} {
		f, err := fsys.Create("/db/" + name)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	db := mustOpen(t, fsys, &Options{})
	if n := db.manifest.NextFileNumber(); n > 1000 {
		t.Errorf("the next file is number %d", n)
	}
}
