package flatrock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestEveryOperationFails lets the n-th file operation of a workload of open,
// write, flush, compact, close and reopen fail, for every n, once and for good.
// Each gives an error or none, never a panic, and loses nothing that was
// acknowledged; the database then opens again.
func TestEveryOperationFails(t *testing.T) {
	for _, mode := range []WALWriteMode{WALMapped, WALWrite} {
		for _, once := range []bool{true, false} {
			t.Run(fmt.Sprintf("mode=%d/once=%v", mode, once), func(t *testing.T) {
				t.Parallel()
				step := 1
				if testing.Short() {
					step = 7
				}
				for n := 1; ; n += step {
					mem := mmapfs.NewMem()
					fault := mmapfs.NewFault(mem)
					fault.FailNth(n, mmapfs.OpAll, once)
					acked, started, err := faultWorkload(fault, mode)
					injected := fault.Injected()
					if err == nil && injected > 0 && !once {
						// Every later operation failed: something must have noticed, unless only cleaning up was left.
						if fault.Count(mmapfs.OpMutate) > 0 && acked < started {
							t.Fatalf("n=%d: %d of %d batches acknowledged without an error", n, acked, started)
						}
					}
					if err != nil && !errors.Is(err, mmapfs.ErrInjected) {
						t.Fatalf("n=%d: %v does not match the injected error", n, err)
					}
					// Whatever happened, the process may have died right here.
					for name, fsys := range map[string]*mmapfs.MemFS{"killed": mem.Kill(), "power loss": mem.Crash(nil)} {
						db, err := Open("/db", crashOptions(fsys, mode))
						if err != nil {
							t.Fatalf("n=%d, %s: Open without faults: %v", n, name, err)
						}
						got, err := recoveredPrefix(db)
						if err != nil {
							t.Fatalf("n=%d, %s: %v", n, name, err)
						}
						if got < acked || got > started {
							t.Fatalf("n=%d, %s: the state is that of batch %d; %d were acknowledged, %d begun", n, name, got, acked, started)
						}
						if err := db.Close(); err != nil {
							t.Fatalf("n=%d, %s: Close: %v", n, name, err)
						}
					}
					if injected == 0 {
						if n < 100 {
							t.Fatalf("the workload has only %d operations", n)
						}
						return
					}
				}
			})
		}
	}
}

// faultWorkload writes synced batches with everything that goes on around them,
// until something fails.
func faultWorkload(fsys mmapfs.FS, mode WALWriteMode) (acked, started uint64, err error) {
	for range 2 {
		db, err := Open("/db", crashOptions(fsys, mode))
		if err != nil {
			return acked, started, err
		}
		err = func() error {
			if got, err := recoveredPrefix(db); err != nil || got != acked { // reads what was flushed
				return errors.Join(err, fmt.Errorf("the state is that of batch %d of %d", got, acked))
			}
			var b Batch
			other := db.ColumnFamily("other")
			for range 8 {
				started++
				b.Reset()
				crashBatch(started, &b, other)
				if err := db.Write(&WriteOptions{Sync: true}, &b); err != nil {
					return err
				}
				acked = started
				if _, err := db.Get(nil, []byte("count"), nil); err != nil {
					return err
				}
				if started%3 == 0 {
					if err := db.Flush(context.Background(), nil); err != nil {
						return err
					}
				}
			}
			if err := other.CompactRange(context.Background(), nil, nil, nil); err != nil {
				return err
			}
			return db.CompactRange(context.Background(), nil, nil, nil)
		}()
		if cerr := db.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return acked, started, err
		}
	}
	return acked, started, nil
}

// TestNothingIsWrittenOverAFailure: after a failed log append every write is refused, and says why.
func TestNothingIsWrittenOverAFailure(t *testing.T) {
	for _, mode := range []WALWriteMode{WALMapped, WALWrite} {
		fault := mmapfs.NewFault(mmapfs.NewMem())
		db, err := Open("/db", crashOptions(fault, mode))
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Put(nil, []byte("key01"), []byte("v")); err != nil {
			t.Fatal(err)
		}
		fault.FailNth(1, mmapfs.OpWrite|mmapfs.OpMappedWrite, true)
		err = db.Put(nil, []byte("key02"), []byte("v"))
		if !errors.Is(err, ErrBackground) || !errors.Is(err, mmapfs.ErrInjected) {
			t.Fatalf("Put: %v, want a background error that wraps the injected one", err)
		}
		if err := db.Put(nil, []byte("key03"), []byte("v")); !errors.Is(err, ErrBackground) {
			t.Fatalf("the next Put: %v, want the background error", err)
		}
		if v, err := db.Get(nil, []byte("key01"), nil); err != nil || string(v) != "v" {
			t.Fatalf("Get: %q, %v: reads go on", v, err)
		}
		if _, err := db.Get(nil, []byte("key02"), nil); !errors.Is(err, ErrNotFound) {
			t.Fatalf("Get of the failed write: %v", err)
		}
		if err := db.Close(); !errors.Is(err, ErrBackground) {
			t.Fatalf("Close: %v, want the background error", err)
		}
	}
}

