package main

import (
	"context"
	"fmt"

	flatrock "github.com/flatrock-db/flatrock"
)

// checkpoint makes a copy of the database by hard links.
func (l *ldb) checkpoint() error {
	dir := l.text("checkpoint_dir")
	if dir == "" {
		return failedf("--checkpoint_dir: missing directory")
	}
	return l.withDB(false, func(db *flatrock.DB) error {
		if _, err := db.CreateCheckpoint(context.Background(), dir, nil); err != nil {
			return failedf("%w", err)
		}
		_, err := fmt.Fprintln(l.out, "OK")
		return err
	})
}

// ingest adds a table file to a column family.
func (l *ldb) ingest() error {
	if len(l.words) != 1 {
		return failedf("input SST path must be specified")
	}
	toggle := func(name string) flatrock.Toggle {
		switch {
		case !l.has(name):
			return flatrock.Default
		case l.flag(name):
			return flatrock.On
		}
		return flatrock.Off
	}
	o := &flatrock.IngestExternalFileOptions{
		MoveFiles: l.flag("move_files"), SnapshotConsistency: toggle("snapshot_consistency"), AllowGlobalSeqno: toggle("allow_global_seqno"),
		AllowBlockingFlush: toggle("allow_blocking_flush"), IngestBehind: l.flag("ingest_behind"), WriteGlobalSeqno: l.flag("write_global_seqno"),
	}
	return l.withFamily(false, func(cf *flatrock.ColumnFamily) error {
		if err := cf.IngestExternalFile(context.Background(), l.words, o); err != nil {
			return failedf("failed to ingest external SST file: %w", err)
		}
		_, err := fmt.Fprintf(l.out, "external SST files ingested\n")
		return err
	})
}

// backupEngine opens the directory that --backup_dir names.
func (l *ldb) backupEngine() (*flatrock.BackupEngine, error) {
	dir := l.text("backup_dir")
	if dir == "" {
		return nil, failedf("--backup_dir: missing backup directory")
	}
	e, err := flatrock.OpenBackupEngine(dir, nil)
	if err != nil {
		return nil, failedf("%w", err)
	}
	return e, nil
}

// backup adds a backup of the database.
func (l *ldb) backup() error {
	e, err := l.backupEngine()
	if err != nil {
		return err
	}
	return l.withDB(false, func(db *flatrock.DB) error {
		id, err := e.CreateNewBackup(context.Background(), db, nil)
		if err != nil {
			return failedf("%w", err)
		}
		_, err = fmt.Fprintf(l.out, "create new backup OK: backup %d\n", id)
		return err
	})
}

// restore makes the database what the newest backup holds.
func (l *ldb) restore() error {
	e, err := l.backupEngine()
	if err != nil {
		return err
	}
	if err := e.RestoreDBFromLatestBackup(context.Background(), l.dir, l.text("wal_dir")); err != nil {
		return failedf("%w", err)
	}
	_, err = fmt.Fprintln(l.out, "restore from backup OK")
	return err
}
