package flatrock

import (
	"fmt"
	"github.com/flatrock-db/flatrock/internal/killpoint"
)

// makeRoomIn is the slow path of makeRoom: it waits out stalls, then makes the
// family's memtable immutable if it is full or cannot take need bytes more. With
// noSlowdown it fails instead of waiting.
// Only the commit leader calls it.
func (db *DB) makeRoomIn(cf *ColumnFamily, need int64, noSlowdown bool) error {
	if limit := cf.maxMemtableBytes(); need > limit {
		return fmt.Errorf("%w: a batch that takes %d bytes of column family %q: one memtable holds at most %d", ErrInvalidArgument, need, cf.name, limit)
	}
	if err := db.waitOutStall(noSlowdown); err != nil {
		return err
	}
	if !cf.active.full(cf.mutable().WriteBufferSize) && db.roomBeside(cf, need) {
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

// switchMemtables makes the memtables of the families immutable, gives them new ones with
// room for need bytes, and begins a new log unless the current one is empty.
// Only the commit leader calls it.
func (db *DB) switchMemtables(families []*ColumnFamily, need int64) error {
	db.pipe.drain() // what was logged goes into the memtables that it was meant for
	if db.opts.AtomicFlush == On {
		families = db.withUnflushed(families)
	}
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
		cf.active.freeze(db)
		if !cf.active.empty() { // else the read state before was the last to have it
			cf.active.sealedAt = log.number
			db.sealed(cf, cf.active)
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
	db.updateStallLocked(families...)
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
	killpoint.Here("log closed")
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
