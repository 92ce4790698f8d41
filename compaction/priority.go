package compaction

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// byPriority lists the files of a level in the order in which they are asked to
// move down. Files of equal rank keep the level's order.
func (in *Input) byPriority(level int) []*manifest.FileMetadata {
	files := in.Version.Levels[level]
	switch in.Options.Priority {
	case ByCompensatedSize:
		return ranked(files, func(f *manifest.FileMetadata) int64 { return -int64(min(in.compensated(f), 1<<62)) })
	case OldestLargestSeqFirst:
		return ranked(files, func(f *manifest.FileMetadata) int64 { return int64(f.LargestSeq) })
	case OldestSmallestSeqFirst:
		return ranked(files, func(f *manifest.FileMetadata) int64 { return int64(f.SmallestSeq) })
	case RoundRobin:
		if level == 0 {
			return ranked(files, func(f *manifest.FileMetadata) int64 { return int64(f.SmallestSeq) })
		}
		i := in.cursorIndex(level)
		return slices.Concat(files[i:], files[:i])
	}
	return in.byOverlapRatio(level)
}

func ranked(files []*manifest.FileMetadata, rank func(*manifest.FileMetadata) int64) []*manifest.FileMetadata {
	type rated struct {
		f    *manifest.FileMetadata
		rank int64
	}
	all := make([]rated, len(files))
	for i, f := range files {
		all[i] = rated{f, rank(f)}
	}
	slices.SortStableFunc(all, func(a, b rated) int { return cmp.Compare(a.rank, b.rank) })
	sorted := make([]*manifest.FileMetadata, len(all))
	for i, r := range all {
		sorted[i] = r.f
	}
	return sorted
}

// byOverlapRatio lists the files of a level by the bytes that they overlap in the
// next, relative to their own: cheapest to move down first, marked files before all
// others. As data comes closer to its TTL it counts as cheaper.
func (in *Input) byOverlapRatio(level int) []*manifest.FileMetadata {
	v := in.Version
	boost := in.ttlBoost(level)
	var below []*manifest.FileMetadata
	sorted := ranked(v.Levels[level], func(f *manifest.FileMetadata) int64 {
		below = v.Overlapping(below[:0], level+1, f.SmallestKey, f.LargestKey)
		return int64(min(totalBytes(below)*1024/max(in.compensated(f), 1)/boost(f), 1<<62))
	})
	slices.SortStableFunc(sorted, func(a, b *manifest.FileMetadata) int {
		return cmp.Compare(mark(b), mark(a))
	})
	return sorted
}

func mark(f *manifest.FileMetadata) int {
	if f.MarkedForCompaction {
		return 1
	}
	return 0
}

// ttlBoost is by how much a file of the level counts as cheaper to move: from half
// of the TTL on, later in levels close to the last, growing to 16 by the time that
// the level below begins.
func (in *Input) ttlBoost(level int) func(f *manifest.FileMetadata) uint64 {
	ttl, last := in.Options.TTL, in.Version.HighestLevel()
	if ttl == 0 || level == 0 || level >= last {
		return func(*manifest.FileMetadata) uint64 { return 1 }
	}
	span := (ttl/32*31 - min(ttl/2, ttl/32*31)) >> min(63, last-level)
	begin, step := ttl/2+span, max(span/16, 1)
	return func(f *manifest.FileMetadata) uint64 {
		if t := f.OldestAncestorTime; t < in.Now && in.Now-t > begin {
			return (in.Now-t-begin)/step + 1
		}
		return 1
	}
}

// cursorIndex is the file of a level from L1 on with which the round-robin priority
// goes on: the first that starts at or after the cursor, else the first of all.
func (in *Input) cursorIndex(level int) int {
	cursor := in.Cursors[level]
	if len(cursor) < keys.TrailerLen {
		return 0
	}
	userKey, trailer := splitInternal(cursor)
	order := in.Version.Order()
	files := in.Version.Levels[level]
	i := slices.IndexFunc(files, func(f *manifest.FileMetadata) bool {
		return order.CompareInternal(f.SmallestKey, f.SmallestTrailer, userKey, trailer) >= 0
	})
	return max(i, 0)
}

// cursorAfter is the cursor once the files up to f have moved down: the start of the
// next one, or of the first when f is the last.
func (in *Input) cursorAfter(level int, f *manifest.FileMetadata) *manifest.CompactCursor {
	files := in.Version.Levels[level]
	next := files[(slices.Index(files, f)+1)%len(files)]
	key := binary.LittleEndian.AppendUint64(bytes.Clone(next.SmallestKey), next.SmallestTrailer)
	return &manifest.CompactCursor{Level: level, Key: key}
}

func splitInternal(key []byte) (userKey []byte, trailer uint64) {
	n := len(key) - keys.TrailerLen
	return key[:n:n], binary.LittleEndian.Uint64(key[n:])
}
