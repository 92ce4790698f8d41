package flatrock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestAtomicFlush: with AtomicFlush families hold the same prefix of batches that no log
// has, wherever the machine dies; without it they do not, or the test sees nothing.
func TestAtomicFlush(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 40
	}
	for _, atomic := range []bool{true, false} {
		rng := rand.New(rand.NewPCG(12, 12))
		torn, some := 0, 0
		for range rounds {
			n, err := atomicFlushRound(t, rng, atomic)
			if err != nil {
				torn++
				if atomic {
					t.Fatal(err)
				}
			}
			if n > 0 {
				some++
			}
		}
		if some < rounds/3 || !atomic && torn == 0 {
			t.Fatalf("atomic %v: %d of %d rounds kept anything, %d of them torn", atomic, some, rounds, torn)
		}
	}
}

// atomicFlushRound writes batches without log, dies at a random operation, and
// returns the batch whose state both families have; an error if they differ.
func atomicFlushRound(t *testing.T, rng *rand.Rand, atomic bool) (uint64, error) {
	t.Helper()
	mem := mmapfs.NewMem()
	fault := mmapfs.NewFault(mem)
	var mu sync.Mutex
	var after *mmapfs.MemFS
	ops, crashAt := 0, 20+rng.IntN(150)
	crashRNG := rand.New(rand.NewPCG(rng.Uint64(), 1))
	o := crashOptions(fault, WALAuto)
	o.EnablePipelinedWrite = false // excludes AtomicFlush
	o.AtomicFlush = toggle(atomic)
	o.ColumnFamilies[0].Options.WriteBufferSize = 150 << 10
	db, err := Open("/db", o)
	if err != nil {
		t.Fatal(err)
	}
	fault.SetHook(func(mmapfs.Op, string) error {
		mu.Lock()
		defer mu.Unlock()
		if ops++; ops == crashAt {
			after = mem.Crash(crashRNG)
		}
		return nil
	})
	var b Batch
	other := db.ColumnFamily("other")
	for i := uint64(1); i <= 150; i++ {
		b.Reset()
		crashBatch(i, &b, other)
		if err := db.Write(&WriteOptions{DisableWAL: true}, &b); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(50) == 0 {
			if err := db.FlushFamilies(context.Background(), nil, db.DefaultColumnFamily(), other); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if after == nil {
		after = mem.Crash(crashRNG)
	}
	mu.Unlock()
	o = crashOptions(after, WALAuto)
	o.EnablePipelinedWrite = false
	if db, err = Open("/db", o); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return recoveredPrefix(db)
}

// TestManualWALFlush: what FlushWAL, SyncWAL or a synced write gave away survives the
// death of the process, what came later does not, and what survives is a prefix.
func TestManualWALFlush(t *testing.T) {
	if _, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ManualWALFlush: true, WALWriteMode: WALMapped}); !errors.Is(err, ErrInvalidArgument) {
		t.Fatalf("with WALMapped: %v", err)
	}
	for name, flush := range map[string]func(*DB) error{
		"FlushWAL":         func(db *DB) error { return db.FlushWAL(false) },
		"FlushWAL, synced": func(db *DB) error { return db.FlushWAL(true) },
		"SyncWAL":          func(db *DB) error { return db.SyncWAL() },
		"a synced write":   func(db *DB) error { return db.Put(&WriteOptions{Sync: true}, []byte("sync"), nil) },
		"a checkpoint": func(db *DB) error {
			_, err := db.CreateCheckpoint(context.Background(), "/copy", &CheckpointOptions{LogSizeForFlush: NeverFlush})
			return err
		},
		"a buffer full": func(db *DB) error { return db.Put(nil, []byte("big"), make([]byte, manualFlushBuffer+1)) },
	} {
		mem := mmapfs.NewMem()
		db, err := Open("/db", &Options{FS: mem, CreateIfMissing: true, ManualWALFlush: true})
		if err != nil {
			t.Fatal(err)
		}
		put := func(key string) {
			t.Helper()
			if err := db.Put(nil, []byte(key), []byte("v")); err != nil {
				t.Fatal(err)
			}
		}
		put("before")
		killed := map[string]*mmapfs.MemFS{"nothing": mem.Kill()}
		if err := flush(db); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		put("after")
		killed["before"] = mem.Kill()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		killed["before after"] = mem.Kill()
		for want, fsys := range killed {
			db, err := Open("/db", &Options{FS: fsys})
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"before", "after"} {
				_, err := db.Get(nil, []byte(key), nil)
				if has := strings.Contains(want, key); has != (err == nil) {
					t.Errorf("%s: of %q, key %q: %v", name, want, key, err)
				}
			}
			db.Close()
		}
	}
}

