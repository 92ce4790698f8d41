package flatrock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// keysOf lists the keys of a sequence, or fails the test with the iterator's error.
func keysOf(t *testing.T, it *Iterator, walk iter.Seq2[[]byte, []byte]) (list []string) {
	t.Helper()
	for k := range walk {
		list = append(list, string(k))
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func mustIterator(t *testing.T, cf *ColumnFamily, ro *ReadOptions) *Iterator {
	t.Helper()
	it, err := cf.NewIterator(ro)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { it.Close() })
	return it
}

// TestShortPrefixesMissNothing: seeks and walks by a prefix that is shorter than the
// extractor's find every key that begins with it, before and after a flush and a
// compaction, with every memtable and table.
func TestShortPrefixesMissNothing(t *testing.T) {
	extractors := map[string]*PrefixExtractor{"fixed": FixedPrefix(4), "capped": CappedPrefix(4), "noop": NoopPrefix()}
	tables := map[string]TableFactory{
		"plain": PlainTableOptions{}, "plain-prefix": PlainTableOptions{EncodingType: PrefixEncoding, IndexSparseness: 2},
		"block": BlockBasedTableOptions{FilterPolicy: BloomFilter(10)}, "block-partitioned": BlockBasedTableOptions{FilterPolicy: RibbonFilter(10), IndexType: TwoLevelIndexSearch, PartitionFilters: true, BlockSize: 100},
	}
	for _, kind := range []MemTableKind{SkipList, HashSkipList, HashLinkList, Vector} {
		for tname, table := range tables {
			for ename, e := range extractors {
				for _, cmp := range []Comparator{Bytewise, ReverseBytewise} {
					t.Run(fmt.Sprintf("%v/%s/%s/%s", kind, tname, ename, cmp.Name()), func(t *testing.T) {
						shortPrefixes(t, &ColumnFamilyOptions{
							Comparator: cmp, PrefixExtractor: e, Table: table, DisableAutoCompactions: true,
							MemTable: MemTableOptions{Kind: kind, BucketCount: 8},
						})
					})
				}
			}
		}
	}
}

func shortPrefixes(t *testing.T, o *ColumnFamilyOptions) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: o})
	var all []string
	put := func(from, step int) {
		for i := from; i < 60; i += step {
			k := fmt.Sprintf("%c%c%c%c-%d", 'a'+i%2, 'a'+i/2%3, 'a'+i/6%2, 'a'+i/12%5, i)
			if err := db.Put(nil, []byte(k), []byte(k)); err != nil {
				t.Fatal(err)
			}
			all = append(all, k)
		}
	}
	check := func(when string) {
		t.Helper()
		reverse := o.Comparator == ReverseBytewise
		for _, prefix := range []string{"", "a", "b", "ab", "bc", "aca", "abbc", "abbc-", "c", "\xff"} {
			want := slices.DeleteFunc(slices.Clone(all), func(k string) bool { return !strings.HasPrefix(k, prefix) })
			slices.Sort(want)
			if reverse {
				slices.Reverse(want)
			}
			for _, ro := range []ReadOptions{{}, {PrefixSameAsStart: true}, {AutoPrefixMode: true}, {TotalOrderSeek: true}} {
				it := mustIterator(t, db.DefaultColumnFamily(), &ro)
				if got := keysOf(t, it, it.Prefix([]byte(prefix))); !slices.Equal(got, want) {
					t.Errorf("%s: Prefix(%q) with %+v:\n got %q\nwant %q", when, prefix, ro, got, want)
				}
				if prefix != "" && !reverse && ro.PrefixSameAsStart && o.PrefixExtractor.TooShort([]byte(prefix)) {
					// The walk ends by itself.
					if got := keysOf(t, it, it.Range([]byte(prefix))); !slices.Equal(got, want) {
						t.Errorf("%s: Range(%q) within the prefix:\n got %q\nwant %q", when, prefix, got, want)
					}
				}
				if !ro.PrefixSameAsStart && !reverse {
					n := 0
					for _, k := range all {
						if k >= prefix {
							n++
						}
					}
					if got := keysOf(t, it, it.Range([]byte(prefix))); len(got) != n {
						t.Errorf("%s: Range(%q) with %+v: %d keys, want %d", when, prefix, ro, len(got), n)
					}
				}
				it.Close()
			}
		}
	}
	put(0, 3)
	check("in memory")
	if err := db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	check("flushed")
	put(1, 3)
	check("in memory and flushed")
	compactAll(t, db)
	put(2, 3)
	check("compacted")
}

