package flatrock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// startBackground starts the goroutines that schedule flushes and compactions, and load files.
func (db *DB) startBackground() {
	db.workers.Add(3)
	go db.dispatchLoop()
	go db.ageLoop()
	go db.loadLoop()
	if db.infoLog != nil {
		db.workers.Add(1)
		go db.dumpStats()
	}
}

// loadLoop brings the files that Open left on the bare mapping into RAM by their
// family's policy, one after the other, and publishes each as it is ready.
func (db *DB) loadLoop() {
	defer db.workers.Done()
	defer db.placed.settle(db.log)()
	start, loaded := time.Now(), 0
	for {
		h := db.nextToLoad()
		if h == nil {
			break
		}
		if err := db.load(h); err != nil {
			db.log.Error("loading a table file into memory; it is read through the bare mapping", "family", h.cf.name, "file", h.meta.Number, "err", err)
		}
		loaded++
	}
	db.mu.Lock()
	db.loading = false
	db.work.Broadcast()
	db.mu.Unlock()
	if loaded > 0 {
		db.log.Info("loaded", "files", loaded, "took", time.Since(start))
	}
	db.verifyInBackground()
	db.startScrub()
}

// verifyInBackground checks the files of the families that ask for it.
func (db *DB) verifyInBackground() {
	families := slices.DeleteFunc(db.ColumnFamilies(), func(cf *ColumnFamily) bool {
		o, ok := cf.opts.Table.(PlainTableOptions)
		return !ok || o.Verify != VerifyInBackground
	})
	if err := verifyFamilies(db.lifetime, families); err != nil && db.lifetime.Err() == nil {
		db.fail("checking table files", err)
	}
}

// VerifyChecksum reads every table file of every family and checks its checksums.
// The first damage is returned; it names file and offset. Plain tables that
// RocksDB wrote have none. RocksDB: VerifyChecksum.
func (db *DB) VerifyChecksum(ctx context.Context) error {
	return verifyFamilies(ctx, db.ColumnFamilies())
}

// verifyFamilies checks the files of families; those that are dropped meanwhile have none.
func verifyFamilies(ctx context.Context, families []*ColumnFamily) error {
	for _, cf := range families {
		if err := cf.verify(ctx); err != nil && !errors.Is(err, ErrColumnFamilyDropped) {
			return err
		}
	}
	return nil
}

func (cf *ColumnFamily) verify(ctx context.Context) error {
	s, reader, err := cf.enter()
	if err != nil {
		return err
	}
	defer s.release(reader)
	for _, level := range s.files.levels {
		for _, r := range level {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.handle.reader().VerifyChecksums(ctx); err != nil {
				return fmt.Errorf("column family %q: %w", cf.name, err)
			}
		}
	}
	return nil
}

// nextToLoad takes one file that wants loading.
func (db *DB) nextToLoad() *tableHandle {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.stopping {
		return nil
	}
	for _, cf := range db.families {
		for _, h := range cf.tables {
			if h.wants != mmapfs.MemoryNone && h.refs > 0 {
				return h
			}
		}
	}
	return nil
}

// load brings the file of h into memory as it wants. Reads move over by
// themselves; a new read state then lets them go without the guard, if they can.
func (db *DB) load(h *tableHandle) error {
	cf := h.cf
	db.mu.Lock()
	memory := h.wants
	h.wants = mmapfs.MemoryNone
	h.refs++ // the file must not go away meanwhile
	db.mu.Unlock()
	// Pages that two mappings share do not move: those of the bare one go first.
	db.placed.gather(h.plain, db.log)
	err := db.placed.whileLoading(func() error { return h.plain.Load(memory, db.placed.tables) })
	if err == nil {
		db.placed.gather(h.plain, db.log)
	}

	db.mu.Lock()
	if err == nil && cf.tables[h.meta.Number] == h && !db.stopping && !cf.dropped.Load() { // else nothing is published any more
		var files *fileSet
		if files, err = cf.newFileSet(cf.files.version); err == nil {
			cf.files = files
			cf.publish(cf.active, cf.immutables, files)
		}
	}
	var dead *tableHandle
	if h.refs--; h.refs == 0 {
		if cf.tables[h.meta.Number] == h {
			delete(cf.tables, h.meta.Number)
		}
		dead = h
	}
	db.mu.Unlock()
	db.retirePublished()
	if dead != nil {
		db.closeTable(dead)
	}
	return err
}

