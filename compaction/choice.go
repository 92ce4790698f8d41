package compaction

import (
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// Reason says why a Choice was made.
type Reason uint8

// Reasons.
const (
	ReasonL0Files   Reason = iota // too many or too large L0 files
	ReasonLevelSize               // a level over its target
	ReasonManual                  // asked for
)

// String is the word that logs use.
func (r Reason) String() string {
	switch r {
	case ReasonL0Files:
		return "l0-files"
	case ReasonLevelSize:
		return "level-size"
	case ReasonManual:
		return "manual"
	}
	return "unknown"
}

// LevelInputs are the input files of one level, in the level's order.
type LevelInputs struct {
	Level int
	Files []*manifest.FileMetadata
}

// Choice is a compaction to run: which files, to where.
type Choice struct {
	Reason      Reason
	Score       float64
	Inputs      []LevelInputs // newest level first, none empty; may end with the output level
	OutputLevel int
	// TrivialMove says that the files need no merging: they only change level.
	TrivialMove bool
	// Bottommost says that no file deeper than the output level overlaps the
	// inputs.
	Bottommost bool
	// Smallest and Largest are the user key range of the inputs.
	Smallest, Largest []byte
	// Grandparents are the files of the level below the output level that overlap
	// the range.
	Grandparents          []*manifest.FileMetadata
	TargetFileSize        uint64
	MaxGrandparentOverlap uint64
}

// noOutput is the output level of what writes nothing.
const noOutput = -1

// Removal is a Choice that only takes files away.
func Removal(level int, files []*manifest.FileMetadata) *Choice {
	return &Choice{Inputs: []LevelInputs{{level, files}}, OutputLevel: noOutput}
}

// Files returns all inputs, newest level first.
func (c *Choice) Files() []*manifest.FileMetadata {
	var all []*manifest.FileMetadata
	for _, in := range c.Inputs {
		all = append(all, in.Files...)
	}
	return all
}

// InputBytes is the size of all inputs.
func (c *Choice) InputBytes() uint64 {
	var n uint64
	for _, in := range c.Inputs {
		n += totalBytes(in.Files)
	}
	return n
}

// Deletions lists the inputs as a version edit deletes them.
func (c *Choice) Deletions() []manifest.DeletedFile {
	var del []manifest.DeletedFile
	for _, in := range c.Inputs {
		for _, f := range in.Files {
			del = append(del, manifest.DeletedFile{Level: in.Level, Number: f.Number})
		}
	}
	return del
}

// Beyond answers Job.Beyond for c in version v, from the bounds of the files of
// deeper levels. It is for one Run, whose keys ascend.
func (c *Choice) Beyond(v *manifest.Version) Beyond {
	return &deeper{v: v, order: v.Order(), first: c.OutputLevel + 1, next: make([]int, v.NumLevels())}
}

// deeper is a Beyond over the levels from first on. Answers for L0 outputs are
// always "may": older L0 files overlap in any way.
type deeper struct {
	v     *manifest.Version
	order keys.Order
	first int
	next  []int // by level: files before it end before the last key asked for
}

func (d *deeper) LacksKey(userKey []byte) bool {
	if d.first <= 1 {
		return false
	}
	for level := d.first; level < d.v.NumLevels(); level++ {
		files := d.v.Levels[level]
		i := d.next[level]
		for i < len(files) && d.endsBefore(files[i], userKey) {
			i++
		}
		d.next[level] = i
		if i < len(files) && d.order.Compare(files[i].SmallestKey, userKey) <= 0 {
			return false
		}
	}
	return true
}

func (d *deeper) endsBefore(f *manifest.FileMetadata, userKey []byte) bool {
	c := d.order.Compare(f.LargestKey, userKey)
	return c < 0 || c == 0 && f.LargestIsExclusive()
}

func (d *deeper) LacksRange(start, end []byte) bool {
	if d.first <= 1 {
		return false
	}
	for level := d.first; level < d.v.NumLevels(); level++ {
		if d.v.HasOverlap(level, start, end) {
			return false
		}
	}
	return true
}

func totalBytes(files []*manifest.FileMetadata) (n uint64) {
	for _, f := range files {
		n += f.Size
	}
	return n
}

// keyRange is a closed range of user keys that grows with the files added to it.
// The zero keyRange is empty.
type keyRange struct {
	smallest, largest []byte
	some              bool
}

func (r *keyRange) add(order keys.Order, files ...*manifest.FileMetadata) {
	for _, f := range files {
		if !r.some {
			r.smallest, r.largest, r.some = f.SmallestKey, f.LargestKey, true
			continue
		}
		if order.Compare(f.SmallestKey, r.smallest) < 0 {
			r.smallest = f.SmallestKey
		}
		if order.Compare(f.LargestKey, r.largest) > 0 {
			r.largest = f.LargestKey
		}
	}
}

// cleanCut returns the files of a level that overlap r, with all that must come
// along: in L0 whatever overlaps them in turn, deeper the neighbours that share a
// user key with them. So no user key, and no range tombstone cut at one, is split
// between inputs and files that stay.
func cleanCut(v *manifest.Version, level int, r keyRange) []*manifest.FileMetadata {
	if !r.some {
		return nil
	}
	var files []*manifest.FileMetadata
	for {
		n := len(files)
		files = v.Overlapping(files[:0], level, r.smallest, r.largest)
		if len(files) == n {
			return files
		}
		r.add(v.Order(), files...)
	}
}

// complete fills in what follows from the inputs and the output level.
func (c *Choice) complete(in *Input, s LevelShape) {
	v, o := in.Version, in.Options
	var r keyRange
	for _, level := range c.Inputs {
		r.add(v.Order(), level.Files...)
	}
	c.Smallest, c.Largest = r.smallest, r.largest
	c.Bottommost = c.OutputLevel > 0
	for level := c.OutputLevel + 1; level < v.NumLevels(); level++ {
		if v.HasOverlap(level, r.smallest, r.largest) {
			c.Bottommost = false
			break
		}
	}
	if c.OutputLevel > 0 {
		c.Grandparents = v.Overlapping(nil, c.OutputLevel+1, r.smallest, r.largest)
	}
	c.TargetFileSize = o.TargetFileSize(c.OutputLevel, s)
	c.MaxGrandparentOverlap = o.maxCompactionBytes()
}
