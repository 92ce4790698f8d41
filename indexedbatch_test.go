package flatrock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestIndexedBatchOverSnapshots: a few keys with many versions, some of them newer than
// the snapshot that the batch lies over, so that a reader meets the batch's entries,
// then hidden ones, then those that it may see.
func TestIndexedBatchOverSnapshots(t *testing.T) {
	op, err := ParseMergeOperator("stringappend")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(8, 1))
	key := func() []byte { return []byte{byte('a' + rng.IntN(6))} }
	serial := 0
	// change makes one random operation in w and in m.
	change := func(w writer, m map[string]string) {
		k := key()
		serial++
		v := fmt.Sprint(serial)
		switch rng.IntN(7) {
		case 0, 1:
			w.Put(nil, k, []byte(v))
			m[string(k)] = v
		case 2, 3, 4:
			w.Merge(nil, k, []byte(v))
			if old, ok := m[string(k)]; ok {
				v = old + "," + v
			}
			m[string(k)] = v
		case 5:
			w.Delete(nil, k)
			delete(m, string(k))
		case 6:
			end := key()
			if string(end) < string(k) {
				k, end = end, k
			}
			w.DeleteRange(nil, k, end)
			for old := range m {
				if string(k) <= old && old < string(end) {
					delete(m, old)
				}
			}
		}
	}
	for round := range 400 {
		db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{MergeOperator: op, DisableAutoCompactions: true}})
		if err != nil {
			t.Fatal(err)
		}
		now := map[string]string{}
		write := func(n int) {
			for range n {
				var b Batch
				change(&b, now)
				if err := db.Write(nil, &b); err != nil {
					t.Fatal(err)
				}
				if rng.IntN(10) == 0 {
					if err := db.Flush(context.Background(), nil); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		write(rng.IntN(20))
		snap, err := db.NewSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for k, v := range now {
			want[k] = v
		}
		write(rng.IntN(30)) // up to more versions of a key than an iterator steps over
		b := db.NewIndexedBatch()
		for range rng.IntN(12) {
			change(b, want)
		}
		ro := &ReadOptions{Snapshot: snap}
		for k := byte('a'); k < 'g'; k++ {
			v, err := b.Get(nil, ro, []byte{k}, nil)
			if w, ok := want[string(k)]; ok && (err != nil || string(v) != w) || !ok && !errors.Is(err, ErrNotFound) {
				t.Fatalf("round %d: Get(%c) = %q, %v; want %q, %v", round, k, v, err, w, ok)
			}
		}
		var list []string
		for k := range want {
			list = append(list, k)
		}
		slices.Sort(list)
		it, err := b.NewIterator(nil, ro)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for k, v := range it.All() {
			if i == len(list) || string(k) != list[i] || string(v) != want[list[i]] {
				t.Fatalf("round %d: entry %d is %q = %q; want %q", round, i, k, v, want)
			}
			i++
		}
		if i != len(list) {
			t.Fatalf("round %d: %d of %d keys", round, i, len(list))
		}
		for k, v := range it.Backward() {
			if i--; i < 0 || string(k) != list[i] || string(v) != want[list[i]] {
				t.Fatalf("round %d: backward, entry %d is %q = %q; want %q", round, i, k, v, want)
			}
		}
		for range 20 {
			k := key()
			at, found := slices.BinarySearch(list, string(k))
			switch rng.IntN(2) {
			case 0:
				if ok := it.SeekGE(k); ok != (at < len(list)) || ok && (string(it.Key()) != list[at] || string(it.Value()) != want[list[at]]) {
					t.Fatalf("round %d: SeekGE(%s): %v", round, k, ok)
				}
			case 1:
				if !found {
					at--
				}
				if ok := it.SeekLE(k); ok != (at >= 0) || ok && (string(it.Key()) != list[at] || string(it.Value()) != want[list[at]]) {
					t.Fatalf("round %d: SeekLE(%s): %v", round, k, ok)
				}
			}
		}
		err = errors.Join(it.Err(), it.Close())
		snap.Release()
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIndexedBatchOverABase: the batch lies over the moment of the base iterator, which
// it takes over; a base of another database is refused.
func TestIndexedBatchOverABase(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true})
	fillKeys(t, db, 3, "v")
	base, err := db.NewIterator(&ReadOptions{LowerBound: []byte("k000001")})
	if err != nil {
		t.Fatal(err)
	}
	fillKeys(t, db, 9, "later")
	b := db.NewIndexedBatch()
	b.Put(nil, []byte("k000000"), nil)
	b.Put(nil, []byte("k000005"), nil)
	b.Delete(nil, []byte("k000001"))
	b.SetSavePoint()
	b.Put(nil, []byte("k000006"), nil)
	if err := b.RollbackToSavePoint(); err != nil {
		t.Fatal(err)
	}
	it, err := b.NewIteratorWithBase(base)
	if err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, it, it.All()); !slices.Equal(got, []string{"k000002", "k000005"}) {
		t.Errorf("%q", got)
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.NewIteratorWithBase(it); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed base: %v", err)
	}
	other := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true})
	foreign, err := other.NewIterator(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.NewIteratorWithBase(foreign); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a base of another database: %v", err)
	}
	if _, err := b.Get(other.DefaultColumnFamily(), nil, []byte("k"), nil); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a family of another database: %v", err)
	}
	b.Reset()
	if v, err := b.Get(nil, nil, []byte("k000001"), nil); err != nil || len(v) == 0 || b.Count() != 0 {
		t.Errorf("after Reset: %q, %v, %d operations", v, err, b.Count())
	}
}

// TestIndexedBatchBesideLongerPrefixes: a key of the batch that begins with the key sought has
// another prefix, and does not hide what the family holds in between.
func TestIndexedBatchBesideLongerPrefixes(t *testing.T) {
	for name, e := range map[string]*PrefixExtractor{"noop": NoopPrefix(), "capped": CappedPrefix(6)} {
		db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
			PrefixExtractor: e, MemTable: MemTableOptions{Kind: HashSkipList}, Table: PlainTableOptions{},
		}})
		for range 2 {
			if err := db.Put(nil, []byte("key1a"), []byte("v")); err != nil {
				t.Fatal(err)
			}
			b := db.NewIndexedBatch()
			b.Put(nil, []byte("key1b"), nil)
			it, err := b.NewIterator(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !it.SeekGE([]byte("key1")) || string(it.Key()) != "key1a" {
				t.Errorf("%s: SeekGE finds %q", name, it.Key())
			}
			if err := it.Close(); err != nil {
				t.Fatal(err)
			}
			if err := db.Flush(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func ExampleIndexedBatch() {
	db, err := Open("/example", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if err := db.Put(nil, []byte("apples"), []byte("3")); err != nil {
		panic(err)
	}
	b := db.NewIndexedBatch()
	b.Put(nil, []byte("pears"), []byte("5"))
	b.Delete(nil, []byte("apples"))
	_, err = b.Get(nil, nil, []byte("apples"), nil)
	fmt.Println("apples in the batch:", err)
	v, err := db.Get(nil, []byte("apples"), nil)
	fmt.Printf("apples outside of it: %s %v\n", v, err)
	if err := db.Write(nil, b.Batch()); err != nil {
		panic(err)
	}
	v, err = db.Get(nil, []byte("pears"), nil)
	fmt.Printf("pears after the commit: %s %v\n", v, err)
	// Output:
	// apples in the batch: flatrock: not found
	// apples outside of it: 3 <nil>
	// pears after the commit: 5 <nil>
}