// TestFullDisk: a full disk is an error of Put, not a signal, and loses nothing.
func TestFullDisk(t *testing.T) {
	fault := mmapfs.NewFault(mmapfs.NewMem())
	fillUntilFull(t, fault, "/db", func(room bool) {
		if room {
			fault.FailWritesAfter(-1)
		} else {
			fault.FailWritesAfter(3 << 20)
		}
	})
}

// fillUntilFull writes until the disk is full, makes room, and checks that
// everything that was acknowledged is there.
func fillUntilFull(t *testing.T, fsys mmapfs.FS, dir string, room func(bool)) {
	t.Helper()
	for _, mode := range []WALWriteMode{WALAuto, WALWrite} {
		sub := filepath.Join(dir, fmt.Sprint(mode))
		room(false)
		o := crashOptions(fsys, mode)
		o.ColumnFamily.WriteBufferSize = 64 << 20 // only the log grows
		db, err := Open(sub, o)
		if err != nil {
			t.Fatal(err)
		}
		value := bytes.Repeat([]byte("x"), 10_000)
		acked := 0
		for err == nil && acked < 1e6 {
			err = db.Put(nil, fmt.Appendf(nil, "key%07d", acked), value)
			if err == nil {
				acked++
			}
		}
		if !mmapfs.IsNoSpace(err) {
			t.Fatalf("Put: %v, want no space left", err)
		}
		db.Close()
		room(true)
		if db, err = Open(sub, crashOptions(fsys, mode)); err != nil {
			t.Fatal(err)
		}
		for i := range acked {
			if v, err := db.Get(nil, fmt.Appendf(nil, "key%07d", i), nil); err != nil || !bytes.Equal(v, value) {
				t.Fatalf("key %d of %d: %d bytes, %v", i, acked, len(v), err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := fsys.RemoveAll(sub); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTruncatedTable: a table file that is cut under its mapping gives an error
// that names it, from every kind of read.
func TestTruncatedTable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut there")
	}
	t.Run("plain", func(t *testing.T) {
		testTruncatedTable(t, &Options{ColumnFamily: &ColumnFamilyOptions{
			PrefixExtractor: FixedPrefix(4),
			Table:           PlainTableOptions{Memory: MemoryNone},
			MemTable:        MemTableOptions{Kind: HashSkipList, BucketCount: 16},
		}})
	})
	t.Run("block", func(t *testing.T) {
		testTruncatedTable(t, &Options{AllowMmapReads: true, ColumnFamily: &ColumnFamilyOptions{Compression: NoCompression}})
	})
	t.Run("block, compressed", func(t *testing.T) {
		testTruncatedTable(t, &Options{AllowMmapReads: true, ColumnFamily: &ColumnFamilyOptions{
			Table: BlockBasedTableOptions{BlockSize: 1000, FilterPolicy: BloomFilter(10), IndexType: TwoLevelIndexSearch, PartitionFilters: true, MetadataBlockSize: 100},
		}})
	})
}

func testTruncatedTable(t *testing.T, o *Options) {
	dir := t.TempDir()
	o.CreateIfMissing = true
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	value := bytes.Repeat([]byte("x"), 1000)
	var keys [][]byte
	for i := range 1000 {
		k := fmt.Appendf(nil, "key%05d", i)
		keys = append(keys, k)
		if err := db.Put(nil, k, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatal(tables, err)
	}
	if err := os.Truncate(tables[0], 4096); err != nil {
		t.Fatal(err)
	}
	base := filepath.Base(tables[0])
	names := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, mmapfs.ErrFault) || !strings.Contains(err.Error(), base) {
			t.Errorf("%s: %v, want a fault that names %s", what, err, base)
		}
	}
	_, err = db.Get(nil, keys[900], nil)
	names("Get", err)
	var p PinnedValue
	names("GetPinned", db.GetPinned(nil, keys[900], &p))
	results, err := db.MultiGet(nil, keys[895:905], nil)
	if err == nil {
		err = results[5].Err
	}
	names("MultiGet", err)
	it, err := db.NewIterator(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range it.All() {
		n++
	}
	names("iterator", it.Err())
	if n >= 1000 {
		t.Errorf("the iterator gave all %d keys of a file that was cut", n)
	}
	it.Close()
	if err := db.Put(nil, keys[0], value); err != nil {
		t.Errorf("Put after the fault: %v", err)
	}
	// A compaction may find the end of the file where it reads.
	if err := db.CompactRange(context.Background(), nil, nil, nil); err == nil || !strings.Contains(err.Error(), base) {
		t.Errorf("CompactRange: %v, want an error that names %s", err, base)
	}
}
