package rangedel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// byLength is a custom order: shorter keys first.
type byLength struct{ keys.Comparator }

func (byLength) Name() string { return "test.ByLength" }
func (byLength) Compare(a, b []byte) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}

// mutableKeys are ways to make keys that stress the searches: shared prefixes of
// several lengths, keys that are prefixes of others, equal images.
var mutableKeys = map[string]func(n int) []byte{
	"digits":  func(n int) []byte { return fmt.Appendf(nil, "%05d", n) },
	"prefix":  func(n int) []byte { return fmt.Appendf(nil, "a-long-shared-prefix/%05d", n) },
	"nested":  func(n int) []byte { return bytes.Repeat([]byte{'k'}, n%40) },
	"zeros":   func(n int) []byte { return append([]byte("z"), make([]byte, n%23)...) },
	"mixed":   func(n int) []byte { return fmt.Appendf(nil, "%.*s%d", n%11, "pppppppppppp", n/7) },
	"numbers": func(n int) []byte { return []byte{byte(n >> 8), byte(n), 0, 0, 0, 0, 0, 0, 0, 0, byte(n)} },
}

// TestMutableAgreesWithALinearScan: covers at every sequence number, spans that
// keep their promise, in every order of keys.
func TestMutableAgreesWithALinearScan(t *testing.T) {
	orders := map[string]keys.Order{"bytewise": {}, "reverse": keys.NewOrder(keys.ReverseBytewise), "custom": keys.NewOrder(byLength{keys.Bytewise})}
	for oname, order := range orders {
		for kname, key := range mutableKeys {
			t.Run(oname+"/"+kname, func(t *testing.T) {
				m := NewMutable(order)
				rng := rand.New(rand.NewPCG(1, 5))
				var all []table.Tombstone
				var live Cursor
				live.ResetLive(m)
				for i := range 1200 {
					a := rng.IntN(3000)
					width := rng.IntN(20)
					if rng.IntN(20) == 0 {
						width = rng.IntN(3000)
					}
					seq := uint64(2*i + 2)
					if rng.IntN(9) == 0 && i > 0 {
						seq -= 3 // out of order
					}
					x := table.Tombstone{Start: key(a), End: key(a + width), Seq: seq}
					m.Add(x.Start, x.End, x.Seq)
					if order.Compare(x.Start, x.End) < 0 {
						all = append(all, x)
					}
					for range 3 {
						at, k := uint64(rng.IntN(2*i+4)), key(rng.IntN(3100))
						want := slowCover(order, all, k, at)
						if got := m.Cover(k, at); got != want {
							t.Fatalf("after %d: Cover(%q, %d) = %d, want %d", i+1, k, at, got, want)
						}
						if want > 0 && !m.Near(k) {
							t.Fatalf("after %d: a tombstone of %d covers %q, which is not near", i+1, want, k)
						}
						if got := live.Cover(k, at); got != want {
							t.Fatalf("after %d: the cursor's Cover(%q, %d) = %d, want %d", i+1, k, at, got, want)
						}
						lo, hi, _ := live.Bounds()
						if k2 := key(rng.IntN(3100)); (lo == nil || order.Compare(lo, k2) <= 0) && (hi == nil || order.Compare(k2, hi) < 0) {
							if got := slowCover(order, all, k2, at); got != want {
								t.Fatalf("after %d: cover of %q is %d and that of %q %d, between the same bounds", i+1, k2, got, k, want)
							}
						}
					}
				}
				if m.Count() != int64(len(all)) || len(m.Tombstones()) != len(all) {
					t.Errorf("count %d, %d tombstones, want %d", m.Count(), len(m.Tombstones()), len(all))
				}
				list := New(order, m.Tombstones())
				for n := range 3100 {
					k := key(n)
					if got, want := list.Cover(k, keys.MaxSeq), m.Cover(k, keys.MaxSeq); got != want {
						t.Fatalf("a list's Cover(%q) = %d, the tree's %d", k, got, want)
					}
				}
			})
		}
	}
}

