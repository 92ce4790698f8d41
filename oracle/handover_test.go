//go:build oracle

package oracle_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/flatrock-db/flatrock"
)

// handOversEach is how many hand-overs a database lives; the next has other families.
const handOversEach = 20

// TestHandOvers has one directory change its owner again and again, most times by kill -9, a
// few thousand writes each; the new owner compares everything with what was written.
// FLATROCK_HANDOVERS says how often, FLATROCK_HANDOVERS_SEED what is drawn.
func TestHandOvers(t *testing.T) {
	count, writes, seed := 10, 1000, uint64(77)
	if s := os.Getenv("FLATROCK_HANDOVERS"); s != "" {
		if _, err := fmt.Sscan(s, &count); err != nil {
			t.Fatal(err)
		}
		writes = 3000
	}
	if s := os.Getenv("FLATROCK_HANDOVERS_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	done, kills, databases := 0, 0, 0
	report := func() string {
		return fmt.Sprintf("%d hand-overs, %d writes, %d kills, %d databases", done, done*writes, kills, databases)
	}
	defer func() {
		if t.Failed() {
			t.Logf("failed after %s; to see it again: FLATROCK_HANDOVERS=%d FLATROCK_HANDOVERS_SEED=%d go test -tags oracle -run '^TestHandOvers$' -v ./oracle",
				report(), count, seed)
		}
	}()
	rng := rand.New(rand.NewPCG(seed, uint64(count)))
	for done < count {
		databases++
		blocks := rng.Perm(len(blockSpecs)) // the first plain one is the default family
		w := newWorld(t, seed+uint64(databases), fixedSpecs[0], fixedSpecs[1+rng.IntN(len(fixedSpecs)-1)], blockSpecs[blocks[0]], blockSpecs[blocks[1]])
		o := dbOptions{WALWriteMode: []flatrock.WALWriteMode{flatrock.WALAuto, flatrock.WALMapped, flatrock.WALWrite}[rng.IntN(3)]}
		s := w.create(false, o.text())
		rocks := false
		for n := 0; n < handOversEach && done < count; n++ {
			s.busy(writes).check()
			if rng.IntN(3) == 0 {
				s.close()
			} else {
				s.crash()
				kills++
			}
			rocks = !rocks
			done++
			s = w.open(rocks).check()
		}
		s.close()
	}
	t.Log(report())
}
