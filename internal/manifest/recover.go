package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strings"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/record"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// RecoverOptions says how to read a MANIFEST. The zero value reads all families
// that use a built-in comparator.
type RecoverOptions struct {
	// Comparator finds the comparator of a family; nil means BuiltinComparator. It
	// is not asked for families that Want refuses.
	Comparator ComparatorFunc
	// NumLevels gives num_levels of a family; nil means DefaultNumLevels and takes
	// files in deeper levels as they are, which otherwise are an error.
	NumLevels func(family string) int
	// Deeper says of which families the files may lie deeper than NumLevels says: they have the levels that
	// they need. nil: of none.
	Deeper func(family string) bool
	// Want says which families to build; nil means all. The others end up Skipped.
	Want func(family string) bool
	// Manifest is the base name of the MANIFEST to read instead of the one that
	// CURRENT names.
	Manifest string
	// OnEdit, if set, sees each edit and its offset before it is applied.
	OnEdit func(e *VersionEdit, offset int64) error
}

// Recover reads CURRENT and replays the MANIFEST that it names. An error matches
// fs.ErrNotExist if CURRENT does not exist; damage matches keys.ErrCorruption and
// names file and offset; a comparator of another name is a
// *ComparatorMismatchError. A last record cut short by a crash is ignored, and so
// is an atomic group that is not complete at the end.
func Recover(fsys mmapfs.FS, dir string, o RecoverOptions) (*State, error) {
	base := o.Manifest
	if base == "" {
		n, err := ReadCurrent(fsys, dir)
		if err != nil {
			return nil, err
		}
		base = ManifestBase(n)
	}
	r := newReplay(&State{Families: []*ColumnFamily{{Name: DefaultFamily, NextEpoch: 1,
		Skipped: o.Want != nil && !o.Want(DefaultFamily)}}})
	r.comparator, r.numLevels, r.deeper, r.want, r.recovering = o.Comparator, o.NumLevels, o.Deeper, o.Want, true
	_, r.st.ManifestNumber, _ = ParseName(base)

	tail, err := r.read(fsys, dir, base, 0, o.OnEdit)
	if errors.Is(err, fs.ErrNotExist) && o.Manifest == "" {
		// Not the same as a directory without a database.
		return nil, keys.Corruptf(CurrentBase, 0, "expected %s to exist, found no such file", base)
	}
	if err != nil {
		return nil, err
	}
	r.st.ManifestSize, r.st.TornTail = tail.End, tail.Torn
	if missing := r.missing(); missing != "" {
		return nil, keys.Corruptf(base, -1, "no %s entry in MANIFEST", missing)
	}
	st, err := r.finish()
	if err != nil {
		return nil, wrapReplay(base, -1, err)
	}
	// A number that is used up, so that a MANIFEST that is one behind does no harm.
	st.NextFileNumber++
	st.MarkFileNumberUsed(st.PrevLogNumber)
	st.MarkFileNumberUsed(st.MinLogNumberToKeep)
	st.MarkFileNumberUsed(st.ManifestNumber)
	for _, f := range st.Families {
		st.MarkFileNumberUsed(f.LogNumber)
	}
	return st, nil
}

// read applies the edits of a MANIFEST from an offset on.
func (r *replay) read(fsys mmapfs.FS, dir, base string, from int64, onEdit func(e *VersionEdit, offset int64) error) (Tail, error) {
	g := group{file: base, apply: func(e *VersionEdit, off int64) error { return wrapReplay(base, off, r.apply(e)) }}
	return readEdits(fsys, filepath.Join(dir, base), from, func(e *VersionEdit, off, end int64) error {
		r.st.Edits++
		if onEdit != nil {
			if err := onEdit(e, off); err != nil {
				return err
			}
		}
		if err := g.add(e, off); err != nil {
			return err
		}
		if len(g.held) == 0 {
			r.st.applied = end
		}
		return nil
	})
}

