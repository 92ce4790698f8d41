package stress

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestMetamorphic plays scripts under many option sets.
func TestMetamorphic(t *testing.T) {
	scripts := uint64(24)
	if testing.Short() {
		scripts = 4
	}
	for seed := range scripts {
		if err := metamorphic(seed, 500, 6); err != nil {
			t.Fatal(err)
		}
	}
}

// TestScriptsShrink shrinks a script to the two lines that a failure needs.
func TestScriptsShrink(t *testing.T) {
	s := drawScript(rand.New(rand.NewPCG(1, 1)), keyspace{n: 60, prefixes: 3}, 400)
	at := slices.IndexFunc(s, func(line string) bool { return strings.HasPrefix(line, "merge") })
	want := script{s[at], "reopen"}
	s = append(s, "reopen")
	got := s.shrink(func(s script) bool {
		i := slices.Index(s, want[0])
		return i >= 0 && slices.Contains(s[i:], "reopen")
	})
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
