package flatrock

import (
	"fmt"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestLargeBatchesAreInsertedSideBySide: writers of large batches help each other; what they wrote is there, in
// the order of the log, and atomic for readers. A group of mixed kinds goes one by one.
func TestLargeBatchesAreInsertedSideBySide(t *testing.T) {
	for _, allow := range []Toggle{Default, Off} {
		fsys := mmapfs.NewFault(mmapfs.NewMem())
		o := &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, AllowConcurrentMemtableWrite: allow, WALWriteMode: WALWrite,
			ColumnFamily:   &ColumnFamilyOptions{},
			ColumnFamilies: []ColumnFamilyDescriptor{{"other", &ColumnFamilyOptions{}}}}
		db := mustOpen(t, fsys, o)
		other := db.ColumnFamily("other")
		const writers, rounds, keys = 4, 60, 50
		for round := range rounds {
			// The queue's lead is held until all have come, so that they make a group.
			var wg sync.WaitGroup
			db.exclusive(func() {
				for w := range writers {
					wg.Go(func() {
						var b Batch
						for k := range keys {
							b.Put(nil, fmt.Appendf(nil, "key%02d-%02d", w%2, k), fmt.Appendf(nil, "%03d-%d", round, w))
							b.Put(other, fmt.Appendf(nil, "key%02d-%02d-%03d", w, k, round), []byte("v"))
						}
						if round%10 == 9 {
							b.DeleteRange(nil, []byte("x"), []byte("y"))
						}
						if err := db.Write(nil, &b); err != nil {
							t.Error(err)
						}
					})
				}
				for {
					db.queue.mu.Lock()
					n := len(db.queue.waiting)
					db.queue.mu.Unlock()
					if n == writers {
						break
					}
				}
			})
			wg.Wait()
			// Two writers set the same keys: one of them is the newest of all.
			for half := range 2 {
				first := ""
				for k := range keys {
					v, err := db.Get(nil, fmt.Appendf(nil, "key%02d-%02d", half, k), nil)
					if err != nil {
						t.Fatal(err)
					}
					if first == "" {
						first = string(v)
					}
					if string(v) != first {
						t.Fatalf("round %d: keys of one batch have %s and %s", round, first, v)
					}
				}
			}
		}
		n := db.metrics.parallelGroups.Load()
		if want := int64(rounds - rounds/10); allow == Default && n != want || allow == Off && n != 0 {
			t.Errorf("%v: %d groups side by side, want %d", allow, n, want)
		}
		before := map[string]string{}
		collect := func(into map[string]string) {
			for _, cf := range db.ColumnFamilies() {
				it, err := cf.NewIterator(nil)
				if err != nil {
					t.Fatal(err)
				}
				for k, v := range it.All() {
					into[cf.Name()+string(k)] = string(v)
				}
				if err := it.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		collect(before)
		if len(before) != 2*keys+writers*keys*rounds {
			t.Errorf("%d keys", len(before))
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = mustOpen(t, fsys, o) // from the log
		after := map[string]string{}
		collect(after)
		for k, v := range before {
			if after[k] != v {
				t.Fatalf("%s: %q before, %q from the log", k, v, after[k])
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
