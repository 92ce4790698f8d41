package compaction_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

func TestBoundaries(t *testing.T) {
	l0 := []compaction.LevelInputs{{Level: 0, Files: []*manifest.FileMetadata{{}}}}
	l1 := []compaction.LevelInputs{{Level: 1, Files: []*manifest.FileMetadata{{}}}}
	ten := []compaction.Anchor{} // ten bytes up to each of b, c, … k
	for c := 'b'; c <= 'k'; c++ {
		ten = append(ten, compaction.Anchor{Key: []byte(string(c)), Bytes: 10})
	}
	for _, c := range []struct {
		name    string
		choice  compaction.Choice
		anchors []compaction.Anchor
		n       int
		want    string
	}{
		{"two", compaction.Choice{Inputs: l0}, ten, 2, "f"},
		{"four", compaction.Choice{Inputs: l0}, ten, 4, "d g"},
		{"one", compaction.Choice{Inputs: l0}, ten, 1, ""},
		{"more than there are anchors", compaction.Choice{Inputs: l0}, ten[:3], 16, "b c d"},
		{"no part smaller than a file", compaction.Choice{Inputs: l0, TargetFileSize: 40}, ten, 16, "e i"},
		{"all in one file", compaction.Choice{Inputs: l0, TargetFileSize: 400}, ten, 16, ""},
		{"from a deeper level", compaction.Choice{Inputs: l1}, ten, 4, ""},
		{"asked for", compaction.Choice{Inputs: l1, Reason: compaction.ReasonManual}, ten, 2, "f"},
		{"moved", compaction.Choice{Inputs: l0, TrivialMove: true}, ten, 4, ""},
		{"many at one key", compaction.Choice{Inputs: l0}, []compaction.Anchor{{Key: []byte("k"), Bytes: 90}, {Key: []byte("c"), Bytes: 10}}, 4, ""},
		{"no anchors", compaction.Choice{Inputs: l0}, nil, 4, ""},
	} {
		c.choice.OutputLevel, c.choice.Smallest, c.choice.Largest = 3, []byte("a"), []byte("k")
		c.anchors = slices.Clone(c.anchors)
		rand.Shuffle(len(c.anchors), func(i, j int) { c.anchors[i], c.anchors[j] = c.anchors[j], c.anchors[i] })
		var got []string
		for _, b := range c.choice.Boundaries(keys.Order{}, c.anchors, c.n) {
			got = append(got, string(b))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
}

// TestBoundariesOfAnyInputs: ascending, inside the range, and never more than asked for.
func TestBoundariesOfAnyInputs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		c := compaction.Choice{
			Inputs:      []compaction.LevelInputs{{Level: 0, Files: []*manifest.FileMetadata{{}}}},
			OutputLevel: 1, Smallest: []byte("02"), Largest: []byte("95"), TargetFileSize: rng.Uint64N(100),
		}
		var anchors []compaction.Anchor
		for range rng.IntN(50) {
			anchors = append(anchors, compaction.Anchor{Key: fmt.Appendf(nil, "%02d", rng.IntN(100)), Bytes: rng.Uint64N(50)})
		}
		n := 1 + rng.IntN(8)
		bounds := c.Boundaries(keys.Order{}, anchors, n)
		var text []string
		for _, b := range bounds {
			text = append(text, string(b))
		}
		if len(bounds) >= max(n, 2) || !slices.IsSorted(text) || len(slices.Compact(slices.Clone(text))) != len(text) ||
			len(text) > 0 && (text[0] <= "02" || text[len(text)-1] > "95") {
			t.Fatalf("n=%d, %v: %v", n, anchors, text)
		}
	}
}
