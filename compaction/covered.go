package compaction

import (
	"sort"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Coverage tells which input files of a job need not be read, since rule K2 would
// drop every entry of them.
type Coverage struct {
	list      *rangedel.List
	snapshots []uint64
}

// NewCoverage is a Coverage by the range tombstones of all inputs, clipped as for
// Job.Tombstones. Snapshots that are taken later do no harm: they see those
// tombstones.
func NewCoverage(order keys.Order, tombstones []table.Tombstone, snapshots []uint64) *Coverage {
	return &Coverage{rangedel.New(order, tombstones), snapshots}
}

// Without returns the files that must be read, in the order of files. The range
// tombstones of the others still belong to the job.
func (c *Coverage) Without(files []*manifest.FileMetadata) []*manifest.FileMetadata {
	if c.list.Len() == 0 {
		return files
	}
	var rest []*manifest.FileMetadata
	for _, f := range files {
		if !c.covers(f) {
			rest = append(rest, f)
		}
	}
	return rest
}

// covers reports whether each entry of f lies under a newer range tombstone that
// no snapshot tells it apart from.
func (c *Coverage) covers(f *manifest.FileMetadata) bool {
	limit := keys.MaxSeq
	// The oldest snapshot that sees any of f must see the tombstones too.
	if i := sort.Search(len(c.snapshots), func(i int) bool { return c.snapshots[i] >= f.SmallestSeq }); i < len(c.snapshots) {
		limit = c.snapshots[i]
	}
	return c.list.CoverAll(f.SmallestKey, f.LargestKey, f.LargestIsExclusive(), limit) > f.LargestSeq
}
