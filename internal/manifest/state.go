package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// DefaultFamily is the name of column family 0, which always exists.
const DefaultFamily = "default"

// State is everything that a MANIFEST says. A State that Recover returned is the
// caller's until it goes to NewWriter; one that a Writer published is immutable.
type State struct {
	ManifestNumber uint64 // of the file that holds the state
	ManifestSize   int64  // bytes of whole records in it
	Edits          int    // records replayed from it
	TornTail       bool   // it ended in a record cut short, which was ignored
	applied        int64  // bytes of the records that count: all but those of an unfinished group

	DBID               string // "" if the MANIFEST has none
	NextFileNumber     uint64 // not used by any file that the MANIFEST knows
	LastSeq            uint64
	PrevLogNumber      uint64
	MinLogNumberToKeep uint64 // of tag 10; see MinLogNumber
	MaxColumnFamily    uint32 // highest family id ever used

	// LastCompactedManifestSize is kept up when RocksDB 11.8 or later wrote it.
	LastCompactedManifestSize Optional[uint64]

	// Families are the live column families by id.
	Families []*ColumnFamily

	// WALs are the tracked WALs (track_and_verify_wals_in_manifest) by number: each
	// must exist with at least its synced size. WALs below MinTrackedWAL are gone.
	WALs          map[uint64]Optional[uint64]
	MinTrackedWAL uint64
}

// ColumnFamily is what a MANIFEST says of one family.
type ColumnFamily struct {
	ID         uint32
	Name       string
	Comparator string // name; "" if the MANIFEST does not say
	LogNumber  uint64 // oldest WAL that the family still needs
	Version    *Version
	// NextEpoch is above the epoch number of every file.
	NextEpoch uint64
	// InferredEpochs says that Recover gave files an epoch number because some had none.
	InferredEpochs bool
	// Skipped families were not asked for: Version is nil, and the database cannot be written.
	Skipped bool

	CompactCursors    map[int][]byte // level to internal key
	FullHistoryTsLow  []byte
	PersistTimestamps Optional[bool]
	Features          Features
	Unknown           []Field // of the last edit that had the tag
}

// Family returns a live family by id, nil if there is none.
func (s *State) Family(id uint32) *ColumnFamily {
	i, ok := slices.BinarySearchFunc(s.Families, id, func(f *ColumnFamily, id uint32) int { return cmp.Compare(f.ID, id) })
	if !ok {
		return nil
	}
	return s.Families[i]
}

