package compaction_test

import (
	"testing"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/keys"
)

func TestFilesWithManyDeletesAreMarked(t *testing.T) {
	window := compaction.DeletionDensity{Window: 128, Trigger: 50}
	for _, c := range []struct {
		name string
		d    compaction.DeletionDensity
		kind func(i int) keys.Kind
		want bool
	}{
		{"no deletes", window, func(int) keys.Kind { return keys.KindValue }, false},
		{"deletes close together", window, func(i int) keys.Kind { return deleteIf(i >= 500 && i < 550) }, true},
		{"one too few", window, func(i int) keys.Kind { return deleteIf(i >= 500 && i < 549) }, false},
		{"as many far apart", window, func(i int) keys.Kind { return deleteIf(i%10 == 0) }, false},
		{"single deletes", window, func(i int) keys.Kind {
			if i >= 500 && i < 550 {
				return keys.KindSingleDelete
			}
			return keys.KindValue
		}, true},
		{"a file too small", compaction.DeletionDensity{Window: 128, Trigger: 50, MinFileSize: 600}, func(i int) keys.Kind { return deleteIf(i < 100) }, true},
		{"a file that stays too small", compaction.DeletionDensity{Window: 128, Trigger: 50, MinFileSize: 6000}, func(i int) keys.Kind { return deleteIf(i < 100) }, false},
		{"the ratio", compaction.DeletionDensity{Ratio: 0.25}, func(i int) keys.Kind { return deleteIf(i%4 == 0) }, true},
		{"under the ratio", compaction.DeletionDensity{Ratio: 0.26}, func(i int) keys.Kind { return deleteIf(i%4 == 0) }, false},
		{"the ratio in a file too small", compaction.DeletionDensity{Ratio: 0.25, MinFileSize: 1001}, func(i int) keys.Kind { return deleteIf(i%4 == 0) }, false},
		{"nothing asked for", compaction.DeletionDensity{}, func(int) keys.Kind { return keys.KindDelete }, false},
	} {
		m := c.d.NewMarker()
		for i := range 1000 {
			m.Add(c.kind(i), int64(i+1))
		}
		if m.Marked() != c.want {
			t.Errorf("%s: marked is %v", c.name, !c.want)
		}
	}
}

func deleteIf(b bool) keys.Kind {
	if b {
		return keys.KindDelete
	}
	return keys.KindValue
}
