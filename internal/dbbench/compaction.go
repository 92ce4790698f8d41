package dbbench

import (
	"math"

	flatrock "github.com/flatrock-db/flatrock"
)

// defaultAge is RocksDB's number for an age that follows from other options.
const defaultAge = math.MaxUint64 - 1

// compactionPris are the priorities by RocksDB's numbers.
var compactionPris = [...]flatrock.CompactionPri{flatrock.ByCompensatedSize, flatrock.OldestLargestSeqFirst,
	flatrock.OldestSmallestSeqFirst, flatrock.MinOverlappingRatio, flatrock.RoundRobin}

// compaction sets the options of compaction.
func (c *config) compaction(o *flatrock.ColumnFamilyOptions) {
	o.CompactionStyle = flatrock.CompactionStyle(c.compactionStyle)
	o.CompactionPri = compactionPris[c.compactionPri]
	o.MaxCompactionBytes = int64(min(c.maxCompactionBytes, math.MaxInt64))
	o.TTL, o.PeriodicCompactionSeconds = age(c.ttlSeconds), age(c.periodicSeconds)
	if o.CompactionStyle == flatrock.CompactionStyleFIFO && c.fifoTTL > 0 {
		o.TTL = age(c.fifoTTL)
	}
	u := flatrock.DefaultUniversalOptions()
	for field, flag := range map[*int]int64{&u.SizeRatio: c.universalSizeRatio, &u.MinMergeWidth: c.universalMinMergeWidth,
		&u.MaxMergeWidth: c.universalMaxMergeWidth, &u.MaxSizeAmplificationPercent: c.universalMaxSizeAmp} {
		if flag != 0 {
			*field = int(flag)
		}
	}
	u.CompressionSizePercent = int(c.universalCompression)
	u.AllowTrivialMove, u.Incremental = c.universalMove, c.universalIncremental
	o.CompactionOptionsUniversal = u
	o.CompactionOptionsFIFO = flatrock.FIFOOptions{MaxTableFilesSize: c.fifoMaxMB << 20, AllowCompaction: c.fifoMerge}
	if c.fifoWarm > 0 {
		o.CompactionOptionsFIFO.Ages = []flatrock.TemperatureAge{{Temperature: flatrock.TemperatureWarm, Age: c.fifoWarm}}
	}
}

func age(seconds uint64) int64 {
	switch {
	case seconds >= defaultAge:
		return 0
	case seconds == 0:
		return flatrock.NoTTL
	}
	return int64(min(seconds, math.MaxInt64))
}
