package compaction

import (
	"slices"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// FIFOOptions tune the FIFO style. RocksDB: CompactionOptionsFIFO.
type FIFOOptions struct {
	MaxTableFilesSize uint64 // max_table_files_size
	AllowCompaction   bool   // allow_compaction
	// Ages are from which age on files have another temperature, by age, youngest
	// first. RocksDB: file_temperature_age_thresholds.
	Ages []TemperatureAge
}

// TemperatureAge is the temperature of files from an age in seconds on.
type TemperatureAge struct {
	Temperature uint8
	Age         uint64
}

// DefaultFIFOOptions are RocksDB's defaults.
func DefaultFIFOOptions() FIFOOptions { return FIFOOptions{MaxTableFilesSize: 1 << 30} }

func (in *Input) scoreFIFO() float64 {
	o := in.Options
	files := in.Version.Levels[0]
	idle := 0
	for _, f := range files {
		if !in.Running.Busy(f) {
			idle++
		}
	}
	score := float64(in.idleBytes(files)) / float64(max(o.FIFO.MaxTableFilesSize, 1))
	if score < 1 && o.FIFO.AllowCompaction {
		score = max(score, float64(idle)/float64(max(o.L0Trigger, 1)))
	}
	if score < 1 && len(in.fifoExpired()) > 0 {
		score = 1
	}
	return score
}

// pickFIFO picks in the FIFO style: the oldest files are dropped, and nothing is
// merged but small files if asked for.
func pickFIFO(in *Input) *Choice {
	if in.Running.Len() > 0 { // they are over soon
		return nil
	}
	s := Shape(in.Version, in.Options)
	for _, pick := range []func() *Choice{in.dropExpired, in.dropLargest,
		func() *Choice { return in.mergeSmall(s) }, func() *Choice { return in.changeTemperature(s) }} {
		if c := pick(); c != nil {
			return c
		}
	}
	return nil
}

func (in *Input) drop(level int, files []*manifest.FileMetadata, reason Reason) *Choice {
	c := Removal(level, files)
	c.Reason, c.Drop, c.Score = reason, true, in.scoreFIFO()
	var r keyRange
	r.add(in.Version.Order(), files...)
	c.Smallest, c.Largest = r.smallest, r.largest
	return c
}

// newestTime is when the newest key of f was written, as far as that is known.
func (in *Input) newestTime(f *manifest.FileMetadata) uint64 {
	s := in.stats(f)
	if s.NewestKeyTime > 0 {
		return s.NewestKeyTime
	}
	return s.CreationTime
}

// fifoExpired lists the L0 files, oldest first, whose newest key is older than the
// TTL, up to the first that is not.
func (in *Input) fifoExpired() (files []*manifest.FileMetadata) {
	if in.Options.TTL == 0 {
		return nil
	}
	for _, f := range slices.Backward(in.Version.Levels[0]) {
		if !in.older(in.newestTime(f), in.Options.TTL) {
			break
		}
		files = append(files, f)
	}
	return files
}

// dropExpired drops what is older than the TTL if that brings the family under its
// size; else the size decides.
func (in *Input) dropExpired() *Choice {
	files := in.fifoExpired()
	if len(files) == 0 || in.Version.LevelBytes(0)-totalBytes(files) > in.Options.FIFO.MaxTableFilesSize {
		return nil
	}
	return in.drop(0, files, ReasonFIFOTTL)
}

// dropLargest drops files until the family is under its size: of L0 the oldest; in a
// family that had another style before, those of the deepest level, from the
// smallest keys on, as keys that grow with time are common.
func (in *Input) dropLargest() *Choice {
	size, limit := in.Version.TotalBytes(), in.Options.FIFO.MaxTableFilesSize
	if size <= limit {
		return nil
	}
	level := in.Version.HighestLevel()
	files := slices.Clone(in.Version.Levels[level])
	if level == 0 {
		slices.Reverse(files)
	}
	n := 0
	for n < len(files) && size > limit {
		size -= files[n].Size
		n++
	}
	return in.drop(level, files[:n:n], ReasonFIFOSize)
}

// mergeSmall merges small files of L0, as a TTL or many small memtables make them.
// Files of about a memtable's size are left alone: merged again and again they would
// never be old enough to go.
func (in *Input) mergeSmall(s LevelShape) *Choice {
	if !in.Options.FIFO.AllowCompaction {
		return nil
	}
	perFile := clampBytes(float64(in.Options.WriteBufferSize) * 1.1)
	return in.spanOfL0(s, in.cheapSpan(max(in.Options.L0Trigger, 2), perFile, in.Options.maxCompactionBytes()), ReasonFIFOFiles)
}

// changeTemperature writes the oldest file anew whose age asks for another
// temperature than it has.
func (in *Input) changeTemperature(s LevelShape) *Choice {
	ages := in.Options.FIFO.Ages
	if len(ages) == 0 || in.Version.NumLevels() > 1 {
		return nil
	}
	for _, f := range slices.Backward(in.Version.Levels[0]) {
		written := in.newestTime(f)
		if written == 0 {
			continue
		}
		if !in.older(written, ages[0].Age) {
			return nil
		}
		want := ages[0].Temperature
		for _, a := range ages[1:] {
			if in.older(written, a.Age) {
				want = a.Temperature
			}
		}
		if f.Temperature == want {
			continue
		}
		c := in.spanOfL0(s, []*manifest.FileMetadata{f}, ReasonTemperature)
		if c != nil {
			c.Temperature = want
		}
		return c
	}
	return nil
}
