package flatrock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestResumeAfterEveryFailure lets the n-th operation that changes files fail once, for every n of a workload
// that goes on after Resume. What failed stays undone, nothing acknowledged is lost, and
// a crash right after Resume finds the same.
func TestResumeAfterEveryFailure(t *testing.T) {
	for _, mode := range []WALWriteMode{WALMapped, WALWrite} {
		t.Run(fmt.Sprint("mode=", mode), func(t *testing.T) {
			t.Parallel()
			step := 1
			if testing.Short() {
				step = 5
			}
			resumed := 0
			for n := 1; ; n += step {
				mem := mmapfs.NewMem()
				fault := mmapfs.NewFault(mem)
				db, err := Open("/db", crashOptions(fault, mode))
				if err != nil {
					t.Fatal(err)
				}
				fault.FailNth(n, mmapfs.OpMutate|mmapfs.OpSync|mmapfs.OpSyncDir, true)
				other := db.ColumnFamily("other")
				acked := uint64(0)
				try := func(what string, f func() error) {
					t.Helper()
					for range 3 {
						err := f()
						if err == nil {
							return
						}
						if !errors.Is(err, mmapfs.ErrInjected) {
							t.Fatalf("n=%d, %s: %v", n, what, err)
						}
						if err := db.Resume(context.Background()); err != nil && !errors.Is(err, mmapfs.ErrInjected) {
							t.Fatalf("n=%d, resume after %s: %v", n, what, err)
						}
						resumed++
						for name, fsys := range map[string]*mmapfs.MemFS{"killed": mem.Kill(), "power loss": mem.Crash(nil)} {
							checkRecovered(t, fmt.Sprintf("n=%d, %s after resume after %s", n, name, what), fsys, mode, acked, acked+1)
						}
					}
					t.Fatalf("n=%d, %s: it failed three times", n, what)
				}
				var b Batch
				for i := uint64(1); i <= 12; i++ {
					b.Reset()
					crashBatch(i, &b, other)
					try("write", func() error { return db.Write(&WriteOptions{Sync: true}, &b) })
					acked = i
					switch i {
					case 4, 8:
						try("flush", func() error { return db.Flush(context.Background(), nil) })
					case 6, 10:
						try("flush", func() error { return other.Flush(context.Background(), nil) })
					}
				}
				try("compaction", func() error { return other.CompactRange(context.Background(), nil, nil, nil) })
				if got, err := recoveredPrefix(db); err != nil || got != acked {
					t.Fatalf("n=%d: batch %d of %d, %v", n, got, acked, err)
				}
				err = db.Close()
				if err != nil && !errors.Is(err, mmapfs.ErrInjected) {
					t.Fatalf("n=%d: Close: %v", n, err)
				}
				checkRecovered(t, fmt.Sprintf("n=%d", n), mem, mode, acked, acked)
				if fault.Injected() == 0 {
					break
				}
			}
			if resumed < 10/step {
				t.Errorf("resumed only %d times", resumed)
			}
		})
	}
}

// checkRecovered opens what is on fsys and compares; nothing obsolete stays.
func checkRecovered(t *testing.T, what string, fsys *mmapfs.MemFS, mode WALWriteMode, least, most uint64) {
	t.Helper()
	db, err := Open("/db", crashOptions(fsys, mode))
	if err != nil {
		t.Fatalf("%s: Open: %v", what, err)
	}
	got, err := recoveredPrefix(db)
	if err != nil || got < least || got > most {
		t.Fatalf("%s: the state is that of batch %d, want %d to %d; %v", what, got, least, most, err)
	}
	if err := db.Close(); err != nil {
		t.Fatalf("%s: Close: %v", what, err)
	}
}

