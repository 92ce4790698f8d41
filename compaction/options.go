package compaction

import (
	"math"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// Options are the settings that pickers go by, RocksDB's under their names. The
// root fills all of them; zero is no default here, but for the fields that say so.
type Options struct {
	Style    Style    // compaction_style
	Priority Priority // compaction_pri

	L0Trigger                int     // level0_file_num_compaction_trigger
	MaxBytesForLevelBase     uint64  // max_bytes_for_level_base
	MaxBytesForLevelMultiply float64 // max_bytes_for_level_multiplier
	// LevelMultiplyAdditional multiplies the target of level i+1 once more by
	// element i; missing elements count as 1. Unused with dynamic level bytes.
	LevelMultiplyAdditional []int
	DynamicLevelBytes       bool   // level_compaction_dynamic_level_bytes
	TargetFileSizeBase      uint64 // target_file_size_base
	TargetFileSizeMultiply  int    // target_file_size_multiplier; zero counts as 1
	// MaxCompactionBytes limits a compaction's inputs where they can be chosen,
	// and an output's overlap with the level below. Zero means 25 times
	// TargetFileSizeBase. RocksDB: max_compaction_bytes.
	MaxCompactionBytes uint64
	// TTL is the age in seconds at which data moves on, PeriodicSeconds the age at which
	// a file is written anew; zero for never. RocksDB: ttl, periodic_compaction_seconds.
	TTL, PeriodicSeconds uint64
	// BottommostDelay is how old in seconds a file of the bottom must be before a
	// released snapshot sends it through a compaction. RocksDB:
	// bottommost_file_compaction_delay.
	BottommostDelay uint64
	// MaxL0Output is the most bytes that a file of level 0 may have, zero for no limit:
	// what is merged within level 0 is one file.
	MaxL0Output uint64
	// L0StopTrigger is level0_stop_writes_trigger, WriteBufferSize write_buffer_size.
	L0StopTrigger   int
	WriteBufferSize uint64
	Universal       UniversalOptions
	FIFO            FIFOOptions
	// MoveOne says that files change level one at a time: where they go, they may be
	// compressed otherwise.
	MoveOne bool
	// MayMove says whether a file may move to another level as it is; nil: always. The
	// levels are Choice.CompressionLevel of theirs.
	MayMove func(f *manifest.FileMetadata, from, to int) bool
}

// Style is how a column family's files are kept in shape.
type Style uint8

// The styles.
const (
	Leveled Style = iota
	Universal
	FIFO
	NoStyle // only CompactRange and CompactFiles compact
)

// Priority orders the files of a level from L1 on: which moves down first.
type Priority uint8

// The priorities.
const (
	MinOverlappingRatio    Priority = iota // the least bytes below for its own
	ByCompensatedSize                      // the largest, deletes counting extra
	OldestLargestSeqFirst                  // the longest without an update
	OldestSmallestSeqFirst                 // the longest without a compaction
	RoundRobin                             // in key order, from a cursor on
)

// DefaultOptions are RocksDB's defaults.
func DefaultOptions() Options {
	return Options{
		L0Trigger:                4,
		MaxBytesForLevelBase:     256 << 20,
		MaxBytesForLevelMultiply: 10,
		DynamicLevelBytes:        true,
		TargetFileSizeBase:       64 << 20,
		TargetFileSizeMultiply:   1,
		L0StopTrigger:            36,
		WriteBufferSize:          64 << 20,
		Universal:                DefaultUniversalOptions(),
		FIFO:                     DefaultFIFOOptions(),
	}
}

func (o *Options) maxCompactionBytes() uint64 {
	if o.MaxCompactionBytes > 0 {
		return o.MaxCompactionBytes
	}
	return 25 * o.TargetFileSizeBase
}

// LevelShape is what every level should hold: the targets that scores compare
// with.
type LevelShape struct {
	// BaseLevel is the level that L0 is merged into. The levels between are empty.
	BaseLevel int
	// MaxBytes is the target size of each level. L0 and levels above the base have
	// none: math.MaxUint64.
	MaxBytes []uint64
	// Unnecessary is the deepest level above which, itself included, data would not
	// need a level of its own: such levels are drained. Zero if there is none.
	Unnecessary int
}

// place is where level is among those that can have data: the base level is 1, whatever its number.
func (s *LevelShape) place(level int) int {
	if level <= 0 {
		return 0
	}
	return max(0, level-max(s.BaseLevel, 1)+1)
}

// Shape computes the targets. With fixed level bytes, level 1 has the base target
// and each deeper one is a multiple of it. With dynamic level bytes the targets
// follow from the size of the largest level upwards, so that nearly all data is
// in the last level, whatever its size.
func Shape(v *manifest.Version, o *Options) LevelShape {
	n := v.NumLevels()
	s := LevelShape{BaseLevel: min(1, n-1), MaxBytes: make([]uint64, n)}
	for i := range s.MaxBytes {
		s.MaxBytes[i] = math.MaxUint64
	}
	if o.DynamicLevelBytes && o.Style == Leveled {
		s.dynamic(v, o)
		return s
	}
	size := float64(o.MaxBytesForLevelBase)
	for level := 1; level < n; level++ {
		if level > 1 {
			size *= o.MaxBytesForLevelMultiply
			if i := level - 2; i < len(o.LevelMultiplyAdditional) {
				size *= float64(o.LevelMultiplyAdditional[i])
			}
		}
		s.MaxBytes[level] = clampBytes(size)
	}
	return s
}

func (s *LevelShape) dynamic(v *manifest.Version, o *Options) {
	n := v.NumLevels()
	firstNonEmpty, largest := -1, uint64(0)
	for level := 1; level < n; level++ {
		if len(v.Levels[level]) > 0 && firstNonEmpty < 0 {
			firstNonEmpty = level
		}
		largest = max(largest, v.LevelBytes(level))
	}
	if firstNonEmpty < 0 { // nothing below L0: L0 goes straight to the last level
		s.BaseLevel = n - 1
		return
	}
	baseMax := o.MaxBytesForLevelBase
	baseMin := uint64(float64(baseMax) / o.MaxBytesForLevelMultiply)
	size := largest
	for level := n - 2; level >= firstNonEmpty; level-- {
		size = uint64(float64(size) / o.MaxBytesForLevelMultiply)
		if s.Unnecessary == 0 && size <= baseMin {
			s.Unnecessary = level
		}
	}
	s.BaseLevel = firstNonEmpty
	var baseSize float64
	if size <= baseMin {
		// The first level that has data would be smaller than a base level should
		// be; it is the base level until its data has moved down.
		baseSize = float64(baseMin) + 1
	} else {
		for s.BaseLevel > 1 && size > baseMax {
			s.BaseLevel--
			size = uint64(float64(size) / o.MaxBytesForLevelMultiply)
		}
		baseSize = float64(max(1, min(size, baseMax)))
	}
	for level := s.BaseLevel; level < n; level++ {
		if level > s.BaseLevel {
			baseSize *= o.MaxBytesForLevelMultiply
		}
		// No level below the base is wanted smaller than the base may be: it would
		// only be passed through.
		s.MaxBytes[level] = clampBytes(max(baseSize, float64(baseMax)))
	}
}

func clampBytes(f float64) uint64 {
	if f >= math.MaxUint64 {
		return math.MaxUint64
	}
	return uint64(f)
}

// TargetFileSize is the size at which outputs to a level end.
func (o *Options) TargetFileSize(level int, s LevelShape) uint64 {
	size, base := o.TargetFileSizeBase, 1
	if o.DynamicLevelBytes && o.Style == Leveled {
		base = s.BaseLevel
	}
	multiply := uint64(max(o.TargetFileSizeMultiply, 1))
	for ; level > base; level-- {
		if size > math.MaxUint64/multiply {
			return math.MaxUint64
		}
		size *= multiply
	}
	return size
}