func TestBackwardSequences(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true})
	fillKeys(t, db, 5, "v")
	it := mustIterator(t, db.DefaultColumnFamily(), nil)
	if got := keysOf(t, it, it.Backward()); !slices.Equal(got, []string{"k000004", "k000003", "k000002", "k000001", "k000000"}) {
		t.Errorf("Backward: %q", got)
	}
	if got := keysOf(t, it, it.BackwardFrom([]byte("k0000015"))); !slices.Equal(got, []string{"k000001", "k000000"}) {
		t.Errorf("BackwardFrom: %q", got)
	}
	for range it.Backward() {
		break
	}
	if !it.Valid() || string(it.Key()) != "k000004" {
		t.Error("breaking out of a loop moves the iterator")
	}
}

// TestTailing: each seek of a tailing iterator begins with what is there, through
// flushes and compactions; a step stays where the seek was.
func TestTailing(t *testing.T) {
	for name, o := range map[string]*ColumnFamilyOptions{"block": {}, "plain": {Table: PlainTableOptions{HashTableRatio: TotalOrder}}} {
		t.Run(name, func(t *testing.T) {
			db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: o})
			it := mustIterator(t, db.DefaultColumnFamily(), &ReadOptions{Tailing: true})
			if it.First() {
				t.Error("an empty database has a key")
			}
			last := ""
			for i := range 50 {
				k := fmt.Sprintf("%03d", i)
				if err := db.Put(nil, []byte(k), []byte("v")); err != nil {
					t.Fatal(err)
				}
				if it.Valid() && it.Next() {
					t.Fatalf("a step sees %q, which came after the seek", it.Key())
				}
				if !it.SeekGE([]byte(last+"\x00")) || string(it.Key()) != k {
					t.Fatalf("after %q: %v, want %q; %v", last, it.Valid(), k, it.Err())
				}
				last = k
				switch i % 10 {
				case 3:
					if err := db.Flush(context.Background(), nil); err != nil {
						t.Fatal(err)
					}
				case 7:
					compactAll(t, db)
				}
			}
			if err := db.DeleteRange(nil, []byte("0"), []byte("040")); err != nil && name == "block" {
				t.Fatal(err)
			}
			if name == "block" && (!it.First() || string(it.Key()) != "040") {
				t.Errorf("after a range delete: %q", it.Key())
			}
		})
	}
}

