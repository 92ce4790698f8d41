package flatrock

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/internal/leaks"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestReadsOfSeveralKeysAgree: a file is ingested, and then another key written, after a read has taken its state and
// before it takes the sequence number. What it shows is a moment all the same: not the write without the file.
func TestReadsOfSeveralKeysAgree(t *testing.T) {
	ctx := context.Background()
	keys := [][]byte{[]byte("ingested"), []byte("written")}
	reads := map[string]func(db *DB, it *Iterator) (found [2]bool, err error){
		"iterator": func(db *DB, _ *Iterator) (found [2]bool, err error) {
			it, err := db.NewIterator(nil)
			if err != nil {
				return found, err
			}
			defer it.Close()
			return walkBoth(it, keys)
		},
		"refreshed iterator": func(db *DB, it *Iterator) (found [2]bool, err error) {
			if err := it.Refresh(nil); err != nil {
				return found, err
			}
			return walkBoth(it, keys)
		},
		"MultiGet": func(db *DB, _ *Iterator) (found [2]bool, err error) {
			results, err := db.MultiGet(nil, keys, nil)
			if err != nil {
				return found, err
			}
			for i, r := range results {
				if found[i] = r.Err == nil; r.Err != nil && !errors.Is(r.Err, ErrNotFound) {
					return found, r.Err
				}
			}
			return found, nil
		},
		"MultiGetEntity": func(db *DB, _ *Iterator) (found [2]bool, err error) {
			results, err := db.DefaultColumnFamily().MultiGetEntity(nil, keys, nil)
			if err != nil {
				return found, err
			}
			for i, r := range results {
				if found[i] = r.Err == nil; r.Err != nil && !errors.Is(r.Err, ErrNotFound) {
					return found, r.Err
				}
			}
			return found, nil
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			mem := mmapfs.NewMem()
			db := mustOpen(t, mem, &Options{CreateIfMissing: true})
			if err := db.Put(nil, []byte("before"), nil); err != nil { // the write goes to the same memtable
				t.Fatal(err)
			}
			kept, err := db.NewIterator(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer kept.Close()
			externalOf(t, db.DefaultColumnFamily(), "/f.sst", map[string]string{"ingested": "v"})
			calls := 0
			db.entered = func() {
				if calls++; calls > 1 {
					return
				}
				if err := errors.Join(db.IngestExternalFile(ctx, []string{"/f.sst"}, nil), db.Put(nil, []byte("written"), []byte("v"))); err != nil {
					t.Error(err)
				}
			}
			found, err := read(db, kept)
			if err != nil || calls == 0 {
				t.Fatalf("%v, %d calls", err, calls)
			}
			if found[1] && !found[0] {
				t.Error("the later write shows, and the ingested file does not")
			}
		})
	}
}

func walkBoth(it *Iterator, keys [][]byte) (found [2]bool, err error) {
	for ok := it.First(); ok; ok = it.Next() {
		for i, k := range keys {
			found[i] = found[i] || string(it.Key()) == string(k)
		}
	}
	return found, it.Err()
}

// TestCatchUpThatFailsKeepsNothing: whatever operation fails while a secondary catches up with families that are new,
// Close leaves no memory and no file.
func TestCatchUpThatFailsKeepsNothing(t *testing.T) {
	ctx := context.Background()
	for n := 1; ; n++ {
		before := leaks.Now()
		mem := mmapfs.NewMem()
		fault := mmapfs.NewFault(mem)
		primary, err := Open("/db", &Options{FS: mem, CreateIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		follower, err := OpenAsSecondary("/db", &Options{FS: fault})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			cf, err := primary.CreateColumnFamily(fmt.Sprint("family", i), &ColumnFamilyOptions{NumLevels: 5 + 2*i})
			if err == nil {
				err = errors.Join(cf.Put(nil, []byte("key"), nil), cf.Flush(ctx, nil))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		fault.FailNth(n, mmapfs.OpAll&^mmapfs.OpClose, true)
		err = follower.TryCatchUpWithPrimary()
		if failed := fault.Injected() > 0; (err != nil) && !failed {
			t.Fatalf("n=%d: %v", n, err)
		}
		if err := errors.Join(follower.Close(), primary.Close()); err != nil {
			t.Fatal(err)
		}
		if err := before.Leaked(); err != nil {
			t.Fatalf("operation %d fails, %v: %v", n, err, before.Leaked())
		}
		if fault.Injected() == 0 {
			return
		}
	}
}
