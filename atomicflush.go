package flatrock

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// Atomic flush (Options.AtomicFlush): memtables of all families become immutable
// together, between two groups of writes, and the files that they become count
// together. So the families hold the same prefix of the writes after a crash, also of
// those that no log has.

// familyFlush is what an atomic flush takes of a family.
type familyFlush struct {
	cf     *ColumnFamily
	mems   []*memState // newest first, all that are immutable
	pinned *readState
	by     *reader
}

// withUnflushed adds to families all others that hold anything in their active memtable.
func (db *DB) withUnflushed(families []*ColumnFamily) []*ColumnFamily {
	given := map[*ColumnFamily]bool{}
	all := append([]*ColumnFamily(nil), families...)
	for _, cf := range families {
		given[cf] = true
	}
	for _, cf := range db.ColumnFamilies() {
		if !given[cf] && !cf.active.empty() {
			all = append(all, cf)
		}
	}
	return all
}

// atomicFlushJobLocked takes the immutable memtables of all families, which are
// those up to one moment, and returns what flushes them; nil if there are none, or
// a flush runs.
func (db *DB) atomicFlushJobLocked() func() {
	var parts []familyFlush
	for _, cf := range db.families {
		if cf.flushing {
			return nil
		}
		if len(cf.immutables) > 0 && !cf.dropped.Load() {
			parts = append(parts, familyFlush{cf: cf, mems: cf.immutables})
		}
	}
	if len(parts) == 0 {
		return nil
	}
	db.sched.flushes++
	for i := range parts {
		p := &parts[i]
		p.cf.flushing = true
		p.pinned, p.by = p.cf.acquire()
	}
	return func() {
		err := db.flushTogether(parts)
		for _, p := range parts {
			p.pinned.release(p.by)
		}
		db.mu.Lock()
		defer db.mu.Unlock()
		for _, p := range parts {
			p.cf.flushing = false
		}
		db.sched.flushes--
		if err != nil {
			db.failLocked("flush", err)
		}
		db.updateStallLocked()
	}
}

// flushTogether writes the memtables to level 0 and installs all of it as one.
func (db *DB) flushTogether(parts []familyFlush) error {
	start := time.Now()
	var changes []familyChange
	var files []*manifest.FileMetadata
	for _, p := range parts {
		edit := &manifest.VersionEdit{ColumnFamily: p.cf.id}
		for _, mems := range p.cf.flushable(p.mems) {
			made, err := db.writeLevel0(p.cf, mems)
			if err != nil {
				return errors.Join(err, db.removeTables(files))
			}
			for _, m := range made {
				edit.NewFiles = append(edit.NewFiles, manifest.NewFile{Level: 0, Meta: m})
				files = append(files, m)
			}
		}
		changes = append(changes, familyChange{cf: p.cf, edit: edit, flushed: p.mems})
	}
	if err := db.installAll(changes, 0); err != nil {
		return err
	}
	for _, m := range files {
		db.metrics.flushed.Add(int64(m.Size))
	}
	db.metrics.flushes.Add(int64(len(parts)))
	db.log.Info("atomic flush", "families", len(parts), "files", len(files), "took", time.Since(start))
	return nil
}

// flushable cuts memtables, newest first, into what fits a file each, oldest first.
func (cf *ColumnFamily) flushable(mems []*memState) (groups [][]*memState) {
	for end := len(mems); end > 0; {
		begin, size := end-1, mems[end-1].usedBytes()
		for begin > 0 && size+mems[begin-1].usedBytes() <= cf.maxMemtableBytes() {
			begin--
			size += mems[begin].usedBytes()
		}
		groups = append(groups, mems[begin:end])
		end = begin
	}
	return groups
}

// removeTables deletes files that no MANIFEST names.
func (db *DB) removeTables(files []*manifest.FileMetadata) error {
	var errs []error
	for _, m := range files {
		if err := db.fs.Remove(manifest.TableName(db.dir, m.Number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// FlushFamilies writes the memtables of several families to level 0 and waits for it: with
// Options.AtomicFlush as one, so that all of it counts after a crash or none. RocksDB: Flush.
func (db *DB) FlushFamilies(ctx context.Context, fo *FlushOptions, families ...*ColumnFamily) error {
	var errs []error
	for _, cf := range families {
		errs = append(errs, cf.Flush(ctx, fo))
	}
	return errors.Join(errs...)
}
