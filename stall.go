package flatrock

import (
	"time"

	"github.com/flatrock-db/flatrock/compaction"
)

// Write stalls, by RocksDB's rules. A family that falls behind delays all writes of
// the database, and in the end stops them: the commit leader waits, and so do those
// behind it. What a family deserves is computed whenever its memtables or files
// change, and published in two flags that the leader looks at.

// stallCause is why writes are held or delayed.
type stallCause int

const (
	stallNone              stallCause = iota
	stallMemtables                    // MaxWriteBufferNumber immutable memtables wait for their flush
	stallLevel0                       // level 0 has Level0StopWritesTrigger files
	stallPending                      // compactions are HardPendingCompactionBytesLimit behind
	stallManager                      // the write buffer manager is full
	stallMemtablesSlowdown            // all but one of four or more memtables wait for their flush
	stallLevel0Slowdown               // level 0 has Level0SlowdownWritesTrigger files
	stallPendingSlowdown              // compactions are SoftPendingCompactionBytesLimit behind
	stallCauses
)

func (c stallCause) String() string {
	return [...]string{"none", "memtables", "level0", "pending-bytes", "write-buffer-manager",
		"memtables-slowdown", "level0-slowdown", "pending-bytes-slowdown"}[c]
}

// stops reports whether writes are held, not only delayed.
func (c stallCause) stops() bool { return c > stallNone && c < stallMemtablesSlowdown }

// familyStall is how far a family is behind. Guarded by db.mu.
type familyStall struct {
	cause   stallCause
	pending uint64 // bytes that compactions must rewrite, as of the last look
	speedup bool   // not enough for a stall, but for several compactions at once
	counts  [stallCauses]int64
	times   [stallCauses]time.Duration
}

// updateStallLocked recomputes what families that changed deserve and the flags that
// send writers to the slow path, and wakes who waits for background work. Called
// after each change of what it depends on.
func (db *DB) updateStallLocked(changed ...*ColumnFamily) {
	for _, cf := range changed {
		db.assessLocked(cf)
	}
	stops, delays := db.stallsLocked()
	db.slowed.Store(delays != nil)
	db.stalled.Store(stops != nil || db.background != nil || db.stopping)
	db.work.Broadcast()
}

// stallsLocked finds a family that stops writes and one that delays them, if any.
func (db *DB) stallsLocked() (stops, delays *ColumnFamily) {
	for _, cf := range db.families {
		switch c := cf.stall.cause; {
		case c.stops() && stops == nil:
			stops = cf
		case c != stallNone && !c.stops() && delays == nil:
			delays = cf
		}
	}
	return stops, delays
}

// speedupLocked reports whether some family is so far behind that compactions may
// run side by side.
func (db *DB) speedupLocked() bool {
	for _, cf := range db.families {
		if cf.stall.cause != stallNone || cf.stall.speedup {
			return true
		}
	}
	return false
}

// assessLocked recomputes what cf deserves, and adapts the rate of delayed writes.
func (db *DB) assessLocked(cf *ColumnFamily) {
	s, o := &cf.stall, cf.mutable()
	stops, delays := db.stallsLocked()
	before, pendingBefore := s.cause, s.pending
	po := cf.compactionOptions()
	v := cf.files.version
	s.pending = compaction.PendingBytes(v, po, compaction.Shape(v, po))
	level0 := compaction.DelayRuns(v, po)
	s.cause = stallOf(o, len(cf.immutables), level0, s.pending)
	s.counts[s.cause]++
	s.speedup = level0 >= speedupFiles(o) ||
		o.SoftPendingCompactionBytesLimit > 0 && s.pending >= uint64(o.SoftPendingCompactionBytesLimit)/4
	switch {
	case s.cause == stallNone:
		if delays != nil {
			// What LowPri writes may have stays: they wait as long as compactions are behind at all.
			db.lowPri.SetBytesPerSec(db.delays.rate / 4)
			db.delays.reward()
		}
	case !s.cause.stops():
		if o.DisableAutoCompactions {
			db.delays.restart()
			break
		}
		near := stops != nil
		switch s.cause {
		case stallLevel0Slowdown:
			near = near || level0 >= o.Level0StopWritesTrigger-2
		case stallPendingSlowdown:
			soft, hard := uint64(o.SoftPendingCompactionBytesLimit), uint64(o.HardPendingCompactionBytesLimit)
			near = near || hard > soft && s.pending-soft > 3*(hard-soft)/4
		}
		if delays == nil && stops == nil {
			db.delays.begin()
		} else if delays != nil {
			db.delays.adapt(near, pendingBefore, s.pending)
		}
	}
	if s.cause != before {
		db.stallChanged(cf, before, s.cause)
		db.log.Info("write stall condition", "family", cf.name, "before", before.String(), "now", s.cause.String(),
			"immutable", len(cf.immutables), "level0", level0, "pending_bytes", s.pending)
	}
}

// stallOf is RocksDB's rule: what so many immutable memtables, files in level 0 and
// pending bytes deserve.
func stallOf(o *ColumnFamilyOptions, immutables, level0 int, pending uint64) stallCause {
	compacts := !o.DisableAutoCompactions
	over := func(limit int64) bool { return limit > 0 && pending >= uint64(limit) }
	switch {
	case immutables >= o.MaxWriteBufferNumber:
		return stallMemtables
	case compacts && level0 >= o.Level0StopWritesTrigger:
		return stallLevel0
	case compacts && over(o.HardPendingCompactionBytesLimit):
		return stallPending
	case o.MaxWriteBufferNumber > 3 && immutables >= o.MaxWriteBufferNumber-1 && immutables > o.MinWriteBufferNumberToMerge:
		return stallMemtablesSlowdown
	case compacts && level0 >= o.Level0SlowdownWritesTrigger:
		return stallLevel0Slowdown
	case compacts && over(o.SoftPendingCompactionBytesLimit):
		return stallPendingSlowdown
	}
	return stallNone
}

