package flatrock

import (
	"errors"
	"sort"
	"sync"

	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/perf"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/internal/tracefile"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/statistics"
)

// Iterator walks the keys of a column family in order, as they were when it was
// made (or at ReadOptions.Snapshot). It starts out not positioned. It keeps the memtables and files
// of its moment alive until it is closed. One goroutine at a time may use it.
//
// With a PrefixExtractor a seek finds its position through the prefix hashes; a
// walk that leaves the prefix goes on in total order, so the answers are always
// those of a total order (RocksDB leaves them undefined). ReadOptions.PrefixSameAsStart
// ends the walk with the prefix instead.
type Iterator struct {
	in *iteratorState // nil once closed
}

// iteratorState is the part of an Iterator that is used again: pooled apart from the
// Iterator, so that a second Close cannot reach into somebody else's iterator.
type iteratorState struct {
	user   iterator.User
	state  *readState
	reader *reader
	err    error

	// Values and keys in mapped files are copied: the caller reads them outside
	// of the guard.
	guarded    bool
	observed   bool // counts and perf are kept: see observe.go
	counts     iterCounts
	perf       *perf.Context
	key, value []byte
	entity     []byte // the stored form of a wide-column entity; nil for a plain value
	pins       pinnedBytes
	pinned     bool // keys and values are copied to where they stay: ReadOptions.PinData

	order keys.Order

	cf   *ColumnFamily // nil for a file without a database
	ro   ReadOptions
	seq  uint64
	tail bool // ReadOptions.Tailing

	overlay      *batchIndex // of an IndexedBatch; nil without one
	lower, upper []byte      // bounds, for traces

	sources []table.Iterator
	tombs   []iterator.SourceTombstones
	levels  []levelFiles
	runs    []iterator.Level
}

var iteratorPool = sync.Pool{New: func() any { return new(iteratorState) }}

// NewIterator is DB.NewIterator for this column family.
func (cf *ColumnFamily) NewIterator(ro *ReadOptions) (*Iterator, error) {
	if ro == nil {
		ro = &ReadOptions{}
	}
	it := iteratorPool.Get().(*iteratorState)
	if err := it.begin(cf, ro); err != nil {
		return nil, err
	}
	cf.db.stats.Add(it.reader.stripe(), statistics.NoIteratorCreated, 1)
	return &Iterator{it}, nil
}

// begin makes it an iterator of cf; after an error it is back in the pool.
func (it *iteratorState) begin(cf *ColumnFamily, ro *ReadOptions) error {
	s, reader, seq, err := cf.enterAt(ro)
	if err != nil {
		iteratorPool.Put(it)
		return err
	}
	it.order, it.overlay = cf.order, nil
	it.cf, it.ro, it.tail = cf, *ro, ro.Tailing && ro.Snapshot == nil
	it.state, it.reader, it.seq, it.err = s, reader, seq, nil
	it.pinned = ro.PinData
	it.guarded = s.files.faultable
	it.perf = ro.perf()
	it.observed = cf.db.stats != nil || it.perf != nil
	if err = it.open(cf, ro); err != nil {
		return errors.Join(err, it.close())
	}
	return nil
}

// tableIterOptions is what iterators over files need of ro.
func tableIterOptions(ro *ReadOptions) table.IterOptions {
	return table.IterOptions{
		NoFill:          !ro.FillCache.or(true),
		VerifyChecksums: ro.VerifyChecksums.or(true),
		NoVerify:        !ro.VerifyChecksums.or(true),
		ReadaheadSize:   ro.ReadaheadSize,
		Perf:            ro.perf(),
		PastUpper:       !ro.AutoReadaheadSize.or(true),
		Lower:           ro.LowerBound,
		Upper:           ro.UpperBound,
		Caller:          table.CallerIterator,
	}
}

