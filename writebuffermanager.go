package flatrock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/blockcache"
)

// WriteBufferManagerOptions configures a WriteBufferManager.
type WriteBufferManagerOptions struct {
	// BufferSize is how many bytes the memtables of all families and databases together may
	// hold. Zero only counts them.
	BufferSize int64
	// AllowStall holds writes while they hold more, until a flush has freed some.
	// RocksDB: allow_stall.
	AllowStall bool
	// CostToCache makes the block cache of each database smaller by what its memtables
	// hold, so that BlockCacheSize bounds both. RocksDB: a WriteBufferManager with a cache.
	CostToCache bool
}

// WriteBufferManager bounds what the memtables of several families hold, and of several databases if they
// share it: beyond seven eighths of BufferSize in active memtables, and when all memtables fill it and half of that is active, the
// oldest active memtable of the database that writes is flushed. RocksDB: WriteBufferManager.
type WriteBufferManager struct {
	size        atomic.Int64
	allowStall  atomic.Bool
	costToCache bool
	used        atomic.Int64 // bytes of all memtables
	active      atomic.Int64 // of those that take writes
	stalled     atomic.Int64 // leaders that wait

	mu  sync.Mutex
	dbs map[*DB]bool
}

// NewWriteBufferManager makes a manager for Options.WriteBufferManager.
func NewWriteBufferManager(o WriteBufferManagerOptions) *WriteBufferManager {
	m := &WriteBufferManager{costToCache: o.CostToCache, dbs: map[*DB]bool{}}
	m.size.Store(o.BufferSize)
	m.allowStall.Store(o.AllowStall)
	return m
}

// BufferSize is the bound.
func (m *WriteBufferManager) BufferSize() int64 { return m.size.Load() }

// SetBufferSize changes the bound.
func (m *WriteBufferManager) SetBufferSize(n int64) { m.size.Store(n); m.freed() }

// SetAllowStall changes whether writes are held.
func (m *WriteBufferManager) SetAllowStall(stall bool) { m.allowStall.Store(stall); m.freed() }

// MemoryUsage is what all memtables hold, in bytes.
func (m *WriteBufferManager) MemoryUsage() int64 { return m.used.Load() }

// MutableMemtableMemoryUsage is what those hold that take writes.
func (m *WriteBufferManager) MutableMemtableMemoryUsage() int64 { return m.active.Load() }

// ShouldFlush reports whether an active memtable should be flushed. RocksDB: ShouldFlush.
func (m *WriteBufferManager) ShouldFlush() bool {
	size := m.size.Load()
	if size <= 0 {
		return false
	}
	active := m.active.Load()
	return active > size/8*7 || m.used.Load() >= size && active >= size/2
}

// ShouldStall reports whether writes are to be held. RocksDB: ShouldStall.
func (m *WriteBufferManager) ShouldStall() bool {
	size := m.size.Load()
	return size > 0 && m.allowStall.Load() && m.used.Load() >= size
}

func (m *WriteBufferManager) add(db *DB) {
	m.mu.Lock()
	m.dbs[db] = true
	m.mu.Unlock()
}

func (m *WriteBufferManager) remove(db *DB) {
	m.mu.Lock()
	delete(m.dbs, db)
	m.mu.Unlock()
}

// databases lists those that share m.
func (m *WriteBufferManager) databases() []*DB {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*DB
	for db := range m.dbs {
		all = append(all, db)
	}
	return all
}

// freed lets leaders that are held look again. It may be called under any lock.
func (m *WriteBufferManager) freed() {
	if m.stalled.Load() == 0 {
		return
	}
	go func() {
		for _, db := range m.databases() {
			db.mu.Lock()
			db.work.Broadcast()
			db.mu.Unlock()
		}
	}()
}

// managed is what a memtable has told the manager.
type managed struct {
	reported int64
	charged  int64 // of it, to the block cache
	frozen   bool  // it takes no writes any more
}

// chargeUnit is how finely the block cache gives way to memtables.
const chargeUnit = 256 << 10

