package dbbench

import (
	"errors"
	"fmt"

	flatrock "github.com/flatrock-db/flatrock"
)

// backup makes a backup in --backup_dir and verifies every file of it.
func backup(t *thread) error {
	if t.c.backupDir == "" {
		return errors.New("needs --backup_dir")
	}
	e, err := flatrock.OpenBackupEngine(t.c.backupDir, nil)
	if err != nil {
		return err
	}
	id, err := e.CreateNewBackup(t.ctx, t.db, nil)
	if err != nil {
		return err
	}
	if err := e.VerifyBackup(t.ctx, id); err != nil {
		return err
	}
	t.stats.finished(1, opOther)
	return nil
}

// restore makes --restore_dir hold the database of the newest backup.
func restore(t *thread) error {
	if t.c.backupDir == "" || t.c.restoreDir == "" {
		return errors.New("needs --backup_dir and --restore_dir")
	}
	e, err := flatrock.OpenBackupEngine(t.c.backupDir, nil)
	if err != nil {
		return err
	}
	if err := e.RestoreDBFromLatestBackup(t.ctx, t.c.restoreDir, ""); err != nil {
		return err
	}
	t.stats.finished(1, opOther)
	return nil
}

// copyPaths are the lines that db_bench prints before both.
func (b *bench) copyPaths(name string) {
	if name == "backup" || name == "restore" {
		fmt.Fprintf(b.out, "Backup path: [%s]\n", b.c.backupDir)
	}
	if name == "restore" {
		fmt.Fprintf(b.out, "Restore path: [%s]\n", b.c.restoreDir)
	}
}

func verifyFileChecksums(t *thread) error {
	if !t.c.fileChecksum {
		return errors.New("needs --file_checksum, when the database is filled and now")
	}
	if err := t.db.VerifyFileChecksums(t.ctx); err != nil {
		return err
	}
	t.stats.finished(1, opOther)
	return nil
}
