package rangedel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// TestFenceKnowsEveryTombstone: no covered key is called far, whatever the fence was made
// for and whatever came later; in both orders.
func TestFenceKnowsEveryTombstone(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	makers := map[string]func(n int) []byte{
		"binary": func(n int) []byte { return []byte{byte(n >> 16), byte(n >> 8), byte(n)} },
		"random": func(int) []byte {
			k := make([]byte, random.IntN(12))
			for i := range k {
				k[i] = byte(random.IntN(256)) & byte(random.IntN(256))
			}
			return k
		},
		"longdigits": func(n int) []byte { return fmt.Appendf(nil, "user:%016d", 977*n) },
		"edges": func(n int) []byte {
			return bytes.Repeat([]byte{[]byte{0, 0xff, '0', '9', 1}[n%5]}, n/5%14)
		},
	}
	for name, key := range mutableKeys {
		makers[name] = key
	}
	for name, key := range makers {
		for _, reverse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/reverse=%v", name, reverse), func(t *testing.T) {
				order := keys.Order{}
				if reverse {
					order = keys.NewOrder(keys.ReverseBytewise)
				}
				rng := rand.New(rand.NewPCG(5, 6))
				draw := func() table.Tombstone {
					for {
						a := rng.IntN(3000)
						width := 1 + rng.IntN(12)
						if rng.IntN(20) == 0 {
							width = rng.IntN(3000)
						}
						x := table.Tombstone{Start: key(a), End: key(a + width)}
						if rng.IntN(10) == 0 { // bounds of another kind
							x.End = x.End[:rng.IntN(len(x.End)+1)]
						} else if rng.IntN(10) == 0 {
							x.End = append(bytes.Clone(x.Start), byte(rng.IntN(256)))
						}
						if order.Compare(x.Start, x.End) > 0 {
							x.Start, x.End = x.End, x.Start
						}
						if order.Compare(x.Start, x.End) < 0 {
							return x
						}
					}
				}
				var all []table.Tombstone
				for range 40 {
					all = append(all, draw())
				}
				f := newFence(all, reverse)
				for range 160 {
					x := draw()
					all = append(all, x)
					f.add(x)
				}
				check := func(k []byte) {
					t.Helper()
					for _, x := range all {
						if order.Compare(x.Start, k) <= 0 && order.Compare(k, x.End) < 0 && !f.near(k) {
							t.Fatalf("[%q, %q) covers %q, and the fence %+v says it is far", x.Start, x.End, k, f)
						}
					}
				}
				step := 1
				if testing.Short() {
					step = 7
				}
				for i := 0; i < 3100; i += step {
					check(key(i))
				}
				for _, x := range all { // beside the bounds
					for _, k := range [][]byte{x.Start, x.End} {
						check(k)
						check(append(bytes.Clone(k), 0))
						check(append(bytes.Clone(k), 0xff))
						if n := len(k); n > 0 {
							for _, d := range []byte{1, 255} {
								near := bytes.Clone(k)
								near[n-1] += d
								check(near)
								check(append(near, 0xff))
							}
							check(k[:n-1])
						}
					}
				}
			})
		}
	}
}

// TestFenceTellsApart: decimal keys, which use few of their bits, and narrow tombstones
// that cross digits of every size: nearly all keys that survive are far.
func TestFenceTellsApart(t *testing.T) {
	for _, width := range []int{30, 100, 1000} {
		m := NewMutable(keys.Order{})
		rng := rand.New(rand.NewPCG(7, uint64(width)))
		const n, span = 5000, 20_000_000
		key := func(i int) []byte { return fmt.Appendf(nil, "%016d", i) }
		for i := range n {
			at := rng.IntN(span)
			m.Add(key(at), key(at+width), uint64(i+1))
		}
		f := m.fence.Load()
		near, free := 0, 0
		for range 20_000 {
			k := key(rng.IntN(span))
			if m.Cover(k, keys.MaxSeq) > 0 {
				continue
			}
			free++
			if f.near(k) {
				near++
			}
		}
		// Each tombstone may blur a quarter of its width at either end, and the filter a little.
		if limit := 0.02 + float64(n*width)/span/2; float64(near) > limit*float64(free) {
			t.Errorf("width %d: %d of %d surviving keys are near, want at most %.1f %%", width, near, free, 100*limit)
		}
		if per := f.bytes() / n; per > 100 {
			t.Errorf("width %d: %d bytes of fence for each tombstone", width, per)
		}
	}
}

// TestFenceKnowsWhereATombstoneEnds: keys just beside narrow tombstones are far, though they
// share the cells at the ends.
func TestFenceKnowsWhereATombstoneEnds(t *testing.T) {
	m := NewMutable(keys.Order{})
	rng := rand.New(rand.NewPCG(9, 9))
	key := func(i int) []byte { return fmt.Appendf(nil, "k%08d", i) }
	near, n := 0, 0
	for i := range 8192 { // as many as a fence is made for
		at := 1000*i + rng.IntN(100)
		m.Add(key(at), key(at+25), uint64(i+1))
	}
	for i := range 8192 {
		for d := range 1000 {
			k := key(1000*i + d)
			if d%7 != 0 && (d < 95 || d > 130) || m.Cover(k, keys.MaxSeq) > 0 {
				continue
			}
			if n++; m.Near(k) {
				near++
			}
		}
	}
	if near > n/50 {
		t.Errorf("%d of %d keys that survive beside tombstones are near", near, n)
	}
}

func BenchmarkNear(b *testing.B) {
	m := NewMutable(keys.Order{})
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 10_000 {
		k := 100*rng.IntN(100_000) + 1 + rng.IntN(40)
		m.Add(fmt.Appendf(nil, "k%08d", k), fmt.Appendf(nil, "k%08d", k+1+rng.IntN(50)), uint64(i+1))
	}
	ks := make([][]byte, 1<<14)
	for i := range ks {
		ks[i] = fmt.Appendf(nil, "k%08d", 100*rng.IntN(100_000))
	}
	near := 0
	for i := 0; b.Loop(); i++ {
		if m.Near(ks[i&(1<<14-1)]) {
			near++
		}
	}
	if near > b.N/20 {
		b.Errorf("%d of %d keys are near", near, b.N)
	}
}
