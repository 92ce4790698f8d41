package iterator_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/iterator/itertest"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
)

var errRead = errors.New("read failed")

// A walk over sources of which one fails at its n-th call, for every n, shows
// only keys that are there, in order, and then the error.
func TestASourceThatFailsEndsTheWalkWithItsError(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	h := itertest.Random(rng, keys.Order{}, itertest.Shape{Ops: 120, Keys: 40, Deletes: 20, Merges: 20, Ranges: 3})
	runs := h.Runs(rng, 3)
	want := h.At(keys.MaxSeq)
	for _, backward := range []bool{false, true} {
		for bad := range runs {
			clean := false
			for n := 1; !clean; n++ {
				var sources []table.Iterator
				o := iterator.Options{Seq: keys.MaxSeq, Operator: merge.StringAppend(",")}
				for i, r := range runs {
					it := itertest.New(keys.Order{}, r.Entries)
					if i == bad {
						it.FailAt, it.Failed = n, errRead
					}
					sources = append(sources, it)
					o.Tombstones = append(o.Tombstones, iterator.SourceTombstones{Source: i, List: rangedel.New(keys.Order{}, r.Tombstones)})
				}
				var u iterator.User
				u.Reset(&o, sources)
				seen := walk(&u, backward)
				expected := want
				if backward {
					expected = slices.Clone(want)
					slices.Reverse(expected)
				}
				for i, p := range seen {
					if i >= len(expected) || !bytes.Equal(p.Key, expected[i].Key) || !bytes.Equal(p.Value, expected[i].Value) {
						t.Fatalf("run %d fails at call %d, backward %v: key %d is %s=%s", bad, n, backward, i, p.Key, p.Value)
					}
				}
				if clean = u.Err() == nil; clean && len(seen) != len(expected) {
					t.Fatalf("run %d fails at call %d, backward %v: ended without an error after %d of %d keys", bad, n, backward, len(seen), len(expected))
				}
				if !clean && !errors.Is(u.Err(), errRead) {
					t.Fatalf("run %d fails at call %d: %v, want the source's error", bad, n, u.Err())
				}
				if u.Next() || u.Prev() {
					t.Fatal("a failed iterator moves")
				}
			}
		}
	}
}

func walk(u *iterator.User, backward bool) (seen []itertest.Pair) {
	step := u.Next
	if backward {
		u.Last()
		step = u.Prev
	} else {
		u.First()
	}
	for ; u.Valid(); step() {
		seen = append(seen, itertest.Pair{Key: bytes.Clone(u.Key()), Value: bytes.Clone(u.Value())})
	}
	return seen
}

// levels makes a level of n files "0".."n-1", of the keys "i0" and "i5" each.
func level(n int, opened *[]int, fail func(i int) error) *iterator.FileList {
	l := &iterator.FileList{}
	var files [][]itertest.Entry
	for i := range n {
		e := func(s string) itertest.Entry {
			return itertest.Entry{Key: []byte(s), Trailer: keys.Pack(1, keys.KindValue)}
		}
		f := []itertest.Entry{e(fmt.Sprintf("%d0", i)), e(fmt.Sprintf("%d5", i))}
		files = append(files, f)
		l.Bounds = append(l.Bounds, iterator.Bounds{Smallest: f[0].Key, SmallestTrailer: f[0].Trailer, Largest: f[1].Key, LargestTrailer: f[1].Trailer})
	}
	l.OpenFile = func(i int) (table.Iterator, error) {
		*opened = append(*opened, i)
		if err := fail(i); err != nil {
			return nil, err
		}
		return itertest.New(keys.Order{}, files[i]), nil
	}
	return l
}

