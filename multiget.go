package flatrock

import (
	"sync"

	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/plaintable"
	"github.com/flatrock-db/flatrock/statistics"
)

// GetResult is the outcome of one key of a MultiGet.
type GetResult struct {
	// Value is the key's value; its memory is reused by the next MultiGet with the same results.
	Value []byte
	// Err is nil, ErrNotFound, or what went wrong with this key.
	Err error
}

// multiGetStage is how many keys go through the stages together: more than the
// misses that a core can have in flight, few enough to stay in the first cache.
const multiGetStage = 32

// MultiGet reads many keys at one moment, faster than as many Gets: the cache
// misses of different keys overlap. The result for keys[i] is results[i]; results
// is reused when its capacity suffices, and its values' memory too, so that a
// loop over MultiGet allocates nothing once warm. The error is about the call as a whole.
func (db *DB) MultiGet(ro *ReadOptions, keys [][]byte, results []GetResult) ([]GetResult, error) {
	return db.defaultCF.MultiGet(ro, keys, results)
}

// MultiGet is DB.MultiGet for this column family.
func (cf *ColumnFamily) MultiGet(ro *ReadOptions, userKeys [][]byte, results []GetResult) ([]GetResult, error) {
	if n := len(userKeys); n <= cap(results) {
		results = results[:n]
	} else {
		results = append(results[:cap(results)], make([]GetResult, n-cap(results))...)
	}
	s, reader, seq, err := cf.enterAt(ro)
	if err != nil {
		return results[:0], err
	}
	if t := cf.db.queries.Load(); t != nil {
		t.multiGet(cf.id, userKeys)
	}
	var counts getCounts
	t := cf.db.stats.Start(reader.stripe(), statistics.DBMultiGet)
	for at := 0; at < len(userKeys); at += multiGetStage {
		end := min(at+multiGetStage, len(userKeys))
		if err = s.multiGetGuarded(ro, seq, userKeys[at:end], results[at:end], &counts); err != nil {
			break
		}
	}
	if cf.db.stats != nil || ro.measured() {
		cf.observeMultiGet(reader.stripe(), ro, t, &counts, results)
	}
	s.release(reader)
	return results, err
}

