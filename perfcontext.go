package flatrock

import (
	"time"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/perf"
	"github.com/flatrock-db/flatrock/internal/spin"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/statistics"
)

// PerfContext is what single operations did and where their time went, under RocksDB's
// names. Hand one in with ReadOptions or WriteOptions, and look at it afterwards. Its
// IOStats are RocksDB's iostats context. RocksDB: PerfContext, which belongs to a thread.
type PerfContext = perf.Context

// IOStats is the part of a PerfContext that is about the file system.
type IOStats = perf.IOStats

// PerfLevel says what a PerfContext measures.
type PerfLevel = perf.Level

// The levels, by RocksDB's numbers. Times of mutexes and of the CPU are not measured in a context.
const (
	PerfDisable                            = perf.Disable
	PerfEnableCount                        = perf.EnableCount
	PerfEnableTimeExceptForMutex           = perf.EnableTimeExceptForMutex
	PerfEnableTimeAndCPUTimeExceptForMutex = perf.EnableTimeAndCPUTimeExceptForMutex
	PerfEnableTime                         = perf.EnableTime
)

// measured reports whether the caller wants to know what the read does.
func (ro *ReadOptions) measured() bool { return ro != nil && ro.Perf != nil }

// perf is the context to count into, nil for none.
func (ro *ReadOptions) perf() *perf.Context {
	if ro != nil && ro.Perf.Counts() {
		return ro.Perf
	}
	return nil
}

// perf is the context to count into, nil for none.
func (wo *WriteOptions) perf() *perf.Context {
	if wo != nil && wo.Perf.Counts() {
		return wo.Perf
	}
	return nil
}

// await waits until the request is done or is to lead.
func (r *request) await(soon *spin.Waiter) {
	start := r.perf.Start()
	if soon == nil || !soon.Until(func() bool { return r.state.Load() == requestWoken }) {
		if r.state.CompareAndSwap(requestIdle, requestAsleep) {
			<-r.wake
		}
	}
	r.state.Store(requestIdle)
	if r.perf != nil {
		r.perf.Stop(&r.perf.WriteThreadWaitNanos, start)
	}
}

// observeSync counts a sync of the log.
func (db *DB) observeSync(p *perf.Context, start time.Time) {
	db.metrics.walSyncs.Add(1)
	if db.stats != nil {
		stripe := statistics.Stripe()
		db.stats.Add(stripe, statistics.WALFileSynced, 1)
		db.stats.Time(stripe, statistics.WALFileSyncMicros, start)
	}
	if p.Times() {
		p.Stop(&p.IOStats.FsyncNanos, start)
	}
}

// findMeasured is the search of find, with its steps counted and timed.
func (s *readState) findMeasured(look *keys.Lookup, pin *table.Pin) (value []byte, trailer uint64, ok bool, err error) {
	p := look.Perf
	start := p.Start()
	p.GetFromMemtableCount++
	value, trailer, ok, err = s.active.get(look)
	for i := 0; !ok && err == nil && i < len(s.immutables); i++ {
		p.GetFromMemtableCount++
		value, trailer, ok, err = s.immutables[i].get(look)
	}
	p.Stop(&p.GetFromMemtableTime, start)
	if look.Found = keys.Memory; ok || err != nil {
		return value, trailer, ok, err
	}
	start = p.Start()
	value, trailer, ok, err = s.files.get(look, pin)
	p.Stop(&p.GetFromOutputFilesTime, start)
	return value, trailer, ok, err
}
