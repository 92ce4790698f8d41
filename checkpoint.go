package flatrock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
)

// CheckpointOptions tunes CreateCheckpoint. Nil means the zero value.
type CheckpointOptions struct {
	// LogSizeForFlush is how many bytes of live logs make a checkpoint flush the
	// memtables first, instead of copying the logs. Zero always flushes; NeverFlush
	// never does. RocksDB: log_size_for_flush.
	LogSizeForFlush uint64
}

// NeverFlush is a LogSizeForFlush that no log reaches.
const NeverFlush = math.MaxUint64

// CreateCheckpoint makes a database in dir, which must not exist, with the state of
// this moment: table and blob files are hard links where dir is on the same file
// system, and copies elsewhere; the logs that are needed are part of it. It returns the
// sequence number of the newest write that the checkpoint is sure to hold. Reads, writes and
// compactions go on.
//
// The directory is built under the name dir.tmp and renamed when it is whole and
// durable, so that a crash leaves no dir or a whole one. Errors match ErrExists or
// come from the file system; nothing is left then. RocksDB: Checkpoint::CreateCheckpoint.
func (db *DB) CreateCheckpoint(ctx context.Context, dir string, o *CheckpointOptions) (seq uint64, err error) {
	if db.opts.ReadOnly {
		return 0, ErrReadOnly
	}
	err = db.stage(dir, func(staging string) error {
		l, err := db.captureState(ctx, o)
		if err != nil {
			return err
		}
		seq = l.seq
		c := copier{db: db, dir: staging}
		if err := c.tablesAndBlobs(ctx, l); err != nil {
			return err
		}
		if err := c.logs(ctx, l.logs); err != nil {
			return err
		}
		if err := c.options(l.optionsNumber); err != nil {
			return err
		}
		name := manifest.ManifestName(staging, l.manifestNumber)
		if err := copyFile(db.fs, manifest.ManifestName(db.dir, l.manifestNumber), name, l.manifestSize); err != nil {
			return err
		}
		if err := db.fs.SyncDir(staging); err != nil {
			return err
		}
		return manifest.SetCurrent(db.fs, staging, l.manifestNumber)
	})
	return seq, err
}

// stage builds a directory under a temporary name and gives it its own when it is
// durable. No obsolete file of the database is removed meanwhile.
func (db *DB) stage(dir string, build func(staging string) error) error {
	dir = filepath.Clean(dir)
	switch _, err := db.fs.Stat(dir); {
	case err == nil:
		return fmt.Errorf("%w: directory %s", ErrExists, dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := db.DisableFileDeletions(); err != nil {
		return err
	}
	defer db.EnableFileDeletions()
	staging := dir + ".tmp"
	if err := db.fs.RemoveAll(staging); err != nil { // of one that a crash cut short
		return err
	}
	err := db.fs.MkdirAll(staging)
	if err == nil {
		err = build(staging)
	}
	if err == nil {
		err = db.fs.SyncDir(staging)
	}
	if err == nil {
		err = db.fs.Rename(staging, dir)
	}
	if err != nil {
		return errors.Join(err, db.fs.RemoveAll(staging))
	}
	return db.fs.SyncDir(filepath.Dir(dir))
}

// captureState takes the files of one moment, between two writes, after a flush if
// o asks for one. File deletions must be disabled.
func (db *DB) captureState(ctx context.Context, o *CheckpointOptions) (*liveState, error) {
	if db.manifest == nil {
		return nil, ErrReadOnly
	}
	flush := true
	if o != nil && o.LogSizeForFlush != 0 {
		flush = o.LogSizeForFlush != NeverFlush && db.liveLogBytes() >= o.LogSizeForFlush
	}
	if flush {
		if err := db.flushAll(ctx); err != nil {
			return nil, err
		}
	}
	var l *liveState
	err := ErrClosed
	db.exclusive(func() {
		if db.closed.Load() {
			return
		}
		if err = db.writable(); err != nil {
			return
		}
		if err = db.syncLogs(); err != nil { // links share what was not written back yet
			err = db.fail("WAL sync", err)
			return
		}
		if l, err = db.captureFiles(nil); err == nil {
			l.seq = db.lastSeq
			for i := range l.logs {
				if l.logs[i].open {
					l.logs[i].size = db.wal.w.Size()
				}
			}
		}
	})
	return l, err
}

// liveLogBytes is the size of the live logs.
func (db *DB) liveLogBytes() (n uint64) {
	db.exclusive(func() {
		if !db.closed.Load() {
			n = uint64(db.closedLogBytes.Load() + db.wal.w.Size())
		}
	})
	return n
}

func (db *DB) flushAll(ctx context.Context) error {
	for _, cf := range db.ColumnFamilies() {
		if err := cf.Flush(ctx, nil); err != nil && !errors.Is(err, ErrColumnFamilyDropped) {
			return err
		}
	}
	return nil
}

// copier brings files of a database to another directory: by links until one
// fails, since a file system that cannot link one file links none.
type copier struct {
	db     *DB
	dir    string
	copies bool // links failed
}

func (c *copier) linkOrCopy(ctx context.Context, from, to string, size int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.copies {
		err := c.db.fs.Link(from, to)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		c.db.log.Info("files cannot be linked, and are copied", "to", c.dir, "err", err)
		c.copies = true
	}
	return copyFile(c.db.fs, from, to, size)
}

func (c *copier) tablesAndBlobs(ctx context.Context, l *liveState) error {
	for _, m := range l.metas {
		if err := c.table(ctx, m, m.Number); err != nil {
			return err
		}
	}
	for _, n := range l.blobs {
		from := manifest.BlobName(c.db.dir, n)
		info, err := c.db.fs.Stat(from)
		if err != nil {
			return err
		}
		if err := c.linkOrCopy(ctx, from, manifest.BlobName(c.dir, n), info.Size()); err != nil {
			return err
		}
	}
	return nil
}

// table brings a table file under the number as.
func (c *copier) table(ctx context.Context, m *manifest.FileMetadata, as uint64) error {
	err := c.linkOrCopy(ctx, manifest.TableName(c.db.dir, m.Number), manifest.TableName(c.dir, as), int64(m.Size))
	if errors.Is(err, fs.ErrNotExist) { // it may have LevelDB's extension
		err = c.linkOrCopy(ctx, manifest.OldTableName(c.db.dir, m.Number), manifest.TableName(c.dir, as), int64(m.Size))
	}
	return err
}

// logs brings the logs: closed ones never change, the open one goes on growing.
func (c *copier) logs(ctx context.Context, logs []liveLog) error {
	for _, l := range logs {
		to := manifest.LogName(c.dir, l.number)
		var err error
		if l.open {
			err = copyFile(c.db.fs, l.path, to, l.size)
		} else {
			err = c.linkOrCopy(ctx, l.path, to, l.size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// options writes the OPTIONS file without the directories of the original.
func (c *copier) options(number uint64) error {
	if number == 0 {
		return nil
	}
	// A newer one may lack a family that was dropped meanwhile; this one stays while
	// deletions are disabled.
	f, err := optionsfile.Load(c.db.fs, c.db.dir, number)
	if err != nil {
		return err
	}
	s := f.DB()
	s.Options = slices.DeleteFunc(s.Options, func(o optionsfile.Option) bool { return o.Key == "wal_dir" || o.Key == "db_log_dir" })
	return optionsfile.Write(c.db.fs, c.dir, number, f)
}