func (s *readState) multiGetGuarded(ro *ReadOptions, seq uint64, userKeys [][]byte, results []GetResult, counts *getCounts) (err error) {
	if s.files.faultable {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	s.multiGet(ro, seq, userKeys, results, counts)
	return nil
}

// multiGet runs a batch of at most multiGetStage keys through the sources, newest
// first. Within a source the keys go through each step together: hash all, touch
// all buckets, touch all rows, then compare and copy. What needs more than one
// entry of a key (merge operands, range tombstones) leaves for the plain Get.
func (s *readState) multiGet(ro *ReadOptions, seq uint64, userKeys [][]byte, results []GetResult, counts *getCounts) {
	var looks [multiGetStage]keys.Lookup
	var todo [multiGetStage]uint8 // indexes of keys that no source has answered yet
	n := len(userKeys)
	for i, k := range userKeys {
		looks[i].UserKey, looks[i].Seq, looks[i].Many = k, seq, true
		ro.apply(&looks[i])
		s.cf.opts.PrefixExtractor.Prepare(&looks[i])
		todo[i] = uint8(i)
	}
	pending := s.searchMemory(s.active, &looks, todo[:n], results)
	for _, m := range s.immutables {
		pending = s.searchMemory(m, &looks, pending, results)
	}
	counts.memory += uint64(n - len(pending))
	for l, level := range s.files.levels {
		before := len(pending)
		if l == 0 {
			for i := range level {
				pending = s.searchRun(nil, level[i:i+1], &looks, pending, results)
			}
		} else {
			pending = s.searchRun(s.files.finders[l], level, &looks, pending, results)
		}
		counts.level(l, before-len(pending))
	}
	for _, i := range pending {
		results[i].Value, results[i].Err = results[i].Value[:0], ErrNotFound
	}
}

// searchMemory answers what it can from a memtable and returns the rest of pending.
func (s *readState) searchMemory(m *memState, looks *[multiGetStage]keys.Lookup, pending []uint8, results []GetResult) []uint8 {
	if m.empty() {
		return pending
	}
	var touched uint64
	for _, i := range pending {
		touched += m.mem.Touch(&looks[i])
	}
	for _, i := range pending {
		touched += m.mem.TouchNode(&looks[i])
	}
	sink(touched)
	rest := pending[:0]
	for _, i := range pending {
		value, trailer, ok, err := m.get(&looks[i])
		if err != nil {
			results[i].Value, results[i].Err = results[i].Value[:0], err
			continue
		}
		if !ok {
			rest = append(rest, i)
			continue
		}
		s.settle(&looks[i], value, trailer, &results[i])
	}
	return rest
}

// choose is the file of a run for a key, or -1. A run of one file has no finder.
func choose(f *finder, run []tableRef, look *keys.Lookup) int {
	if f != nil {
		return f.find(run, look.UserKey)
	}
	if run[0].mayHold(look) {
		return 0
	}
	return -1
}

// searchRun answers what it can from a sorted run and returns the rest of pending.
func (s *readState) searchRun(f *finder, run []tableRef, looks *[multiGetStage]keys.Lookup, pending []uint8, results []GetResult) []uint8 {
	if len(run) == 0 || len(pending) == 0 {
		return pending
	}
	if run[0].handle.block != nil {
		return s.searchBlocks(f, run, looks, pending, results)
	}
	var file [multiGetStage]int
	var cursors [multiGetStage]plaintable.Cursor
	for _, i := range pending {
		file[i] = choose(f, run, &looks[i])
		if file[i] >= 0 {
			run[file[i]].handle.plain.StageBucket(&looks[i], &cursors[i])
		}
	}
	var done [multiGetStage]bool
	for again := true; again; {
		again = false
		for _, i := range pending {
			if file[i] >= 0 && !done[i] {
				done[i] = !run[file[i]].handle.plain.StageRow(&cursors[i])
				again = again || !done[i]
			}
		}
	}
	rest := pending[:0]
	for _, i := range pending {
		found := false
		for f := file[i]; f >= 0 && !found; f = nextFile(run, &looks[i], f) {
			h := run[f].handle
			var value []byte
			var trailer uint64
			var err error
			var pin table.Pin
			if h.tombs == nil && f == file[i] {
				if value, trailer, found, err = h.plain.Finish(&looks[i], &cursors[i]); h.sample != 0 && found && h.sampled() {
					err = h.checkSampled(value, len(looks[i].UserKey))
				}
			} else {
				value, trailer, found, err = h.get(&looks[i], &pin)
			}
			switch {
			case err != nil:
				results[i].Value, results[i].Err = results[i].Value[:0], err
				found = true
			case found:
				s.settle(&looks[i], value, trailer, &results[i])
				pin.Release()
			}
		}
		if !found {
			rest = append(rest, i)
		}
	}
	return rest
}

// blockRequests is the memory of searchBlocks.
type blockRequests struct {
	file     [multiGetStage]int
	requests [multiGetStage]blocktable.Request
	keys     [multiGetStage]uint8 // which key a request is for
	looks    [multiGetStage]keys.Lookup
}

var blockRequestPool = sync.Pool{New: func() any { return new(blockRequests) }}

// searchBlocks is searchRun for block-based tables: the keys of one file go to its
// MultiGet together, which reads each block once, and several at a time.
func (s *readState) searchBlocks(f *finder, run []tableRef, looks *[multiGetStage]keys.Lookup, pending []uint8, results []GetResult) []uint8 {
	b := blockRequestPool.Get().(*blockRequests)
	defer blockRequestPool.Put(b)
	// Lookups that reach the requests would escape: they live in pooled memory.
	b.looks = *looks
	for _, i := range pending {
		b.file[i] = choose(f, run, &b.looks[i])
	}
	var answered [multiGetStage]bool
	for at, i := range pending {
		f := b.file[i]
		if f < 0 {
			continue
		}
		n := 0
		for _, j := range pending[at:] {
			if b.file[j] == f {
				b.requests[n] = blocktable.Request{Look: &b.looks[j]}
				b.keys[n] = j
				b.file[j] = -1
				n++
			}
		}
		h := run[f].handle
		h.block.MultiGet(b.requests[:n])
		if id := b.looks[b.keys[0]].TraceID; id != looks[0].TraceID { // with a trace
			for k := range looks {
				looks[k].TraceID, b.looks[k].TraceID = id, id
			}
		}
		for k := range n {
			j, q := b.keys[k], &b.requests[k]
			value, trailer, found, err := q.Value, q.Trailer, q.Found, q.Err
			if h.tombs.Near(b.looks[j].UserKey) {
				value, trailer, found, err = h.hideCovered(&b.looks[j], &q.Pin, value, trailer, found, err)
			}
			for next := nextFile(run, &b.looks[j], f); !found && err == nil && next >= 0; next = nextFile(run, &b.looks[j], next) {
				value, trailer, found, err = run[next].handle.get(&b.looks[j], &q.Pin)
			}
			switch {
			case err != nil:
				results[j].Value, results[j].Err = results[j].Value[:0], err
			case found:
				s.settle(&b.looks[j], value, trailer, &results[j])
			}
			answered[j] = found || err != nil
			q.Pin.Release()
		}
		clear(b.requests[:n])
	}
	rest := pending[:0]
	for _, i := range pending {
		if !answered[i] {
			rest = append(rest, i)
		}
	}
	return rest
}

// settle turns the newest entry of a key into its result.
func (s *readState) settle(look *keys.Lookup, value []byte, trailer uint64, r *GetResult) {
	if isDelete(keys.KindOf(trailer)) {
		r.Value, r.Err = r.Value[:0], ErrNotFound
		return
	}
	r.Value, r.Err = s.appendValue(r.Value[:0], look, value, trailer)
}

// sink uses the sum of touched bytes, so that the loads are not optimised away.
//
//go:noinline
func sink(uint64) {}
