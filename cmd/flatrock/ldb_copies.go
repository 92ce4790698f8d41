package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	flatrock "github.com/flatrock-db/flatrock"
)

// checkpoint makes a copy of the database by hard links.
func (l *ldb) checkpoint() error {
	dir := l.text("checkpoint_dir")
	if dir == "" {
		return failedf("--checkpoint_dir: missing directory")
	}
	return l.withDB(false, func(db *flatrock.DB) error {
		end := l.amount(false, "making the checkpoint", func() int64 { return treeBytes(dir) }, 0)
		_, err := db.CreateCheckpoint(l.ctx, dir, nil)
		if end(); err != nil {
			return failedf("%w", err)
		}
		return l.ok()
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
		if err := cf.IngestExternalFile(l.ctx, l.words, o); err != nil {
			return failedf("failed to ingest external SST file: %w", err)
		}
		return l.succeeded("external SST files ingested")
	})
}

// logLevels are RocksDB's InfoLogLevel: debug, info, warn, error, fatal and header.
var logLevels = []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, slog.LevelError + 4, slog.LevelInfo}

// backupOptions checks what backup and restore have in common: where the backups are; on how many threads RocksDB
// would copy, where one file follows the other here; and what is told meanwhile on standard error.
func (l *ldb) backupOptions() (*slog.Logger, error) {
	if l.text("backup_dir") == "" {
		return nil, failedf("--backup_dir: missing backup directory")
	}
	if l.has("num_threads") {
		if n, err := strconv.ParseInt(l.text("num_threads"), 10, 32); err != nil || n < 1 {
			return nil, usagef("--num_threads: expected a number above zero, found %q", l.text("num_threads"))
		}
	}
	if !l.has("stderr_log_level") {
		return slog.New(slog.DiscardHandler), nil
	}
	n, err := strconv.Atoi(l.text("stderr_log_level"))
	if err != nil || n < 0 || n >= len(logLevels) {
		return nil, failedf("stderr_log_level must be >= 0 and < %d.", len(logLevels))
	}
	return slog.New(slog.NewTextHandler(l.err, &slog.HandlerOptions{Level: logLevels[n]})), nil
}

// backupEngine opens the directory that --backup_dir names.
func (l *ldb) backupEngine() (*flatrock.BackupEngine, error) {
	e, err := flatrock.OpenBackupEngine(l.text("backup_dir"), nil)
	if err != nil {
		return nil, failedf("%w", err)
	}
	return e, nil
}

// backup adds a backup of the database.
func (l *ldb) backup() error {
	log, err := l.backupOptions()
	if err != nil {
		return err
	}
	return l.withDB(false, func(db *flatrock.DB) error {
		l.title("open db OK\n")
		e, err := l.backupEngine()
		if err != nil {
			return err
		}
		l.title("open backup engine OK\n")
		log.Info("a backup begins", "db", l.dir, "backup_dir", l.text("backup_dir"), "backups", len(e.GetBackupInfo()))
		before := treeBytes(l.text("backup_dir"))
		end := l.amount(false, "backing up", func() int64 { return treeBytes(l.text("backup_dir")) - before }, 0)
		id, err := e.CreateNewBackup(l.ctx, db, nil)
		if end(); err != nil {
			return failedf("%w", err)
		}
		log.Info("a backup is made", "id", id, "new_bytes", treeBytes(l.text("backup_dir"))-before)
		if l.json {
			return l.jsonValue(map[string]any{"backup": id})
		}
		_, err = fmt.Fprintln(l.out, "create new backup OK")
		return err
	})
}

// restore makes the database what the newest backup holds.
func (l *ldb) restore() error {
	log, err := l.backupOptions()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(l.text("backup_dir"), "meta")); err != nil { // opening makes it
		return failedf("no backups: %w", err)
	}
	e, err := l.backupEngine()
	if err != nil {
		return err
	}
	l.title("open restore engine OK\n")
	log.Info("a restore begins", "db", l.dir, "backup_dir", l.text("backup_dir"), "backups", len(e.GetBackupInfo()))
	total := int64(0)
	if list := e.GetBackupInfo(); len(list) > 0 {
		for _, f := range list[len(list)-1].Files {
			if info, err := os.Stat(filepath.Join(l.text("backup_dir"), filepath.FromSlash(f.RelativeFilename))); err == nil {
				total += info.Size()
			}
		}
	}
	end := l.amount(false, "restoring", func() int64 {
		n := treeBytes(l.dir)
		if w := l.text("wal_dir"); w != "" {
			n += treeBytes(w)
		}
		return n
	}, total)
	err = e.RestoreDBFromLatestBackup(l.ctx, l.dir, l.text("wal_dir"))
	if end(); err != nil {
		return failedf("%w", err)
	}
	log.Info("a restore is done", "bytes", treeBytes(l.dir))
	if l.json {
		return l.ok()
	}
	_, err = fmt.Fprintln(l.out, "restore from backup OK")
	return err
}
