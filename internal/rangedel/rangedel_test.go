package rangedel

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

func tomb(start, end string, seq uint64) table.Tombstone {
	return table.Tombstone{Start: []byte(start), End: []byte(end), Seq: seq}
}

func text(l *List) string {
	s := ""
	for i := range l.Len() {
		start, end := l.Span(i)
		closing := ")"
		if l.EndInclusive(i) {
			closing = "]"
		}
		var seqs []uint64
		for seq := l.Newest(i, keys.MaxSeq); seq > 0; seq = l.Newest(i, seq-1) {
			seqs = append(seqs, seq)
		}
		s += fmt.Sprintf("[%s,%s%s%v ", start, end, closing, seqs)
	}
	return s
}

func TestFragmentsAreCutAtEveryBound(t *testing.T) {
	for _, c := range []struct {
		in   []table.Tombstone
		want string
	}{
		{nil, ""},
		{[]table.Tombstone{tomb("b", "b", 1), tomb("c", "a", 2)}, ""},
		{[]table.Tombstone{tomb("a", "d", 5), tomb("c", "f", 9)}, "[a,c)[5] [c,d)[9 5] [d,f)[9] "},
		{[]table.Tombstone{tomb("a", "z", 1), tomb("m", "n", 3)}, "[a,m)[1] [m,n)[3 1] [n,z)[1] "},
		{[]table.Tombstone{tomb("a", "c", 2), tomb("a", "c", 2), tomb("a", "c", 4)}, "[a,c)[4 2] "},
		{[]table.Tombstone{tomb("a", "b", 2), tomb("b", "c", 2), tomb("d", "e", 1)}, "[a,b)[2] [b,c)[2] [d,e)[1] "},
		{[]table.Tombstone{tomb("", "a", 7), tomb("a", "aa", 8)}, "[,a)[7] [a,aa)[8] "},
	} {
		if got := text(New(keys.Order{}, c.in)); got != c.want {
			t.Errorf("New(%v) = %s, want %s", c.in, got, c.want)
		}
	}
}

// slowCover is the definition.
func slowCover(order keys.Order, ts []table.Tombstone, key []byte, seq uint64) (newest uint64) {
	for _, t := range ts {
		if t.Seq <= seq && order.Compare(t.Start, key) <= 0 && order.Compare(key, t.End) < 0 {
			newest = max(newest, t.Seq)
		}
	}
	return newest
}

func randomTombstones(rng *rand.Rand, order keys.Order, n int) []table.Tombstone {
	ts := make([]table.Tombstone, n)
	for i := range ts {
		a, b := fmt.Sprintf("%02d", rng.IntN(40)), fmt.Sprintf("%02d", rng.IntN(40))
		if order.Compare([]byte(a), []byte(b)) > 0 {
			a, b = b, a
		}
		ts[i] = tomb(a, b, uint64(rng.IntN(20)+1))
	}
	return ts
}

func TestCoverAgreesWithALinearScan(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var order keys.Order
		if seed%3 == 0 {
			order = keys.NewOrder(keys.ReverseBytewise)
		}
		ts := randomTombstones(rng, order, rng.IntN(20)*rng.IntN(10))
		l := New(order, ts[:len(ts)/2], ts[len(ts)/2:])
		if seed%2 == 0 && l != nil {
			l.addFence()
		}
		for _, x := range l.AppendTombstones(nil) {
			if order.Compare(x.Start, x.End) >= 0 {
				t.Fatalf("seed %d: empty fragment %v", seed, x)
			}
		}
		var cursor Cursor
		cursor.Reset(l)
		for range 200 {
			key := fmt.Appendf(nil, "%02d", rng.IntN(41))
			if rng.IntN(3) == 0 {
				key = append(key, 'x')
			}
			seq := uint64(rng.IntN(22))
			want := slowCover(order, ts, key, seq)
			if want > 0 && !l.Near(key) {
				t.Fatalf("seed %d: %s is covered and not near", seed, key)
			}
			if got := l.Cover(key, seq); got != want {
				t.Fatalf("seed %d: Cover(%s, %d) = %d, want %d of %v", seed, key, seq, got, want, ts)
			}
			if got := cursor.Cover(key, seq); got != want {
				t.Fatalf("seed %d: Cursor.Cover(%s, %d) = %d, want %d of %v", seed, key, seq, got, want, ts)
			}
			if lo, hi, ok := cursor.Bounds(); ok {
				probe := fmt.Appendf(nil, "%02d", rng.IntN(41))
				if (lo == nil || order.Compare(lo, probe) <= 0) && (hi == nil || order.Compare(probe, hi) < 0) && l.Cover(probe, seq) != want {
					t.Fatalf("seed %d: %s is within [%s,%s) of %s, but covered otherwise", seed, probe, lo, hi, key)
				}
			}
			if start, end, ok := cursor.Span(); ok && (order.Compare(start, key) > 0 || order.Compare(key, end) >= 0) {
				t.Fatalf("seed %d: span [%s,%s) of %s", seed, start, end, key)
			}
		}
		for i := 1; i < l.Len(); i++ {
			if order.Compare(l.frags[i-1].end, l.frags[i].start) > 0 {
				t.Fatalf("seed %d: overlapping fragments %s", seed, text(l))
			}
		}
	}
}

