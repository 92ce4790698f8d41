package flatrock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// drain applies what the iterator has to a replica, and returns the number after it.
func drain(t *testing.T, it *UpdatesIterator, to *DB) (batches int) {
	t.Helper()
	for ok := it.Valid() || it.Next(); ok; ok = it.Next() {
		u := it.Batch()
		if want := to.visibleSeq.Load() + 1; u.Sequence != want {
			t.Fatalf("a batch with sequence number %d, want %d", u.Sequence, want)
		}
		b, err := to.LoadBatch(u.Data)
		if err != nil {
			t.Fatal(err)
		}
		if b.Count() != u.Count {
			t.Fatalf("a batch of %d operations, want %d", b.Count(), u.Count)
		}
		if err := to.Write(nil, b); err != nil {
			t.Fatal(err)
		}
		batches++
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return batches
}

// TestUpdatesReplicate: a copy that applies the updates of the logs is equal at each
// end, over flushes, new logs, archived logs and reopening, and in every write mode.
func TestUpdatesReplicate(t *testing.T) {
	for _, mode := range []WALWriteMode{WALMapped, WALWrite} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			mem := mmapfs.NewMem()
			families := ingestFamilies()
			open := func(dir string) *DB {
				o := &Options{FS: mem, CreateIfMissing: true, BlockCacheSize: 1 << 20, WALWriteMode: mode, WALTTLSeconds: 3600, ColumnFamily: families["default"]}
				db, err := Open(dir, o)
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range slices.Sorted(maps.Keys(families)) {
					if db.ColumnFamily(name) == nil {
						if _, err := db.CreateColumnFamily(name, families[name]); err != nil {
							t.Fatal(err)
						}
					}
				}
				return db
			}
			db, copied := open("/db"), open("/copy")
			it, err := db.GetUpdatesSince(1)
			if err != nil || it.Valid() {
				t.Fatal(it.Valid(), err)
			}
			rng, now := rand.New(rand.NewPCG(6, 6)), model{}
			var b Batch
			for round := range 12 {
				fillCheckpointed(t, db, rng, now, 30)
				big := make([]byte, 70_000) // over several blocks of the log
				if err := db.Put(nil, []byte("k99999"), big); err != nil {
					t.Fatal(err)
				}
				now["default"]["k99999"] = string(big)
				b.Reset()
				b.PutLogData([]byte("note"))
				for _, cf := range db.ColumnFamilies() {
					b.Merge(cf, []byte("k88888"), []byte("x"))
					if old, ok := now[cf.Name()]["k88888"]; ok {
						now[cf.Name()]["k88888"] = old + ",x"
					} else {
						now[cf.Name()]["k88888"] = "x"
					}
				}
				b.DeleteRange(nil, []byte("k00010"), []byte("k00030"))
				for k := range now["default"] {
					if k >= "k00010" && k < "k00030" {
						delete(now["default"], k)
					}
				}
				if err := db.Write(nil, &b); err != nil {
					t.Fatal(err)
				}
				switch round {
				case 4, 8:
					it.Close()
					if err := db.Close(); err != nil {
						t.Fatal(err)
					}
					db = open("/db")
					if it, err = db.GetUpdatesSince(copied.visibleSeq.Load() + 1); err != nil {
						t.Fatal(err)
					}
				case 6:
					it.Close()
					if it, err = db.GetUpdatesSince(copied.visibleSeq.Load() + 1); err != nil {
						t.Fatal(err)
					}
				}
				if n := drain(t, it, copied); n < 30 {
					t.Fatalf("round %d: %d batches", round, n)
				}
				checkModel(t, "the copy", copied, now)
			}
			// From the first number, all logs over again: every operation once.
			again, err := db.GetUpdatesSince(1)
			if err != nil {
				t.Fatal(err)
			}
			want := uint64(1)
			for ok := again.Valid(); ok; ok = again.Next() {
				for u, err := range again.Batch().Updates() {
					if err != nil || u.Sequence != want {
						t.Fatalf("update %d: %+v, %v", want, u, err)
					}
					want++
				}
			}
			if err := again.Err(); err != nil || want != db.visibleSeq.Load()+1 {
				t.Fatalf("%d updates of %d, %v", want-1, db.visibleSeq.Load(), err)
			}
			// A batch in the middle is found by any of its numbers.
			mid, err := db.GetUpdatesSince(want / 2)
			if err != nil || !mid.Valid() || mid.Batch().Sequence > want/2 || mid.Batch().Sequence+uint64(mid.Batch().Count) <= want/2 {
				t.Fatal(err)
			}
			for _, it := range []*UpdatesIterator{it, again, mid} {
				it.Close()
			}
			files, err := db.GetSortedWalFiles()
			if err != nil {
				t.Fatal(err)
			}
			archived := 0
			for i, f := range files {
				if f.Archived {
					archived++
				}
				if i > 0 && (f.LogNumber <= files[i-1].LogNumber || f.Archived && !files[i-1].Archived) {
					t.Fatalf("logs out of order: %+v", files)
				}
			}
			current, err := db.GetCurrentWalFile()
			if err != nil || archived < 3 || files[len(files)-1].LogNumber != current.LogNumber || current.Archived {
				t.Fatalf("%d archived logs, the current one is %+v, %v", archived, current, err)
			}
			if err := errors.Join(db.Close(), copied.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestUpdatesBesideWriters: an iterator that runs while others write sees every number once, in order.
func TestUpdatesBesideWriters(t *testing.T) {
	for _, mode := range []WALWriteMode{WALMapped, WALWrite} {
		db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, WALWriteMode: mode, WALSizeLimitMB: 1 << 10,
			ColumnFamily: &ColumnFamilyOptions{WriteBufferSize: 64 << 10}})
		if err != nil {
			t.Fatal(err)
		}
		const writers, each = 3, 700
		done := make(chan error, writers)
		for w := range writers {
			go func() {
				for i := range each {
					if err := db.Put(nil, fmt.Appendf(nil, "key-%d-%d", w, i), make([]byte, i%900)); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		it, err := db.GetUpdatesSince(1)
		if err != nil {
			t.Fatal(err)
		}
		next, running := uint64(1), writers
		for next <= writers*each {
			for ok := it.Valid() || it.Next(); ok; ok = it.Next() {
				if it.Batch().Sequence != next {
					t.Fatalf("mode %v: a batch with number %d, want %d", mode, it.Batch().Sequence, next)
				}
				next += uint64(it.Batch().Count)
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
			for running > 0 {
				select {
				case err := <-done:
					if running--; err != nil {
						t.Fatal(err)
					}
					continue
				default:
				}
				break
			}
		}
		if next != db.visibleSeq.Load()+1 {
			t.Fatalf("mode %v: ended before %d", mode, next)
		}
		it.Close()
		for range running {
			<-done
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUpdatesGaps: numbers that no log holds are an error that says which, not silence.
func TestUpdatesGaps(t *testing.T) {
	db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, WALTTLSeconds: 3600})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	put := func(wo *WriteOptions) {
		t.Helper()
		if err := db.Put(wo, []byte("key"), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	put(nil)
	it, err := db.GetUpdatesSince(0)
	if err != nil || !it.Valid() || it.Next() {
		t.Fatal(it, err)
	}
	put(&WriteOptions{DisableWAL: true}) // number 2
	if it.Next() || it.Err() != nil {
		t.Fatalf("nothing is in the log yet: %v", it.Err())
	}
	put(nil) // number 3
	gap := new(UpdatesGapError)
	if it.Next() || !errors.As(it.Err(), &gap) || gap.Wanted != 2 || gap.Found != 3 {
		t.Fatalf("a write without log: %v", it.Err())
	}
	it.Close()
	externalOf(t, db.DefaultColumnFamily(), "/f.sst", map[string]string{"key": "w"})
	if it, err = db.GetUpdatesSince(3); err != nil || !it.Valid() {
		t.Fatal(err)
	}
	if err := db.IngestExternalFile(context.Background(), []string{"/f.sst"}, nil); err != nil { // number 4
		t.Fatal(err)
	}
	put(nil)
	if it.Next() || !errors.As(it.Err(), &gap) || gap.Wanted != 4 || gap.Found != 5 {
		t.Fatalf("an ingestion: %v", it.Err())
	}
	it.Close()
	if _, err := db.GetUpdatesSince(7); !errors.Is(err, ErrNotFound) {
		t.Fatalf("a number far ahead: %v", err)
	}
}

// TestArchiveLimits: logs leave the archive by age and by size, the oldest first.
func TestArchiveLimits(t *testing.T) {
	logs := func(db *DB) (archived int) {
		t.Helper()
		files, err := db.GetSortedWalFiles()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Archived {
				archived++
			}
		}
		return archived
	}
	fill := func(db *DB, n int) {
		t.Helper()
		for range n {
			if err := db.Put(nil, []byte("key"), make([]byte, 300_000)); err != nil {
				t.Fatal(err)
			}
			if err := db.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	mem := mmapfs.NewMem()
	db, err := Open("/db", &Options{FS: mem, CreateIfMissing: true, WALSizeLimitMB: 1})
	if err != nil {
		t.Fatal(err)
	}
	fill(db, 8)
	if n := logs(db); n != 3 {
		t.Errorf("%d archived logs of 300 kB, want 3 in 1 MiB", n)
	}
	if _, err := db.GetUpdatesSince(1); !errors.As(err, new(*UpdatesGapError)) {
		t.Errorf("updates that left the archive: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open("/db", &Options{FS: mem, WALTTLSeconds: 1 << 30, WALSizeLimitMB: -1}); err != nil {
		t.Fatal(err)
	}
	fill(db, 5)
	if n := logs(db); n < 8 {
		t.Errorf("%d archived logs, all of them young", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open("/db", &Options{FS: mem, WALTTLSeconds: -1}); err != nil { // no archive: what is there goes
		t.Fatal(err)
	}
	if n := logs(db); n != 0 {
		t.Errorf("%d archived logs without an archive", n)
	}
	db.Close()
}

// TestLoadBatchRefuses what this database could not store.
func TestLoadBatchRefuses(t *testing.T) {
	db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	unknown := append(make([]byte, 8), 1, 0, 0, 0, 5, 9, 1, 'k', 1, 'v')
	if _, err := db.LoadBatch(unknown); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("an unknown family: %v", err)
	}
	if _, err := db.LoadBatch(append(make([]byte, 8), 2, 0, 0, 0, 1, 1, 'k', 1, 'v')); !errors.Is(err, keys.ErrCorruption) {
		t.Errorf("a wrong count: %v", err)
	}
	if _, err := db.LoadBatch(append(make([]byte, 8), 0, 0, 0, 0, 9, 10, 1, 'x')); !errors.Is(err, ErrNotSupported) {
		t.Errorf("a prepared transaction: %v", err)
	}
}

// TestUpdatesReadAgainWhatWasZeros: the reader has the block that the log was in when it
// looked last. What was written since to the rest of that block, and to the next ones, comes in order.
// The records divide a block, so that none goes on in the next block, which would tell.
func TestUpdatesReadAgainWhatWasZeros(t *testing.T) {
	for _, mode := range []WALWriteMode{WALMapped, WALWrite} {
		db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, WALWriteMode: mode})
		put := func(n int) {
			t.Helper()
			for range n {
				if err := db.Put(nil, []byte("key"), make([]byte, 998)); err != nil {
					t.Fatal(err)
				}
			}
		}
		put(1)
		if f, err := db.GetCurrentWalFile(); err != nil || f.SizeFileBytes != 1024 {
			t.Fatalf("a log of %d bytes, %v; want one record of 1024", f.SizeFileBytes, err)
		}
		it, err := db.GetUpdatesSince(1)
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		next := uint64(1)
		for _, n := range []int{100, 5, 70, 0} {
			if !it.Valid() {
				t.Fatalf("mode %v: no batch with number %d: %v", mode, next, it.Err())
			}
			// The iterator stands on the last batch, and has its block.
			put(n)
			for last := next + uint64(n); ; it.Next() {
				if !it.Valid() || it.Batch().Sequence != next {
					t.Fatalf("mode %v: batch %d, %v; want number %d", mode, it.Batch().Sequence, it.Err(), next)
				}
				if next == last {
					break
				}
				next++
			}
		}
		if it.Next() || it.Err() != nil {
			t.Fatalf("mode %v: a batch after the last: %d, %v", mode, it.Batch().Sequence, it.Err())
		}
	}
}

// listHook calls a function once, after a directory was listed.
type listHook struct {
	mmapfs.FS
	then func()
}

func (h *listHook) List(dir string) ([]string, error) {
	names, err := h.FS.List(dir)
	if f := h.then; f != nil && filepath.Base(dir) == archiveDir {
		h.then = nil
		f()
	}
	return names, err
}

// TestUpdatesThatComeWhileLogsAreListed: what is written between the look at the newest
// number and the end of the list is found, in the log that was empty or in the one after it.
func TestUpdatesThatComeWhileLogsAreListed(t *testing.T) {
	for _, when := range []string{"before the live logs are listed", "after"} {
		for _, more := range []bool{false, true} {
			hook := &listHook{FS: mmapfs.NewMem()}
			db := mustOpen(t, hook, &Options{CreateIfMissing: true, WALSizeLimitMB: 1 << 10})
			write := func() {
				for range 3 {
					if err := db.Put(nil, []byte("key"), []byte("v")); err != nil {
						t.Error(err)
					}
				}
				if more {
					if err := db.Flush(context.Background(), nil); err != nil {
						t.Error(err)
					}
					if err := db.Put(nil, []byte("key"), []byte("v")); err != nil {
						t.Error(err)
					}
				}
			}
			hook.then = write
			if when == "after" { // the archive is listed before the live logs, and after them
				hook.then = func() { hook.then = write }
			}
			it, err := db.GetUpdatesSince(1)
			if err != nil {
				t.Fatalf("%s, more %v: %v", when, more, err)
			}
			got := uint64(0)
			for ok := it.Valid() || it.Next(); ok; ok = it.Next() {
				if got++; it.Batch().Sequence != got {
					t.Fatalf("%s, more %v: batch %d, want %d", when, more, it.Batch().Sequence, got)
				}
			}
			if want := db.visibleSeq.Load(); it.Err() != nil || got != want || hook.then != nil {
				t.Errorf("%s, more %v: %d batches, %v; want %d", when, more, got, it.Err(), want)
			}
			it.Close()
		}
	}
}

// TestUpdatesPassDamageThatRecoveryDropped: behind the record at which recovery stopped a log holds nothing of the
// database. Walks go on in the logs that came since, also while those have nothing on the disk yet.
func TestUpdatesPassDamageThatRecoveryDropped(t *testing.T) {
	fsys := mmapfs.NewMem()
	o := &Options{FS: fsys, CreateIfMissing: true, WALTTLSeconds: 3600, WALWriteMode: WALWrite}
	put := func(db *DB, value string) {
		t.Helper()
		if err := db.Put(nil, []byte("key"), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	db := mustOpen(t, fsys, o)
	put(db, "first")
	f, err := db.GetCurrentWalFile()
	if err != nil {
		t.Fatal(err)
	}
	put(db, "damaged")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	flipByte(t, fsys, f.PathName, int64(f.SizeFileBytes)+10)
	o.ManualWALFlush = true
	db = mustOpen(t, fsys, o)
	if db.visibleSeq.Load() != 1 {
		t.Fatalf("%d writes were recovered, want the first", db.visibleSeq.Load())
	}
	put(db, "second") // is kept in the process
	it, err := db.GetUpdatesSince(2)
	if err != nil || it.Valid() || it.Next() {
		t.Fatalf("a write that is in no log yet: %v", err)
	}
	if err := db.FlushWAL(false); err != nil {
		t.Fatal(err)
	}
	if !it.Next() || it.Batch().Sequence != 2 {
		t.Fatalf("once it is: %v", it.Err())
	}
	it.Close()
	if it, err = db.GetUpdatesSince(1); err != nil {
		t.Fatal(err)
	}
	for seq := range uint64(2) {
		if !it.Valid() || it.Batch().Sequence != seq+1 {
			t.Fatalf("from the start on, batch %d: %v", seq+1, it.Err())
		}
		it.Next()
	}
	if err := errors.Join(it.Err(), it.Close(), db.Close()); err != nil {
		t.Error(err)
	}
	// Damage where the log is needed stays an error.
	db = mustOpen(t, fsys, o)
	put(db, "third")
	put(db, "fourth")
	if f, err = db.GetCurrentWalFile(); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(context.Background(), nil); err != nil { // and go on in another log
		t.Fatal(err)
	}
	put(db, "fifth")
	if err := db.FlushWAL(false); err != nil {
		t.Fatal(err)
	}
	logs, err := db.GetSortedWalFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range logs {
		if l.LogNumber == f.LogNumber {
			flipByte(t, fsys, l.PathName, int64(l.SizeFileBytes)-3)
		}
	}
	if it, err = db.GetUpdatesSince(3); err != nil {
		t.Fatal(err)
	}
	if it.Next(); !errors.Is(it.Err(), ErrCorruption) {
		t.Errorf("damage in front of number 5: at %d, %v", it.Batch().Sequence, it.Err())
	}
	it.Close()
}

// TestUpdatesPassWritesThatFailed: a write whose sync failed is in the log, and its sequence number goes to
// another one after Resume. A walk gives only that, also one that has read the end of the log before.
func TestUpdatesPassWritesThatFailed(t *testing.T) {
	for _, mode := range []WALWriteMode{WALMapped, WALWrite} {
		for _, closed := range []bool{false, true} { // whether it is a log before that cannot be synced
			mem := mmapfs.NewMem()
			fault := mmapfs.NewFault(mem)
			o := &Options{CreateIfMissing: true, WALTTLSeconds: 3600, WALWriteMode: mode,
				ColumnFamily: &ColumnFamilyOptions{MinWriteBufferNumberToMerge: 3, MaxWriteBufferNumber: 6}}
			db := mustOpen(t, fault, o)
			put := func(n int, wo *WriteOptions) error {
				var b Batch
				for i := range n {
					b.Put(nil, fmt.Append(nil, "key", i), []byte("v"))
				}
				return db.Write(wo, &b)
			}
			want := 3
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(put(1, nil))
			must(put(1, nil))
			if closed {
				db.exclusive(func() { must(db.switchMemtables(db.ColumnFamilies(), 0)) })
				must(put(1, nil))
				want++
			}
			first, err := db.GetUpdatesSince(1)
			must(err)
			first.Next() // and has its block
			f, err := db.GetCurrentWalFile()
			must(err)
			failed := false
			fault.SetHook(func(op mmapfs.Op, name string) error {
				if op != mmapfs.OpSync || failed || (name == f.PathName) == closed {
					return nil
				}
				failed = true
				if closed { // a compaction has failed just before: its error is the one that is kept
					db.fail("compaction", mmapfs.ErrInjected)
				}
				return mmapfs.ErrInjected
			})
			if err := put(1, &WriteOptions{Sync: true}); !errors.Is(err, ErrBackground) || !failed {
				t.Fatalf("a write whose sync failed: %v", err)
			}
			second, err := db.GetUpdatesSince(1)
			must(err)
			for second.Next() {
			}
			must(second.Err())
			must(db.Resume(context.Background()))
			must(put(2, nil))
			third, err := db.GetUpdatesSince(1)
			must(err)
			again := mustOpen(t, mem.Kill(), o)
			fourth, err := again.GetUpdatesSince(1)
			must(err)
			for i, it := range []*UpdatesIterator{first, second, third, fourth} {
				var counts []int
				for ok := it.Valid() || it.Next(); ok; ok = it.Next() {
					counts = append(counts, it.Batch().Count)
				}
				if got := counts[len(counts)-1]; got != 2 || i > 1 && len(counts) != want {
					t.Errorf("mode %v, closed %v, walk %d: batches of %v operations: the last one is %d, want 2, and those before it 1", mode, closed, i, counts, got)
				}
				if err := errors.Join(it.Err(), it.Close()); err != nil {
					t.Errorf("mode %v, closed %v, walk %d: %v", mode, closed, i, err)
				}
			}
		}
	}
}
