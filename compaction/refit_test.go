package compaction

import (
	"errors"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// TestNothingIsPickedBesideARefit: a family whose level 0 is full, and whose last level is on its way up.
func TestNothingIsPickedBesideARefit(t *testing.T) {
	meta := func(number, seq uint64, from, to string) *manifest.FileMetadata {
		return &manifest.FileMetadata{Number: number, Size: 1000, SmallestKey: []byte(from), LargestKey: []byte(to),
			SmallestTrailer: keys.Pack(seq, keys.KindValue), LargestTrailer: keys.Pack(seq, keys.KindValue), SmallestSeq: seq, LargestSeq: seq, EpochNumber: number}
	}
	b := manifest.NewBuilder(manifest.NewVersion(keys.NewOrder(keys.Bytewise), 7))
	bottom := meta(1, 1, "n", "z")
	for _, f := range []manifest.NewFile{{Level: 6, Meta: bottom}, {Level: 0, Meta: meta(2, 2, "a", "c")}, {Level: 0, Meta: meta(3, 3, "a", "c")}, {Level: 0, Meta: meta(4, 4, "a", "c")}, {Level: 0, Meta: meta(5, 5, "a", "c")}} {
		if err := b.Apply(&manifest.VersionEdit{NewFiles: []manifest.NewFile{f}}); err != nil {
			t.Fatal(err)
		}
	}
	v, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	in := &Input{Version: v, Options: &Options{Style: Leveled, L0Trigger: 4, MaxBytesForLevelBase: 1 << 20, MaxBytesForLevelMultiply: 10, DynamicLevelBytes: true, TargetFileSizeBase: 1 << 20}, Running: &Running{}}
	if Pick(in) == nil {
		t.Fatal("level 0 is full, and nothing is picked")
	}
	in.Running.Add(&Choice{Reason: ReasonRefit, OutputLevel: 1, Inputs: []LevelInputs{{6, []*manifest.FileMetadata{bottom}}}, Smallest: bottom.SmallestKey, Largest: bottom.LargestKey})
	if c := Pick(in); c != nil {
		t.Errorf("beside a refit: %+v", c)
	}
	if c, err := PickFiles(in, []uint64{2, 3, 4, 5}, 5); !errors.Is(err, ErrBusy) {
		t.Errorf("chosen files beside a refit: %+v, %v", c, err)
	}
	if c, err := (&Manual{}).Next(in); !errors.Is(err, ErrBusy) {
		t.Errorf("a manual compaction beside a refit: %+v, %v", c, err)
	}
}
