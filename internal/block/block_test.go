package block

import (
	"errors"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
)

func TestBuilderAndIterAgreeAtEveryRestartInterval(t *testing.T) {
	for _, interval := range []int{1, 2, 3, 16, OneRestart} {
		for _, n := range []int{0, 1, 2, 3, 40} {
			b := NewBuilder(interval)
			for round := range 2 { // the second round proves Reset
				b.Reset()
				for i := range n {
					b.Add(fmt.Appendf(nil, "key%05d", i*i+round), fmt.Appendf(nil, "v%d", i))
				}
				est := b.EstimatedSize()
				out := b.Finish()
				if est != len(out) {
					t.Errorf("interval %d, %d entries: estimated %d, built %d bytes", interval, n, est, len(out))
				}
				it := NewIter("f", 0, out)
				for i := range n {
					if !it.Next() {
						t.Fatalf("interval %d: entry %d of %d missing: %v", interval, i, n, it.Err())
					}
					if k, v := string(it.Key()), string(it.Value()); k != fmt.Sprintf("key%05d", i*i+round) || v != fmt.Sprintf("v%d", i) {
						t.Fatalf("interval %d: entry %d is %s=%s", interval, i, k, v)
					}
				}
				if it.Next() || it.Err() != nil {
					t.Fatalf("interval %d: an entry after the last, or %v", interval, it.Err())
				}
			}
		}
	}
}

func TestDamagedBlocksAreCorruption(t *testing.T) {
	for name, b := range map[string][]byte{
		"too short":             {0, 0, 0},
		"no restart point":      {0, 0, 0, 0, 0, 0, 0, 0},
		"too many restarts":     {0, 0, 0, 0, 9, 0, 0, 0},
		"restart past the end":  {5, 0, 0, 0, 1, 0, 0, 0},
		"value past the end":    {0, 1, 9, 'k', 0, 0, 0, 0, 1, 0, 0, 0},
		"shares with no key":    {1, 1, 0, 'k', 0, 0, 0, 0, 1, 0, 0, 0},
		"huge non-shared":       {0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0, 1, 0, 0, 0},
		"varint without an end": {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0, 0, 0},
	} {
		it := NewIter("f", 100, b)
		for it.Next() {
		}
		var c *keys.CorruptionError
		if !errors.As(it.Err(), &c) || c.Offset < 100 {
			t.Errorf("%s: got %v", name, it.Err())
		}
	}
}