// TestFullDiskResumes: the database goes on by itself once there is room, and the
// write that failed stays undone.
func TestFullDiskResumes(t *testing.T) {
	for _, mode := range []WALWriteMode{WALMapped, WALWrite} {
		synctest.Test(t, func(t *testing.T) {
			mem := mmapfs.NewMem()
			fault := mmapfs.NewFault(mem)
			o := crashOptions(fault, mode)
			o.BgErrorResumeRetryInterval = 10 * time.Second
			db := mustOpen(t, fault, o)
			fault.FailWritesAfter(3 << 20)
			value := make([]byte, 100_000)
			acked, err := 0, error(nil)
			for err == nil {
				if err = db.Put(nil, fmt.Appendf(nil, "key%04d", acked), value); err == nil {
					acked++
				}
			}
			if !mmapfs.IsNoSpace(err) || !errors.Is(err, ErrBackground) {
				t.Fatalf("Put %d: %v, want a full disk", acked, err)
			}
			time.Sleep(time.Minute) // it tries in vain
			synctest.Wait()
			if err := db.Put(nil, []byte("key"), nil); !errors.Is(err, ErrBackground) {
				t.Fatalf("Put: %v, want the background error", err)
			}
			fault.FailWritesAfter(-1)
			if err := db.Put(nil, []byte("key"), nil); !errors.Is(err, ErrBackground) {
				t.Fatalf("Put: %v: resumed before its time", err)
			}
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if err := db.Put(&WriteOptions{Sync: true}, []byte("later"), nil); err != nil {
				t.Fatalf("Put once there was room: %v", err)
			}
			db2 := mustOpen(t, mem.Crash(nil), crashOptions(nil, mode))
			for _, d := range []*DB{db, db2} {
				for i := range acked + 1 {
					_, err := d.Get(nil, fmt.Appendf(nil, "key%04d", i), nil)
					if (i < acked) != (err == nil) || err != nil && !errors.Is(err, ErrNotFound) {
						t.Fatalf("key %d of %d: %v", i, acked, err)
					}
				}
				if _, err := d.Get(nil, []byte("later"), nil); err != nil {
					t.Fatal(err)
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestFullDiskDuringCompaction: writes go on, and the compaction runs once there is room.
func TestFullDiskDuringCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := mmapfs.NewFault(mmapfs.NewMem())
		o := &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
			DisableAutoCompactions: true, Level0FileNumCompactionTrigger: 2, Compression: NoCompression}}
		db := mustOpen(t, fault, o)
		for i := range 2 {
			for k := range 20 {
				if err := db.Put(nil, fmt.Appendf(nil, "key%d", k), append(make([]byte, 10_000), byte(i))); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		fault.FailWritesAfter(100_000)
		if err := db.SetOptions(map[string]string{"disable_auto_compactions": "false"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := db.Metrics().Compactions; n != 0 {
			t.Fatalf("%d compactions on a full disk", n)
		}
		fault.FailWritesAfter(-1)
		if err := db.Put(nil, []byte("key0"), []byte("v")); err != nil {
			t.Fatalf("Put: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := db.Metrics().Compactions; n != 1 {
			t.Errorf("%d compactions once there was room, want 1", n)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDamageIsNotResumed: what a file lost does not come back.
func TestDamageIsNotResumed(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), nil)
	if err := db.Resume(context.Background()); err != nil {
		t.Fatalf("Resume without an error: %v", err)
	}
	db.fail("checking table files", &CorruptionError{File: "000001.sst", Reason: "test"})
	if err := db.Resume(context.Background()); !errors.Is(err, ErrCorruption) {
		t.Errorf("Resume: %v, want the damage", err)
	}
	if err := db.Put(nil, []byte("key0"), nil); !errors.Is(err, ErrBackground) {
		t.Errorf("Put: %v", err)
	}
	db.Close()
	if err := db.Resume(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("Resume after Close: %v", err)
	}
}

// TestPauseBackgroundWork: a pause waits for what is under way and keeps what is not,
// as often as it was asked for; Close ends it.
func TestPauseBackgroundWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := mmapfs.NewFault(mmapfs.NewMem())
		db := mustOpen(t, fsys, nil)
		ctx := context.Background()
		put := func() {
			t.Helper()
			if err := db.Put(nil, []byte("key0"), nil); err != nil {
				t.Fatal(err)
			}
		}
		// A flush under way.
		release := make(chan struct{})
		fsys.SetHook(func(op mmapfs.Op, name string) error {
			if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") {
				<-release
			}
			return nil
		})
		put()
		if err := db.Flush(ctx, &FlushOptions{NoWait: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		brief, cancel := context.WithTimeout(ctx, time.Second)
		if err := db.PauseBackgroundWork(brief); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("PauseBackgroundWork while a flush hangs: %v", err)
		}
		cancel()
		close(release)
		for range 2 {
			if err := db.PauseBackgroundWork(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if n := db.Metrics().Flushes; n != 1 {
			t.Fatalf("%d flushes, want 1", n)
		}
		put()
		if err := db.Flush(ctx, &FlushOptions{NoWait: true}); err != nil {
			t.Fatal(err)
		}
		if err := db.ContinueBackgroundWork(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := db.Metrics().Flushes; n != 1 {
			t.Fatalf("%d flushes while paused once more, want 1", n)
		}
		if err := db.ContinueBackgroundWork(); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if n := db.Metrics().Flushes; n != 2 {
			t.Fatalf("%d flushes, want 2", n)
		}
		if err := db.ContinueBackgroundWork(); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("ContinueBackgroundWork too often: %v", err)
		}
		// A write that a full memtable holds while paused ends with Close.
		if err := db.PauseBackgroundWork(ctx); err != nil {
			t.Fatal(err)
		}
		if err := db.Put(&WriteOptions{DisableWAL: true}, []byte("unlogged"), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = mustOpen(t, fsys, nil)
		if _, err := db.Get(nil, []byte("unlogged"), nil); err != nil {
			t.Errorf("what Close had to flush: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCancelAllBackgroundWork ends a compaction under way.
func TestCancelAllBackgroundWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := mmapfs.NewFault(mmapfs.NewMem())
		db := mustOpen(t, fsys, nil)
		ctx := context.Background()
		for i := range 2 {
			if err := db.Put(nil, []byte("key0"), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
			if err := db.Flush(ctx, nil); err != nil {
				t.Fatal(err)
			}
		}
		release := make(chan struct{})
		fsys.SetHook(func(op mmapfs.Op, name string) error {
			if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") {
				<-release
			}
			return nil
		})
		done := make(chan error)
		go func() { done <- db.CompactRange(ctx, nil, nil, nil) }()
		synctest.Wait()
		go func() { time.Sleep(time.Second); close(release) }()
		if err := db.CancelAllBackgroundWork(true); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("CompactRange: %v, want ErrClosed", err)
		}
		if v, err := db.Get(nil, []byte("key0"), nil); err != nil || string(v) != "1" {
			t.Errorf("Get: %q, %v: reads go on", v, err)
		}
		if err := db.Put(nil, []byte("key0"), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Put: %v, want ErrClosed", err)
		}
		if n := len(tableFiles(t, fsys)); n != 2 {
			t.Errorf("%d table files, want the two inputs", n)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestResumeThatFailsRemembersTheTornLog: the first attempt begins a new log, and fails before the families need the
// torn one no more. The next one must not take the new log for a sign that all is well.
func TestResumeThatFailsRemembersTheTornLog(t *testing.T) {
	ctx := context.Background()
	mem := mmapfs.NewMem()
	fault := mmapfs.NewFault(mem)
	o := &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, WALWriteMode: WALWrite, ColumnFamilies: []ColumnFamilyDescriptor{{Name: "other"}},
		ColumnFamily: &ColumnFamilyOptions{MaxWriteBufferNumber: 9, MinWriteBufferNumberToMerge: 5}} // it keeps what it has in memory
	db := mustOpen(t, fault, o)
	other := db.ColumnFamily("other")
	for _, cf := range db.ColumnFamilies() {
		if err := cf.Put(nil, []byte("key"), []byte("before")); err != nil {
			t.Fatal(err)
		}
	}
	log, err := db.GetCurrentWalFile()
	if err != nil {
		t.Fatal(err)
	}
	torn := false
	fault.SetHook(func(op mmapfs.Op, name string) error {
		if op != mmapfs.OpWrite || name != log.PathName || torn {
			return nil
		}
		// A compaction has just failed, and now a write does in its middle.
		torn = true
		db.fail("compaction", mmapfs.ErrInjected)
		f, err := mem.OpenReadWrite(name)
		if err == nil {
			_, err = f.WriteAt([]byte{1, 2, 3, 4, 0x50, 0x01, 1, 'h', 'a', 'l', 'f'}, int64(log.SizeFileBytes))
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Error(err)
		}
		return mmapfs.ErrInjected
	})
	if err := other.Put(nil, []byte("key"), []byte("failed")); !torn || !errors.Is(err, mmapfs.ErrInjected) {
		t.Fatalf("a write that fails in its middle: %v", err)
	}
	fault.SetHook(func(op mmapfs.Op, name string) error {
		if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") || op == mmapfs.OpTruncate { // nor can the log be made whole
			return mmapfs.ErrInjected
		}
		return nil
	})
	if err := db.Resume(ctx); !errors.Is(err, mmapfs.ErrInjected) {
		t.Fatalf("the first attempt: %v", err)
	}
	fault.SetHook(nil)
	if err := db.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(ctx, nil); err != nil { // and no log says that it goes on behind the torn one
		t.Fatal(err)
	}
	for what, fsys := range map[string]*mmapfs.MemFS{"killed": mem.Kill(), "power loss": mem.Crash(nil)} {
		again, err := Open("/db", &Options{FS: fsys})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		for _, cf := range again.ColumnFamilies() {
			if v, err := cf.Get(nil, []byte("key"), nil); err != nil || string(v) != "before" {
				t.Errorf("%s: %s has %q, %v", what, cf.Name(), v, err)
			}
		}
		again.Close()
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestResumeWithoutItsLog: a log that failed and is gone needs no cutting; what it held is in memory.
func TestResumeWithoutItsLog(t *testing.T) {
	ctx := context.Background()
	mem := mmapfs.NewMem()
	fault := mmapfs.NewFault(mem)
	o := &Options{CreateIfMissing: true, WALWriteMode: WALWrite}
	db := mustOpen(t, fault, o)
	if err := db.Put(nil, []byte("key"), []byte("before")); err != nil {
		t.Fatal(err)
	}
	log, err := db.GetCurrentWalFile()
	if err != nil {
		t.Fatal(err)
	}
	fault.FailNth(1, mmapfs.OpSync, true)
	if err := db.Put(&WriteOptions{Sync: true}, []byte("key"), []byte("failed")); !errors.Is(err, mmapfs.ErrInjected) {
		t.Fatalf("a write whose sync fails: %v", err)
	}
	if err := mem.Remove(log.PathName); err != nil {
		t.Fatal(err)
	}
	if err := db.Resume(ctx); err != nil {
		t.Fatalf("Resume: %v", err)
	}
	if err := db.Put(nil, []byte("other"), []byte("after")); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, mem.Kill(), o)
	mustGet(t, again.DefaultColumnFamily(), "key", "before")
	mustGet(t, again.DefaultColumnFamily(), "other", "after")
}
