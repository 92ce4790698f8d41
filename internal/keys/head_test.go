package keys

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestHeadsOrderLikeKeys: heads that differ order their keys; of equal heads nothing is said.
func TestHeadsOrderLikeKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() []byte {
		k := make([]byte, rng.IntN(12))
		for i := range k {
			k[i] = "\x00\x01a\xff"[rng.IntN(4)]
		}
		return k
	}
	differ := 0
	for range 100_000 {
		a, b := draw(), draw()
		x, y := Head(a), Head(b)
		if x == y {
			continue
		}
		if differ++; (x < y) != (bytes.Compare(a, b) < 0) {
			t.Fatalf("%x has head %x and %x has %x", a, x, b, y)
		}
	}
	if differ < 50_000 {
		t.Errorf("only %d pairs have heads that differ", differ)
	}
}