func TestClipLeavesNothingOutsideAFile(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		var order keys.Order
		if seed%2 == 1 {
			order = keys.NewOrder(keys.ReverseBytewise)
		}
		ts := randomTombstones(rng, order, 1+rng.IntN(8))
		lo, hi := fmt.Appendf(nil, "%02d", rng.IntN(40)), fmt.Appendf(nil, "%02d", rng.IntN(40))
		if order.Compare(lo, hi) > 0 {
			lo, hi = hi, lo
		}
		exclusive := rng.IntN(2) == 0
		l := New(order, ts).Clip(lo, hi, exclusive)
		if seed%4 > 1 && l != nil {
			l.addFence()
		}
		var cursor Cursor
		cursor.Reset(l)
		for i := range 80 {
			key := fmt.Appendf(nil, "%02d", i/2)
			if i%2 == 1 {
				key = append(key, 'x')
			}
			want := uint64(0)
			if c := order.Compare(key, hi); order.Compare(key, lo) >= 0 && (c < 0 || c == 0 && !exclusive) {
				want = slowCover(order, ts, key, 100)
			}
			if want > 0 && !l.Near(key) {
				t.Fatalf("seed %d: %s is covered and not near in %s", seed, key, text(l))
			}
			if got := l.Cover(key, 100); got != want {
				t.Fatalf("seed %d: [%s,%s] exclusive %v: Cover(%s) = %d, want %d: %s", seed, lo, hi, exclusive, key, got, want, text(l))
			}
			if got := cursor.Cover(key, 100); got != want {
				t.Fatalf("seed %d: Cursor.Cover(%s) = %d, want %d: %s", seed, key, got, want, text(l))
			}
		}
	}
}

func TestAnInclusiveEndIsWrittenAsTheKeyPastIt(t *testing.T) {
	l := New(keys.Order{}, []table.Tombstone{tomb("a", "z", 9)}).Clip([]byte("a"), []byte("f"), false)
	if ts := l.AppendTombstones(nil); len(ts) != 1 || string(ts[0].End) != "f\x00" {
		t.Errorf("written as %v", ts)
	}
	if text(l) != "[a,f][9] " {
		t.Errorf("the list became %s", text(l))
	}
}

// Ranges nested in each other, each with as many fragments as there are ranges.
func nested(n int) []table.Tombstone {
	var ts []table.Tombstone
	for i := range n {
		ts = append(ts, tomb(fmt.Sprintf("%07d", i), fmt.Sprintf("%07d", 2*n-i), uint64(1+i*7919%n)))
	}
	return ts
}

func TestNestedTombstonesTakeLittleMemory(t *testing.T) {
	const n = 4000
	l := New(keys.Order{}, nested(n))
	if l.Len() != 2*n-1 || l.seqs.leaves == 0 || len(l.seqs.seqs) > 32*n {
		t.Errorf("%d fragments with %d sequence numbers for %d tombstones", l.Len(), len(l.seqs.seqs), n)
	}
	small := nested(300)
	l = New(keys.Order{}, small).Clip([]byte("0000007"), []byte("0000450"), false)
	if l.seqs.leaves == 0 {
		t.Fatal("the list is flat")
	}
	for k := range 600 {
		key := fmt.Appendf(nil, "%07d", k)
		for _, seq := range []uint64{0, 1, 50, 150, 299, 1000} {
			want := slowCover(keys.Order{}, small, key, seq)
			if k < 7 || k > 450 {
				want = 0
			}
			if got := l.Cover(key, seq); got != want {
				t.Fatalf("Cover(%s, %d) = %d, want %d", key, seq, got, want)
			}
		}
	}
}

func TestMutableReadersRunBesideAWriter(t *testing.T) {
	m := NewMutable(keys.Order{})
	const n = 500
	var published [n + 1]chan struct{}
	for i := range published {
		published[i] = make(chan struct{})
	}
	var readers sync.WaitGroup
	for r := range 3 {
		readers.Go(func() {
			for i := 1 + r; i <= n; i += 3 {
				<-published[i]
				key := fmt.Appendf(nil, "%04d", i)
				if got := m.Cover(key, keys.MaxSeq); got != uint64(i) {
					t.Errorf("Cover(%s) = %d, want %d", key, got, i)
				}
				if got := m.Cover(key, uint64(i-1)); got != 0 {
					t.Errorf("Cover(%s) before its tombstone = %d, want 0", key, got)
				}
			}
		})
	}
	for i := 1; i <= n; i++ {
		m.Add(fmt.Appendf(nil, "%04d", i), fmt.Appendf(nil, "%04d~", i), uint64(i))
		close(published[i])
	}
	readers.Wait()
}

func BenchmarkListCover(b *testing.B) {
	var ts []table.Tombstone
	for i := range 10000 {
		ts = append(ts, tomb(fmt.Sprintf("%08d", 2*i), fmt.Sprintf("%08d", 2*i+1), uint64(i)))
	}
	l := New(keys.Order{}, ts)
	key := []byte("00012345")
	b.ReportAllocs()
	for b.Loop() {
		l.Cover(key, keys.MaxSeq)
	}
}

func BenchmarkNewNested(b *testing.B) {
	ts := nested(10000)
	b.ReportAllocs()
	for b.Loop() {
		New(keys.Order{}, ts)
	}
}

func BenchmarkListCoverNested(b *testing.B) {
	l := New(keys.Order{}, nested(10000))
	key := []byte("0005000")
	b.ReportAllocs()
	for b.Loop() {
		l.Cover(key, keys.MaxSeq)
	}
}
