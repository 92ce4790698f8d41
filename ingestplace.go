package flatrock

import (
	"fmt"
	"slices"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
)

// keySpan is a range of user keys; without its end if exclusive.
type keySpan struct {
	low, high []byte
	exclusive bool
}

func (f *externalFile) span() keySpan { return keySpan{f.low, f.high, f.exclusive} }

// meets reports whether the span has a key in common with [low, high].
func (s keySpan) meets(o keys.Order, low, high []byte) bool {
	if o.Compare(high, s.low) < 0 {
		return false
	}
	c := o.Compare(low, s.high)
	return c < 0 || c == 0 && !s.exclusive
}

// holds reports whether a key that is not before the span is within it.
func (s keySpan) holds(o keys.Order, key []byte) bool {
	c := o.Compare(key, s.high)
	return c < 0 || c == 0 && !s.exclusive
}

// meetsTombstone is meets for the range of a range delete.
func (s keySpan) meetsTombstone(o keys.Order, t *table.Tombstone) bool {
	return o.Compare(t.End, s.low) > 0 && s.meets(o, t.Start, t.End)
}

// anyOverlap reports whether two of the files have a key between the bounds of both.
func (f *familyIngestion) anyOverlap() bool {
	o := f.cf.order
	files := slices.Clone(f.files)
	slices.SortFunc(files, func(a, b *externalFile) int { return o.Compare(a.low, b.low) })
	for i := 1; i < len(files); i++ {
		if files[i-1].span().holds(o, files[i].low) {
			return true
		}
		if files[i].exclusive && !files[i-1].exclusive && o.Compare(files[i-1].high, files[i].high) > 0 {
			return true
		}
	}
	return false
}

// overlapsMemtable reports whether m holds anything within the span of a file.
func (f *familyIngestion) overlapsMemtable(m *memState) bool {
	if m.empty() {
		return false
	}
	o := f.cf.order
	it := m.mem.NewIterator()
	defer it.Close()
	tombs := m.tombs.Tombstones()
	for _, e := range f.files {
		s := e.span()
		if it.SeekGE(s.low, keys.Pack(keys.MaxSeq, keys.KindSeek)) && s.holds(o, it.UserKey()) {
			return true
		}
		if slices.ContainsFunc(tombs, func(t table.Tombstone) bool { return s.meetsTombstone(o, &t) }) {
			return true
		}
	}
	return false
}

// place chooses level and sequence number of every file, by RocksDB's rules. The
// commit leader calls it, while no compaction begins.
func (in *ingestion) place(haveSnapshots bool) error {
	db := in.db
	in.lastSeq = db.lastSeq
	for _, f := range in.families {
		// What runs comes first: a compaction that ends meanwhile is then in both, and not in neither.
		db.mu.Lock()
		running := slices.Clone(f.cf.running.Choices())
		db.mu.Unlock()
		s, reader, err := f.cf.enter()
		if err != nil {
			return err
		}
		p := placer{family: f, files: s.files, running: running, last: db.lastSeq}
		v := s.files.version
		if db.opts.AllowIngestBehind {
			v = v.Truncated(v.NumLevels() - 1)
		}
		p.shape = compaction.Shape(v, f.cf.compactionOptions())
		p.leveled = f.cf.opts.CompactionStyle == CompactionStyleLevel || f.cf.opts.CompactionStyle == CompactionStyleNone
		p.force = haveSnapshots && f.o.SnapshotConsistency.or(true)
		err = guarded(p.placeAll)
		s.release(reader)
		if err != nil {
			return err
		}
		in.lastSeq = max(in.lastSeq, p.last)
	}
	return nil
}

// placer places the files of one family.
type placer struct {
	family  *familyIngestion
	files   *fileSet
	running []*compaction.Choice
	shape   compaction.LevelShape
	leveled bool   // the family's files are in levels, not in sorted runs of one age each
	force   bool   // every file needs a number of its own
	last    uint64 // newest sequence number given out
}