// TestMutableKeepsHistory: a key covered by thousands of tombstones answers for
// each sequence number, and the marks take memory by their number alone.
func TestMutableKeepsHistory(t *testing.T) {
	m := NewMutable(keys.Order{})
	const n = 5000
	for i := 1; i <= n; i++ {
		m.Add([]byte("a"), []byte("z"), uint64(10*i))
	}
	for _, seq := range []uint64{0, 9, 10, 11, 4999, 10 * n, 20 * n} {
		if got, want := m.Cover([]byte("m"), seq), min(seq/10*10, 10*n); got != want {
			t.Errorf("Cover at %d = %d, want %d", seq, got, want)
		}
	}
	if per := m.UsedBytes() / n; per > 200 {
		t.Errorf("%d bytes for each of equal tombstones", per)
	}
	nest := NewMutable(keys.Order{})
	for _, x := range nested(4000) {
		nest.Add(x.Start, x.End, x.Seq)
	}
	if per := nest.UsedBytes() / 4000; per > 5000 {
		t.Errorf("%d bytes for each of nested tombstones", per)
	}
}

func TestMutableIsOldestFirst(t *testing.T) {
	m := NewMutable(keys.Order{})
	for i := range 100 {
		m.Add(fmt.Appendf(nil, "%03d", i*37%100), []byte("~"), uint64(i+1))
	}
	m.Add([]byte("b"), []byte("a"), 200)
	m.Add([]byte("a"), []byte("a"), 201)
	if all := m.Tombstones(); len(all) != 100 || !slices.IsSortedFunc(all, func(a, b table.Tombstone) int { return int(a.Seq) - int(b.Seq) }) || m.Newest() != 100 {
		t.Errorf("%d tombstones, newest %d", len(all), m.Newest())
	}
}

func TestCoverDoesNotAllocate(t *testing.T) {
	m := NewMutable(keys.Order{})
	for i := range 100 {
		m.Add(fmt.Appendf(nil, "%03d", i), fmt.Appendf(nil, "%03d", i+2), uint64(i+1))
	}
	var c, live Cursor
	c.Reset(New(keys.Order{}, m.Tombstones()))
	live.ResetLive(m)
	key := []byte("050")
	if n := testing.AllocsPerRun(100, func() {
		if m.Cover(key, keys.MaxSeq) == 0 {
			t.Fatal("not covered")
		}
		c.Cover(key, keys.MaxSeq)
		live.Cover(key, keys.MaxSeq)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkMutableAdd(b *testing.B) {
	m := NewMutable(keys.Order{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if m.Count() > 100_000 {
			m = NewMutable(keys.Order{})
		}
		k := fmt.Appendf(nil, "%08d", i*7919%1000000)
		m.Add(k, append(k, 'x'), uint64(i+1))
	}
}

func BenchmarkMutableCover(b *testing.B) {
	m := NewMutable(keys.Order{})
	for i := range 10000 {
		k := i * 7919 % 10000
		m.Add(fmt.Appendf(nil, "%08d", 10*k), fmt.Appendf(nil, "%08d", 10*k+5), uint64(i+1))
	}
	var ks [1024][]byte
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range ks {
		ks[i] = fmt.Appendf(nil, "%08d", rng.IntN(100000))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Cover(ks[i%1024], keys.MaxSeq)
	}
}

// TestRunCursorAgreesWithItsLists: a cursor over the lists of a level's files answers
// as they do, and its bounds hold.
func TestRunCursorAgreesWithItsLists(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 6))
	for range 200 {
		var run []*List
		var all []table.Tombstone
		at := 0
		for range 1 + rng.IntN(6) {
			at += rng.IntN(10)
			var ts []table.Tombstone
			first := at
			for range 1 + rng.IntN(5) {
				a := first + rng.IntN(20)
				b := a + 1 + rng.IntN(10)
				ts = append(ts, tomb(fmt.Sprintf("%04d", a), fmt.Sprintf("%04d", b), uint64(1+rng.IntN(50))))
				at = max(at, b)
			}
			run, all = append(run, New(keys.Order{}, ts)), append(all, ts...)
		}
		var c Cursor
		c.ResetRun(run)
		for range 100 {
			k, seq := fmt.Appendf(nil, "%04d", rng.IntN(at+5)), uint64(rng.IntN(60))
			want := slowCover(keys.Order{}, all, k, seq)
			if got := c.Cover(k, seq); got != want {
				t.Fatalf("Cover(%s, %d) = %d, want %d", k, seq, got, want)
			}
			lo, hi, ok := c.Bounds()
			for n := range at + 5 {
				k2 := fmt.Appendf(nil, "%04d", n)
				if ok && (lo == nil || bytes.Compare(lo, k2) <= 0) && (hi == nil || bytes.Compare(k2, hi) < 0) {
					if got := slowCover(keys.Order{}, all, k2, seq); got != want {
						t.Fatalf("cover of %s is %d and that of %s %d, between the bounds %q %q", k2, got, k, want, lo, hi)
					}
				}
			}
		}
	}
}
