package stress

import (
	"context"
	"errors"
	"fmt"

	"github.com/flatrock-db/flatrock"
)

// moment is a bound for a view that is taken while do runs: it holds what had returned before, and
// nothing that began after.
func (w *worker) moment(do func() error) (bounds, error) {
	b := bounds{must: w.h.clock.Load(), live: true}
	b.mustSync = b.must
	err := do()
	b.may = w.h.clock.Load()
	return b, err
}

// copied weakens the bounds of a moment to those of a copy that has the logs: they may hold
// a batch that failed.
func (w *worker) copied(b bounds) bounds {
	b.live, b.perFamily = w.tolerate == nil, w.opts.promise().perFamily()
	return b
}

// compare opens a copy of the database, with its logs in a directory, and compares all of it.
func (w *worker) compare(dir, logs string, b bounds) error {
	opts := w.opts.db
	opts.CreateIfMissing, opts.CreateMissingColumnFamilies = false, false
	opts.ReadOnly = w.rng.IntN(2) == 0
	opts.WALDir, opts.Listeners = logs, nil
	redrawLevels(w.rng, opts.FS, dir, &opts) // a backup may be from when there were more
	copyOf := &round{session: &session{cfg: w.cfg, dir: dir, specs: w.specs, h: w.h, stats: w.stats}, opts: roundOptions{db: opts}}
	err := copyOf.openDB()
	if err == nil {
		err = errors.Join(w.compareAll(copyOf, b), copyOf.db.Close())
	}
	if err != nil {
		return fmt.Errorf("%s (read-only %v, promise %d): %w", dir, opts.ReadOnly, w.opts.promise(), err)
	}
	return nil
}

func (w *worker) compareAll(r *round, b bounds) error {
	v := snapshotView{r.families, nil}
	c, err := w.h.readCut(v, b)
	if err == nil {
		err = c.checkAll(v, w.specs)
	}
	return err
}

