package memtable

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// checkTowers walks every level: nodes are in order, and each is on all levels of its tower.
func checkTowers(t *testing.T, m *MemTable, want int) {
	t.Helper()
	heights := [maxHeight]int{}
	for n := m.first(m.main); !n.none(); n = m.following(n) {
		for level := range n.height() {
			heights[level]++
		}
	}
	if heights[0] != want {
		t.Fatalf("%d entries, want %d", heights[0], want)
	}
	for level, n := range heights {
		at := m.main.head
		for link := at.next(level); link != 0; link = at.next(level) {
			next := m.at(link)
			if at != m.main.head && m.compare(at, next.key(), next.trailer()) >= 0 {
				t.Fatalf("level %d: %q is before %q", level, at.key(), next.key())
			}
			at = next
			n--
		}
		if n != 0 {
			t.Fatalf("level %d has %d nodes too few", level, n)
		}
	}
}

// TestEntriesInOrder go to the end of the list, with others in between that do not, older versions of
// the last key, duplicates of it, and memory that ends.
func TestEntriesInOrder(t *testing.T) {
	for _, order := range []keys.Order{{}, keys.NewOrder(keys.ReverseBytewise), keys.NewOrder(permuted{})} {
		m := newTest(t, Options{Order: order, Reserve: minReserve})
		rng := rand.New(rand.NewPCG(1, 2))
		key := make([]byte, 8)
		tailed, entries, seq := 0, 0, uint64(1)
		last, lastSeq := uint64(1<<32), uint64(0)
		type written struct{ key, seq uint64 }
		var all []written
		for {
			k := last
			seq++
			at := seq
			switch rng.IntN(20) {
			case 0:
				k = rng.Uint64N(last)
			case 1: // a newer version
			case 2: // an older one, which goes behind it
				if lastSeq > 10 {
					at = lastSeq - 1 - rng.Uint64N(8)
				}
			case 3:
				at = lastSeq // the same
			default:
				k += 1 + rng.Uint64N(3)
			}
			binary.BigEndian.PutUint64(key, k)
			dup := slices.Contains(all, written{k, at})
			on := m.tail.on.Load()
			err := m.Add(key, keys.Pack(at, keys.KindValue), key, -1, 0)
			if errors.Is(err, ErrFull) {
				break
			}
			if dup != errors.Is(err, ErrDuplicate) || !dup && err != nil {
				t.Fatalf("entry %d: %v, duplicate %v", entries, err, dup)
			}
			if dup {
				continue
			}
			if on && m.tail.on.Load() {
				tailed++
			}
			entries++
			all = append(all, written{k, at})
			if k >= last {
				last, lastSeq = k, at
			}
		}
		checkTowers(t, m, entries)
		for _, w := range all {
			binary.BigEndian.PutUint64(key, w.key)
			if _, trailer, ok := m.Get(lookup(nil, key, w.seq)); !ok || keys.Seq(trailer) != w.seq {
				t.Fatalf("key %d#%d: #%d, %v", w.key, w.seq, keys.Seq(trailer), ok)
			}
		}
		if order.Bytewise() && tailed < entries/2 {
			t.Errorf("%d of %d entries found the end of the list at hand", tailed, entries)
		}
	}
}

// TestWritersInOrder insert at the same end, and some elsewhere.
func TestWritersInOrder(t *testing.T) {
	const writers, each = 4, 3000
	m := newTest(t, Options{Reserve: 8 << 20})
	var next atomic.Uint64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			key := make([]byte, 8)
			for i := range each {
				n := next.Add(1)
				k := n << 20
				if w == 0 && i%50 == 0 {
					k = rng.Uint64N(k)
				}
				binary.BigEndian.PutUint64(key, k)
				if err := m.Add(key, keys.Pack(n, keys.KindValue), key, -1, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	checkTowers(t, m, writers*each)
}