func TestLevelOpensOnlyTheFilesThatItNeeds(t *testing.T) {
	var opened []int
	files := level(5, &opened, func(int) error { return nil })
	top := keys.Pack(keys.MaxSeq, keys.KindSeek)
	look := func(key string) *keys.Lookup { return &keys.Lookup{UserKey: []byte(key), PrefixLen: 1} }
	for _, c := range []struct {
		name string
		move func(l *iterator.Level) bool
		key  string // "" for none
		want []int
	}{
		{"SeekGE inside", func(l *iterator.Level) bool { return l.SeekGE([]byte("23"), top) }, "25", []int{2}},
		{"SeekGE between files", func(l *iterator.Level) bool { return l.SeekGE([]byte("26"), top) }, "30", []int{3}},
		{"SeekGE past the end", func(l *iterator.Level) bool { return l.SeekGE([]byte("9"), top) }, "", nil},
		{"SeekLT inside", func(l *iterator.Level) bool { return l.SeekLT([]byte("23"), top) }, "20", []int{2}},
		{"SeekLT between files", func(l *iterator.Level) bool { return l.SeekLT([]byte("30"), top) }, "25", []int{2}},
		{"SeekLT before all", func(l *iterator.Level) bool { return l.SeekLT([]byte("00"), top) }, "", nil},
		{"SeekLT past all", func(l *iterator.Level) bool { return l.SeekLT([]byte("9"), top) }, "45", []int{4}},
		{"SeekPrefixGE inside", func(l *iterator.Level) bool { return l.SeekPrefixGE(look("23"), top) }, "25", []int{2}},
		{"SeekPrefixGE without the prefix", func(l *iterator.Level) bool { return l.SeekPrefixGE(look("26"), top) }, "", nil},
		{"SeekPrefixGE past the end", func(l *iterator.Level) bool { return l.SeekPrefixGE(look("7"), top) }, "", nil},
		{"First and all steps", func(l *iterator.Level) bool {
			ok := l.First()
			for range 9 {
				ok = l.Next()
			}
			return ok
		}, "45", []int{0, 1, 2, 3, 4}},
		{"Last and two steps", func(l *iterator.Level) bool { return l.Last() && l.Prev() && l.Prev() }, "35", []int{4, 3}},
		{"two seeks into one file", func(l *iterator.Level) bool { return l.SeekGE([]byte("20"), top) && l.SeekLT([]byte("25"), top) }, "20", []int{2}},
	} {
		opened = nil
		l := iterator.NewLevel(keys.Order{}, files)
		ok := c.move(l)
		if ok != (c.key != "") || ok != l.Valid() || l.Err() != nil {
			t.Errorf("%s: %v, valid %v, %v", c.name, ok, l.Valid(), l.Err())
			continue
		}
		if ok && string(l.UserKey()) != c.key {
			t.Errorf("%s: at %s, want %s", c.name, l.UserKey(), c.key)
		}
		if !slices.Equal(opened, c.want) {
			t.Errorf("%s: opened %v, want %v", c.name, opened, c.want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The bound that is only a range tombstone's end must not make a seek open the
// file, nor hide the prefix in the file after it.
func TestLevelTreatsATombstoneEndAsOutside(t *testing.T) {
	entry := func(s string) itertest.Entry {
		return itertest.Entry{Key: []byte(s), Trailer: keys.Pack(5, keys.KindValue)}
	}
	contents := [][]itertest.Entry{{entry("a1")}, {entry("b2"), entry("b3")}}
	sentinel := keys.Pack(keys.MaxSeq, keys.KindRangeDelete)
	var opened []int
	files := &iterator.FileList{
		Bounds: []iterator.Bounds{
			{Smallest: []byte("a1"), SmallestTrailer: entry("").Trailer, Largest: []byte("b2"), LargestTrailer: sentinel},
			{Smallest: []byte("b2"), SmallestTrailer: entry("").Trailer, Largest: []byte("b3"), LargestTrailer: entry("").Trailer},
		},
		OpenFile: func(i int) (table.Iterator, error) {
			opened = append(opened, i)
			return itertest.New(keys.Order{}, contents[i]), nil
		},
	}
	l := iterator.NewLevel(keys.Order{}, files)
	top := keys.Pack(keys.MaxSeq, keys.KindSeek)
	if !l.SeekGE([]byte("b2"), top) || string(l.UserKey()) != "b2" || !slices.Equal(opened, []int{1}) {
		t.Errorf("SeekGE opened %v", opened)
	}
	if !l.SeekPrefixGE(&keys.Lookup{UserKey: []byte("b1"), PrefixLen: 1}, top) || string(l.UserKey()) != "b2" {
		t.Error("the prefix in the second file was not found")
	}
	if !l.SeekLT([]byte("b2"), top) || string(l.UserKey()) != "a1" {
		t.Error("SeekLT missed the first file")
	}
}

func TestLevelReportsAFileThatDoesNotOpen(t *testing.T) {
	var opened []int
	files := level(3, &opened, func(i int) error {
		if i == 1 {
			return errRead
		}
		return nil
	})
	l := iterator.NewLevel(keys.Order{}, files)
	if !l.First() || !l.Next() || l.Next() || !errors.Is(l.Err(), errRead) || l.Valid() {
		t.Errorf("after the first file: valid %v, %v", l.Valid(), l.Err())
	}
	if !l.Last() || l.Err() != nil {
		t.Errorf("the next seek does not recover: %v", l.Err())
	}
	if l.SeekGE([]byte("10"), 0) || !errors.Is(l.Err(), errRead) {
		t.Errorf("a seek into the file gives %v", l.Err())
	}
	m := iterator.NewMerging(keys.Order{}, itertest.New(keys.Order{}, nil), iterator.NewLevel(keys.Order{}, files))
	if !m.First() || !m.Next() || m.Next() || !errors.Is(m.Err(), errRead) {
		t.Errorf("a merging iterator gives %v", m.Err())
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
