package compaction

import (
	"fmt"
	"slices"

	"github.com/flatrock-db/flatrock/internal/entity"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// Filter decides about entries while they are rewritten. See Job.Filter.
type Filter interface {
	// Name is for logs.
	Name() string
	// Filter says what becomes of e. It may set e.NewValue, e.NewColumns and
	// e.SkipUntil, which stay its own until the next call.
	Filter(e *FilterEntry) FilterDecision
}

// SnapshotIgnorer is a Filter that wants to decide about entries that snapshots
// see too: reads at a snapshot then change with compactions, as in RocksDB.
type SnapshotIgnorer interface {
	Filter
	IgnoreSnapshots() bool
}

// FilterKind is what sort of entry a filter is asked about.
type FilterKind uint8

// The kinds that filters see.
const (
	FilterValue FilterKind = iota
	FilterMergeOperand
	FilterEntity
)

// FilterDecision is what becomes of an entry.
type FilterDecision uint8

// The decisions.
const (
	// FilterKeep keeps the entry as it is.
	FilterKeep FilterDecision = iota
	// FilterRemove removes it: a value or entity as a Delete would, so that what is
	// older stays hidden; a merge operand alone.
	FilterRemove
	// FilterChangeValue replaces the value, or the operand, by NewValue. An entity
	// becomes a plain value.
	FilterChangeValue
	// FilterChangeEntity replaces a value or an entity by an entity of NewColumns, which must be
	// sorted by name.
	FilterChangeEntity
	// FilterRemoveAndSkipUntil removes the key and all that follow before SkipUntil. No
	// tombstones are left: what older files hold of these keys shows again, so this is for
	// keys that are written once. A SkipUntil that is not after Key keeps the entry.
	FilterRemoveAndSkipUntil
	// FilterPurge removes as FilterRemove does, but by a single delete, which vanishes with the one
	// value that it hides.
	FilterPurge
)

// FilterEntry is what a filter decides about. Key and Value are borrowed for the call.
type FilterEntry struct {
	// Level is the level that the compaction started from, zero for a flush.
	Level int
	Key   []byte
	Kind  FilterKind
	// Value is the value, the operand, or the default column of an entity.
	Value []byte

	// For the filter to set, by its decision.
	NewValue   []byte
	NewColumns []entity.Column
	SkipUntil  []byte

	stored  []byte // of an entity
	columns []entity.Column
}

// Columns decodes the columns of an entity. They are borrowed for the call.
func (e *FilterEntry) Columns() ([]entity.Column, error) {
	if e.Kind != FilterEntity {
		return nil, nil
	}
	var err error
	e.columns, err = entity.Decode(e.columns[:0], e.stored)
	return e.columns, err
}

// filtering is the part of a group that asks the filter.
type filtering struct {
	filter  Filter
	ignores bool // snapshots do not protect entries
	entry   FilterEntry
	changed []byte // an entity that the filter made

	skips    bool // keys before skipTo are to be removed
	skipTo   []byte
	skipping bool // the current key is one of them

	dropped uint64 // not 0: entries of the newest stripe were dropped, and this delete stands for them
	dropAll bool   // nothing of the key is to be left
}

func (f *filtering) init(job *Job) {
	f.filter = job.Filter
	f.entry.Level = job.FilterLevel
	if s, ok := job.Filter.(SnapshotIgnorer); ok {
		f.ignores = s.IgnoreSnapshots()
	}
}

// begin looks at the key of g, which is a new one.
func (f *filtering) begin(g *group) {
	if f.filter == nil {
		return
	}
	f.dropped, f.dropAll = 0, false
	f.skips = f.skips && g.job.Order.Compare(g.userKey, f.skipTo) < 0
	f.skipping = f.skips
}

// seek is the user key before which the job may drop all that comes, nil for none.
func (f *filtering) seek(snapshots int) []byte {
	if !f.skips || snapshots > 0 && !f.ignores {
		return nil
	}
	f.skips = false
	return f.skipTo
}

// filterEntry puts an entry before the filter if it is one to decide about: the newest
// entry of the key if that is a value, and merge operands. What a snapshot sees is
// left alone, so that it reads what it always did. It returns what stands in the place of
// the entry, or done when nothing does.
func (g *group) filterEntry(first bool, trailer uint64, value []byte) (_ uint64, _ []byte, done bool, err error) {
	f := &g.filtering
	if f.dropAll {
		return 0, nil, true, nil
	}
	newest := g.stripe == len(g.snapshots)
	if !newest && !f.ignores {
		return trailer, value, false, nil
	}
	if f.skipping {
		g.stats.Filtered++
		g.dropKey(trailer)
		return 0, nil, true, nil
	}
	var kind FilterKind
	switch keys.KindOf(trailer) {
	case keys.KindValue:
		kind = FilterValue
	case keys.KindEntity:
		kind = FilterEntity
	case keys.KindMerge:
		first = newest && g.job.Operator != nil && (g.state == stripeOpen || g.state == stripeMerging)
		kind = FilterMergeOperand
	default:
		first = false
	}
	if !first {
		return trailer, value, false, nil
	}
	return g.ask(kind, trailer, value)
}

func (g *group) ask(kind FilterKind, trailer uint64, stored []byte) (_ uint64, _ []byte, done bool, err error) {
	f := &g.filtering
	e := &f.entry
	e.Key, e.Kind, e.Value, e.stored = g.userKey, kind, stored, nil
	e.NewValue, e.NewColumns, e.SkipUntil = nil, nil, nil
	if kind == FilterEntity {
		e.stored = stored
		if e.Value, err = entity.Default(stored); err != nil {
			return 0, nil, false, fmt.Errorf("key %q: %w", g.userKey, err)
		}
	}
	seq := keys.Seq(trailer)
	switch d := f.filter.Filter(e); d {
	case FilterKeep:
		return trailer, stored, false, nil
	case FilterRemove, FilterPurge:
		g.stats.Filtered++
		switch {
		case kind == FilterMergeOperand:
			return 0, nil, true, nil
		case d == FilterPurge:
			return keys.Pack(seq, keys.KindSingleDelete), nil, false, nil
		}
		return keys.Pack(seq, keys.KindDelete), nil, false, nil
	case FilterChangeValue:
		if kind == FilterMergeOperand {
			return trailer, e.NewValue, false, nil
		}
		return keys.Pack(seq, keys.KindValue), e.NewValue, false, nil
	case FilterChangeEntity:
		if kind == FilterMergeOperand {
			return 0, nil, false, fmt.Errorf("compaction filter %s: key %q: a merge operand cannot become an entity", f.filter.Name(), g.userKey)
		}
		if f.changed, err = entity.Append(f.changed[:0], e.NewColumns); err != nil {
			return 0, nil, false, fmt.Errorf("compaction filter %s: key %q: %w", f.filter.Name(), g.userKey, err)
		}
		return keys.Pack(seq, keys.KindEntity), f.changed, false, nil
	case FilterRemoveAndSkipUntil:
		if g.job.Order.Compare(e.SkipUntil, g.userKey) <= 0 {
			return trailer, stored, false, nil
		}
		g.stats.Filtered++
		f.skipTo, f.skips, f.skipping = append(f.skipTo[:0], e.SkipUntil...), true, true
		g.dropKey(trailer)
		return 0, nil, true, nil
	default:
		return 0, nil, false, fmt.Errorf("compaction filter %s: key %q: unknown decision %d", f.filter.Name(), g.userKey, d)
	}
}

// dropKey removes what the newest stripe has of the key, or all of it where snapshots
// do not protect. What snapshots keep is hidden from newer readers by a delete.
func (g *group) dropKey(trailer uint64) {
	f := &g.filtering
	g.forget()
	g.state = stripeClosed
	if f.dropAll = f.ignores || len(g.snapshots) == 0; !f.dropAll {
		f.dropped = keys.Pack(keys.Seq(trailer), keys.KindDelete)
	}
}

// hideOlder puts the delete of dropKey in front of what snapshots keep.
func (g *group) hideOlder() {
	if f := &g.filtering; f.dropped != 0 && len(g.kept) > 0 {
		g.kept = slices.Insert(g.kept, 0, keptEntry{trailer: f.dropped})
	}
}
