package compaction

import (
	"math"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// Input is all that a picker looks at. Pickers change none of it but what they
// remember of Stats. An Input is for one pick.
type Input struct {
	Version *manifest.Version
	Options *Options
	// Running are the compactions under way, nil for none.
	Running *Running
	// Now is the time in unix seconds. Zero: nothing is done for its age.
	Now uint64
	// Stats tells what is in a file, as far as it is known. nil: nothing is known.
	Stats func(f *manifest.FileMetadata) FileStats
	// Cursors are where the round-robin priority goes on in a level: internal keys.
	Cursors map[int][]byte
	// Released is the last release of a snapshot.
	Released Released

	averageValue float64 // see averageValueBytes
	averaged     bool
}

// FileStats is what is known of the contents of a file; zero is unknown.
type FileStats struct {
	Entries        uint64 // deletes and range tombstones included
	Deletions      uint64 // range tombstones included
	RangeDeletions uint64
	RawKeySize     uint64
	RawValueSize   uint64
	CreationTime   uint64 // unix seconds
	NewestKeyTime  uint64 // unix seconds
	// FileCreationTime is when the file was written, by its properties, and ModTime by the file system,
	// where neither they nor the MANIFEST know. Unix seconds.
	FileCreationTime, ModTime uint64
}

// Released says what the release of a snapshot made possible.
type Released struct {
	// Snapshot is the sequence number of the oldest snapshot that remained, or of the
	// newest write when none did: all entries that are older can lose their
	// sequence numbers, and deletes among them can go, where nothing lies deeper.
	Snapshot uint64
	// Files is the number that the next file had then. Later ones were written with
	// that in view; to write them again would change nothing.
	Files uint64
}

func (in *Input) stats(f *manifest.FileMetadata) FileStats {
	if in.Stats == nil {
		return FileStats{}
	}
	return in.Stats(f)
}

// compensated is the size of f, with something added for deletes when they
// outnumber what they could hide in the file: what they hide is deeper, and moving
// them down frees it. RocksDB: compensated_file_size.
func (in *Input) compensated(f *manifest.FileMetadata) uint64 {
	size := f.Size + f.CompensatedRangeDeletionSize
	if in.Stats == nil {
		return size
	}
	s := in.Stats(f)
	deletes := s.Deletions - min(s.Deletions, s.RangeDeletions)
	if s.Entries == 0 || deletes*2 < s.Entries {
		return size
	}
	const weight = 2
	return size + clampBytes(float64(deletes*2-s.Entries)*in.averageValueBytes()*weight)
}

func (in *Input) compensatedBytes(files []*manifest.FileMetadata) (n uint64) {
	for _, f := range files {
		n += in.compensated(f)
	}
	return n
}

// averageValueBytes estimates what the value of an entry takes in a file, over all
// files of the version.
func (in *Input) averageValueBytes() float64 {
	if in.averaged {
		return in.averageValue
	}
	in.averaged = true
	var size, keys, values, entries float64
	for _, files := range in.Version.Levels {
		for _, f := range files {
			s := in.stats(f)
			if s.Entries == 0 {
				continue
			}
			size += float64(f.Size)
			keys += float64(s.RawKeySize)
			values += float64(s.RawValueSize)
			entries += float64(s.Entries - min(s.Entries, s.Deletions))
		}
	}
	if entries > 0 && keys+values > 0 {
		in.averageValue = math.Floor(values / entries * size / (keys + values))
	}
	return in.averageValue
}

// ancestor is how old the data of f is, at most: its oldest ancestor's time, zero if it is not known.
func (in *Input) ancestor(f *manifest.FileMetadata) uint64 {
	if f.OldestAncestorTime > 0 {
		return f.OldestAncestorTime
	}
	return in.stats(f).CreationTime
}

// written is when f was written, as well as it is known; zero if it is not.
func (in *Input) written(f *manifest.FileMetadata) uint64 {
	if f.FileCreationTime > 0 {
		return f.FileCreationTime
	}
	s := in.stats(f)
	if s.FileCreationTime > 0 {
		return s.FileCreationTime
	}
	if t := in.ancestor(f); t > 0 {
		return t
	}
	return s.ModTime
}

// older reports whether time, in unix seconds and known, lies more than age seconds back.
func (in *Input) older(time, age uint64) bool {
	return time > 0 && in.Now > age && time < in.Now-age
}
