package flatrock

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestSustainedLoad overwrites two families, one of each table format, from two writers with small files,
// parallel compactions and subcompactions. Level 0 stays bounded, slow readers of old states keep their
// files, the process dies in the middle, and nothing obsolete stays.
func TestSustainedLoad(t *testing.T) {
	writes, keys := 60_000, 8_000
	if testing.Short() {
		writes, keys = 15_000, 4_000
	}
	mem := mmapfs.NewMem()
	family := ColumnFamilyOptions{
		WriteBufferSize: 64 << 10, TargetFileSizeBase: 32 << 10, MaxBytesForLevelBase: 128 << 10, MaxBytesForLevelMultiplier: 4,
		Level0FileNumCompactionTrigger: 2, Level0SlowdownWritesTrigger: 8, Level0StopWritesTrigger: 12, MaxWriteBufferNumber: 4,
	}
	plain := family
	plain.PrefixExtractor, plain.Table = FixedPrefix(4), PlainTableOptions{}
	o := &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, MaxBackgroundJobs: 6, MaxSubcompactions: 3, DelayedWriteRate: 1 << 30,
		FS: mem, ColumnFamily: &family, ColumnFamilies: []ColumnFamilyDescriptor{{"plain", &plain}}}
	db := mustOpen(t, mem, o)
	key := func(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }
	value := func(i, n int) []byte { return fmt.Appendf(nil, "%06d=%09d %s", i, n, strings.Repeat("x", i%90)) }
	names := []string{DefaultColumnFamilyName, "plain"}

	// Each writer has keys of its own, so that the newest value of each is known.
	newest := [2]map[int]int{{}, {}}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for w := range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			var b Batch
			for n := range writes / 2 {
				i := rng.IntN(keys/2)*2 + w
				b.Reset()
				for _, name := range names {
					b.Put(db.ColumnFamily(name), key(i), value(i, n))
				}
				if err := db.Write(nil, &b); err != nil {
					t.Error(err)
					return
				}
				newest[w][i] = n
				if n%1000 == 0 {
					for name, f := range db.Metrics().Families {
						if files := f.Levels[0].Files; files > family.Level0StopWritesTrigger+family.MaxWriteBufferNumber {
							t.Errorf("%s: %d files in level 0", name, files)
						}
					}
				}
			}
		})
	}
	var readers sync.WaitGroup
	for r := range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := readSlowly(db.ColumnFamily(names[r])); err != nil {
					t.Errorf("%s: %v", names[r], err)
					return
				}
			}
		})
	}
	wg.Wait()
	died := mem.Kill() // with compactions under way
	close(stop)
	readers.Wait()
	m := db.Metrics()
	t.Logf("%d flushes, %d compactions, stalls %v", m.Flushes, m.Compactions, m.Stalls)
	if m.Compactions < 5 {
		t.Errorf("only %d compactions", m.Compactions)
	}
	for round, fsys := range []*mmapfs.MemFS{mem, died} {
		if round == 0 {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		again := *o
		again.FS = fsys
		db, err := Open("/db", &again)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			cf := db.ColumnFamily(name)
			for w := range newest {
				for i, n := range newest[w] {
					if v, err := cf.Get(nil, key(i), nil); err != nil || !bytes.Equal(v, value(i, n)) {
						t.Fatalf("round %d, %s: key %d is %.20q, %v; want write %d", round, name, i, v, err, n)
					}
				}
			}
			if err := cf.CompactRange(context.Background(), nil, nil, nil); err != nil {
				t.Fatal(err)
			}
			db.mu.Lock()
			err := cf.files.version.Check()
			size := cf.files.version.TotalBytes()
			db.mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			var data uint64
			for w := range newest {
				for i, n := range newest[w] {
					data += uint64(len(key(i)) + len(value(i, n)) + 8)
				}
			}
			if size > data*2 {
				t.Errorf("round %d, %s: %d bytes of files for %d of data", round, name, size, data)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		onlyLive(t, fsys, &again)
	}
}

// readSlowly walks a family while others write, and checks that each key's value is its own, and that
// the walk does not see writes that came after it began.
func readSlowly(cf *ColumnFamily) error {
	snap, err := cf.db.NewSnapshot()
	if err != nil {
		return err
	}
	defer snap.Release()
	var walks [2]int
	for i := range walks {
		it, err := cf.NewIterator(&ReadOptions{Snapshot: snap, TotalOrderSeek: true})
		if err != nil {
			return err
		}
		for k, v := range it.All() {
			if !bytes.HasPrefix(v, k[3:]) {
				it.Close()
				return fmt.Errorf("key %q has the value %.20q", k, v)
			}
			for _, c := range v[:16] {
				walks[i] = walks[i]*31 + int(c)
			}
		}
		if err := it.Close(); err != nil {
			return err
		}
	}
	if walks[0] != walks[1] {
		return fmt.Errorf("two walks of one snapshot differ")
	}
	return nil
}

// onlyLive checks that a closed database has no table file that no version names.
func onlyLive(t *testing.T, fsys *mmapfs.MemFS, o *Options) {
	t.Helper()
	state, err := manifest.Recover(fsys, "/db", manifest.RecoverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var live []string
	for _, f := range state.Families {
		for _, level := range f.Version.Levels {
			for _, m := range level {
				live = append(live, manifest.TableName("", m.Number))
			}
		}
	}
	slices.Sort(live)
	if found := tableFiles(t, fsys); !slices.Equal(found, live) {
		t.Errorf("table files %v, live are %v", found, live)
	}
}
