package flatrock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// moody is an operator that appends, and refuses operands "bad" while it is told to.
type moody struct{ refuse *atomic.Bool }

var errMoody = errors.New("not today")

func (moody) Name() string { return "test.Moody" }

func (m moody) FullMerge(_, existing []byte, _ bool, operands [][]byte) ([]byte, error) {
	out := append([]byte(nil), existing...)
	for _, o := range operands {
		if m.refuse.Load() && string(o) == "bad" {
			return nil, errMoody
		}
		out = append(append(out, '+'), o...)
	}
	return out, nil
}

// TestAFailingMergeLosesNothing: the reads of the key fail and name it, those of others
// do not; flushes and compactions keep what the operator refused, over values, entities,
// deletes and range deletes; and when the operator takes it, all is there.
func TestAFailingMergeLosesNothing(t *testing.T) {
	refuse := new(atomic.Bool)
	refuse.Store(true)
	for name, table := range map[string]TableFactory{"block": BlockBasedTableOptions{}, "plain": PlainTableOptions{HashTableRatio: TotalOrder, RangeDeletes: On}} {
		t.Run(name, func(t *testing.T) {
			refuse.Store(true)
			o := &ColumnFamilyOptions{MergeOperator: moody{refuse}, Table: table, DisableAutoCompactions: true}
			fsys := mmapfs.NewMem()
			db := mustOpen(t, fsys, &Options{CreateIfMissing: true, ColumnFamily: o})
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			ctx := context.Background()
			must(db.Put(nil, []byte("deleted"), []byte("old")))
			must(db.Put(nil, []byte("gone"), []byte("old")))
			must(db.Put(nil, []byte("value"), []byte("v")))
			must(db.PutEntity(nil, []byte("wide"), []Column{{Value: []byte("d")}, {Name: []byte("x"), Value: []byte("y")}}))
			must(db.Flush(ctx, nil))
			must(db.Delete(nil, []byte("deleted")))
			must(db.DeleteRange(nil, []byte("g"), []byte("h")))
			keys := []string{"deleted", "gone", "nothing", "value", "wide"}
			want := []string{"+a+bad", "+a+bad", "+a+bad", "v+a+bad", "d+a+bad"}
			for _, k := range keys {
				must(db.Merge(nil, []byte(k), []byte("a")))
				must(db.Merge(nil, []byte(k), []byte("bad")))
			}
			must(db.Merge(nil, []byte("fine"), []byte("a")))
			check := func(when string) {
				t.Helper()
				results, err := db.MultiGet(nil, [][]byte{[]byte("value"), []byte("fine")}, nil)
				must(err)
				for i, k := range keys {
					v, err := db.Get(nil, []byte(k), nil)
					if refuse.Load() {
						if !errors.Is(err, errMoody) || !strings.Contains(err.Error(), fmt.Sprintf("%q", k)) {
							t.Errorf("%s: Get(%s): %q, %v", when, k, v, err)
						}
					} else if err != nil || string(v) != want[i] {
						t.Errorf("%s: Get(%s) = %q, %v; want %q", when, k, v, err, want[i])
					}
				}
				if refuse.Load() == (results[0].Err == nil) || results[1].Err != nil || string(results[1].Value) != "+a" {
					t.Errorf("%s: MultiGet: %+v", when, results)
				}
				it := mustIterator(t, db.DefaultColumnFamily(), nil)
				if ok := it.SeekGE([]byte("value")); ok == refuse.Load() || ok && !bytes.Equal(it.Value(), []byte("v+a+bad")) {
					t.Errorf("%s: iterator: %v", when, it.Err())
				} else if err := it.Err(); err != nil && !strings.Contains(err.Error(), `"value"`) {
					t.Errorf("%s: iterator: %v", when, err)
				}
				it.Close() // with the same error
			}
			check("in memory")
			must(db.Flush(ctx, nil))
			check("flushed")
			must(db.CompactRange(ctx, nil, nil, nil))
			check("compacted")
			must(db.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil))
			must(db.Put(nil, []byte("later"), nil)) // writes go on
			must(db.Close())
			db = mustOpen(t, fsys, &Options{ColumnFamily: o})
			check("reopened")
			refuse.Store(false)
			check("healed")
			must(db.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil))
			check("healed and compacted")
			var e Entity
			if err := db.GetEntity(nil, []byte("wide"), &e); err != nil || columnText(e.Columns) != "=d+a+bad;x=y;" {
				t.Errorf("the entity is %s, %v", columnText(e.Columns), err)
			}
			must(db.Close())

			// Without the operator: the same, by another error.
			plain := *o
			plain.MergeOperator = nil
			db = mustOpen(t, fsys, &Options{ColumnFamily: &plain})
			if err := db.Merge(nil, []byte("k"), []byte("x")); !errors.Is(err, ErrNotSupported) {
				t.Errorf("Merge without operator: %v", err)
			}
			if v, err := db.Get(nil, []byte("value"), nil); err != nil || string(v) != "v+a+bad" {
				t.Errorf("what is merged needs no operator: %q, %v", v, err)
			}
		})
	}
}
