package flatrock

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/internal/wal"
)

func sortLogs(logs []wal.LogFile) {
	slices.SortFunc(logs, func(a, b wal.LogFile) int { return cmp.Compare(a.Number, b.Number) })
}

// readOptions reads the newest OPTIONS file that can be read, and sets the newer ones aside.
func (r *repairer) readOptions() error {
	r.stored = storedOptions{}
	numbers := r.files[manifest.KindOptions]
	slices.Sort(numbers)
	for i, number := range slices.Backward(numbers) {
		f, err := optionsfile.Load(r.fs, r.dir, number)
		var stored storedOptions
		if err == nil {
			stored, err = r.db.optionsOf(f, number)
		}
		if err == nil {
			r.stored, r.order, r.complete = stored, f.Families(), i == len(numbers)-1
			r.report.Options = fmt.Sprintf("OPTIONS-%06d", number)
			return nil
		}
		if errors.Is(err, ErrInvalidArgument) { // the logs are elsewhere
			return err
		}
		r.setAside(fmt.Sprintf("OPTIONS-%06d", number), err.Error())
	}
	r.report.Options = "no OPTIONS file that can be read: what table files say, else defaults"
	return nil
}

// history is what the MANIFEST tells, as far as it can be read.
type history struct {
	state    *manifest.State // nil if it is not whole
	families map[uint32]*manifest.ColumnFamily
	dropped  map[uint32]bool
	files    map[uint64]*manifest.FileMetadata // live at its end
	deleted  map[uint64]bool                   // and not added again
	maxID    uint32
	dbID     string
	lastSeq  uint64
}

// readHistory reads the MANIFEST that CURRENT names, or else the newest one, and as much of it
// as there is.
func (r *repairer) readHistory() error {
	numbers := r.files[manifest.KindManifest]
	slices.Sort(numbers)
	current, err := manifest.ReadCurrent(r.fs, r.dir)
	switch {
	case err == nil && slices.Contains(numbers, current):
		numbers = append(slices.DeleteFunc(slices.Clone(numbers), func(n uint64) bool { return n == current }), current)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		r.setAside(manifest.CurrentBase, err.Error())
	}
	for _, n := range r.files[manifest.KindManifest] {
		r.replaced = append(r.replaced, manifest.ManifestBase(n))
	}
	r.report.Manifest = "there is no MANIFEST"
	var best history
	for i, n := range slices.Backward(numbers) {
		h, err := r.readManifest(n)
		base := manifest.ManifestBase(n)
		if err == nil {
			best, r.report.Manifest = h, base+" can be read whole"
			break
		}
		if i == len(numbers)-1 { // what the newest tells up to its damage; older ones are out of date
			best = h
			r.report.Manifest = err.Error()
		}
	}
	r.history = best
	return nil
}

// readManifest reads one MANIFEST. With an error the history is that up to the damage.
func (r *repairer) readManifest(n uint64) (history, error) {
	h := history{families: map[uint32]*manifest.ColumnFamily{0: {Name: DefaultColumnFamilyName}}, dropped: map[uint32]bool{},
		files: map[uint64]*manifest.FileMetadata{}, deleted: map[uint64]bool{}}
	base := manifest.ManifestBase(n)
	seen := func(e *manifest.VersionEdit, _ int64) error {
		h.note(e)
		return nil
	}
	st, err := manifest.Recover(r.fs, r.dir, manifest.RecoverOptions{Manifest: base, Comparator: r.comparatorNamed, OnEdit: seen})
	if err == nil {
		h.state = st
	} else if !errors.Is(err, keys.ErrCorruption) && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", base, err)
	}
	return h, err
}

func (h *history) note(e *manifest.VersionEdit) {
	f := h.families[e.ColumnFamily]
	switch {
	case e.AddColumnFamily.Set:
		f = &manifest.ColumnFamily{ID: e.ColumnFamily, Name: e.AddColumnFamily.Value}
		h.families[f.ID] = f
	case e.DropColumnFamily:
		delete(h.families, e.ColumnFamily)
		h.dropped[e.ColumnFamily] = true
		return
	}
	h.maxID = max(h.maxID, e.ColumnFamily, e.MaxColumnFamily.Value)
	h.lastSeq = max(h.lastSeq, e.LastSeq.Value)
	if e.DBID.Set {
		h.dbID = e.DBID.Value
	}
	if f == nil {
		return
	}
	if e.Comparator.Set {
		f.Comparator = e.Comparator.Value
	}
	if e.Features.Set {
		f.Features = e.Features.Value
	}
	f.LogNumber = max(f.LogNumber, e.LogNumber.Value)
	for _, d := range e.DeletedFiles {
		delete(h.files, d.Number)
		h.deleted[d.Number] = true
	}
	for _, n := range e.NewFiles {
		h.files[n.Meta.Number] = n.Meta
		delete(h.deleted, n.Meta.Number)
	}
}

// comparatorNamed finds the comparator of a family: the caller's, or a built-in one.
func (r *repairer) comparatorNamed(family, name string) (keys.Comparator, error) {
	if o := r.db.givenOptions(family); o != nil && o.Comparator != nil {
		return o.Comparator, nil
	}
	for _, d := range r.db.opts.ColumnFamilies {
		if d.Options != nil && d.Options.Comparator != nil && d.Options.Comparator.Name() == name {
			return d.Options.Comparator, nil
		}
	}
	c, err := manifest.BuiltinComparator(family, name)
	if err != nil {
		return nil, fmt.Errorf("%w: column family %q: its comparator %q must be given", ErrInvalidArgument, family, name)
	}
	return c, nil
}
