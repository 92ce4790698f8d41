package flatrock

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// heldInsert opens a database in which the memtable insert of key "a" is held, its group logged, when it
// returns. let lets it go on; first says how that write ended.
func heldInsert(t *testing.T, o *Options, wo *WriteOptions, batch *Batch) (db *DB, let func(), first chan error) {
	t.Helper()
	armed, release := new(atomic.Bool), make(chan struct{})
	o.CreateIfMissing, o.WALWriteMode = true, WALWrite
	o.ColumnFamily.Comparator = heldOrder{armed, func() { <-release }}
	db = mustOpen(t, mmapfs.NewMem(), o)
	if err := db.Put(nil, []byte("m"), []byte("before")); err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	first = make(chan error, 1)
	go func() { first <- db.Write(wo, batch) }()
	synctest.Wait()
	return db, func() { close(release) }, first
}

// TestTheNextGroupIsLoggedWhileOneIsInserted, with EnablePipelinedWrite, and only then; it is seen after
// the one before it, whether the memtable takes several writers or one.
func TestTheNextGroupIsLoggedWhileOneIsInserted(t *testing.T) {
	for _, pipelined := range []bool{false, true} {
		for _, kind := range []MemTableKind{SkipList, HashSkipList} {
			synctest.Test(t, func(t *testing.T) {
				var a Batch
				a.Put(nil, []byte("a"), []byte("1"))
				db, let, first := heldInsert(t, &Options{EnablePipelinedWrite: pipelined, ColumnFamily: &ColumnFamilyOptions{
					PrefixExtractor: FixedPrefix(0), MemTable: MemTableOptions{Kind: kind, BucketCount: 1}}}, nil, &a)
				rest := make(chan error, 2*pipelineDepth)
				for i := range cap(rest) {
					go func() { rest <- db.Put(nil, fmt.Appendf(nil, "b%d", i), []byte("2")) }()
				}
				synctest.Wait()
				if logged := db.metrics.walBatches.Load(); logged > 2 != pipelined {
					t.Errorf("%v pipelined=%v: %d batches in the log beside one that is inserted", kind, pipelined, logged)
				}
				for i := range cap(rest) {
					if _, err := db.Get(nil, fmt.Appendf(nil, "b%d", i), nil); !errors.Is(err, ErrNotFound) {
						t.Errorf("%v pipelined=%v: a write is seen before the one in front of it: %v", kind, pipelined, err)
					}
				}
				let()
				for range cap(rest) {
					if err := <-rest; err != nil {
						t.Fatal(err)
					}
				}
				if err := <-first; err != nil {
					t.Fatal(err)
				}
				if newest := db.visibleSeq.Load(); newest != uint64(cap(rest)+2) {
					t.Errorf("newest sequence number %d", newest)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestGroupsBehindAFailedOneFail: a group that was logged is not seen without the one in front of it, and
// nothing is written from then on.
func TestGroupsBehindAFailedOneFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Batch
		a.Put(nil, []byte("a"), []byte("1"))
		a.Put(nil, []byte("a2"), []byte("damaged"))
		db, let, first := heldInsert(t, &Options{EnablePipelinedWrite: true, ColumnFamily: &ColumnFamilyOptions{}}, &WriteOptions{ProtectionBytesPerKey: 8}, &a)
		second := make(chan error, 1)
		go func() { second <- db.Put(nil, []byte("b"), []byte("2")) }()
		synctest.Wait()
		body := a.rep.Bytes()
		body[len(body)-1] ^= 1
		let()
		if err := <-first; !errors.Is(err, ErrCorruption) {
			t.Errorf("the damaged batch: %v", err)
		}
		if err := <-second; !errors.Is(err, ErrCorruption) {
			t.Errorf("the batch behind it: %v", err)
		}
		for _, key := range []string{"a", "a2", "b"} {
			if _, err := db.Get(nil, []byte(key), nil); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s of a failed write: %v", key, err)
			}
		}
		if err := db.Put(nil, []byte("c"), nil); !errors.Is(err, ErrBackground) {
			t.Errorf("a write after it: %v", err)
		}
		db.Close()
	})
}

// TestPipelinedWritersBesideSwitches: writers of small and large batches into memtables of both sorts, which are
// full all the time, with flushes and snapshots beside them. Each batch is whole for every reader, a
// writer's are seen in order, and all is there after reopening.
func TestPipelinedWritersBesideSwitches(t *testing.T) {
	const writers, rounds = 6, 150
	mem := mmapfs.NewMem()
	o := func() *Options {
		return &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, EnablePipelinedWrite: true, MaxBackgroundJobs: 4,
			ColumnFamily: &ColumnFamilyOptions{WriteBufferSize: 64 << 10},
			ColumnFamilies: []ColumnFamilyDescriptor{
				{"hash", &ColumnFamilyOptions{WriteBufferSize: 64 << 10, PrefixExtractor: FixedPrefix(1), MemTable: MemTableOptions{Kind: HashSkipList, BucketCount: 16}}}}}
	}
	db := mustOpen(t, mem, o())
	db.pipe.long.Store(true) // and those that wait look for their turn
	other := db.ColumnFamily("hash")
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			key := fmt.Appendf(nil, "w%d", w)
			for n := range rounds {
				var b Batch
				value := fmt.Appendf(nil, "%06d", n)
				b.Put(nil, key, value)
				if n%3 > 0 {
					b.Put(other, key, value)
				}
				if n%10 == 5 {
					for i := range 2 * parallelOps {
						b.Put(nil, fmt.Appendf(nil, "x%d-%d-%d", w, n, i), make([]byte, 100))
					}
				}
				if n%50 == 7 {
					b.DeleteRange(nil, fmt.Appendf(nil, "x%d-0", w), fmt.Appendf(nil, "x%d-%d", w, n))
				}
				if err := db.Write(&WriteOptions{Sync: n%40 == 0, DisableWAL: n%20 == 10}, &b); err != nil {
					t.Error(err)
					return
				}
				if got, err := db.Get(nil, key, nil); err != nil || string(got) != string(value) {
					t.Errorf("writer %d wrote %s and reads %s, %v", w, value, got, err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() {
		var last [writers]string
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			s, err := db.NewSnapshot()
			if err != nil {
				t.Error(err)
				return
			}
			for w := range writers {
				key := fmt.Appendf(nil, "w%d", w)
				one, err := db.Get(&ReadOptions{Snapshot: s}, key, nil)
				if err != nil && !errors.Is(err, ErrNotFound) {
					t.Error(err)
				}
				two, err := other.Get(&ReadOptions{Snapshot: s}, key, nil)
				if err != nil && !errors.Is(err, ErrNotFound) {
					t.Error(err)
				}
				// Every third batch writes the first family only.
				n := 0
				fmt.Sscanf(string(one), "%06d", &n)
				want := string(one)
				if len(one) > 0 && n%3 == 0 {
					if want = fmt.Sprintf("%06d", n-1); n == 0 {
						want = ""
					}
				}
				if string(two) != want || string(one) < last[w] {
					t.Errorf("writer %d: %q and %q in a snapshot, after %q", w, one, two, last[w])
				}
				last[w] = string(one)
			}
			s.Release()
			if i%20 == 0 {
				if err := db.Flush(t.Context(), nil); err != nil {
					t.Error(err)
				}
			}
		}
	})
	wg.Wait()
	close(done)
	beside.Wait()
	if db.pipe.bytes.Load() != 0 || db.pipe.failed != nil {
		t.Errorf("%d bytes are still under way, failed: %v", db.pipe.bytes.Load(), db.pipe.failed)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = mustOpen(t, mem, o())
	for w := range writers {
		for i, cf := range []*ColumnFamily{db.DefaultColumnFamily(), db.ColumnFamily("hash")} {
			want := fmt.Sprintf("%06d", rounds-1)
			if v, err := cf.Get(nil, fmt.Appendf(nil, "w%d", w), nil); err != nil || string(v) != want {
				t.Errorf("writer %d, family %d: %s, %v; want %s", w, i, v, err, want)
			}
		}
	}
}

// TestPipelinedWriteIsStored in the OPTIONS file, and refused beside AtomicFlush, given or stored.
func TestPipelinedWriteIsStored(t *testing.T) {
	mem := mmapfs.NewMem()
	db := mustOpen(t, mem, &Options{CreateIfMissing: true, EnablePipelinedWrite: true, AtomicFlush: Off})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	o, err := LoadLatestOptions(mem, "/db")
	if err != nil || !o.EnablePipelinedWrite {
		t.Fatalf("loaded %+v, %v", o, err)
	}
	o.AtomicFlush = On
	if _, err := Open("/db", o); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("beside AtomicFlush: %v", err)
	}
	db = mustOpen(t, mem, &Options{AtomicFlush: On})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("/db", &Options{FS: mem, EnablePipelinedWrite: true}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("beside a stored atomic_flush: %v", err)
	}
	db = mustOpen(t, mem, &Options{AtomicFlush: Off, EnablePipelinedWrite: true})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
