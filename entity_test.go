package flatrock

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

func columnText(columns []Column) (s string) {
	for _, c := range columns {
		s += fmt.Sprintf("%s=%s;", c.Name, c.Value)
	}
	return s
}

// TestEntities: columns are written in any order and read in that of their names, as
// plain values by who does not know them, with merges onto the default column, in
// memory and in files of both formats.
func TestEntities(t *testing.T) {
	op, err := ParseMergeOperator("stringappend")
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]ColumnFamilyOptions{"block": {}, "plain": {Table: PlainTableOptions{HashTableRatio: TotalOrder}}, "mapped": {Table: PlainTableOptions{HashTableRatio: TotalOrder, Memory: MemoryNone}}} {
		t.Run(name, func(t *testing.T) {
			o.MergeOperator = op
			db, err := Open(t.TempDir(), &Options{CreateIfMissing: true, ColumnFamily: &o})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			column := func(name, value string) Column { return Column{Name: []byte(name), Value: []byte(value)} }
			must(db.PutEntity(nil, []byte("a"), []Column{column("z", "1"), column("", "d"), column("b", "2")}))
			must(db.PutEntity(nil, []byte("b"), []Column{column("x", "3")}))
			must(db.PutEntity(nil, []byte("c"), nil))
			must(db.Put(nil, []byte("d"), []byte("plain")))
			must(db.PutEntity(nil, []byte("e"), []Column{column("", "m"), column("x", "y")}))
			must(db.Flush(context.Background(), nil))
			must(db.Merge(nil, []byte("e"), []byte("n")))
			must(db.PutEntity(nil, []byte("f"), []Column{column("x", "y")}))
			must(db.Merge(nil, []byte("f"), []byte("o")))
			must(db.Merge(nil, []byte("g"), []byte("only")))
			want := []struct{ key, columns, value string }{
				{"a", "=d;b=2;z=1;", "d"}, {"b", "x=3;", ""}, {"c", "", ""}, {"d", "=plain;", "plain"},
				{"e", "=m,n;x=y;", "m,n"}, {"f", "=,o;x=y;", ",o"}, {"g", "=only;", "only"},
			}
			check := func(when string) {
				t.Helper()
				var e Entity
				var ks [][]byte
				for _, w := range want {
					ks = append(ks, []byte(w.key))
					if err := db.GetEntity(nil, []byte(w.key), &e); err != nil || columnText(e.Columns) != w.columns {
						t.Errorf("%s: GetEntity(%s) = %s, %v; want %s", when, w.key, columnText(e.Columns), err, w.columns)
					}
					if v, err := db.Get(nil, []byte(w.key), nil); err != nil || string(v) != w.value {
						t.Errorf("%s: Get(%s) = %q, %v; want %q", when, w.key, v, err, w.value)
					}
				}
				results, err := db.MultiGetEntity(nil, append(ks, []byte("none")), nil)
				must(err)
				for i, w := range want {
					if r := &results[i]; r.Err != nil || columnText(r.Columns) != w.columns {
						t.Errorf("%s: MultiGetEntity(%s) = %s, %v; want %s", when, w.key, columnText(r.Columns), r.Err, w.columns)
					}
				}
				if !errors.Is(results[len(want)].Err, ErrNotFound) {
					t.Errorf("%s: a missing key: %v", when, results[len(want)].Err)
				}
				it := mustIterator(t, db.DefaultColumnFamily(), nil)
				i := 0
				for k, v := range it.All() {
					columns, err := it.Columns(nil)
					if err != nil || i == len(want) || string(k) != want[i].key || columnText(columns) != want[i].columns || string(v) != want[i].value {
						t.Errorf("%s: entry %d is %q: %s %q, %v", when, i, k, columnText(columns), v, err)
					}
					i++
				}
				for ok := it.Last(); ok; ok = it.Prev() {
					i--
					if columns, err := it.Columns(nil); err != nil || columnText(columns) != want[i].columns {
						t.Errorf("%s: backward, %q: %s, %v", when, it.Key(), columnText(columns), err)
					}
				}
				if err := it.Close(); err != nil || i != 0 {
					t.Errorf("%s: %d entries left, %v", when, i, err)
				}
			}
			check("first")
			must(db.Flush(context.Background(), nil))
			check("flushed")
			compactAll(t, db)
			check("compacted")
			var e Entity
			must(db.GetEntity(nil, []byte("a"), &e))
			if v, ok := e.Column("b"); !ok || string(v) != "2" {
				t.Errorf("column b: %q, %v", v, ok)
			}
			if _, ok := e.Column("nope"); ok {
				t.Error("a column that is not there")
			}
			if err := db.PutEntity(nil, []byte("a"), []Column{column("x", "1"), column("x", "2")}); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("two columns of one name: %v", err)
			}
		})
	}
}

