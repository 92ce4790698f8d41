package compaction

import "github.com/flatrock-db/flatrock/internal/manifest"

// due picks files that are to be compacted whatever the size of their level: marked
// ones, those of the bottom that a snapshot held back, and those of an age.
func (p *leveled) due() *Choice {
	if c := p.step(marked(p.in), ReasonMarked, toNext); c != nil {
		return c
	}
	if c := p.step(p.in.bottommostFreed(), ReasonBottommost, toSame); c != nil {
		return c
	}
	expired := p.in.expired()
	if p.o.Priority == RoundRobin && len(expired) > 0 && expired[0].level > 0 {
		if c := p.fromLevel(expired[0].level, ReasonTTL); c != nil {
			return c
		}
	}
	if c := p.step(expired, ReasonTTL, toNextButLast); c != nil {
		return c
	}
	where := toSame
	if p.o.DynamicLevelBytes {
		where = toNext
	}
	return p.step(p.in.periodic(), ReasonPeriodic, where)
}

// levelFile is a file and its level.
type levelFile struct {
	level int
	file  *manifest.FileMetadata
}

// target says where files go that are due.
type target uint8

const (
	toSame        target = iota // they are written anew
	toNext                      // a level down; in the last level that has files, written anew
	toNextButLast               // a level down; those of the last level that has files stay
)

// step builds a compaction of the first of the files that can be had.
func (p *leveled) step(files []levelFile, reason Reason, where target) *Choice {
	last := p.v.HighestLevel()
	for _, lf := range files {
		if where == toNextButLast && lf.level == last || lf.level == 0 && p.in.Running.fromL0() {
			continue
		}
		c := &Choice{Reason: reason, OutputLevel: lf.level}
		// A marked file of L0 goes down even if nothing is there.
		if where != toSame && (lf.level < last || reason == ReasonMarked) {
			c.OutputLevel = p.next(lf.level)
		}
		if c.OutputLevel < p.v.NumLevels() && p.fill(c, lf.level, []*manifest.FileMetadata{lf.file}, both) {
			return c
		}
	}
	return nil
}

// next is the level that files of level go to.
func (p *leveled) next(level int) int {
	if level == 0 {
		return p.s.BaseLevel
	}
	return level + 1
}

// marked lists the files that their writer marked, but those of the last level that
// has any: there is nowhere to move them.
func marked(in *Input) (files []levelFile) {
	v := in.Version
	for level := range max(1, v.HighestLevel()) {
		for _, f := range v.Levels[level] {
			if f.MarkedForCompaction && !in.Running.Busy(f) {
				files = append(files, levelFile{level, f})
			}
		}
	}
	return files
}

// bottommostFreed lists the files without anything below whose sequence numbers and
// deletes were kept for a snapshot that has been released.
func (in *Input) bottommostFreed() (files []levelFile) {
	if in.Released.Files == 0 {
		return nil
	}
	v := in.Version
	for level := 1; level < v.NumLevels(); level++ {
		for _, f := range v.Levels[level] {
			if f.LargestSeq == 0 || f.LargestSeq >= in.Released.Snapshot || f.Number >= in.Released.Files || in.Running.Busy(f) {
				continue
			}
			if d := in.Options.BottommostDelay; d > 0 && f.FileCreationTime > 0 && !in.older(f.FileCreationTime-1, d) {
				continue
			}
			if !in.anythingDeeper(level, f.SmallestKey, f.LargestKey) {
				files = append(files, levelFile{level, f})
			}
		}
	}
	return files
}

// anythingDeeper reports whether a file below level overlaps the range.
func (in *Input) anythingDeeper(level int, smallest, largest []byte) bool {
	for l := level + 1; l < in.Version.NumLevels(); l++ {
		if in.Version.HasOverlap(l, smallest, largest) {
			return true
		}
	}
	return false
}

// expired lists the files with data older than the TTL, but those of the last level.
func (in *Input) expired() (files []levelFile) {
	if in.Options.TTL == 0 {
		return nil
	}
	for level := range in.Version.NumLevels() - 1 {
		for _, f := range in.Version.Levels[level] {
			if in.older(in.ancestor(f), in.Options.TTL) && !in.Running.Busy(f) {
				files = append(files, levelFile{level, f})
			}
		}
	}
	return files
}

// periodic lists the files that were written longer ago than PeriodicSeconds.
func (in *Input) periodic() (files []levelFile) {
	if in.Options.PeriodicSeconds == 0 {
		return nil
	}
	for level, all := range in.Version.Levels {
		for _, f := range all {
			if in.older(in.written(f), in.Options.PeriodicSeconds) && !in.Running.Busy(f) {
				files = append(files, levelFile{level, f})
			}
		}
	}
	return files
}