// speedupFiles is how many files in level 0 let compactions run side by side.
func speedupFiles(o *ColumnFamilyOptions) int {
	trigger := o.Level0FileNumCompactionTrigger
	return min(2*trigger, trigger+(o.Level0SlowdownWritesTrigger-trigger)/4)
}

// waitOutStall holds the leader, and so all writers, while some family stops writes.
// With noSlowdown it fails instead.
func (db *DB) waitOutStall(noSlowdown bool) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	defer db.queue.end()
	for {
		if db.background != nil {
			return db.background
		}
		if db.stopping {
			return ErrClosed
		}
		cf, _ := db.stallsLocked()
		if cf == nil {
			return nil
		}
		if noSlowdown {
			return errWriteStall
		}
		db.queue.begin()
		start, cause := time.Now(), cf.stall.cause
		db.work.Wait()
		db.addStallLocked(cf, cause, time.Since(start))
	}
}

// addStallLocked counts a stall, of a family unless it is everybody's.
func (db *DB) addStallLocked(cf *ColumnFamily, cause stallCause, d time.Duration) {
	db.metrics.addStall(cause, d)
	if cf != nil {
		cf.stall.times[cause] += d
	}
	db.observeStall(cause, d)
}

// delay makes a group of so many bytes wait its turn while writes are delayed. It
// ends early when they no longer are. With noSlowdown it fails instead of waiting. Only
// the commit leader calls it.
func (db *DB) delay(bytes int64, noSlowdown bool) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	_, cf := db.stallsLocked()
	if cf == nil {
		return nil
	}
	start := time.Now()
	after := db.delays
	wait := after.take(start, bytes)
	if wait > 0 && noSlowdown {
		return errWriteStall // and takes nothing from those who wait
	}
	if db.delays = after; wait <= 0 {
		return nil
	}
	db.queue.begin()
	defer db.queue.end()
	over := false
	timer := time.AfterFunc(wait, func() {
		db.mu.Lock()
		over = true
		db.work.Broadcast()
		db.mu.Unlock()
	})
	defer timer.Stop()
	cause := cf.stall.cause
	for !over && !db.stopping && db.background == nil {
		db.work.Wait()
		if _, still := db.stallsLocked(); still == nil {
			break
		}
	}
	db.addStallLocked(cf, cause, time.Since(start))
	return nil
}

// delayedWrites is how fast writes go while they are delayed: RocksDB's write
// controller. The rate starts at Options.DelayedWriteRate, falls while compactions lose
// ground, rises while they gain it, and is remembered for the next time. Guarded by db.mu.
type delayedWrites struct {
	max, rate int64 // bytes a second
	credit    int64 // bytes that may be written now
	refill    time.Time
}

// What the rate is multiplied with, and its floor.
const (
	delayFaster     = 1.25 // compactions gained ground
	delaySlower     = 0.8  // they lost some
	delayNearStop   = 0.6  // writes are, or are about to be, stopped
	delayRecovered  = 1.4  // no delay is needed any more
	minDelayedRate  = 16 << 10
	delayRefillTime = time.Millisecond
)

// setMax changes the rate that the user gave, and begins again with it.
func (d *delayedWrites) setMax(max int64) {
	if max != d.max {
		d.max, d.rate = max, max
	}
}

// begin starts a time of delays, at the rate that the last one ended with.
func (d *delayedWrites) begin() { d.credit, d.refill = 0, time.Time{} }

// restart sets the rate back to what the user gave.
func (d *delayedWrites) restart() { d.rate = d.max }

func (d *delayedWrites) reward() { d.rate = d.clamp(delayRecovered) }

// adapt changes the rate by what became of the bytes that compactions are behind.
func (d *delayedWrites) adapt(nearStop bool, before, now uint64) {
	if d.max <= minDelayedRate {
		return // so slow by the user's will
	}
	switch {
	case nearStop:
		d.rate = d.clamp(delayNearStop)
	case before > 0 && before <= now:
		d.rate = d.clamp(delaySlower)
	case before > now:
		d.rate = d.clamp(delayFaster)
	}
}

func (d *delayedWrites) clamp(factor float64) int64 {
	return min(d.max, max(int64(float64(d.rate)*factor), min(minDelayedRate, d.max), 1))
}

// take charges bytes, and says how long to wait for them.
func (d *delayedWrites) take(now time.Time, bytes int64) time.Duration {
	if d.credit >= bytes {
		d.credit -= bytes
		return 0
	}
	if d.refill.IsZero() {
		d.refill = now
	}
	if !d.refill.After(now) {
		elapsed := now.Sub(d.refill) + delayRefillTime
		d.credit += int64(elapsed.Seconds()*float64(d.rate)) + 1
		d.refill = now.Add(delayRefillTime)
		if d.credit >= bytes {
			d.credit -= bytes
			return 0
		}
	}
	over := bytes - d.credit
	d.credit = 0
	d.refill = d.refill.Add(time.Duration(float64(over) / float64(d.rate) * float64(time.Second)))
	return max(d.refill.Sub(now), delayRefillTime)
}
