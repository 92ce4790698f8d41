package iterator_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/internal/entity"
	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/iterator/itertest"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// spread deals n keys over sources in turn, "k00000007" and so on.
func spread(n, sources int, kind func(i int) (keys.Kind, []byte)) []table.Iterator {
	runs := make([][]itertest.Entry, sources)
	for i := range n {
		k, v := kind(i)
		runs[i%sources] = append(runs[i%sources], itertest.Entry{Key: fmt.Appendf(nil, "k%08d", i), Trailer: keys.Pack(uint64(i+1), k), Value: v})
	}
	its := make([]table.Iterator, sources)
	for i := range its {
		it := itertest.New(keys.Order{}, runs[i])
		it.Kind = true
		its[i] = it
	}
	return its
}

func puts(int) (keys.Kind, []byte) { return keys.KindValue, []byte("value") }

func TestStepsAndSeeksDoNotAllocate(t *testing.T) {
	ent, err := entity.Append(nil, []entity.Column{{Value: []byte("d")}, {Name: []byte("n"), Value: []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	one := binary.LittleEndian.AppendUint64(nil, 1)
	mixed := func(i int) (keys.Kind, []byte) {
		switch i % 5 {
		case 0:
			return keys.KindDelete, nil
		case 1:
			return keys.KindMerge, one
		case 2:
			return keys.KindEntity, ent
		}
		return keys.KindValue, one
	}
	for _, sources := range []int{1, 2, 5} {
		var u iterator.User
		o := &iterator.Options{Seq: keys.MaxSeq, Operator: merge.UInt64Add(), Prefixer: prefixhash.Fixed(7),
			Lower: []byte("k"), Upper: []byte("l"),
			Tombstones: []iterator.SourceTombstones{{Source: 0, List: rangedel.New(keys.Order{}, []table.Tombstone{
				{Start: []byte("k00000100"), End: []byte("k00000120"), Seq: 5000}})}}}
		its := spread(1000, sources, mixed)
		key := []byte("k00000050")
		walk := func() {
			u.Reset(o, its)
			if !u.SeekGE(key) {
				t.Fatal("no key")
			}
			n := 0
			for ; u.Valid() && n < 300; n++ {
				u.Next()
			}
			for ; u.Valid() && n > 100; n-- {
				u.Prev()
			}
			if u.Err() != nil || !u.Valid() {
				t.Fatal(u.Err())
			}
		}
		walk()
		if n := testing.AllocsPerRun(20, walk); n != 0 {
			t.Errorf("%d sources: %v allocations for a reset, a seek and 500 steps, want none", sources, n)
		}
	}
}

func TestLevelResetDoesNotAllocate(t *testing.T) {
	its := spread(100, 1, puts)
	files := &iterator.FileList{Bounds: []iterator.Bounds{{Smallest: []byte("k00000000"), Largest: []byte("k00000099")}},
		OpenFile: func(int) (table.Iterator, error) { return its[0], nil }}
	its[0].(*itertest.Iter).Reusable = true
	var l iterator.Level
	key := []byte("k00000003")
	n := testing.AllocsPerRun(20, func() {
		l.Init(keys.Order{}, files)
		if !l.SeekGE(key, 0) || !l.Next() {
			t.Fatal("no key")
		}
		l.Close()
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkMergingNext(b *testing.B) {
	for _, sources := range []int{1, 2, 4, 10} {
		b.Run(fmt.Sprintf("interleaved-%d", sources), func(b *testing.B) {
			m := iterator.NewMerging(keys.Order{}, spread(20000, sources, puts)...)
			b.ReportAllocs()
			for b.Loop() {
				if !m.Valid() || !m.Next() {
					m.First()
				}
			}
		})
	}
	b.Run("one-run-wins-of-10", func(b *testing.B) {
		its := spread(20000, 1, puts)
		for i := range 9 {
			e := itertest.Entry{Key: fmt.Appendf(nil, "z%d", i), Trailer: keys.Pack(1, keys.KindValue)}
			its = append(its, itertest.New(keys.Order{}, []itertest.Entry{e}))
		}
		m := iterator.NewMerging(keys.Order{}, its...)
		b.ReportAllocs()
		for b.Loop() {
			if !m.Valid() || !m.Next() {
				m.First()
			}
		}
	})
}

func BenchmarkUserNext(b *testing.B) {
	for _, sources := range []int{1, 2, 5} {
		b.Run(fmt.Sprintf("sources-%d", sources), func(b *testing.B) {
			var u iterator.User
			u.Reset(&iterator.Options{Seq: keys.MaxSeq}, spread(20000, sources, puts))
			b.ReportAllocs()
			for b.Loop() {
				if !u.Valid() || !u.Next() {
					u.First()
				}
			}
		})
	}
}

func BenchmarkUserPrev(b *testing.B) {
	var u iterator.User
	u.Reset(&iterator.Options{Seq: keys.MaxSeq}, spread(20000, 2, puts))
	b.ReportAllocs()
	for b.Loop() {
		if !u.Valid() || !u.Prev() {
			u.Last()
		}
	}
}

func BenchmarkUserSeek(b *testing.B) {
	for _, sources := range []int{1, 5} {
		b.Run(fmt.Sprintf("sources-%d", sources), func(b *testing.B) {
			var u iterator.User
			u.Reset(&iterator.Options{Seq: keys.MaxSeq}, spread(20000, sources, puts))
			key, i := []byte("k00000000"), 0
			b.ReportAllocs()
			for b.Loop() {
				i = (i + 7919) % 20000
				n := i
				for j := len(key) - 1; n > 0; j-- {
					key[j] = byte('0' + n%10)
					n /= 10
				}
				u.SeekGE(key)
			}
		})
	}
}
