package flatrock

import (
	"time"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/statistics"
)

// How operations count into Options.Statistics and PerfContext. Without either the paths of
// reads and writes pay one comparison with nil.

// getObserved is Get for those who count.
func (s *readState) getObserved(reader *reader, ro *ReadOptions, key, dst []byte) ([]byte, error) {
	gets := reader.slot.gets
	var t statistics.Timing
	if gets != nil {
		t = gets.Start()
	}
	var look keys.Lookup
	look.Tallying = gets != nil
	had := len(dst)
	var err error
	if s.files.faultable {
		dst, err = s.getGuarded(ro, &look, key, dst)
	} else {
		dst, err = s.getInto(ro, &look, key, dst)
	}
	size := len(dst) - had
	if look.Perf != nil {
		look.Perf.GetReadBytes += uint64(size)
	}
	if gets != nil {
		gets.End(t, foundLevel(look.Found), size, &look.Tally)
	}
	return dst, err
}

// getPinnedObserved is getPinned for those who count.
func (s *readState) getPinnedObserved(reader *reader, ro *ReadOptions, key []byte, p *PinnedValue) error {
	gets := reader.slot.gets
	var t statistics.Timing
	if gets != nil {
		t = gets.Start()
	}
	var look keys.Lookup
	look.Tallying = gets != nil
	err := s.getPinned(ro, &look, key, p)
	size := 0
	if err == nil {
		size = len(p.value)
	}
	if look.Perf != nil {
		look.Perf.GetReadBytes += uint64(size)
	}
	if gets != nil {
		gets.End(t, foundLevel(look.Found), size, &look.Tally)
	}
	s.keepFor(reader, p, err)
	return err
}

// foundLevel is how statistics name where a key was found.
func foundLevel(f keys.FoundIn) int {
	switch f {
	case keys.Nowhere:
		return statistics.Nowhere
	case keys.Memory:
		return statistics.Memory
	}
	return f.Level()
}

// getCounts is what a MultiGet found where.
type getCounts struct {
	memory uint64
	levels [3]uint64 // 0, 1, and deeper
}

func (c *getCounts) level(l, n int) { c.levels[min(l, 2)] += uint64(n) }

// observeMultiGet counts a MultiGet that Start began.
func (cf *ColumnFamily) observeMultiGet(stripe uint32, ro *ReadOptions, t statistics.Timing, c *getCounts, results []GetResult) {
	size := uint64(0)
	for i := range results {
		if results[i].Err == nil {
			size += uint64(len(results[i].Value))
		}
	}
	if p := ro.perf(); p != nil {
		p.MultiGetReadBytes += size
	}
	st := cf.db.stats
	if st == nil {
		return
	}
	st.End(stripe, statistics.DBMultiGet, t)
	st.Add(stripe, statistics.NumberMultiGetCalls, 1)
	st.Add(stripe, statistics.NumberMultiGetKeysRead, uint64(len(results)))
	st.Add(stripe, statistics.NumberMultiGetBytesRead, size)
	st.Add(stripe, statistics.NumberMultiGetKeysFound, c.memory+c.levels[0]+c.levels[1]+c.levels[2])
	st.Add(stripe, statistics.MemtableHit, c.memory)
	st.Add(stripe, statistics.MemtableMiss, uint64(len(results))-c.memory)
	st.Add(stripe, statistics.GetHitL0, c.levels[0])
	st.Add(stripe, statistics.GetHitL1, c.levels[1])
	st.Add(stripe, statistics.GetHitL2AndUp, c.levels[2])
	if t.Sampled() {
		st.Record(stripe, statistics.BytesPerMultiGet, size)
	}
}

// iterCounts is what an iterator did since it last told the statistics, for iterators
// that are observed.
type iterCounts struct {
	seeks, seeksFound, nexts, nextsFound, prevs, prevsFound, bytes uint64
	skips, reseeks                                                 uint64
}

// seekObserved is a positioning call of an observed iterator.
func (it *Iterator) seekObserved(f func(*iterator.User) bool) bool {
	in := it.in
	st, p := in.state.cf.db.stats, in.perf
	t, start := st.Start(in.reader.stripe(), statistics.DBSeek), p.Start()
	ok := it.move(f)
	st.End(in.reader.stripe(), statistics.DBSeek, t)
	if p != nil {
		p.Stop(&p.SeekInternalSeekTime, start)
		p.SeekChildSeekCount += uint64(len(in.sources))
	}
	in.counts.seeks++
	in.countSkips()
	if ok {
		in.counts.seeksFound++
		in.countBytes()
	}
	return ok
}

// stepObserved counts a step of an observed iterator.
func (it *Iterator) stepObserved(ok bool, steps, found *uint64) {
	*steps++
	it.in.countSkips()
	if ok {
		*found++
		it.in.countBytes()
	}
}

// countSkips counts what the last move passed over.
func (it *iteratorState) countSkips() {
	s := it.user.TakeStats()
	it.counts.skips += s.Skipped
	it.counts.reseeks += s.Reseeks
	if it.perf != nil {
		it.perf.InternalKeySkippedCount += s.Skipped
		it.perf.InternalDeleteSkippedCount += s.Deletes
	}
}