func (p *placer) placeAll() error {
	v, o := p.files.version, &p.family.o
	deepest := v.NumLevels() - 1
	for _, f := range p.family.files {
		if o.IngestBehind {
			if err := p.placeBehind(f); err != nil {
				return err
			}
			continue
		}
		level, needs, err := p.findLevel(f)
		if err != nil {
			return err
		}
		if p.family.overlap || !p.leveled {
			level, needs = 0, true // sorted runs are kept in the order of their numbers
		}
		if o.FailIfNotBottommostLevel && level < deepest {
			return f.refuse("it fits into level %d, and FailIfNotBottommostLevel asks for level %d", level, deepest)
		}
		if f.level = level; !needs && !p.force {
			continue
		}
		switch {
		case !o.AllowGlobalSeqno.or(true):
			return f.refuse("it needs a sequence number, and AllowGlobalSeqno is off")
		case !f.plain && f.seqOffset == 0:
			return f.refuse("it needs a sequence number, and is of external file version 1, which has no place for one")
		}
		p.last++
		f.seq = p.last
	}
	return nil
}

// findLevel is the deepest level that the file fits into without passing a level
// with keys in its range. needs: something in the database is older than the file.
func (p *placer) findLevel(f *externalFile) (level int, needs bool, err error) {
	v := p.files.version
	deepest := v.NumLevels() - 1
	if p.family.cf.db.opts.AllowIngestBehind && deepest > 0 {
		deepest-- // the last level is for files from behind
	}
	for l := range v.NumLevels() {
		if l > 0 && l < p.shape.BaseLevel {
			continue
		}
		if p.outputMeets(f, l) {
			return level, true, nil
		}
		overlap, err := p.levelHasKeys(f, l)
		if err != nil {
			return 0, false, err
		}
		if overlap {
			return level, true, nil
		}
		if l <= deepest && p.fits(f, l) {
			level = l
		}
	}
	return level, false, nil
}

// outputMeets reports whether a running compaction writes to the level within the file's range, or moves files
// from level to level there: those may end above any level but the first.
func (p *placer) outputMeets(f *externalFile, level int) bool {
	return slices.ContainsFunc(p.running, func(c *compaction.Choice) bool {
		return (c.OutputLevel == level || c.Reason == compaction.ReasonRefit && level > 0) && f.span().meets(p.family.cf.order, c.Smallest, c.Largest)
	})
}

// fits reports whether no file of the level shares a part of the range.
func (p *placer) fits(f *externalFile, level int) bool {
	return level == 0 || !slices.ContainsFunc(p.files.version.Levels[level], func(m *manifest.FileMetadata) bool { return p.boundsMeet(f, m) })
}

func (p *placer) boundsMeet(f *externalFile, m *manifest.FileMetadata) bool {
	o := p.family.cf.order
	if m.LargestIsExclusive() && o.Compare(m.LargestKey, f.low) <= 0 {
		return false
	}
	return f.span().meets(o, m.SmallestKey, m.LargestKey)
}

// levelHasKeys reports whether a file of the level has an entry or a range delete
// within the range: bounds alone would keep files from the gaps between keys.
func (p *placer) levelHasKeys(f *externalFile, level int) (bool, error) {
	if level >= len(p.files.levels) {
		return false, nil
	}
	o, s := p.family.cf.order, f.span()
	for _, r := range p.files.levels[level] {
		if !p.boundsMeet(f, r.handle.meta) {
			continue
		}
		for _, t := range r.handle.reader().Tombstones() {
			if s.meetsTombstone(o, &t) {
				return true, nil
			}
		}
		it := r.handle.reader().NewIterator(table.IterOptions{})
		found := it.SeekGE(s.low, keys.Pack(keys.MaxSeq, keys.KindSeek)) && s.holds(o, it.UserKey())
		err := it.Err()
		if cerr := it.Close(); err == nil {
			err = cerr
		}
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// placeBehind puts a file into the last level, below everything, with number 0.
func (p *placer) placeBehind(f *externalFile) error {
	v := p.files.version
	deepest := v.NumLevels() - 1
	if !p.fits(f, deepest) || p.outputMeets(f, deepest) {
		return f.refuse("it does not fit into level %d, where files from behind go", deepest)
	}
	for level := range deepest {
		for _, m := range v.Levels[level] {
			if m.SmallestSeq == 0 {
				return fmt.Errorf("%w: column family %q: file %d of level %d has entries with sequence number 0: it was written without AllowIngestBehind",
					ErrInvalidArgument, p.family.cf.name, m.Number, level)
			}
		}
	}
	f.level, f.seq = deepest, 0
	return nil
}

// compactable is the version as pickers see it: with AllowIngestBehind without the
// last level, which belongs to files from behind. The caller holds db.mu.
func (cf *ColumnFamily) compactable() *manifest.Version {
	v := cf.files.version
	if cf.db.opts.AllowIngestBehind {
		return v.Truncated(v.NumLevels() - 1)
	}
	return v
}