// TestSavePoints: what was added after a save point goes, and errors with it.
func TestSavePoints(t *testing.T) {
	op, err := ParseMergeOperator("stringappend")
	if err != nil {
		t.Fatal(err)
	}
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true})
	plain, err := db.CreateColumnFamily("plain", &ColumnFamilyOptions{Table: PlainTableOptions{UserKeyLen: 3, HashTableRatio: TotalOrder}, MergeOperator: op})
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	if err := b.RollbackToSavePoint(); !errors.Is(err, ErrNoSavePoint) {
		t.Errorf("no save point: %v", err)
	}
	if err := b.PopSavePoint(); !errors.Is(err, ErrNoSavePoint) {
		t.Errorf("no save point: %v", err)
	}
	b.SetSavePoint()
	b.Put(nil, []byte("gone"), nil)
	if err := b.RollbackToSavePoint(); err != nil || b.Count() != 0 {
		t.Errorf("%d operations left, %v", b.Count(), err)
	}
	b.Put(nil, []byte("one"), []byte("1"))
	b.SetSavePoint()
	b.Put(plain, []byte("two"), []byte("2"))
	b.SetSavePoint()
	b.DeleteRange(plain, []byte("a"), []byte("z")) // plain tables refuse it
	b.Put(plain, []byte("too long"), nil)          // so does UserKeyLen this
	if b.Err() == nil {
		t.Error("no error")
	}
	if err := db.Write(nil, &b); err == nil {
		t.Error("a batch with an error was written")
	}
	if err := b.RollbackToSavePoint(); err != nil || b.Err() != nil {
		t.Errorf("%v, %v", err, b.Err())
	}
	b.Put(nil, []byte("three"), []byte("3"))
	if err := b.PopSavePoint(); err != nil {
		t.Error(err)
	}
	if err := db.Write(nil, &b); err != nil || b.Count() != 3 {
		t.Errorf("%d operations, %v", b.Count(), err)
	}
	if v, err := plain.Get(nil, []byte("two"), nil); err != nil || string(v) != "2" {
		t.Errorf("%q, %v", v, err)
	}
	if n := countKeys(t, db, nil); n != 2 {
		t.Errorf("%d keys", n)
	}
}

// TestBatchMaxBytes: an operation that would pass the limit leaves the batch as it was.
func TestBatchMaxBytes(t *testing.T) {
	var b Batch
	b.SetMaxBytes(100)
	n := 0
	for b.Err() == nil {
		b.SetSavePoint()
		b.Put(nil, []byte("key"), []byte("twenty bytes of value"))
		n++
	}
	if !errors.Is(b.Err(), ErrBatchFull) || b.Size() > 100 || b.Count() != n-1 || n != 4 {
		t.Errorf("%v: %d bytes, %d of %d operations", b.Err(), b.Size(), b.Count(), n)
	}
	if err := b.RollbackToSavePoint(); err != nil {
		t.Fatal(err)
	}
	b.Delete(nil, []byte("key"))
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true})
	if err := db.Write(nil, &b); err != nil {
		t.Error(err)
	}
}
