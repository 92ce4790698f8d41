package compaction

import "github.com/flatrock-db/flatrock/internal/keys"

// Marker watches the entries of an output and decides whether the file is marked
// for compaction: such a file is compacted down soon, whatever its level's size.
type Marker interface {
	// Add tells of an entry of that kind; size is that of the file so far.
	Add(kind keys.Kind, size int64)
	// Marked is asked at the end.
	Marked() bool
}

// DeletionDensity marks files with many deletes: reads step over each of them, and
// what they hide takes space until they come down. RocksDB:
// CompactOnDeletionCollector.
type DeletionDensity struct {
	// Window is a number of entries that follow each other: a file of which Trigger
	// entries in a window are deletes is marked. Windows are slid by 1/128 of their
	// size. Zero: no windows.
	Window, Trigger int
	// Ratio is the share of deletes among all entries from which on a file is marked.
	// Zero, or more than 1: not to.
	Ratio float64
	// MinFileSize is the size in bytes below which no file is marked.
	MinFileSize int64
}

// densityBuckets is how many steps a window is slid in.
const densityBuckets = 128

// NewMarker is a Marker for one output.
func (d DeletionDensity) NewMarker() Marker {
	m := &densityMarker{DeletionDensity: d}
	if d.Window > 0 {
		m.bucket = (d.Window + densityBuckets - 1) / densityBuckets
	}
	return m
}

type densityMarker struct {
	DeletionDensity
	bucket  int // entries of a bucket, zero for no windows
	deletes [densityBuckets]int
	current int // the bucket being filled
	filled  int // entries in it
	window  int // deletes in all buckets
	most    int // of window

	entries, deleted int
	size             int64
	marked           bool
}

func (m *densityMarker) Add(kind keys.Kind, size int64) {
	if m.marked {
		return
	}
	isDelete := kind == keys.KindDelete || kind == keys.KindSingleDelete || kind == keys.KindDeleteWithTimestamp
	m.entries++
	m.size = size
	if isDelete {
		m.deleted++
	}
	if m.bucket == 0 {
		return
	}
	if m.filled == m.bucket {
		m.current = (m.current + 1) % densityBuckets
		m.window -= m.deletes[m.current]
		m.deletes[m.current], m.filled = 0, 0
	}
	m.filled++
	if isDelete {
		m.deletes[m.current]++
		m.window++
		m.most = max(m.most, m.window)
	}
	m.marked = m.most >= m.Trigger && size >= m.MinFileSize
}

func (m *densityMarker) Marked() bool {
	if !m.marked && m.Ratio > 0 && m.Ratio <= 1 && m.entries > 0 && m.size >= m.MinFileSize {
		m.marked = float64(m.deleted)/float64(m.entries) >= m.Ratio
	}
	return m.marked
}
