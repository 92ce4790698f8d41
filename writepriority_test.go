package flatrock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// behindDB opens a database whose default family has so many files in level 0, and
// whose compactions hang until release is closed.
func behindDB(t *testing.T, files int, o *Options) (db *DB, release chan struct{}) {
	t.Helper()
	fsys := mmapfs.NewFault(mmapfs.NewMem())
	o.CreateIfMissing = true
	db = mustOpen(t, fsys, o)
	release = make(chan struct{})
	first, made := o.ColumnFamily.Level0FileNumCompactionTrigger, 0
	fsys.SetHook(func(op mmapfs.Op, name string) error {
		if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") {
			if made++; made == first+1 { // after the flushes comes the compaction
				<-release
			}
		}
		return nil
	})
	for range files {
		if err := db.Put(nil, []byte("key"), []byte("value")); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(context.Background(), &FlushOptions{AllowWriteStall: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
	return db, release
}

func wantIncomplete(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrIncomplete) {
		t.Fatalf("a write that would have to wait returned %v, want ErrIncomplete", err)
	}
}

// TestNoSlowdownFailsWhereWritesStop: with writes stopped, a write that will not wait fails as
// leader, while it waits behind one that does, and on arrival; nothing of it is there.
func TestNoSlowdownFailsWhereWritesStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, release := behindDB(t, 4, &Options{ColumnFamily: &ColumnFamilyOptions{
			Level0FileNumCompactionTrigger: 2, Level0SlowdownWritesTrigger: 3, Level0StopWritesTrigger: 4}})
		hasty := &WriteOptions{NoSlowdown: true}
		wantIncomplete(t, db.Put(hasty, []byte("no"), nil))
		waiting := make(chan error)
		go func() { waiting <- db.Put(nil, []byte("yes"), []byte("v")) }()
		synctest.Wait()
		wantIncomplete(t, db.Put(hasty, []byte("no"), nil))
		close(release)
		if err := <-waiting; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := db.Put(hasty, []byte("later"), []byte("v")); err != nil {
			t.Fatalf("with writes going again: %v", err)
		}
		if _, err := db.Get(nil, []byte("no"), nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("of a write that failed: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNoSlowdownLeavesTheQueue: what waits in the queue behind a leader whose wait begins fails then.
func TestNoSlowdownLeavesTheQueue(t *testing.T) {
	var q commitQueue
	patient, hasty := newRequest().(*request), newRequest().(*request)
	hasty.noSlowdown = true
	q.led, q.waiting = true, []*request{patient, hasty, patient}
	q.begin()
	if len(q.waiting) != 2 || q.waiting[0] != patient || q.waiting[1] != patient || hasty.state.Load() != requestWoken || patient.state.Load() != requestIdle {
		t.Fatalf("%d wait, states %d and %d", len(q.waiting), hasty.state.Load(), patient.state.Load())
	}
	wantIncomplete(t, hasty.err)
	if q.end(); q.stalled {
		t.Error("still stalled")
	}
}

// TestNoSlowdownFailsWhereWritesAreDelayed: and takes nothing of the rate from those who wait.
func TestNoSlowdownFailsWhereWritesAreDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, release := behindDB(t, 2, &Options{DelayedWriteRate: 20_000, ColumnFamily: &ColumnFamilyOptions{
			Level0FileNumCompactionTrigger: 2, Level0SlowdownWritesTrigger: 2}})
		hasty := &WriteOptions{NoSlowdown: true}
		for range 100 {
			wantIncomplete(t, db.Put(hasty, []byte("no"), make([]byte, 20_000)))
		}
		start := time.Now()
		if err := db.Put(nil, []byte("yes"), make([]byte, 20_000)); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("20,000 bytes at 20,000 a second took %v", d)
		}
		close(release)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestLowPriGivesWay: while compactions are behind, but not so far that writes are delayed, low-priority writes
// share 1 MiB a second, and others are not held up by them.
func TestLowPriGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, release := behindDB(t, 4, &Options{ColumnFamily: &ColumnFamilyOptions{Level0FileNumCompactionTrigger: 2}})
		low := &WriteOptions{LowPri: true}
		wantIncomplete(t, db.Put(&WriteOptions{LowPri: true, NoSlowdown: true}, []byte("no"), nil))
		start, done := time.Now(), make(chan error)
		go func() {
			for range 4 {
				if err := db.Put(low, []byte("low"), make([]byte, 1<<20)); err != nil {
					done <- err
				}
			}
			done <- nil
		}()
		synctest.Wait()
		if err := db.Put(nil, []byte("high"), nil); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("another write waited for %v", d)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 3500*time.Millisecond || d > 4500*time.Millisecond || db.Metrics().LowPriTime != d {
			t.Errorf("4 MiB took %v (counted: %v), want about 4 s", d, db.Metrics().LowPriTime)
		}
		close(release)
		synctest.Wait()
		start = time.Now()
		if err := db.Put(&WriteOptions{LowPri: true, NoSlowdown: true}, []byte("low"), make([]byte, 8<<20)); err != nil || time.Since(start) != 0 {
			t.Errorf("with compactions done: %v after %v", err, time.Since(start))
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestLowPriWriteEndsWithTheDatabase: Close does not wait for the rate.
func TestLowPriWriteEndsWithTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, release := behindDB(t, 4, &Options{ColumnFamily: &ColumnFamilyOptions{Level0FileNumCompactionTrigger: 2}})
		done := make(chan error)
		go func() { done <- db.Put(&WriteOptions{LowPri: true}, []byte("low"), make([]byte, 100<<20)) }()
		synctest.Wait()
		close(release)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("the write returned %v", err)
		}
	})
}

// TestNoSlowdownAndTheWriteBufferManager: a full manager is a reason to fail too.
func TestNoSlowdownAndTheWriteBufferManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buffers := NewWriteBufferManager(WriteBufferManagerOptions{BufferSize: 1 << 20, AllowStall: true})
		fsys := mmapfs.NewFault(mmapfs.NewMem())
		db := mustOpen(t, fsys, &Options{CreateIfMissing: true, WriteBufferManager: buffers, ColumnFamily: &ColumnFamilyOptions{}})
		release := make(chan struct{})
		fsys.SetHook(func(op mmapfs.Op, name string) error {
			if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") {
				<-release
			}
			return nil
		})
		var err error
		for range 100 {
			if err = db.Put(&WriteOptions{NoSlowdown: true}, []byte("key"), make([]byte, 100<<10)); err != nil {
				break
			}
		}
		wantIncomplete(t, err)
		close(release)
		synctest.Wait()
		if err := db.Put(&WriteOptions{NoSlowdown: true}, []byte("key"), nil); err != nil {
			t.Errorf("after the flush: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
