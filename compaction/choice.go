package compaction

import (
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// Reason says why a Choice was made.
type Reason uint8

// Reasons, RocksDB's CompactionReason.
const (
	ReasonL0Files            Reason = iota // too many or too large L0 files
	ReasonLevelSize                        // a level over its target
	ReasonManual                           // asked for
	ReasonFiles                            // CompactFiles
	ReasonRefit                            // CompactRange with a target level: files change level
	ReasonMarked                           // a file that its writer marked
	ReasonBottommost                       // a file of the bottom that a released snapshot held back
	ReasonTTL                              // data older than the TTL
	ReasonPeriodic                         // a file not rewritten for long
	ReasonUniversalSizeAmp                 // universal: space amplification
	ReasonUniversalSizeRatio               // universal: runs of similar size
	ReasonUniversalRuns                    // universal: too many runs
	ReasonFIFOSize                         // FIFO: over the size limit
	ReasonFIFOTTL                          // FIFO: files older than the TTL
	ReasonFIFOFiles                        // FIFO: too many small files
	ReasonTemperature                      // FIFO: a file old enough for another temperature
)

var reasonNames = [...]string{"l0-files", "level-size", "manual", "files", "refit", "marked", "bottommost", "ttl", "periodic",
	"size-amp", "size-ratio", "sorted-runs", "fifo-size", "fifo-ttl", "fifo-files", "temperature"}

// String is the word that logs use.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
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
	// Drop says that the files go, with what is in them.
	Drop bool
	// Bottommost says that no file older than the inputs overlaps them. KeepSeq says
	// that sequence numbers must stay all the same: level 0 is ordered by them.
	Bottommost, KeepSeq bool
	// Smallest and Largest are the user key range of the inputs.
	Smallest, Largest []byte
	// Grandparents are the files that overlap the range in the first level below the
	// output level where any do.
	Grandparents []*manifest.FileMetadata
	// TargetFileSize, StretchFileSize, AlignOutputs and MaxGrandparentOverlap are as in
	// Job. Zero for no limit.
	TargetFileSize, StretchFileSize uint64
	AlignOutputs                    bool
	MaxGrandparentOverlap           uint64
	// Aged are the files that outputs are cut around, in order; see Job.
	Aged []*manifest.FileMetadata
	// SplitKey, if not nil, is a user key before which an output ends.
	SplitKey []byte
	// Cursor, if not nil, is where the round-robin priority goes on afterwards.
	Cursor *manifest.CompactCursor
	// CompressionLevel is the place of the output level among those that can have data: 0 for level 0,
	// 1 for the base level.
	CompressionLevel int
	// Uncompressed says that the outputs are not worth compressing.
	Uncompressed bool
	// Temperature is recorded in the outputs.
	Temperature uint8
	// MaxSubcompactions is how many jobs may share the work, zero for as many as usual.
	MaxSubcompactions int
	large             bool // its style makes few compactions, and large ones
	// Outputs are the files that were written, once it has been run.
	Outputs []*manifest.FileMetadata
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
	c.Bottommost = !in.anythingOlder(c)
	c.KeepSeq = c.OutputLevel == 0
	if c.OutputLevel == 0 {
		return // one file, whatever its size
	}
	for level := c.OutputLevel + 1; level < v.NumLevels() && len(c.Grandparents) == 0; level++ {
		c.Grandparents = v.Overlapping(nil, level, r.smallest, r.largest)
	}
	c.large = o.Style == Universal || o.Style == Leveled && o.Priority == RoundRobin
	c.Aged = c.aged(in)
	c.CompressionLevel = s.place(c.OutputLevel)
	c.TargetFileSize = o.TargetFileSize(c.OutputLevel, s)
	c.AlignOutputs = o.Style == Leveled
	if !c.Bottommost && len(c.Grandparents) > 0 {
		c.StretchFileSize = 2 * c.TargetFileSize
	}
	c.MaxGrandparentOverlap = o.maxCompactionBytes()
}

// anythingOlder reports whether a file that is no input, and older than the inputs
// where they are to go, overlaps them.
func (in *Input) anythingOlder(c *Choice) bool {
	if c.OutputLevel == 0 {
		files := in.Version.Levels[0]
		last := c.Inputs[0].Files[len(c.Inputs[0].Files)-1]
		for _, f := range files[slices.Index(files, last)+1:] {
			if f.OverlapsRange(in.Version.Order(), c.Smallest, c.Largest) {
				return true
			}
		}
	}
	return in.anythingDeeper(c.OutputLevel, c.Smallest, c.Largest)
}