func (it *iteratorState) countBytes() {
	n := uint64(len(it.user.Key()) + len(it.user.Value()))
	if it.guarded {
		n = uint64(len(it.key) + len(it.value))
	}
	it.counts.bytes += n
	if it.perf != nil {
		it.perf.IterReadBytes += n
	}
}

// tell adds what was counted to the statistics.
func (it *iteratorState) tell() {
	c := &it.counts
	st, stripe := it.state.cf.db.stats, it.reader.stripe()
	st.Add(stripe, statistics.NumberDBSeek, c.seeks)
	st.Add(stripe, statistics.NumberDBSeekFound, c.seeksFound)
	st.Add(stripe, statistics.NumberDBNext, c.nexts)
	st.Add(stripe, statistics.NumberDBNextFound, c.nextsFound)
	st.Add(stripe, statistics.NumberDBPrev, c.prevs)
	st.Add(stripe, statistics.NumberDBPrevFound, c.prevsFound)
	st.Add(stripe, statistics.IterBytesRead, c.bytes)
	st.Add(stripe, statistics.NumberIterSkip, c.skips)
	st.Add(stripe, statistics.NumberOfReseeksInIteration, c.reseeks)
	*c = iterCounts{}
}

// observeGroup counts a group of writes that was committed.
func (db *DB) observeGroup(g *commitGroup, keysWritten uint32, size int64) {
	st := db.stats
	if st == nil {
		return
	}
	stripe := statistics.Stripe()
	st.Add(stripe, statistics.NumberKeysWritten, uint64(keysWritten))
	st.Add(stripe, statistics.BytesWritten, uint64(size))
	st.Add(stripe, statistics.WriteDoneBySelf, 1)
	st.Add(stripe, statistics.WriteDoneByOther, uint64(len(g.requests)-1))
	if !g.requests[0].noWAL {
		st.Add(stripe, statistics.WriteWithWAL, uint64(len(g.requests)))
	}
	st.Record(stripe, statistics.BytesPerWrite, uint64(size))
}

// attachCache lets the statistics read the block cache's counters.
func (db *DB) attachCache(c *blockcache.Cache) {
	db.cacheSource = db.stats.Attach(func(add func(statistics.Ticker, uint64)) {
		n := c.Counts()
		for t, names := range cacheTickers {
			add(statistics.BlockCacheHit, n.Hits[t])
			add(statistics.BlockCacheMiss, n.Misses[t])
			add(statistics.BlockCacheAdd, n.Adds[t])
			add(statistics.BlockCacheBytesWrite, n.AddBytes[t])
			if names.known {
				add(names.hit, n.Hits[t])
				add(names.miss, n.Misses[t])
				add(names.add, n.Adds[t])
				add(names.bytes, n.AddBytes[t])
			}
		}
		add(statistics.BlockCacheAddFailures, n.Failures)
	})
}

// cacheTickers are the tickers of each type of block.
var cacheTickers = [blockcache.NumBlockTypes]struct {
	known                 bool
	hit, miss, add, bytes statistics.Ticker
}{
	blockcache.Data: {true, statistics.BlockCacheDataHit, statistics.BlockCacheDataMiss,
		statistics.BlockCacheDataAdd, statistics.BlockCacheDataBytesInsert},
	blockcache.Index: {true, statistics.BlockCacheIndexHit, statistics.BlockCacheIndexMiss,
		statistics.BlockCacheIndexAdd, statistics.BlockCacheIndexBytesInsert},
	blockcache.Filter: {true, statistics.BlockCacheFilterHit, statistics.BlockCacheFilterMiss,
		statistics.BlockCacheFilterAdd, statistics.BlockCacheFilterBytesInsert},
}

// observeStall counts a time that writers were held or delayed.
func (db *DB) observeStall(cause stallCause, d time.Duration) {
	st, stripe, micros := db.stats, statistics.Stripe(), uint64(d.Microseconds())
	st.Add(stripe, statistics.StallMicros, micros)
	st.Record(stripe, statistics.WriteStall, micros)
	switch cause {
	case stallLevel0Slowdown:
		st.Add(stripe, statistics.StallL0SlowdownMicros, micros)
	case stallLevel0:
		st.Add(stripe, statistics.StallL0NumFilesMicros, micros)
	case stallMemtables:
		st.Add(stripe, statistics.StallMemtableCompactionMicros, micros)
	}
}

// openTableIn is openTableFile, counted.
func (cf *ColumnFamily) openTableIn(meta *manifest.FileMetadata, level int, opener table.Caller, memory mmapfs.Memory, placed *placement) (*tableHandle, error) {
	start := time.Now()
	h, err := cf.openTableFile(meta, level, opener, memory, placed)
	if st := cf.db.stats; st != nil {
		stripe := statistics.Stripe()
		st.Add(stripe, statistics.NoFileOpens, 1)
		st.Time(stripe, statistics.TableOpenIOMicros, start)
		if err != nil {
			st.Add(stripe, statistics.NoFileErrors, 1)
		}
	}
	return h, err
}
