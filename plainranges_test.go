package flatrock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestPlainRangeDeletes: a plain-table family takes range deletes once it is asked
// to, in every memtable; they survive flush, compaction, replay and reopening
// without the option, and hide what they should at each snapshot.
func TestPlainRangeDeletes(t *testing.T) {
	for _, kind := range []MemTableKind{SkipList, HashSkipList, HashLinkList, Vector} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			fsys := mmapfs.NewMem()
			o := &ColumnFamilyOptions{
				PrefixExtractor: FixedPrefix(3), Table: PlainTableOptions{RangeDeletes: On},
				MemTable: MemTableOptions{Kind: kind, BucketCount: 16}, DisableAutoCompactions: true,
			}
			db := mustOpen(t, fsys, &Options{CreateIfMissing: true, ColumnFamily: o})
			fillKeys(t, db, 500, "old")
			if err := db.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			before, err := db.NewSnapshot()
			if err != nil {
				t.Fatal(err)
			}
			defer before.Release()
			// The bounds need not be keys of the family: they have no prefix.
			if err := db.DeleteRange(nil, []byte("k"), []byte("k0003")); err != nil {
				t.Fatal(err)
			}
			if err := db.Put(nil, []byte("k000007"), []byte("new")); err != nil {
				t.Fatal(err)
			}
			check := func(when string) {
				t.Helper()
				if n := countKeys(t, db, nil); n != 201 {
					t.Errorf("%s: %d keys, want 201", when, n)
				}
				for key, want := range map[string]bool{"k000000": false, "k000007": true, "k000299": false, "k000300": true} {
					_, err := db.Get(nil, []byte(key), nil)
					if want != (err == nil) || !want && !errors.Is(err, ErrNotFound) {
						t.Errorf("%s: %s: %v", when, key, err)
					}
				}
			}
			check("in memory")
			if err := db.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			check("flushed")
			if n := countKeys(t, db, &ReadOptions{Snapshot: before}); n != 500 {
				t.Errorf("the snapshot sees %d keys, want 500", n)
			}
			compactAll(t, db)
			check("compacted")
			if n := countKeys(t, db, &ReadOptions{Snapshot: before}); n != 500 {
				t.Errorf("compacted: the snapshot sees %d keys, want 500", n)
			}
			if err := db.DeleteRange(nil, []byte("k000400"), []byte("l")); err != nil {
				t.Fatal(err)
			}
			db.Close()
			// The MANIFEST says what the options leave open.
			plain := *o
			plain.Table = PlainTableOptions{}
			db = mustOpen(t, fsys, &Options{ColumnFamily: &plain})
			if n := countKeys(t, db, nil); n != 101 {
				t.Errorf("replayed: %d keys, want 101", n)
			}
			if err := db.DeleteRange(nil, []byte("k000350"), []byte("k000360")); err != nil {
				t.Error(err)
			}
			if n := countKeys(t, db, nil); n != 91 {
				t.Errorf("after another range delete: %d keys, want 91", n)
			}
			db.Close()
			plain.Table = PlainTableOptions{RangeDeletes: Off}
			db = mustOpen(t, fsys, &Options{ColumnFamily: &plain})
			if err := db.DeleteRange(nil, []byte("a"), []byte("b")); !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), "RangeDeletes") {
				t.Errorf("Off: %v", err)
			}
			if db.manifest.State().Family(0).Features == 0 {
				t.Error("the mark is gone, and the range deletes are not")
			}
			if err := db.CompactRange(context.Background(), &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
				t.Fatal(err)
			}
			db.Close()
			db = mustOpen(t, fsys, &Options{ColumnFamily: &plain})
			if db.manifest.State().Family(0).Features != 0 {
				t.Error("the mark stays without range deletes")
			}
			if n := countKeys(t, db, nil); n != 91 {
				t.Errorf("at the end: %d keys, want 91", n)
			}
		})
	}
}

// TestPlainRangeDeletesNeedTheOption: the refusal says what would allow it, and
// nothing is written.
func TestPlainRangeDeletesNeedTheOption(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
		PrefixExtractor: FixedPrefix(3), Table: PlainTableOptions{}, MemTable: MemTableOptions{Kind: HashSkipList},
	}})
	err := db.DeleteRange(nil, []byte("a"), []byte("b"))
	if !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), "PlainTableOptions.RangeDeletes") {
		t.Errorf("got %v", err)
	}
	var b Batch
	b.Put(nil, []byte("key"), nil)
	b.DeleteRange(nil, []byte("a"), []byte("b"))
	if err := db.Write(nil, &b); !errors.Is(err, ErrNotSupported) {
		t.Errorf("got %v", err)
	}
	if n := countKeys(t, db, nil); n != 0 {
		t.Errorf("%d keys", n)
	}
	cf, err := db.CreateColumnFamily("marked", &ColumnFamilyOptions{Table: PlainTableOptions{RangeDeletes: On, HashTableRatio: TotalOrder}})
	if err != nil {
		t.Fatal(err)
	}
	if err := cf.DeleteRange(nil, []byte("a"), []byte("b")); err != nil {
		t.Error(err)
	}
}