// open collects the sources, newest first, for reads at it.seq. The number was taken before: what it covers is in the
// memtables by now, so that one without entries has nothing to show.
func (it *iteratorState) open(cf *ColumnFamily, ro *ReadOptions) (err error) {
	if it.guarded {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	s := it.state
	to := tableIterOptions(ro)
	it.lower, it.upper = ro.LowerBound, ro.UpperBound
	it.sources, it.tombs = it.sources[:0], it.tombs[:0]
	if x := it.overlay; x != nil {
		it.tombs = append(it.tombs, iterator.SourceTombstones{Source: 0, Live: x.tombs, Seq: keys.MaxSeq})
		it.sources = append(it.sources, &batchCursor{x: x})
	}
	it.addMemtable(s.active)
	for _, m := range s.immutables {
		it.addMemtable(m)
	}
	depth := 0
	for l, level := range s.files.levels {
		if l > 0 && len(level) > 1 {
			depth++ // at most: bounds may leave out files
		}
	}
	it.levels = append(it.levels[:0], make([]levelFiles, depth)...)
	if cap(it.runs) < depth {
		it.runs = make([]iterator.Level, depth)
	}
	it.runs = it.runs[:depth]
	depth = 0
	for l, level := range s.files.levels {
		apart := true // the files' range tombstones are asked one by one
		if l > 0 {
			if run := s.files.tombs[l]; run != nil {
				apart = false
				it.tombs = append(it.tombs, iterator.SourceTombstones{Source: len(it.sources), Run: run})
			}
			level = withinBounds(level, ro)
		}
		for i := range level {
			if l == 0 && len(withinBounds(level[i:i+1], ro)) == 0 {
				continue
			}
			if h := level[i].handle; apart && h.tombs != nil {
				it.tombs = append(it.tombs, iterator.SourceTombstones{Source: len(it.sources), List: h.tombs})
			}
			if l == 0 || len(level) == 1 {
				it.sources = append(it.sources, level[i].handle.reader().NewIterator(to))
			}
		}
		if l > 0 && len(level) > 1 {
			it.levels[depth] = levelFiles{files: level, o: to}
			if ro.AdaptiveReadahead {
				it.levels[depth].o.Carry = &it.levels[depth].carry
			}
			it.runs[depth].Init(cf.order, &it.levels[depth])
			it.sources = append(it.sources, &it.runs[depth])
			depth++
		}
	}
	o := iterator.Options{
		Order: cf.order,
		Seq:   it.seq,
		Lower: ro.LowerBound, Upper: ro.UpperBound,
		Operator:   cf.opts.MergeOperator,
		Resolve:    cf.resolver,
		Tombstones: it.tombs,
		MaxSkipped: ro.MaxSkippableInternalKeys,
		AutoPrefix: ro.AutoPrefixMode && !ro.PrefixSameAsStart,
	}
	if e := cf.opts.PrefixExtractor; e != nil && (!ro.TotalOrderSeek || ro.PrefixSameAsStart) {
		o.Prefixer, o.PrefixSameAsStart = e, ro.PrefixSameAsStart
	}
	if it.overlay != nil {
		o.Overlay = overlaySeq
	}
	it.user.Reset(&o, it.sources)
	return nil
}

// withinBounds is the files of a sorted run that may hold keys between the bounds.
func withinBounds(run []tableRef, ro *ReadOptions) []tableRef {
	if len(run) == 0 || ro.LowerBound == nil && ro.UpperBound == nil {
		return run
	}
	o := run[0].handle.cf.order
	if ro.LowerBound != nil {
		run = run[sort.Search(len(run), func(i int) bool { return o.Compare(run[i].largest, ro.LowerBound) >= 0 }):]
	}
	if ro.UpperBound != nil {
		run = run[:sort.Search(len(run), func(i int) bool { return o.Compare(run[i].smallest, ro.UpperBound) >= 0 })]
	}
	return run
}

func (it *iteratorState) addMemtable(m *memState) {
	if m.tombs.Count() > 0 {
		it.tombs = append(it.tombs, iterator.SourceTombstones{Source: len(it.sources), Live: m.tombs})
	}
	if m.mem.Entries() > 0 {
		it.sources = append(it.sources, m.mem.NewIterator())
	}
}

// levelFiles gives the files of a sorted level to iterator.Level.
type levelFiles struct {
	files []tableRef
	o     table.IterOptions
	carry table.Readahead // with AdaptiveReadahead
}

func (l *levelFiles) Len() int { return len(l.files) }
func (l *levelFiles) Smallest(i int) ([]byte, uint64) {
	return l.files[i].smallest, l.files[i].handle.meta.SmallestTrailer
}
func (l *levelFiles) Largest(i int) ([]byte, uint64) {
	return l.files[i].largest, l.files[i].handle.meta.LargestTrailer
}
func (l *levelFiles) Open(i int) (table.Iterator, error) {
	return l.files[i].handle.reader().NewIterator(l.o), nil
}

// move runs a positioning call. In families with mapped files it runs under the
// guard, and what it found is copied.
func (it *Iterator) move(f func(*iterator.User) bool) bool {
	in := it.in
	if in == nil {
		return false
	}
	if in.guarded {
		return in.moveGuarded(f)
	}
	if in.pinned {
		return f(&in.user) && in.pin()
	}
	return f(&in.user)
}

// seek is move for calls that do not depend on where the iterator stands: a tailing
// one begins with the newest state.
func (it *Iterator) seek(f func(*iterator.User) bool) bool {
	if in := it.in; in != nil && in.tail && in.err == nil {
		if in.err = in.renew(&in.ro); in.err != nil {
			return false
		}
	}
	if it.in == nil || !it.in.observed {
		return it.move(f)
	}
	return it.seekObserved(f)
}

func (it *iteratorState) moveGuarded(f func(*iterator.User) bool) (ok bool) {
	it.err = nil
	if it.guardedCall(f); it.err != nil {
		return false
	}
	return it.user.Valid()
}

func (it *iteratorState) guardedCall(f func(*iterator.User) bool) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &it.err)
	if !f(&it.user) {
		return
	}
	if it.pinned {
		it.pin()
		return
	}
	it.key = append(it.key[:0], it.user.Key()...)
	it.value = append(it.value[:0], it.user.Value()...)
	if stored, ok := it.user.Entity(); ok {
		it.entity = append(it.entity[:0], stored...)
	} else {
		it.entity = nil
	}
}

