package flatrock

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// TestFinderAgreesWithComparing: over levels of files whose bounds share much or
// nothing, are short, touch each other or differ only late, words choose the file that
// comparisons choose.
func TestFinderAgreesWithComparing(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	key := func(shared string, alphabet, most int) []byte {
		b := []byte(shared)
		for range rng.IntN(most + 1) {
			b = append(b, byte(rng.IntN(alphabet)))
		}
		return b
	}
	for _, comparator := range []keys.Comparator{keys.Bytewise, keys.ReverseBytewise} {
		order := keys.NewOrder(comparator)
		for round := range 300 {
			shared := []string{"", "a", "a long prefix of all"}[round%3]
			alphabet, most := []int{2, 256}[round%2], []int{3, 12}[round/2%2]
			var bounds [][]byte
			for range 2 * rng.IntN(12) {
				bounds = append(bounds, key(shared, alphabet, most))
			}
			slices.SortFunc(bounds, order.Compare)
			bounds = slices.CompactFunc(bounds, bytes.Equal)
			var level []tableRef
			for i := 0; i+1 < len(bounds); i += 2 {
				level = append(level, tableRef{smallest: bounds[i], largest: bounds[i+1]})
			}
			f := newFinder(order, level)
			probes := slices.Clone(bounds)
			for range 50 {
				probes = append(probes, key(shared, alphabet, most), key("", alphabet, most))
			}
			for _, k := range probes {
				if got, want := f.find(level, k), findFile(order, level, k); got != want {
					t.Fatalf("%s: key %q in %s: file %d, by comparison %d", comparator.Name(), k, fmt.Sprintf("%q", bounds), got, want)
				}
			}
		}
	}
}