// FamilyNamed returns a live family by name, nil if there is none.
func (s *State) FamilyNamed(name string) *ColumnFamily {
	for _, f := range s.Families {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// SkippedNames are the names of the families that Recover was not asked for.
func (s *State) SkippedNames() (names []string) {
	for _, f := range s.Families {
		if f.Skipped {
			names = append(names, f.Name)
		}
	}
	return names
}

// MinLogNumber is the number of the oldest WAL to replay, in a database without
// two-phase commit: no family needs a smaller one.
func (s *State) MinLogNumber() uint64 {
	oldest := uint64(math.MaxUint64)
	for _, f := range s.Families {
		oldest = min(oldest, f.LogNumber)
	}
	return max(oldest, s.MinLogNumberToKeep)
}

// MarkFileNumberUsed raises NextFileNumber above n.
func (s *State) MarkFileNumberUsed(n uint64) {
	if n >= s.NextFileNumber {
		s.NextFileNumber = n + 1
	}
}

// ComparatorFunc finds the comparator of a column family. name is what the
// MANIFEST recorded, or "" if nothing. The comparator that it returns must have
// that name.
type ComparatorFunc func(family, name string) (keys.Comparator, error)

// BuiltinComparator knows RocksDB's two orders; "" is the default one.
func BuiltinComparator(family, name string) (keys.Comparator, error) {
	for _, c := range []keys.Comparator{keys.Bytewise, keys.ReverseBytewise} {
		if name == c.Name() || name == "" {
			return c, nil
		}
	}
	return nil, fmt.Errorf("column family %q: comparator %q is not known", family, name)
}

// ComparatorMismatchError says that a family was to be opened with another
// comparator than the one that sorted its files.
type ComparatorMismatchError struct{ Family, Given, Existing string }

func (e *ComparatorMismatchError) Error() string {
	return fmt.Sprintf("column family %q: comparator %s: does not match existing comparator %s", e.Family, e.Given, e.Existing)
}

// optionsError marks what the caller's options, not the MANIFEST, got wrong.
type optionsError struct{ err error }

func (e *optionsError) Error() string { return e.err.Error() }
func (e *optionsError) Unwrap() error { return e.err }

// replay applies edits to a State, for Recover and Writer alike, so that a
// running database holds what its MANIFEST says. The State it starts from is not
// changed: what an edit touches is copied first.
type replay struct {
	st         *State
	comparator ComparatorFunc
	numLevels  func(family string) int
	deeper     func(family string) bool
	want       func(family string) bool
	builders   map[uint32]*Builder
	owned      map[uint32]bool // families of st that are copies already
	walsOwned  bool
	recovering bool

	sawLogNumber, sawNextFile, sawLastSeq bool
}

func newReplay(from *State) *replay {
	st := *from
	st.Families = slices.Clone(from.Families)
	return &replay{st: &st, builders: map[uint32]*Builder{}, owned: map[uint32]bool{}}
}

// apply adds one edit. Errors are without file and offset.
func (r *replay) apply(e *VersionEdit) error {
	switch {
	case e.AddColumnFamily.Set:
		if err := r.addFamily(e); err != nil {
			return err
		}
	case e.DropColumnFamily:
		if err := r.dropFamily(e.ColumnFamily); err != nil {
			return err
		}
	}
	if err := r.applyShared(e); err != nil {
		return err
	}
	if e.DropColumnFamily {
		return nil
	}
	f := r.family(e.ColumnFamily)
	if f == nil {
		return fmt.Errorf("MANIFEST record referencing unknown column family %d", e.ColumnFamily)
	}
	return r.applyFamily(f, e)
}

func (r *replay) addFamily(e *VersionEdit) error {
	id, name := e.ColumnFamily, e.AddColumnFamily.Value
	if f := r.st.Family(id); f != nil {
		return fmt.Errorf("expected column family %d (%q) to be new, found it already there as %q", id, name, f.Name)
	}
	if f := r.st.FamilyNamed(name); f != nil {
		return fmt.Errorf("expected the name of column family %d to be new, found %q already there with id %d", id, name, f.ID)
	}
	f := &ColumnFamily{ID: id, Name: name, NextEpoch: 1, Skipped: r.want != nil && !r.want(name)}
	at, _ := slices.BinarySearchFunc(r.st.Families, id, func(f *ColumnFamily, id uint32) int { return cmp.Compare(f.ID, id) })
	r.st.Families = slices.Insert(r.st.Families, at, f)
	r.owned[id] = true
	r.st.MaxColumnFamily = max(r.st.MaxColumnFamily, id)
	return nil
}

func (r *replay) dropFamily(id uint32) error {
	f := r.st.Family(id)
	switch {
	case id == 0:
		return fmt.Errorf("expected the default column family to stay, found it dropped")
	case f == nil:
		return fmt.Errorf("MANIFEST - dropping non-existing column family %d", id)
	}
	r.st.Families = slices.DeleteFunc(r.st.Families, func(g *ColumnFamily) bool { return g.ID == id })
	delete(r.builders, id)
	delete(r.owned, id)
	return nil
}

// family returns a family that may be changed.
func (r *replay) family(id uint32) *ColumnFamily {
	f := r.st.Family(id)
	if f == nil || r.owned[id] {
		return f
	}
	c := *f
	c.CompactCursors = maps.Clone(f.CompactCursors)
	for i, g := range r.st.Families {
		if g == f {
			r.st.Families[i] = &c
		}
	}
	r.owned[id] = true
	return &c
}

// applyShared takes what concerns all families.
func (r *replay) applyShared(e *VersionEdit) error {
	st := r.st
	if e.DBID.Set {
		st.DBID = e.DBID.Value
	}
	if e.PrevLogNumber.Set {
		st.PrevLogNumber = e.PrevLogNumber.Value
	}
	if e.NextFileNumber.Set {
		st.NextFileNumber = max(st.NextFileNumber, e.NextFileNumber.Value)
	}
	if e.LastSeq.Set {
		st.LastSeq = max(st.LastSeq, e.LastSeq.Value)
	}
	if e.MaxColumnFamily.Set {
		st.MaxColumnFamily = max(st.MaxColumnFamily, e.MaxColumnFamily.Value)
	}
	if e.MinLogNumberToKeep.Set {
		st.MinLogNumberToKeep = max(st.MinLogNumberToKeep, e.MinLogNumberToKeep.Value)
	}
	if e.LastCompactedManifestSize.Set {
		st.LastCompactedManifestSize = e.LastCompactedManifestSize
	}
	r.sawLogNumber = r.sawLogNumber || e.LogNumber.Set
	r.sawNextFile = r.sawNextFile || e.NextFileNumber.Set
	r.sawLastSeq = r.sawLastSeq || e.LastSeq.Set
	return r.applyWALs(e)
}

func (r *replay) applyWALs(e *VersionEdit) error {
	if len(e.WALAdditions) == 0 && !e.WALDeletion.Set {
		return nil
	}
	st := r.st
	if !r.walsOwned {
		if st.WALs = maps.Clone(st.WALs); st.WALs == nil {
			st.WALs = map[uint64]Optional[uint64]{}
		}
		r.walsOwned = true
	}
	for _, w := range e.WALAdditions {
		old, known := st.WALs[w.Number]
		switch {
		case w.Number < st.MinTrackedWAL: // the file is gone already
			continue
		case known && !w.SyncedSize.Set:
			return fmt.Errorf("expected WAL %d to be new, found it created more than once", w.Number)
		case known && old.Set && w.SyncedSize.Value < old.Value:
			return fmt.Errorf("expected WAL %d to have at least %d synced bytes, found %d", w.Number, old.Value, w.SyncedSize.Value)
		}
		st.WALs[w.Number] = w.SyncedSize
	}
	if e.WALDeletion.Set && e.WALDeletion.Value > st.MinTrackedWAL {
		st.MinTrackedWAL = e.WALDeletion.Value
		maps.DeleteFunc(st.WALs, func(n uint64, _ Optional[uint64]) bool { return n < st.MinTrackedWAL })
	}
	return nil
}

// applyFamily takes what concerns one family.
func (r *replay) applyFamily(f *ColumnFamily, e *VersionEdit) error {
	if e.Comparator.Set {
		if f.Comparator != "" && f.Comparator != e.Comparator.Value {
			return fmt.Errorf("expected comparator %s of column family %q to stay, found it changed to %s", f.Comparator, f.Name, e.Comparator.Value)
		}
		f.Comparator = e.Comparator.Value
	}
	if e.LogNumber.Set { // a smaller one changes nothing
		f.LogNumber = max(f.LogNumber, e.LogNumber.Value)
	}
	for _, c := range e.CompactCursors {
		if f.CompactCursors == nil {
			f.CompactCursors = map[int][]byte{}
		}
		f.CompactCursors[c.Level] = c.Key
	}
	if e.FullHistoryTsLow != nil {
		f.FullHistoryTsLow = e.FullHistoryTsLow
	}
	if e.PersistTimestamps.Set {
		f.PersistTimestamps = e.PersistTimestamps
	}
	if e.Features.Set {
		f.Features = e.Features.Value
	}
	f.Unknown = mergeUnknown(f.Unknown, e.Unknown)
	if f.Skipped || !e.changesFiles() {
		return nil
	}
	b := r.builders[f.ID]
	if b == nil {
		base := f.Version
		if base == nil {
			base = &Version{} // finish gives it an order
		}
		b = NewBuilder(base)
		r.builders[f.ID] = b
	}
	if err := b.Apply(e); err != nil {
		return fmt.Errorf("column family %q: %w", f.Name, err)
	}
	for _, n := range e.NewFiles {
		f.NextEpoch = max(f.NextEpoch, n.Meta.EpochNumber+1)
		r.st.MarkFileNumberUsed(n.Meta.Number)
	}
	for i := range e.BlobAdditions {
		r.st.MarkFileNumberUsed(e.BlobAdditions[i].Number)
	}
	return nil
}

func (e *VersionEdit) changesFiles() bool {
	return len(e.DeletedFiles)+len(e.NewFiles)+len(e.BlobAdditions)+len(e.BlobGarbages) > 0
}

// mergeUnknown lets the fields of an edit take the place of earlier ones with
// their tags: the last word counts, and the set stays bounded.
func mergeUnknown(old, fields []Field) []Field {
	if len(fields) == 0 {
		return old
	}
	kept := slices.DeleteFunc(slices.Clone(old), func(o Field) bool {
		return slices.ContainsFunc(fields, func(n Field) bool { return n.Tag == o.Tag })
	})
	return append(kept, fields...)
}

// finish builds the versions of the families that changed.
func (r *replay) finish() (*State, error) {
	for _, f := range r.st.Families {
		if f.Skipped {
			continue
		}
		if f.Version == nil {
			f = r.family(f.ID)
			order, err := r.order(f)
			if err != nil {
				return nil, err
			}
			n := 0
			if r.numLevels != nil {
				n = r.numLevels(f.Name)
			}
			f.Version = NewVersion(order, n)
			if b := r.builders[f.ID]; b != nil {
				b.base = f.Version
			}
		}
		b := r.builders[f.ID]
		if b == nil {
			continue
		}
		levels := f.Version.NumLevels()
		v, err := b.Build()
		if err != nil {
			return nil, fmt.Errorf("column family %q: %w", f.Name, err)
		}
		if r.numLevels != nil && v.NumLevels() > levels {
			used := v.HighestLevel() + 1
			if used > levels && (r.deeper == nil || !r.deeper(f.Name)) {
				return nil, &optionsError{fmt.Errorf("column family %q: db has more levels than options.num_levels: %d, files in L%d",
					f.Name, levels, v.HighestLevel())}
			}
			v = v.Truncated(max(levels, used)) // edits of when there were more: no compaction may write there again
		}
		f.Version = v
		if r.recovering {
			f.inferEpochs()
			// Were it lower, writes would use sequence numbers again.
			r.st.LastSeq = max(r.st.LastSeq, v.LargestSeq())
		}
	}
	return r.st, nil
}

func (r *replay) order(f *ColumnFamily) (keys.Order, error) {
	find := r.comparator
	if find == nil {
		find = BuiltinComparator
	}
	c, err := find(f.Name, f.Comparator)
	if err != nil {
		return keys.Order{}, &optionsError{err}
	}
	if f.Comparator == "" {
		f.Comparator = c.Name()
	}
	if c.Name() != f.Comparator {
		return keys.Order{}, &optionsError{&ComparatorMismatchError{f.Name, c.Name(), f.Comparator}}
	}
	return keys.NewOrder(c), nil
}

// inferEpochs gives every file an epoch number if any has none: from 1 on, one
// for each level with files from the deepest up to L1, then one for each L0 file
// from the oldest to the newest. The files are those that Recover just decoded
// and nobody else knows.
func (f *ColumnFamily) inferEpochs() {
	missing := false
	for _, files := range f.Version.Levels {
		missing = missing || !allHaveEpochs(files)
	}
	if !missing {
		return
	}
	epoch := uint64(1)
	for level := f.Version.NumLevels() - 1; level > 0; level-- {
		files := f.Version.Levels[level]
		for _, m := range files {
			m.EpochNumber = epoch
		}
		if len(files) > 0 {
			epoch++
		}
	}
	for _, m := range slices.Backward(f.Version.Levels[0]) {
		m.EpochNumber = epoch
		epoch++
	}
	f.NextEpoch, f.InferredEpochs = epoch, true
}

// notOpenedError is RocksDB's refusal to write a database of which some families
// are not open.
func notOpenedError(names []string) error {
	return fmt.Errorf("column families not opened: %s", strings.Join(names, ", "))
}