// report tells the manager how large the memtable has become. The commit leader calls it.
func (m *memState) report(db *DB) {
	w := db.buffers
	used := m.usedBytes()
	delta := used - m.managed.reported
	if delta == 0 {
		return
	}
	m.managed.reported = used
	w.used.Add(delta)
	if !m.managed.frozen {
		w.active.Add(delta)
	}
	if w.costToCache && db.cache != nil {
		if n := (used + chargeUnit - 1) / chargeUnit * chargeUnit; n != m.managed.charged {
			db.cache.AddCharge(blockcache.Memtables, n-m.managed.charged)
			m.managed.charged = n
		}
	}
}

// freeze tells the manager that the memtable takes no writes any more.
func (m *memState) freeze(db *DB) {
	if w := db.buffers; w != nil && !m.managed.frozen {
		m.managed.frozen = true
		w.active.Add(-m.managed.reported)
	}
}

// forget tells the manager that the memtable is gone.
func (m *memState) forget(db *DB) {
	w := db.buffers
	if w == nil {
		return
	}
	m.freeze(db)
	w.used.Add(-m.managed.reported)
	if m.managed.charged > 0 {
		db.cache.AddCharge(blockcache.Memtables, -m.managed.charged)
	}
	m.managed = managed{frozen: true}
	w.freed()
}

// reportGroup tells the manager what a group of writes added.
func (db *DB) reportGroup(g *commitGroup) {
	for _, r := range g.requests {
		for i := range r.batch.use {
			cf := r.batch.use[i].cf
			if cf == nil {
				cf = db.defaultCF
			}
			cf.active.report(db)
		}
	}
}

// obeyManager flushes and waits as the write buffer manager says. Only the commit
// leader calls it. With noSlowdown it fails instead of waiting.
func (db *DB) obeyManager(noSlowdown bool) error {
	if db.buffers.ShouldFlush() {
		if err := db.flushForManager(); err != nil {
			return err
		}
	}
	if !db.buffers.ShouldStall() {
		return nil
	}
	db.buffers.stalled.Add(1)
	defer db.buffers.stalled.Add(-1)
	// What nobody writes to any more would never be flushed.
	for _, other := range db.buffers.databases() {
		if other != db && other.nudged.CompareAndSwap(false, true) {
			go other.exclusive(func() {
				other.nudged.Store(false)
				if other.usable(other.defaultCF) == nil && other.buffers.ShouldStall() {
					_ = other.flushForManager() // an error stays there as the background error
				}
			})
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	defer db.queue.end()
	for db.buffers.ShouldStall() {
		if db.background != nil {
			return db.background
		}
		if db.stopping {
			return ErrClosed
		}
		// Without anything to flush here or under way nothing would come of waiting.
		if !db.flushableLocked() && len(db.buffers.databases()) == 1 {
			return nil
		}
		if noSlowdown {
			return errWriteStall
		}
		db.queue.begin()
		start := time.Now()
		db.work.Wait()
		db.addStallLocked(nil, stallManager, time.Since(start))
	}
	return nil
}

// flushableLocked reports whether some family has memtables to be flushed.
func (db *DB) flushableLocked() bool {
	for _, cf := range db.families {
		if len(cf.immutables) > 0 || len(db.retiring) > 0 {
			return true
		}
	}
	return false
}

// flushForManager makes the oldest active memtable immutable, of those families for which no flush is
// under way already. Only the commit leader calls it.
func (db *DB) flushForManager() error {
	var oldest *ColumnFamily
	db.mu.Lock()
	for _, cf := range db.families {
		if len(cf.immutables) == 0 && !cf.active.empty() && (oldest == nil || cf.active.created < oldest.active.created) {
			oldest = cf
		}
	}
	db.mu.Unlock()
	if oldest == nil {
		return nil
	}
	id := oldest.active.id
	if err := db.switchMemtables([]*ColumnFamily{oldest}, 0); err != nil {
		return err
	}
	db.mu.Lock()
	oldest.flushBelow = max(oldest.flushBelow, id)
	db.work.Broadcast()
	db.mu.Unlock()
	return nil
}

// joinManager tells the manager of the memtables that recovery left.
func (db *DB) joinManager() {
	if db.buffers == nil {
		return
	}
	for _, cf := range db.ColumnFamilies() {
		for _, m := range cf.immutables {
			m.freeze(db)
			m.report(db)
		}
		cf.active.report(db)
	}
	db.buffers.add(db)
}
