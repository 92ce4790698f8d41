package flatrock

import (
	"fmt"
	"time"
)

// makeRoomIn is the slow path of makeRoom: it waits out stalls, then makes the
// family's memtable immutable if it is full or cannot take need bytes more.
// Only the commit leader calls it.
func (db *DB) makeRoomIn(cf *ColumnFamily, need int64) error {
	if limit := cf.maxMemtableBytes(); need > limit {
		return fmt.Errorf("%w: a batch that takes %d bytes of column family %q: one memtable holds at most %d", ErrInvalidArgument, need, cf.name, limit)
	}
	if err := db.waitOutStall(); err != nil {
		return err
	}
	if !cf.active.full(cf.mutable().WriteBufferSize) && cf.active.mem.HasRoom(need) {
		return nil
	}
	return db.switchMemtables([]*ColumnFamily{cf}, need)
}

// maxMemtableBytes bounds a memtable, and with it the file that a flush makes.
func (cf *ColumnFamily) maxMemtableBytes() int64 {
	if limit := cf.maxOutputSize(); limit < maxWriteBufferSize {
		return limit
	}
	return maxWriteBufferSize
}

// waitOutStall holds the leader, and so all writers, while a family has too many
// immutable memtables or too many files in level 0.
func (db *DB) waitOutStall() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	for {
		if db.background != nil {
			return db.background
		}
		if db.stopping {
			return ErrClosed
		}
		family, cause := db.stallLocked()
		if cause == stallNone || cause == stallSlowdown {
			return nil
		}
		start := time.Now()
		db.log.Info("write stall", "family", family, "cause", cause.String())
		db.work.Wait()
		db.metrics.addStall(cause, time.Since(start))
	}
}

// stallCause is why writes are held.
type stallCause int

const (
	stallNone      stallCause = iota
	stallMemtables            // MaxWriteBufferNumber immutable memtables wait for their flush
	stallLevel0               // level 0 has Level0StopWritesTrigger files
	stallSlowdown             // level 0 has Level0SlowdownWritesTrigger files: writes are delayed, not held
	stallCauses
)

func (c stallCause) String() string {
	return [...]string{"none", "memtables", "level0", "level0-slowdown"}[c]
}

func (db *DB) stallLocked() (family string, cause stallCause) {
	for _, cf := range db.families {
		switch {
		case len(cf.immutables) >= cf.mutable().MaxWriteBufferNumber:
			return cf.name, stallMemtables
		case !cf.mutable().DisableAutoCompactions && len(cf.files.version.Levels[0]) >= cf.mutable().Level0StopWritesTrigger:
			return cf.name, stallLevel0
		}
	}
	for _, cf := range db.families {
		if !cf.mutable().DisableAutoCompactions && len(cf.files.version.Levels[0]) >= cf.mutable().Level0SlowdownWritesTrigger {
			return cf.name, stallSlowdown
		}
	}
	return "", stallNone
}

// delay makes a group of so many bytes wait its turn while writes are slowed
// down. What it did not wait, because a wait would be too short to be worth it,
// the groups after it do. Only the commit leader calls it.
func (db *DB) delay(bytes int64) {
	now := time.Now()
	if db.delayedUntil.Before(now) {
		db.delayedUntil = now
	}
	db.delayedUntil = db.delayedUntil.Add(time.Duration(bytes) * time.Second / time.Duration(db.mutable().DelayedWriteRate))
	if wait := db.delayedUntil.Sub(now); wait >= time.Millisecond {
		time.Sleep(wait)
		db.metrics.addStall(stallSlowdown, wait)
	}
}

// updateStallLocked recomputes the flag that sends writers to the slow path, and
// wakes who waits for background work. Called after each change of what it depends on.
func (db *DB) updateStallLocked() {
	_, cause := db.stallLocked()
	db.slowed.Store(cause == stallSlowdown)
	db.stalled.Store(cause == stallMemtables || cause == stallLevel0 || db.background != nil || db.stopping)
	db.work.Broadcast()
}

// switchMemtables makes the memtables of the families immutable, gives them new ones with
// room for need bytes, and begins a new log unless the current one is empty.
// Only the commit leader calls it.
func (db *DB) switchMemtables(families []*ColumnFamily, need int64) error {
	log, prev := db.wal, db.wal
	if log.records {
		next, err := db.nextLog()
		if err != nil {
			return db.fail("beginning a log", err)
		}
		log = next
	}
	fresh := make([]*memState, len(families))
	for i, cf := range families {
		m, err := cf.newMemState(log.number, need)
		if err != nil {
			// Out of memory, most likely. Nothing was changed that writes depend on,
			// but the new log exists; treat it like any failure to log.
			return db.fail("memtable", err)
		}
		fresh[i] = m
	}
	db.mu.Lock()
	if log != prev {
		db.logs = append(db.logs[:len(db.logs):len(db.logs)], log)
		db.wal = log
		db.closedLogBytes.Add(prev.end)
	}
	for i, cf := range families {
		if !cf.active.empty() { // else the read state before was the last to have it
			cf.immutables = append([]*memState{cf.active}, cf.immutables...)
		}
		cf.active = fresh[i]
		cf.publish(cf.active, cf.immutables, cf.files)
	}
	for _, cf := range db.families {
		if cf.active.empty() {
			cf.active.logNumber = log.number
		}
	}
	db.updateStallLocked()
	db.mu.Unlock()
	db.retirePublished()
	return nil
}

// nextLog closes the current log and begins the next.
func (db *DB) nextLog() (*logFile, error) {
	number := db.manifest.NewFileNumber()
	if err := db.wal.w.Close(); err != nil {
		return nil, fmt.Errorf("closing log %d: %w", db.wal.number, err)
	}
	size := db.wal.w.Size()
	db.mu.Lock()
	db.wal.end = size
	db.mu.Unlock()
	return db.createLog(number, db.lastSeq+1, db.wal)
}

// limitLogs makes the memtables immutable that keep the oldest log alive when the
// live logs are larger than MaxTotalWALSize. Only the commit leader calls it.
func (db *DB) limitLogs() error {
	if db.closedLogBytes.Load()+db.wal.w.Size() <= db.logLimit.Load() {
		return nil
	}
	var holders []*ColumnFamily
	db.mu.Lock()
	oldest := db.logs[0].number
	for _, cf := range db.families {
		if len(cf.immutables) == 0 && !cf.active.empty() && cf.active.logNumber <= oldest {
			holders = append(holders, cf)
		}
	}
	db.mu.Unlock()
	if len(holders) == 0 {
		return nil
	}
	return db.switchMemtables(holders, 0)
}