// TestApproximateSizesAndKeyMayExist over files and memtables of both formats.
func TestApproximateSizesAndKeyMayExist(t *testing.T) {
	for name, o := range ingestFamilies() {
		db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: o})
		if err != nil {
			t.Fatal(err)
		}
		cf := db.DefaultColumnFamily()
		key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
		value := make([]byte, 100)
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range 2000 {
			for j := range value {
				value[j] = byte(rng.IntN(256)) // so that compression changes nothing
			}
			if err := cf.Put(nil, key(2*i), value); err != nil {
				t.Fatal(err)
			}
		}
		if n, size, err := cf.GetApproximateMemTableStats(KeyRange{}); err != nil || n == 0 || size < n*100 {
			t.Fatalf("%s: memtables: %d entries, %d bytes, %v", name, n, size, err)
		}
		if err := cf.CompactRange(context.Background(), nil, nil, nil); err != nil {
			t.Fatal(err)
		}
		ranges := []KeyRange{{}, {key(0), key(2000)}, {key(2000), key(4000)}, {key(1000), key(3000)}, {[]byte("a"), []byte("b")}, {[]byte("x"), nil}}
		if name == "reverse" {
			for i, r := range ranges {
				ranges[i] = KeyRange{r.End, r.Start}
			}
		}
		sizes, err := cf.GetApproximateSizes(nil, ranges)
		if err != nil {
			t.Fatal(err)
		}
		total := sizes[0]
		near := func(n uint64, share float64) bool {
			slack := 0.08 * float64(total)
			if _, plain := o.Table.(PlainTableOptions); plain {
				slack = float64(total) // a plain table counts whole or not at all
			}
			return float64(n) > share*float64(total)-slack && float64(n) < share*float64(total)+slack
		}
		if total < 200_000 || !near(sizes[1], 0.5) || !near(sizes[2], 0.5) || !near(sizes[3], 0.5) || sizes[4] != 0 || sizes[5] != 0 {
			t.Errorf("%s: sizes %d", name, sizes)
		}
		if err := cf.Put(nil, key(9999), []byte("in memory")); err != nil {
			t.Fatal(err)
		}
		if err := cf.Delete(nil, key(0)); err != nil {
			t.Fatal(err)
		}
		with, err := cf.GetApproximateSizes(&SizeApproximationOptions{IncludeMemtables: true, ExcludeFiles: true}, ranges[:1])
		if err != nil || with[0] == 0 || with[0] > 200 {
			t.Errorf("%s: memtables have %d, %v", name, with, err)
		}
		v, found, may, err := cf.KeyMayExist(nil, key(9999), nil)
		if err != nil || !may || !found || string(v) != "in memory" {
			t.Errorf("%s: a key in memory: %q %v %v %v", name, v, found, may, err)
		}
		if _, _, may, err := cf.KeyMayExist(nil, key(0), nil); may || err != nil {
			t.Errorf("%s: a deleted key: %v, %v", name, may, err)
		}
		wrong := 0
		for i := range 1000 {
			if _, _, may, err := cf.KeyMayExist(nil, key(2*i+2), nil); !may || err != nil {
				t.Fatalf("%s: a key that exists: %v, %v", name, may, err)
			}
			if _, _, may, _ := cf.KeyMayExist(nil, key(2*i+1), nil); may {
				wrong++
			}
		}
		if wrong > 200 && name != "reverse" { // that one has no filter
			t.Errorf("%s: %d of 1000 keys that do not exist may", name, wrong)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