// WaitLoaded waits until the files that Open left to load in the background are
// in memory as their family's policy says.
func (db *DB) WaitLoaded(ctx context.Context) error {
	return db.waitUntil(ctx, func() (bool, error) { return !db.loading, nil })
}

// Close waits for background work under way, flushes writes made with DisableWAL
// (unless AvoidFlushDuringShutdown), and releases everything. Iterators, snapshots and pinned values
// must be released before. Operations that begin later return ErrClosed. The first
// error of the write side, if there was one, is returned.
func (db *DB) Close() error {
	if !db.closed.CompareAndSwap(false, true) {
		return ErrClosed
	}
	db.liftPause()
	var errs []error
	if db.opts.ReadOnly {
		errs = append(errs, db.stopBackground())
	} else {
		// Writers that are in the queue see closed; those under way end first.
		db.exclusive(func() { errs = append(errs, db.stopBackground()) })
	}
	db.workers.Wait()
	errs = append(errs, db.releaseAll())
	if db.buffers != nil {
		db.buffers.remove(db)
	}
	db.notifier.drain()
	db.endInfoLog()
	return errors.Join(errs...)
}

// flushUnlogged writes memtables that hold what no log has. The commit leader
// calls it, at the end.
func (db *DB) flushUnlogged() error {
	var families []*ColumnFamily
	db.mu.Lock()
	for _, cf := range db.families {
		unlogged := cf.active.unlogged.Load()
		for _, m := range cf.immutables {
			unlogged = unlogged || m.unlogged.Load()
		}
		if unlogged && !cf.dropped.Load() {
			families = append(families, cf)
		}
	}
	db.mu.Unlock()
	for _, cf := range families {
		var id uint64
		if cf.active.empty() {
			id = cf.active.id - 1
		} else {
			id = cf.active.id
			if err := db.switchMemtables([]*ColumnFamily{cf}, 0); err != nil {
				return err
			}
		}
		db.mu.Lock()
		cf.flushBelow = max(cf.flushBelow, id)
		db.work.Broadcast()
		for {
			n := len(cf.immutables)
			if n == 0 || cf.immutables[n-1].id > id || db.background != nil {
				break
			}
			db.work.Wait()
		}
		err := db.background
		db.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// releaseAll closes files, logs and memory. Nothing else runs any more.
func (db *DB) releaseAll() error {
	var errs []error
	db.mu.Lock()
	families := db.families
	db.mu.Unlock()
	for _, cf := range families {
		db.retire(cf)
	}
	db.checkClosed()
	db.readers.stopCounting()
	if db.wal != nil {
		errs = append(errs, db.wal.w.Close())
	}
	if db.manifest != nil {
		errs = append(errs, db.manifest.Close())
	}
	errs = append(errs, db.closeBlobs())
	db.mu.Lock()
	errs = append(errs, db.background)
	db.mu.Unlock()
	if _, err := db.EndTrace(); err != nil {
		errs = append(errs, err)
	}
	db.cacheMu.Lock()
	if db.cache != nil {
		db.stats.Detach(db.cacheSource)
		db.checkCacheHandles()
		db.cache.Close()
	}
	db.cacheMu.Unlock()
	if db.lock != nil {
		errs = append(errs, db.lock.Close())
	}
	return errors.Join(errs...)
}

// retire publishes the state without memtable that tells readers that the family
// is closed, and lets the last one go.
func (db *DB) retire(cf *ColumnFamily) {
	db.mu.Lock()
	if old := cf.state.Swap(&readState{cf: cf}); old != nil {
		db.retiring = append(db.retiring, old)
	}
	db.mu.Unlock()
	db.retirePublished()
}