// SeekGE moves to the first key at or after key and reports whether there is one.
func (it *Iterator) SeekGE(key []byte) bool {
	it.traced(tracefile.Seek, key)
	return it.seek(func(u *iterator.User) bool { return u.SeekGE(key) })
}

// SeekLT moves to the last key before key.
func (it *Iterator) SeekLT(key []byte) bool {
	it.traced(tracefile.SeekForPrev, key)
	return it.seek(func(u *iterator.User) bool { return u.SeekLT(key) })
}

// SeekLE moves to the last key at or before key. RocksDB: SeekForPrev.
func (it *Iterator) SeekLE(key []byte) bool {
	it.traced(tracefile.SeekForPrev, key)
	return it.seek(func(u *iterator.User) bool { return u.SeekLE(key) })
}

// First moves to the first key.
func (it *Iterator) First() bool {
	it.tracedEnd(tracefile.Seek)
	return it.seek((*iterator.User).First)
}

// Last moves to the last key.
func (it *Iterator) Last() bool {
	it.tracedEnd(tracefile.SeekForPrev)
	return it.seek((*iterator.User).Last)
}

// Next moves to the key after the current one; the iterator must be valid.
func (it *Iterator) Next() bool {
	ok := it.move((*iterator.User).Next)
	if it.in != nil && it.in.observed {
		it.stepObserved(ok, &it.in.counts.nexts, &it.in.counts.nextsFound)
	}
	return ok
}

// Prev moves to the key before the current one; the iterator must be valid.
func (it *Iterator) Prev() bool {
	ok := it.move((*iterator.User).Prev)
	if it.in != nil && it.in.observed {
		it.stepObserved(ok, &it.in.counts.prevs, &it.in.counts.prevsFound)
	}
	return ok
}

// Valid reports whether the iterator stands on a key.
func (it *Iterator) Valid() bool { return it.in != nil && it.in.err == nil && it.in.user.Valid() }

// Key is the current key, valid until the next move, or with ReadOptions.PinData until
// Close. The iterator must be valid.
func (it *Iterator) Key() []byte {
	if it.in.guarded || it.in.pinned {
		return it.in.key
	}
	return it.in.user.Key()
}

// Value is the current value, valid as long as Key. Of a wide-column entity it is the
// default column; see Columns. The iterator must be valid.
func (it *Iterator) Value() []byte {
	if it.in.guarded || it.in.pinned {
		return it.in.value
	}
	return it.in.user.Value()
}

// Err is what made the last move fail, nil at either end of the keys. After
// Close it is ErrClosed.
func (it *Iterator) Err() error {
	if it.in == nil {
		return ErrClosed
	}
	return it.in.failure()
}

func (it *iteratorState) failure() error {
	if it.err != nil {
		return it.err
	}
	return it.user.Err()
}

// Close releases what the iterator pins, and returns what Err would have. It may
// be called twice.
func (it *Iterator) Close() error {
	in := it.in
	if in == nil {
		return nil
	}
	it.in = nil
	return in.close()
}

func (it *iteratorState) close() error {
	err := errors.Join(it.failure(), it.user.Close())
	clear(it.sources)
	clear(it.tombs)
	clear(it.levels)
	if it.pinned {
		it.pins, it.key, it.value, it.entity = pinnedBytes{}, nil, nil, nil
	}
	it.cf, it.ro, it.tail, it.pinned, it.overlay = nil, ReadOptions{}, false, false, nil
	s, reader := it.state, it.reader
	if s != nil && it.observed {
		it.tell()
		s.cf.db.stats.Add(reader.stripe(), statistics.NoIteratorDeleted, 1)
	}
	it.state, it.perf, it.observed = nil, nil, false
	if s != nil { // nil for a file without a database
		s.release(reader)
	}
	iteratorPool.Put(it)
	return err
}