// checkpoint makes a checkpoint, opens it, and compares it: a moment between the call
// and its return.
func (w *worker) checkpoint(ctx context.Context) error {
	dir := fmt.Sprintf("%s-checkpoint%d", w.dir, w.id)
	fsys := w.opts.db.FS
	if err := fsys.RemoveAll(dir); err != nil {
		return err
	}
	o := &flatrock.CheckpointOptions{}
	if !w.opts.noWAL && w.rng.IntN(2) == 0 {
		o.LogSizeForFlush = flatrock.NeverFlush
	}
	b, err := w.moment(func() error {
		_, err := w.db.CreateCheckpoint(ctx, dir, o)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.compare(dir, dir, w.copied(b)); err != nil {
		return fmt.Errorf("checkpoint (%+v): %w", *o, err)
	}
	return fsys.RemoveAll(dir)
}

// madeBackup is a backup of this generation, of which it is known what it holds.
type madeBackup struct {
	id uint32
	b  bounds
}

// maxBackups is how many a worker keeps.
const maxBackups = 3

// backup makes a backup, verifies all that there are, those of earlier rounds included,
// and restores and compares one of this round.
func (w *worker) backup(ctx context.Context) error {
	dir, fsys := fmt.Sprintf("%s-backups%d", w.dir, w.id), w.opts.db.FS
	e, err := flatrock.OpenBackupEngine(dir, fsys)
	if err != nil {
		return err
	}
	for _, i := range e.GetBackupInfo() {
		if err := e.VerifyBackup(ctx, i.BackupID); err != nil {
			return fmt.Errorf("backup %d in %s: %w", i.BackupID, dir, err)
		}
	}
	if w.rng.IntN(3) == 0 {
		if err := e.GarbageCollect(); err != nil {
			return err
		}
	}
	o := &flatrock.CreateBackupOptions{FlushBeforeBackup: w.opts.noWAL || w.rng.IntN(2) == 0}
	var id uint32
	b, err := w.moment(func() error {
		id, err = e.CreateNewBackup(ctx, w.db, o)
		return err
	})
	if err != nil {
		return err
	}
	w.backups = append(w.backups, madeBackup{id, w.copied(b)})
	if err := e.PurgeOldBackups(maxBackups); err != nil {
		return err
	}
	w.backups = w.backups[max(0, len(w.backups)-maxBackups):]
	chosen := w.backups[w.rng.IntN(len(w.backups))]
	if err := e.VerifyBackup(ctx, chosen.id); err != nil {
		return fmt.Errorf("backup %d in %s: %w", chosen.id, dir, err)
	}
	restored := fmt.Sprintf("%s-restored%d", w.dir, w.id)
	if err := removeDB(fsys, restored); err != nil {
		return err
	}
	logs := pick(w.rng, restored, restored+logsSuffix)
	if err := e.RestoreDBFromBackup(ctx, chosen.id, restored, logs); err != nil {
		return fmt.Errorf("backup %d in %s: restoring: %w", chosen.id, dir, err)
	}
	if err := w.compare(restored, logs, chosen.b); err != nil {
		return fmt.Errorf("backup %d (%+v, not the last %v): %w", chosen.id, *o, chosen.id != id, err)
	}
	return removeDB(fsys, restored)
}

// catchUp lets a secondary catch up, or opens one, and compares some of it.
func (w *worker) catchUp() error {
	open := func() error {
		opts := w.opts.db
		opts.CreateIfMissing, opts.CreateMissingColumnFamilies = false, false
		opts.WriteBufferManager, opts.FileChecksumGenFactory, opts.Listeners = nil, nil, nil
		db, err := flatrock.OpenAsSecondary(w.dir, &opts)
		if err != nil {
			return err
		}
		w.secondary = &round{session: w.session, db: db}
		for i := range w.specs {
			w.secondary.families = append(w.secondary.families, db.ColumnFamily(w.specs[i].name))
		}
		return nil
	}
	if w.secondary != nil && w.rng.IntN(10) == 0 {
		err := w.secondary.db.Close()
		w.secondary = nil
		return err
	}
	how := "TryCatchUpWithPrimary"
	b, err := w.moment(func() error {
		if w.secondary == nil {
			how = "OpenAsSecondary"
			return open()
		}
		return w.secondary.db.TryCatchUpWithPrimary()
	})
	if errors.Is(err, flatrock.ErrSecondaryStale) { // a fault hit the primary's MANIFEST
		err := w.secondary.db.Close()
		w.secondary = nil
		return err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	b = w.copied(b)
	b.began = b.must
	if w.opts.promise()&(unlogged|heldBack) != 0 {
		b.must, b.kill = 0, true // what is durable, or at least given to the system
	}
	v := snapshotView{w.secondary.families, nil}
	c, err := w.h.readCut(v, b)
	if err == nil {
		err = c.checkSome(v, w.specs, w.rng)
	}
	if err != nil {
		return fmt.Errorf("after %s (promise %d): %w", how, w.opts.promise(), err)
	}
	return nil
}

// exportImport exports a family and imports it as another one: a moment of the family between
// the call of the export and its return.
func (w *worker) exportImport(ctx context.Context, family int) error {
	name := fmt.Sprintf("%s%d-imported", transientPrefix, w.id)
	if old := w.db.ColumnFamily(name); old != nil { // a fault came in between
		return w.db.DropColumnFamily(old)
	}
	dir, fsys := fmt.Sprintf("%s-export%d", w.dir, w.id), w.opts.db.FS
	if err := fsys.RemoveAll(dir); err != nil {
		return err
	}
	var m *flatrock.ExportImportFilesMetaData
	b, err := w.moment(func() (err error) {
		m, err = w.db.ExportColumnFamily(ctx, w.families[family], dir)
		return err
	})
	if err != nil {
		return fmt.Errorf("ExportColumnFamily: %w", err)
	}
	b.only = family + 1
	o := importOptions(w.cfg.drawFamilyRound(w.rng, &w.specs[family], w.harness), w.families[family])
	cf, err := w.db.CreateColumnFamilyWithImport(ctx, name, o, &flatrock.ImportColumnFamilyOptions{MoveFiles: w.rng.IntN(2) == 0}, m)
	if err != nil {
		return fmt.Errorf("CreateColumnFamilyWithImport: %w", err)
	}
	families := make([]*flatrock.ColumnFamily, len(w.specs))
	families[family] = cf
	v := snapshotView{families, nil}
	c, err := w.h.readCut(v, b)
	for i := range 2 {
		if err == nil {
			err = c.walk(v, family, w.specs[family].reverse, 0, w.cfg.Keys, i == 1)
		}
	}
	if err != nil {
		return fmt.Errorf("family %d exported and imported: %w", family, err)
	}
	return errors.Join(w.db.DropColumnFamily(cf), fsys.RemoveAll(dir))
}
