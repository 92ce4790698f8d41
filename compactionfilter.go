package flatrock

import (
	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/entity"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// CompactionFilter decides about entries while compactions rewrite them: it may keep,
// remove or change each. It sees the newest entry of a user key if that is a value or an
// entity, and each merge operand that is not merged yet; deletes it never sees. An entry that is
// seen by a snapshot from before the compaction is left alone, so that the snapshot reads what it always did, unless the filter is
// also a SnapshotIgnorer that says true; RocksDB's filters always ignore snapshots.
//
// When entries meet the filter depends on compactions: an old one may wait long at the
// bottom, and CompactRange reaches it sooner. RocksDB: CompactionFilter.
type CompactionFilter = compaction.Filter

// SnapshotIgnorer is a CompactionFilter that may also decide about what snapshots see.
// RocksDB: CompactionFilter::IgnoreSnapshots.
type SnapshotIgnorer = compaction.SnapshotIgnorer

// FilterEntry is what a CompactionFilter decides about.
type FilterEntry = compaction.FilterEntry

// FilterColumn is a column of an entity.
type FilterColumn = entity.Column

// FilterKind says what sort of entry a FilterEntry is.
type FilterKind = compaction.FilterKind

// The sorts of entries. RocksDB: CompactionFilter::ValueType.
const (
	FilterValue        = compaction.FilterValue
	FilterMergeOperand = compaction.FilterMergeOperand
	FilterEntity       = compaction.FilterEntity
)

// FilterDecision is the answer of a CompactionFilter.
type FilterDecision = compaction.FilterDecision

// The decisions, which compaction.FilterDecision describes. RocksDB:
// CompactionFilter::Decision.
const (
	FilterKeep               = compaction.FilterKeep
	FilterRemove             = compaction.FilterRemove
	FilterPurge              = compaction.FilterPurge
	FilterChangeValue        = compaction.FilterChangeValue
	FilterChangeEntity       = compaction.FilterChangeEntity
	FilterRemoveAndSkipUntil = compaction.FilterRemoveAndSkipUntil
)

// CompactionFilterFactory makes a filter for each compaction, so that one filter is
// used by one goroutine and knows what it works on. RocksDB: CompactionFilterFactory.
type CompactionFilterFactory interface {
	// Name is for logs.
	Name() string
	// NewFilter returns the filter for one table file's making, or nil for none.
	NewFilter(c CompactionFilterContext) CompactionFilter
}

// FlushFilterFactory is a CompactionFilterFactory that may want to see entries already
// when memtables are written to level 0, at flushes and at recovery. RocksDB:
// ShouldFilterTableFileCreation.
type FlushFilterFactory interface {
	CompactionFilterFactory
	// FilterFiles reports whether files made for the reason are to be filtered.
	FilterFiles(r FilterReason) bool
}

// FilterReason is why a table file is made.
type FilterReason uint8

// The reasons. RocksDB: TableFileCreationReason.
const (
	FilterAtCompaction FilterReason = iota
	FilterAtFlush
	FilterAtRecovery
)

// String is RocksDB's name of the reason.
func (r FilterReason) String() string { return [...]string{"compaction", "flush", "recovery"}[r] }

// CompactionFilterContext says what a filter is made for.
type CompactionFilterContext struct {
	// Full: the compaction has all files of the family.
	Full bool
	// Manual: somebody asked for it, by CompactRange for instance.
	Manual bool
	// Bottommost: nothing deeper than the output overlaps it.
	Bottommost bool
	// InputLevel is the level it starts from, OutputLevel the one it writes to; both zero for a flush.
	InputLevel, OutputLevel int
	ColumnFamily            string
	ColumnFamilyID          uint32
	Reason                  FilterReason
}

// hasCompactionFilter reports whether compactions of the family filter.
func (cf *ColumnFamily) hasCompactionFilter() bool {
	return cf.opts.CompactionFilter != nil || cf.opts.CompactionFilterFactory != nil
}

// filterCompaction gives a job that runs a choice its filter.
func (cf *ColumnFamily) filterCompaction(job *compaction.Job, choice *compaction.Choice, v *manifest.Version) {
	if !cf.hasCompactionFilter() {
		return
	}
	c := CompactionFilterContext{
		Full:       len(choice.Files()) == v.NumFiles(),
		Manual:     choice.Reason == compaction.ReasonManual,
		Bottommost: choice.Bottommost,
		InputLevel: choice.Inputs[0].Level, OutputLevel: choice.OutputLevel,
		ColumnFamily: cf.name, ColumnFamilyID: cf.id,
	}
	job.FilterLevel = c.InputLevel
	if job.Filter = cf.opts.CompactionFilter; job.Filter != nil {
		return
	}
	if f := cf.opts.CompactionFilterFactory; wantsFilter(f, FilterAtCompaction) {
		job.Filter = f.NewFilter(c)
	}
}

// filterFlush gives a job that writes memtables its filter, which only a factory that
// asks for it brings.
func (cf *ColumnFamily) filterFlush(job *compaction.Job) {
	f := cf.opts.CompactionFilterFactory
	if f == nil {
		return
	}
	reason := FilterAtFlush
	if cf.db.opening {
		reason = FilterAtRecovery
	}
	if wantsFilter(f, reason) {
		job.Filter = f.NewFilter(CompactionFilterContext{ColumnFamily: cf.name, ColumnFamilyID: cf.id, Reason: reason})
	}
}

func wantsFilter(f CompactionFilterFactory, r FilterReason) bool {
	if ff, ok := f.(FlushFilterFactory); ok {
		return ff.FilterFiles(r)
	}
	return r == FilterAtCompaction
}

// RemoveEmptyValues is RocksDB's filter of the name RemoveEmptyValueCompactionFilter.
var RemoveEmptyValues CompactionFilter = removeEmptyValues{}

type removeEmptyValues struct{}

func (removeEmptyValues) Name() string { return "RemoveEmptyValueCompactionFilter" }

func (removeEmptyValues) Filter(e *FilterEntry) FilterDecision {
	if e.Kind == FilterValue && len(e.Value) == 0 {
		return FilterRemove
	}
	return FilterKeep
}
