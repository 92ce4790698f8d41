package iterator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/iterator/itertest"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
)

// TestWalksOverDisorderEnd: in a damaged file the entries are in no order. Every walk over it comes to an
// end or to an error; a seek past many versions led back to where the walk came from, for good.
func TestWalksOverDisorderEnd(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	failed := 0
	for round := range 3000 {
		var sources []table.Iterator
		o := iterator.Options{Seq: 50}
		total := 0
		for i := range 1 + rng.IntN(2) {
			var entries []itertest.Entry
			for range 1 + rng.IntN(8) { // runs in order, one after the other; many versions of few keys
				var run []itertest.Entry
				key := fmt.Appendf(nil, "k%d", rng.IntN(6))
				for range rng.IntN(24) {
					if rng.IntN(3) == 0 {
						key = fmt.Appendf(nil, "k%d", rng.IntN(6))
					}
					kind := keys.KindValue
					if rng.IntN(6) == 0 {
						kind = keys.KindDelete
					}
					run = append(run, itertest.Entry{Key: key, Trailer: keys.Pack(uint64(rng.IntN(100)), kind)})
				}
				if rng.IntN(2) == 0 {
					itertest.Sort(keys.Order{}, run)
				}
				entries = append(entries, run...)
			}
			total += len(entries)
			sources = append(sources, itertest.New(keys.Order{}, entries))
			if rng.IntN(3) == 0 {
				o.Tombstones = append(o.Tombstones, iterator.SourceTombstones{Source: i - 1, List: rangedel.New(keys.Order{},
					[]table.Tombstone{{Start: []byte("k1"), End: []byte("k3"), Seq: 90}, {Start: []byte("k4"), End: []byte("k5"), Seq: 90}}), Seq: 90})
			}
		}
		var u iterator.User
		u.Reset(&o, sources)
		for _, walk := range []struct{ start, step func(*iterator.User) bool }{
			{(*iterator.User).First, (*iterator.User).Next}, {(*iterator.User).Last, (*iterator.User).Prev},
		} {
			n := 0
			for ok := walk.start(&u); ok; ok = walk.step(&u) {
				// Each entry may be met again after each of the seeks, of which there is at most one an entry.
				if n++; n > total*total+1 {
					t.Fatalf("round %d: %d keys from %d entries", round, n, total)
				}
			}
			if err := u.Err(); err != nil {
				failed++
				if !errors.Is(err, keys.ErrCorruption) {
					t.Fatal(err)
				}
			}
		}
	}
	if failed < 100 {
		t.Errorf("disorder was found %d times: the test makes too little of it", failed)
	}
}