// TestRefresh: the iterator moves to the newest state or to a snapshot, and keeps its
// bounds.
func TestRefresh(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true})
	fillKeys(t, db, 3, "old")
	snap, err := db.NewSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	it := mustIterator(t, db.DefaultColumnFamily(), &ReadOptions{UpperBound: []byte("k000004")})
	fillKeys(t, db, 9, "new")
	compactAll(t, db)
	if n := len(keysOf(t, it, it.All())); n != 3 {
		t.Errorf("%d keys before Refresh, want 3", n)
	}
	if err := it.Refresh(nil); err != nil {
		t.Fatal(err)
	}
	if it.Valid() {
		t.Error("positioned after Refresh")
	}
	if n := len(keysOf(t, it, it.All())); n != 4 {
		t.Errorf("%d keys after Refresh, want 4", n)
	}
	if err := it.Refresh(snap); err != nil {
		t.Fatal(err)
	}
	if !it.First() || !bytes.HasPrefix(it.Value(), []byte("old")) || len(keysOf(t, it, it.All())) != 3 {
		t.Error("Refresh with a snapshot shows something else")
	}
	it.Close()
	if err := it.Refresh(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestPinData: what the iterator showed stays as it was while it is open.
func TestPinData(t *testing.T) {
	for name, o := range map[string]*ColumnFamilyOptions{"block": smallFiles(), "plain": {Table: PlainTableOptions{HashTableRatio: TotalOrder}}} {
		t.Run(name, func(t *testing.T) {
			db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: o})
			fillKeys(t, db, 300, "v")
			compactAll(t, db)
			if err := db.PutEntity(nil, []byte("k000100"), []Column{{Value: []byte("d")}, {Name: []byte("n"), Value: []byte("v")}}); err != nil {
				t.Fatal(err)
			}
			it := mustIterator(t, db.DefaultColumnFamily(), &ReadOptions{PinData: true})
			var ks, vs [][]byte
			var columns []Column
			for k, v := range it.All() {
				ks, vs = append(ks, k), append(vs, v)
				var err error
				if columns, err = it.Columns(columns); err != nil {
					t.Fatal(err)
				}
			}
			if len(ks) != 300 || len(columns) != 301 {
				t.Fatalf("%d keys, %d columns", len(ks), len(columns))
			}
			for i := range ks {
				want := fmt.Sprintf("v %0100d", i)
				if i == 100 {
					want = "d"
				}
				if string(ks[i]) != fmt.Sprintf("k%06d", i) || string(vs[i]) != want {
					t.Fatalf("entry %d became %q = %q", i, ks[i], vs[i])
				}
			}
			if c := columns[101]; string(c.Name) != "n" || string(c.Value) != "v" {
				t.Errorf("column %q", c)
			}
		})
	}
}

func TestTooManyHiddenEntries(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true})
	fillKeys(t, db, 20, "v")
	for i := range 10 {
		if err := db.Delete(nil, fmt.Appendf(nil, "k%06d", i)); err != nil {
			t.Fatal(err)
		}
	}
	it := mustIterator(t, db.DefaultColumnFamily(), &ReadOptions{MaxSkippableInternalKeys: 5})
	if it.First() || !errors.Is(it.Err(), ErrIncomplete) {
		t.Errorf("First: %v, %v", it.Valid(), it.Err())
	}
	if !it.SeekGE([]byte("k000012")) || !it.Next() || it.Err() != nil {
		t.Errorf("elsewhere: %v", it.Err())
	}
	it.Close()
	it = mustIterator(t, db.DefaultColumnFamily(), &ReadOptions{MaxSkippableInternalKeys: 50})
	if !it.First() {
		t.Errorf("within the limit: %v", it.Err())
	}
}

// TestNewIteratorsShareAMoment: batches over two families show in both or in neither.
func TestNewIteratorsShareAMoment(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{WriteBufferSize: 64 << 10}})
	other, err := db.CreateColumnFamily("other", &ColumnFamilyOptions{WriteBufferSize: 64 << 10, Table: PlainTableOptions{HashTableRatio: TotalOrder}})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	done := make(chan error)
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			var b Batch
			b.Put(nil, []byte("n"), fmt.Appendf(nil, "%0500d", i))
			b.Put(other, []byte("n"), fmt.Appendf(nil, "%0500d", i))
			err = db.Write(nil, &b)
		}
		done <- err
	}()
	for range 300 {
		var found [3]GetResult
		results, err := db.MultiGetFamilies(nil, []*ColumnFamily{nil, other, nil}, [][]byte{[]byte("n"), []byte("n"), []byte("none")}, found[:0])
		if err != nil {
			t.Fatal(err)
		}
		if a, b := results[0], results[1]; !bytes.Equal(a.Value, b.Value) || (a.Err == nil) != (b.Err == nil) || !errors.Is(results[2].Err, ErrNotFound) {
			t.Fatalf("MultiGet over families sees %q, %v and %q, %v; none: %v", a.Value, a.Err, b.Value, b.Err, results[2].Err)
		}
		its, err := db.NewIterators(nil, []*ColumnFamily{nil, other})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := its[0].First(), its[1].First(); a != b || a && !bytes.Equal(its[0].Value(), its[1].Value()) {
			t.Fatalf("one family shows %q, the other %q", its[0].Value(), its[1].Value())
		}
		for _, it := range its {
			if err := it.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := db.NewIterators(nil, []*ColumnFamily{other, {db: nil}}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a family of no database: %v", err)
	}
}
