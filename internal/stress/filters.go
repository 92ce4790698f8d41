package stress

import (
	"math/rand/v2"
	"slices"

	"github.com/flatrock-db/flatrock"
)

// sameFilter is a compaction filter that changes nothing: it keeps entries, or puts in their place what is the
// same. So every answer stays right, whenever and however often it is asked.
type sameFilter struct {
	salt    uint64
	ignores bool // it decides about what snapshots see, too
}

func (sameFilter) Name() string            { return "flatrock.stress.Same" }
func (f sameFilter) IgnoreSnapshots() bool { return f.ignores }

func (f sameFilter) Filter(e *flatrock.FilterEntry) flatrock.FilterDecision {
	h := f.salt
	for _, b := range e.Key {
		h = mix(h ^ uint64(b))
	}
	switch {
	case h%3 == 0:
		return flatrock.FilterKeep
	case e.Kind != flatrock.FilterEntity:
		e.NewValue = append(e.NewValue[:0], e.Value...)
		return flatrock.FilterChangeValue
	}
	columns, err := e.Columns()
	if err != nil {
		return flatrock.FilterKeep // whoever reads it is told
	}
	e.NewColumns = append(e.NewColumns[:0], columns...)
	return flatrock.FilterChangeEntity
}

// sameFilters makes one for each file, at flushes and recovery too, if it is told to.
type sameFilters struct {
	salt uint64
	all  bool
}

func (sameFilters) Name() string { return "flatrock.stress.SameFactory" }
func (f sameFilters) FilterFiles(r flatrock.FilterReason) bool {
	return f.all || r == flatrock.FilterAtCompaction
}

func (f sameFilters) NewFilter(c flatrock.CompactionFilterContext) flatrock.CompactionFilter {
	if f.salt%5 == 0 && !c.Bottommost {
		return nil
	}
	return sameFilter{salt: f.salt}
}

// drawFilter gives a family a filter, or a factory of filters, that changes no answer.
func drawFilter(rng *rand.Rand, o *flatrock.ColumnFamilyOptions) {
	switch rng.IntN(6) {
	case 0:
		o.CompactionFilter = sameFilter{rng.Uint64(), rng.IntN(2) == 0}
	case 1:
		o.CompactionFilterFactory = sameFilters{rng.Uint64(), rng.IntN(2) == 0}
	}
}

// reaper removes some keys, in each way that there is; what it may remove, reaps says.
type reaper struct {
	salt    uint64
	reverse bool
}

func (r reaper) Name() string { return "flatrock.stress.Reaper" }

// reaps reports whether the filter removes a key sooner or later.
func (r reaper) reaps(key []byte) bool { return r.hash(key)%3 == 0 }

func (r reaper) hash(key []byte) uint64 {
	h := r.salt
	for _, b := range key {
		h = mix(h ^ uint64(b))
	}
	return h
}

func (r reaper) Filter(e *flatrock.FilterEntry) flatrock.FilterDecision {
	if !r.reaps(e.Key) {
		return flatrock.FilterKeep
	}
	switch h := r.hash(e.Key) / 3 % 3; {
	case h == 0:
		return flatrock.FilterPurge // each key is written once
	case h == 1 && !r.reverse:
		e.SkipUntil = append(slices.Clone(e.Key), 0)
		return flatrock.FilterRemoveAndSkipUntil
	}
	return flatrock.FilterRemove
}
