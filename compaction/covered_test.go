package compaction_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
)

// TestCoveredFilesNeedNoReading: a file is left out exactly when every key between
// its bounds lies under tombstones that are newer than all of its entries and that
// no snapshot tells apart from any of them.
func TestCoveredFilesNeedNoReading(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	left := 0
	for range 4000 {
		var tombs []table.Tombstone
		for range 1 + rng.IntN(4) {
			a := rng.IntN(20)
			tombs = append(tombs, table.Tombstone{Start: fmt.Appendf(nil, "%02d", a), End: fmt.Appendf(nil, "%02d", a+1+rng.IntN(12)), Seq: 1 + uint64(rng.IntN(30))})
		}
		var snapshots []uint64
		for s := uint64(rng.IntN(40)); s < 30; s += 1 + uint64(rng.IntN(20)) {
			snapshots = append(snapshots, s)
		}
		small := rng.IntN(25)
		f := &manifest.FileMetadata{SmallestSeq: uint64(rng.IntN(20)), SmallestKey: fmt.Appendf(nil, "%02d", small), LargestKey: fmt.Appendf(nil, "%02d", small+rng.IntN(8))}
		f.LargestSeq = f.SmallestSeq + uint64(rng.IntN(8))
		if rng.IntN(3) == 0 && string(f.SmallestKey) < string(f.LargestKey) {
			f.LargestTrailer = keys.Pack(keys.MaxSeq, keys.KindRangeDelete)
		}
		want := true
		for k := small; k < 50 && want; k++ {
			key := fmt.Sprintf("%02d", k)
			if key > string(f.LargestKey) || key == string(f.LargestKey) && f.LargestIsExclusive() {
				break
			}
			for seq := f.SmallestSeq; seq <= f.LargestSeq && want; seq++ {
				hidden := false
				for _, x := range tombs {
					if string(x.Start) <= key && key < string(x.End) && x.Seq > f.LargestSeq {
						apart := false
						for _, s := range snapshots {
							apart = apart || seq <= s && s < x.Seq
						}
						hidden = hidden || !apart
					}
				}
				want = hidden
			}
		}
		got := len(compaction.NewCoverage(keys.Order{}, tombs, snapshots).Without([]*manifest.FileMetadata{f})) == 0
		if got != want {
			t.Fatalf("file %q to %q (%v) #%d-%d, tombstones %v, snapshots %v: left out %v, want %v", f.SmallestKey, f.LargestKey, f.LargestIsExclusive(), f.SmallestSeq, f.LargestSeq, tombs, snapshots, got, want)
		}
		if got {
			left++
		}
	}
	if left < 100 {
		t.Errorf("only %d files were left out", left)
	}
}