// Advance is the state after the edits that were appended to the MANIFEST since s was
// recovered or advanced; s itself if there are none. When CURRENT names another
// MANIFEST by now, that is recovered from its start. s is not changed.
func (s *State) Advance(fsys mmapfs.FS, dir string, o RecoverOptions) (*State, error) {
	n, err := ReadCurrent(fsys, dir)
	if err != nil {
		return nil, err
	}
	if n != s.ManifestNumber {
		return Recover(fsys, dir, o)
	}
	r := newReplay(s)
	r.comparator, r.numLevels, r.deeper, r.want = o.Comparator, o.NumLevels, o.Deeper, o.Want
	base := ManifestBase(n)
	tail, err := r.read(fsys, dir, base, s.applied, o.OnEdit)
	if err != nil {
		return nil, err
	}
	if r.st.applied == s.applied {
		return s, nil
	}
	r.st.ManifestSize, r.st.TornTail = tail.End, tail.Torn
	st, err := r.finish()
	if err != nil {
		return nil, wrapReplay(base, -1, err)
	}
	return st, nil
}

// missing names the fields that every MANIFEST has at least once.
func (r *replay) missing() string {
	var names []string
	if !r.sawLogNumber {
		names = append(names, "log_file_number")
	}
	if !r.sawNextFile {
		names = append(names, "next_file_number")
	}
	if !r.sawLastSeq {
		names = append(names, "last_sequence")
	}
	return strings.Join(names, ", ")
}

// wrapReplay turns what an edit cannot do into corruption at a place. What the
// caller may put right stays as it is.
func wrapReplay(file string, off int64, err error) error {
	var mine *optionsError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mine):
		return fmt.Errorf("%s: %w", file, err)
	}
	return keys.Corruptf(file, off, "%v", err)
}

// group holds edits of an atomic group back until its last one is there.
type group struct {
	file  string
	apply func(e *VersionEdit, off int64) error
	held  []heldEdit
}

type heldEdit struct {
	e   *VersionEdit
	off int64
}

func (g *group) add(e *VersionEdit, off int64) error {
	if !e.AtomicGroup.Set {
		if len(g.held) > 0 {
			return keys.Corruptf(g.file, off, "expected the rest of an atomic group of %d edits, found an edit outside", g.size())
		}
		return g.apply(e, off)
	}
	left := e.AtomicGroup.Value
	if len(g.held) > 0 {
		before := g.held[len(g.held)-1].e.AtomicGroup.Value
		if left != before-1 {
			return keys.Corruptf(g.file, off, "expected %d edits to follow in an atomic group, found %d", before-1, left)
		}
	}
	g.held = append(g.held, heldEdit{e, off})
	if left > 0 {
		return nil
	}
	for _, h := range g.held {
		if err := g.apply(h.e, h.off); err != nil {
			return err
		}
	}
	g.held = nil
	return nil
}

func (g *group) size() uint64 { return uint64(g.held[0].e.AtomicGroup.Value) + 1 }

// Tail says how a MANIFEST ended.
type Tail struct {
	End  int64 // offset after the last whole record
	Torn bool  // bytes of a record cut short follow
}

// ReadEdits decodes the edits of the MANIFEST at path in order and hands each,
// with the offset of its record, to f. An error of f ends reading and is
// returned. Damage matches keys.ErrCorruption; a record cut short at the end is
// none.
func ReadEdits(fsys mmapfs.FS, path string, f func(e *VersionEdit, off int64) error) (tail Tail, err error) {
	return readEdits(fsys, path, 0, func(e *VersionEdit, off, _ int64) error { return f(e, off) })
}

// readEdits is ReadEdits from behind a record that ended at from; f learns where
// each record ends, too.
func readEdits(fsys mmapfs.FS, path string, from int64, f func(e *VersionEdit, off, end int64) error) (tail Tail, err error) {
	file, err := fsys.Open(path)
	if err != nil {
		return tail, err
	}
	defer file.Close()
	tail.End = from
	base := filepath.Base(path)
	block := from / record.BlockSize * record.BlockSize
	r := record.NewReader(io.NewSectionReader(file, block, math.MaxInt64-block), base, 0, record.ReaderOptions{Start: from})
	for {
		b, err := r.Next()
		var damage *record.Damage
		switch {
		case err == io.EOF:
			return tail, nil
		case errors.As(err, &damage) && damage.Tail():
			tail.Torn = true
			return tail, nil
		case err != nil:
			return tail, err
		}
		e, err := DecodeEdit(base, r.Offset(), b)
		if err == nil {
			err = f(e, r.Offset(), r.End())
		}
		if err != nil {
			return tail, err
		}
		tail.End = r.End()
	}
}
