//go:build oracle

package oracle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock"
)

// wideWorld is one family of entities and plain values, by key and column name.
type wideWorld struct {
	*world
	wide map[string]map[string]string
}

// writes adds n random writes of entities, plain values and deletes.
func (w *wideWorld) writes(s *script, n int) *script {
	for range n {
		k := fmt.Sprintf("key%03d", w.rng.IntN(300))
		switch w.rng.IntN(6) {
		case 0:
			s.say("delete default %s", word(k))
			delete(w.wide, k)
		case 1:
			v := fmt.Sprint("plain", w.rng.IntN(1000))
			s.say("put default %s %s", word(k), word(v))
			w.wide[k] = map[string]string{"": v}
		default:
			columns := map[string]string{}
			for range 1 + w.rng.IntN(4) {
				columns[[]string{"", "a", "bb", "ccc", "d\x00d"}[w.rng.IntN(5)]] = strings.Repeat("v", w.rng.IntN(30))
			}
			line := fmt.Sprintf("entity default %s", word(k))
			for _, name := range slices.Sorted(maps.Keys(columns)) {
				line += " " + word(name) + " " + word(columns[name])
			}
			s.say("%s", line)
			w.wide[k] = columns
		}
	}
	return s
}

// check compares all columns of all keys, by GetEntity and by an iterator.
func (w *wideWorld) check(s *script) *script {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(w.wide)) {
		fmt.Fprintf(&b, "wide %s", word(k))
		for _, name := range slices.Sorted(maps.Keys(w.wide[k])) {
			fmt.Fprintf(&b, " %s %s", word(name), word(w.wide[k][name]))
		}
		b.WriteByte('\n')
	}
	w.steps++
	file := filepath.Join(w.tmp, fmt.Sprintf("wide-%03d", w.steps))
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return s.say("checkwide default %s", file)
}

// TestEntitiesTravel: wide-column entities go back and forth between the engines, through
// logs, files and compactions.
func TestEntitiesTravel(t *testing.T) {
	for _, rocks := range []bool{false, true} {
		t.Run(fmt.Sprintf("rocksdb=%v", rocks), func(t *testing.T) {
			t.Parallel()
			f := blockSpecs[0]
			f.Name = "default"
			w := &wideWorld{newWorld(t, 700, f), map[string]map[string]string{}}
			options := dbOptions{}.text()
			if rocks {
				options = "max_open_files=-1;"
			}
			w.check(w.writes(w.create(rocks, options), 300).flushAll()).close()
			w.check(w.writes(w.check(w.open(!rocks)), 200)).crash()
			w.check(w.check(w.open(rocks)).compactAll()).close()
			w.check(w.writes(w.check(w.open(!rocks)), 100).compactAll()).close()
			w.check(w.open(rocks)).close()
		})
	}
}

// TestRocksDBRefusesPlainRangeDeletes: what RocksDB would misread it does not open, not
// even its tools; and once no range delete is left, it does.
func TestRocksDBRefusesPlainRangeDeletes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	family := func(toggle flatrock.Toggle) *flatrock.Options {
		return &flatrock.Options{CreateIfMissing: true, ColumnFamily: &flatrock.ColumnFamilyOptions{
			PrefixExtractor: flatrock.FixedPrefix(3), MemTable: flatrock.MemTableOptions{Kind: flatrock.HashSkipList, BucketCount: 100},
			Table: flatrock.PlainTableOptions{RangeDeletes: toggle},
		}}
	}
	open := func(toggle flatrock.Toggle) *flatrock.DB {
		t.Helper()
		db, err := flatrock.Open(dir, family(toggle))
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(t.TempDir(), "script")
	must(os.WriteFile(script, []byte("open\ndump\nclose\n"), 0o600))
	refused := func(when string) {
		t.Helper()
		if out, err := tool(rocksDB, dir, script); err == nil {
			t.Errorf("%s: RocksDB opens it and finds\n%s", when, tail(out))
		} else if !strings.Contains(err.Error(), "unknown tag") {
			t.Errorf("%s: RocksDB refuses it for another reason: %v", when, err)
		}
		if out, err := tool("ldb", "--db="+dir, "--try_load_options", "scan"); err == nil && strings.Contains(out, "key") {
			t.Errorf("%s: ldb finds\n%s", when, tail(out))
		}
	}
	db := open(flatrock.On)
	for i := range 200 {
		must(db.Put(nil, fmt.Appendf(nil, "key%03d", i), []byte("value")))
	}
	refused("marked, without any range delete")
	must(db.Flush(context.Background(), nil))
	must(db.DeleteRange(nil, []byte("key050"), []byte("key150")))
	must(db.Close())
	refused("a range delete in the log")
	db = open(flatrock.Default)
	must(db.Flush(context.Background(), nil))
	must(db.Close())
	refused("a range delete in a file")
	db = open(flatrock.Off)
	must(db.CompactRange(context.Background(), &flatrock.CompactRangeOptions{BottommostLevelCompaction: flatrock.BottommostForce}, nil, nil))
	must(db.Close())
	db = open(flatrock.Off)
	must(db.Close())
	out, err := tool(rocksDB, dir, script)
	if err != nil || strings.Count(out, "\n") != 100 {
		t.Errorf("without range deletes RocksDB finds %d keys, %v", strings.Count(out, "\n"), err)
	}
}

// TestBatchesTravel: what save points and indexed batches leave in the log and in files is
// what RocksDB reads.
func TestBatchesTravel(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	op, err := flatrock.ParseMergeOperator("stringappend")
	if err != nil {
		t.Fatal(err)
	}
	db, err := flatrock.Open(dir, &flatrock.Options{CreateIfMissing: true, ColumnFamily: &flatrock.ColumnFamilyOptions{MergeOperator: op}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for round := range 60 {
		b := db.NewIndexedBatch()
		for range 20 {
			k := fmt.Appendf(nil, "key%02d", rng.IntN(50))
			v := fmt.Appendf(nil, "v%d", rng.IntN(1000))
			if rng.IntN(4) == 0 {
				b.SetSavePoint()
				b.DeleteRange(nil, []byte("key"), []byte("l"))
				if err := b.RollbackToSavePoint(); err != nil {
					t.Fatal(err)
				}
			}
			switch rng.IntN(8) {
			case 0:
				b.Delete(nil, k)
			case 1:
				b.DeleteRange(nil, k, append(bytes.Clone(k), '~'))
			case 2, 3, 4:
				b.Merge(nil, k, v)
			default:
				b.Put(nil, k, v)
			}
		}
		if err := db.Write(nil, b.Batch()); err != nil {
			t.Fatal(err)
		}
		if round%20 == 19 {
			if err := db.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	it, err := db.NewIterator(nil)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for k, v := range it.All() {
		fmt.Fprintf(&want, "{\"cf\":\"default\",\"k\":\"%X\",\"v\":\"%X\"}\n", k, v)
	}
	if err := errors.Join(it.Err(), it.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("open\ndump\nclose\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := tool(rocksDB, dir, script); err != nil || out != want.String() {
		t.Errorf("RocksDB reads\n%s%v; want\n%s", out, err, want.String())
	}
}
