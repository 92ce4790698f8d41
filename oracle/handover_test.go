//go:build oracle

package oracle_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/flatrock-db/flatrock"
)

// TestHandOvers has one directory change its owner again and again, most times by kill -9, a
// few thousand writes each; the new owner compares everything with what was written.
// FLATROCK_HANDOVERS says how often.
func TestHandOvers(t *testing.T) {
	count, writes := 10, 1000
	if s := os.Getenv("FLATROCK_HANDOVERS"); s != "" {
		if _, err := fmt.Sscan(s, &count); err != nil {
			t.Fatal(err)
		}
		writes = 3000
	}
	rng := rand.New(rand.NewPCG(77, uint64(count)))
	w := newWorld(t, 900, fixedSpecs[0], fixedSpecs[5], blockSpecs[0], blockSpecs[3])
	s := w.create(false, dbOptions{WALWriteMode: flatrock.WALAuto}.text())
	rocks := false
	for range count {
		s.busy(writes).check()
		if rng.IntN(3) == 0 {
			s.close()
		} else {
			s.crash()
		}
		rocks = !rocks
		s = w.open(rocks).check()
	}
	s.close()
}
