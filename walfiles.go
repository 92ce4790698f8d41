package flatrock

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// WalFile is a log of the database. RocksDB: LogFile.
type WalFile struct {
	LogNumber uint64
	PathName  string // absolute, or relative as the database's directory was given
	Archived  bool   // obsolete, kept by WALTTLSeconds or WALSizeLimitMB
	// StartSequence is the sequence number of the first write in it; 0 if it has none yet.
	StartSequence uint64
	SizeFileBytes uint64
}

// GetSortedWalFiles lists the logs, archived and live, oldest first. RocksDB:
// GetSortedWalFiles.
func (db *DB) GetSortedWalFiles() ([]WalFile, error) {
	if db.closed.Load() {
		return nil, ErrClosed
	}
	// Archived first: a log that is archived meanwhile is then met twice, not missed.
	archived, err := db.logsIn(filepath.Join(db.walDir(), archiveDir), true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	live, err := db.logsIn(db.walDir(), false)
	if err != nil {
		return nil, err
	}
	again, err := db.logsIn(filepath.Join(db.walDir(), archiveDir), true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := slices.Concat(live, archived, again)
	slices.SortStableFunc(all, func(a, b WalFile) int { return cmp.Compare(a.LogNumber, b.LogNumber) })
	return slices.CompactFunc(all, func(a, b WalFile) bool { return a.LogNumber == b.LogNumber }), nil
}

// GetCurrentWalFile describes the log that takes writes. RocksDB: GetCurrentWalFile.
func (db *DB) GetCurrentWalFile() (WalFile, error) {
	var f WalFile
	err := ErrClosed
	if db.opts.ReadOnly {
		return f, ErrReadOnly
	}
	db.exclusive(func() {
		if db.closed.Load() {
			return
		}
		f = WalFile{LogNumber: db.wal.number, PathName: db.wal.path, SizeFileBytes: uint64(db.wal.w.Size())}
		f.StartSequence, err = db.firstSequence(f)
	})
	return f, err
}

// archiveDir is where obsolete logs are kept, in the log directory.
const archiveDir = "archive"

// logsIn lists the logs of a directory. Logs that vanish meanwhile are left out.
func (db *DB) logsIn(dir string, archived bool) (logs []WalFile, err error) {
	names, err := db.fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		kind, number, ok := manifest.ParseName(name)
		if !ok || kind != manifest.KindLog {
			continue
		}
		f := WalFile{LogNumber: number, PathName: filepath.Join(dir, name), Archived: archived}
		info, err := db.fs.Stat(f.PathName)
		if err == nil {
			f.SizeFileBytes = uint64(info.Size())
			f.StartSequence, err = db.firstSequence(f)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		logs = append(logs, f)
	}
	return logs, nil
}

// firstSequence reads the sequence number of the first record; 0 if there is none.
func (db *DB) firstSequence(f WalFile) (uint64, error) {
	r, err := wal.Open(db.fs, f.PathName, f.LogNumber, wal.TolerateCorruptedTailRecords)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	r.Limit(db.opts.MaxDecompressedSize)
	rec, err := r.Next()
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, ErrCorruption):
		return 0, nil // nothing that can be read, as after a crash
	case err != nil:
		return 0, err
	}
	d := wal.Decode(rec)
	return d.Sequence(), nil
}

// retireLog removes a log that nothing needs, or moves it to the archive.
func (db *DB) retireLog(path string, number uint64) {
	if db.opts.WALTTLSeconds <= 0 && db.opts.WALSizeLimitMB <= 0 {
		db.removeFile(path)
		return
	}
	db.whenDeletable(func() {
		err := db.fs.MkdirAll(filepath.Join(db.walDir(), archiveDir))
		if err == nil {
			err = db.fs.Rename(path, manifest.ArchivedLogName(db.walDir(), number))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			db.log.Warn("archiving a log", "file", path, "err", err)
		}
		db.purgeArchive(time.Now())
	})
}

// purgeArchive removes the archived logs that are older than WALTTLSeconds, and the
// oldest ones beyond WALSizeLimitMB.
func (db *DB) purgeArchive(now time.Time) {
	dir := filepath.Join(db.walDir(), archiveDir)
	if mmapfs.IsLink(db.fs, dir) {
		db.log.Warn("the archive is a symbolic link: nothing is removed from it", "dir", dir)
		return
	}
	names, err := db.fs.List(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			db.log.Warn("listing archived logs", "err", err)
		}
		return
	}
	type archived struct {
		path   string
		number uint64
		size   int64
		age    time.Duration
	}
	var logs []archived
	var total int64
	for _, name := range names {
		kind, number, ok := manifest.ParseName(name)
		if !ok || kind != manifest.KindLog {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := db.fs.Stat(path)
		if err != nil {
			continue
		}
		logs = append(logs, archived{path, number, info.Size(), now.Sub(info.ModTime())})
		total += info.Size()
	}
	slices.SortFunc(logs, func(a, b archived) int { return cmp.Compare(a.number, b.number) })
	ttl, limit := time.Duration(db.opts.WALTTLSeconds)*time.Second, db.opts.WALSizeLimitMB<<20
	for _, l := range logs {
		old, large := ttl > 0 && l.age > ttl, limit > 0 && total > limit
		if !old && !large && (ttl > 0 || limit > 0) {
			break // those that follow are younger
		}
		if err := db.fs.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			db.log.Warn("deleting an archived log", "file", l.path, "err", err)
		}
		total -= l.size
	}
}
