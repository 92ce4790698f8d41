package memtable

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// TestPointsFindTheNewest entry of a key, and leave older ones to the list.
func TestPointsFindTheNewest(t *testing.T) {
	for _, order := range []keys.Order{{}, keys.NewOrder(keys.ReverseBytewise)} {
		m, err := New(Options{Order: order, Reserve: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		const n, versions = 500, 4
		seq := uint64(0)
		for v := range versions {
			for i := range n {
				seq++
				kind := keys.KindValue
				if (i+v)%7 == 0 {
					kind = keys.KindDelete
				}
				if err := m.Add(fmt.Appendf(nil, "key%04d", i*17%n), keys.Pack(seq, kind), fmt.Appendf(nil, "%d", seq), -1, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !m.points.serves() || m.points.taken.Load() != n {
			t.Fatalf("the table serves: %v, with %d keys", m.points.serves(), m.points.taken.Load())
		}
		for i := range n {
			key := fmt.Appendf(nil, "key%04d", i*17%n)
			for v := range versions {
				want := uint64(v*n + i + 1)
				for _, at := range []uint64{want, want + n - 1} {
					look := lookup(nil, key, at)
					if value, trailer, ok := m.Get(look); !ok || keys.Seq(trailer) != want || string(value) != fmt.Sprint(want) {
						t.Fatalf("%s at %d: %q #%d %v, want #%d", key, at, value, keys.Seq(trailer), ok, want)
					}
				}
			}
			if _, _, ok := m.Get(lookup(nil, key, uint64(i))); ok {
				t.Fatalf("%s is there before it was written", key)
			}
		}
		for i := range n {
			key := fmt.Appendf(nil, "none%04d", i)
			if _, _, ok := m.Get(lookup(nil, key, keys.MaxSeq)); ok {
				t.Fatalf("%s is there", key)
			}
			m.Touch(lookup(nil, key, keys.MaxSeq))
			m.TouchNode(lookup(nil, key, keys.MaxSeq))
		}
	}
}

// TestPointsThatAreFullSayNothing: a memtable of more keys than its table has room
// for answers by its list, also while several writers fill it up.
func TestPointsThatAreFullSayNothing(t *testing.T) {
	o, err := Options{Reserve: minReserve}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMemTable(o, newHeapMemory(4<<20, 0)) // more room than it is told of
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 4, 1000
	var published [writers]atomic.Int64
	key := func(w, i int) []byte { return fmt.Appendf(nil, "%d-%05d", w, i/2) } // two versions each
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := m.Add(key(w, i), keys.Pack(uint64(w*each+i+1), keys.KindValue), nil, -1, 0); err != nil {
					t.Error(err)
					return
				}
				published[w].Store(int64(i + 1))
			}
		})
		wg.Go(func() {
			for at := 0; at < each; {
				at = int(published[w].Load())
				for i := max(at-20, 0); i < at; i++ {
					// The writer may be a version further.
					_, trailer, ok := m.Get(lookup(nil, key(w, i), keys.MaxSeq))
					if least := uint64(w*each + i + 1); !ok || keys.Seq(trailer) < least || keys.Seq(trailer) > least+1 {
						t.Errorf("%s: #%d, %v; want #%d", key(w, i), keys.Seq(trailer), ok, least)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if m.points.serves() {
		t.Errorf("%d keys fit into %d slots", m.points.taken.Load(), len(m.points.slots))
	}
	if _, _, ok := m.Get(lookup(nil, []byte("none"), keys.MaxSeq)); ok {
		t.Error("a key is there that nobody wrote")
	}
}

// foldedComparator takes keys that differ in case for the same.
type foldedComparator struct{}

func (foldedComparator) Name() string { return "test.Folded" }
func (foldedComparator) Compare(a, b []byte) int {
	return strings.Compare(strings.ToLower(string(a)), strings.ToLower(string(b)))
}
func (foldedComparator) AppendSeparator(dst, a, _ []byte) []byte { return append(dst, a...) }
func (foldedComparator) AppendSuccessor(dst, a []byte) []byte    { return append(dst, a...) }

// TestNoPointsWhereEqualKeysDiffer in their bytes, nor where other kinds have their own.
func TestNoPointsWhereEqualKeysDiffer(t *testing.T) {
	m, err := New(Options{Order: keys.NewOrder(foldedComparator{}), Reserve: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	for i, k := range []string{"Key", "kEY"} {
		if err := m.Add([]byte(k), keys.Pack(uint64(i+1), keys.KindValue), []byte(k), -1, 0); err != nil {
			t.Fatal(err)
		}
	}
	if value, _, ok := m.Get(lookup(nil, []byte("KEY"), keys.MaxSeq)); !ok || !bytes.Equal(value, []byte("kEY")) {
		t.Errorf("%q, %v", value, ok)
	}
	if m.points.slots != nil {
		t.Error("it has a table of points")
	}
}
