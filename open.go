package flatrock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/ratelimit"
)

// Open opens the database in dir, or creates it. A directory written by RocksDB
// opens too. Column families open with the options given, or else as the OPTIONS
// file in the directory describes them; nil options mean all zero.
//
// Logs are replayed and their content written to level 0. Errors match
// ErrNoDatabase, ErrExists, ErrLocked, ErrCorruption, ErrInvalidArgument, or come
// from the file system. Close the database when done.
func Open(dir string, o *Options) (*DB, error) {
	db, err := newDB(dir, o)
	if err != nil {
		return nil, err
	}
	if err := db.open(); err != nil {
		return nil, db.abandon(err)
	}
	return db, nil
}

// newDB fills in defaults.
func newDB(dir string, o *Options) (*DB, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if dir == "" {
		return nil, fmt.Errorf("%w: no directory given", ErrInvalidArgument)
	}
	if opts.FS == nil {
		opts.FS = mmapfs.OS
	}
	if err := opts.fill(); err != nil {
		return nil, err
	}
	if opts.FileMode != 0 {
		fsys, err := mmapfs.WithFileMode(opts.FS, opts.FileMode)
		if err != nil {
			return nil, fmt.Errorf("%w: FileMode: %w", ErrInvalidArgument, err)
		}
		opts.FS = fsys
	}
	seen := map[string]bool{}
	for _, d := range opts.ColumnFamilies {
		if seen[d.Name] {
			return nil, fmt.Errorf("%w: column family %q is named twice", ErrInvalidArgument, d.Name)
		}
		seen[d.Name] = true
	}
	if opts.ColumnFamily != nil && seen[DefaultColumnFamilyName] {
		return nil, fmt.Errorf("%w: both Options.ColumnFamily and Options.ColumnFamilies describe %q", ErrInvalidArgument, DefaultColumnFamilyName)
	}
	db := &DB{dir: dir, opts: &opts, fs: opts.FS, log: opts.Logger, stats: opts.Statistics, opening: true}
	db.readers.init(db.stats)
	db.mu.stats = db.stats
	db.inForce.Store(&opts)
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	db.work = sync.NewCond(&db.mu)
	db.requests.New = newRequest
	db.pipe.changed.L = &db.pipe.mu
	db.pipe.spins = runtime.GOMAXPROCS(0) > 1
	if db.buffers = opts.WriteBufferManager; db.buffers == nil && opts.DBWriteBufferSize > 0 {
		db.buffers = NewWriteBufferManager(WriteBufferManagerOptions{BufferSize: opts.DBWriteBufferSize})
	}
	db.notifier.idle.L = &db.notifier.mu
	db.statsSince = time.Now()
	db.delays.setMax(opts.DelayedWriteRate)
	db.lowPri = ratelimit.New(ratelimit.Options{BytesPerSec: lowPriRate})
	db.lifetime, db.endLife = context.WithCancel(context.Background())
	db.hostID = opts.DBHostID
	if db.hostID == "" {
		db.hostID, _ = os.Hostname() // informational: an empty name is left out
	}
	db.sessionID = manifest.NewSessionID()
	return db, nil
}

// fill replaces zeros by defaults, and refuses what could not work: at Open, and
// when SetDBOptions has changed something.
func (opts *Options) fill() error {
	orInt(&opts.MaxManifestFileSize, manifest.DefaultMaxFileSize)
	orInt(&opts.MaxWriteBatchGroupSize, 1<<20)
	if opts.DelayedWriteRate == 0 && opts.RateLimiter != nil {
		opts.DelayedWriteRate = opts.RateLimiter.BytesPerSec()
	}
	orInt(&opts.DelayedWriteRate, 16<<20)
	orInt(&opts.CompactionReadaheadSize, 2<<20)
	orInt(&opts.MaxBackgroundJobs, 2)
	orInt(&opts.MaxSubcompactions, 1)
	if opts.BgErrorResumeRetryInterval == 0 {
		opts.BgErrorResumeRetryInterval = time.Second
	}
	orInt(&opts.BlockCacheSize, 32<<20)
	orInt(&opts.KeepLogFileNum, 1000)
	orInt(&opts.StatsDumpPeriodSec, 600)
	if opts.MaxDecompressedSize < 0 {
		return fmt.Errorf("%w: MaxDecompressedSize %d", ErrInvalidArgument, opts.MaxDecompressedSize)
	}
	if opts.WALRecoveryMode < PointInTimeRecovery || opts.WALRecoveryMode > SkipAnyCorruptedRecords {
		return fmt.Errorf("%w: WALRecoveryMode %d", ErrInvalidArgument, opts.WALRecoveryMode)
	}
	if opts.WALWriteMode < WALAuto || opts.WALWriteMode > WALWrite {
		return fmt.Errorf("%w: WALWriteMode %d", ErrInvalidArgument, opts.WALWriteMode)
	}
	if opts.ManualWALFlush && opts.WALWriteMode == WALMapped {
		return fmt.Errorf("%w: ManualWALFlush and WALMapped exclude each other", ErrInvalidArgument)
	}
	if err := opts.checkPipelined(); err != nil {
		return err
	}
	if opts.UseDirectReads && opts.AllowMmapReads {
		return fmt.Errorf("%w: UseDirectReads and AllowMmapReads exclude each other", ErrInvalidArgument)
	}
	return nil
}

func (db *DB) open() error {
	if err := db.place(); err != nil {
		return err
	}
	if err := db.prepareDirectory(); err != nil {
		return err
	}
	db.startInfoLog()
	if err := db.tryDirectReads(); err != nil {
		return err
	}
	stored, err := db.loadOptions()
	if err != nil {
		return err
	}
	state, err := db.recoverManifest(stored)
	if err != nil {
		return err
	}
	if db.opts.ReadOnly { // the MANIFEST may be newer than the OPTIONS file was, if somebody writes
		if stored, err = db.loadOptions(); err != nil {
			return err
		}
	}
	if err := db.addFamilies(state, stored); err != nil {
		return err
	}
	if db.opts.ReadOnly {
		return db.openReadOnly(state)
	}
	return db.openWritable(state)
}

// prepareDirectory takes the lock and creates the database if there is none.
func (db *DB) prepareDirectory() error {
	_, err := manifest.ReadCurrent(db.fs, db.dir)
	exists := !errors.Is(err, fs.ErrNotExist)
	if err != nil && exists {
		return err
	}
	switch {
	case exists && db.opts.ErrorIfExists:
		return fmt.Errorf("%w: %s", ErrExists, db.dir)
	case !exists && (db.opts.ReadOnly || !db.opts.CreateIfMissing):
		return fmt.Errorf("%w: %s has no CURRENT file, and CreateIfMissing is not set", ErrNoDatabase, db.dir)
	case db.opts.ReadOnly:
		db.dbID, _ = manifest.ReadIdentity(db.fs, db.dir)
		return nil
	}
	if !exists {
		if err := db.fs.MkdirAll(db.dir); err != nil {
			return err
		}
	}
	if db.lock, err = db.fs.Lock(manifest.LockName(db.dir)); err != nil {
		return err
	}
	if err := db.fs.MkdirAll(db.walDir()); err != nil {
		return err
	}
	// Look again: somebody else may have created it before we had the lock.
	if _, err := manifest.ReadCurrent(db.fs, db.dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db.dbID = manifest.NewDBID()
	if err := manifest.WriteIdentity(db.fs, db.dir, db.dbID, 0); err != nil {
		return err
	}
	return manifest.CreateNew(db.fs, db.dir, "")
}

// tryDirectReads refuses UseDirectReads where it could not work, before a flush
// finds out.
func (db *DB) tryDirectReads() error {
	if !db.opts.UseDirectReads {
		return nil
	}
	f, err := mmapfs.OpenDirect(db.fs, manifest.CurrentName(db.dir))
	if err == nil {
		var b [8]byte
		if _, err = f.ReadAt(b[:], 0); errors.Is(err, io.EOF) {
			err = nil
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("%w: UseDirectReads: %w", ErrNotSupported, err)
	}
	return nil
}

// recoverManifest replays the MANIFEST with each family's comparator.
func (db *DB) recoverManifest(stored storedOptions) (*manifest.State, error) {
	state, err := manifest.Recover(db.fs, db.dir, db.recoverOptions(stored))
	if err != nil {
		if m := new(manifest.ComparatorMismatchError); errors.As(err, &m) {
			return nil, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
		}
		return nil, err
	}
	for _, d := range db.opts.ColumnFamilies {
		if state.FamilyNamed(d.Name) == nil && (db.opts.ReadOnly || !db.opts.CreateMissingColumnFamilies) {
			return nil, fmt.Errorf("%w: column family %q does not exist, and CreateMissingColumnFamilies is not set", ErrInvalidArgument, d.Name)
		}
	}
	return state, nil
}

func (db *DB) recoverOptions(stored storedOptions) manifest.RecoverOptions {
	return manifest.RecoverOptions{
		Comparator: db.comparatorOf,
		NumLevels: func(family string) int {
			if cf := db.ColumnFamily(family); cf != nil {
				return cf.opts.NumLevels
			}
			if o := db.familyOptions(family, stored); o != nil {
				return o.withDefaults().NumLevels
			}
			return 0
		},
		// The OPTIONS file may be older than the MANIFEST: of before a family was made, or made again.
		Deeper: func(family string) bool { return db.givenOptions(family) == nil },
	}
}

// comparatorOf finds the comparator of a family by what the caller said, or the
// built-in one of the recorded name.
func (db *DB) comparatorOf(family, name string) (keys.Comparator, error) {
	if cf := db.creating.Load(); cf != nil && cf.name == family {
		return cf.opts.Comparator, nil
	}
	if cf := db.ColumnFamily(family); cf != nil && cf.opts.Comparator.Name() == name { // else one that had the name before
		return cf.opts.Comparator, nil
	}
	if o := db.givenOptions(family); o != nil && o.Comparator != nil {
		return o.Comparator, nil
	}
	return manifest.BuiltinComparator(family, name)
}

func (db *DB) numLevelsOf(family string) int {
	if cf := db.creating.Load(); cf != nil && cf.name == family {
		return cf.opts.NumLevels
	}
	if cf := db.ColumnFamily(family); cf != nil {
		return cf.opts.NumLevels
	}
	return 0
}

// givenOptions is what the caller of Open said about a family, or nil.
func (db *DB) givenOptions(name string) *ColumnFamilyOptions {
	if name == DefaultColumnFamilyName && db.opts.ColumnFamily != nil {
		return db.opts.ColumnFamily
	}
	for _, d := range db.opts.ColumnFamilies {
		if d.Name == name {
			return d.Options
		}
	}
	return nil
}

// familyOptions is what the caller said about a family, or else what is stored.
func (db *DB) familyOptions(name string, stored storedOptions) *ColumnFamilyOptions {
	if o := db.givenOptions(name); o != nil {
		return o
	}
	return stored[name]
}

// optionsFor is familyOptions for a family of the MANIFEST, made to fit it where the caller said nothing.
func (db *DB) optionsFor(f *manifest.ColumnFamily, stored storedOptions) *ColumnFamilyOptions {
	if o := db.givenOptions(f.Name); o != nil {
		return o
	}
	var o ColumnFamilyOptions
	if s := stored[f.Name]; s != nil {
		o = *s
	} else if f.Comparator == ReverseBytewise.Name() {
		o.Comparator = ReverseBytewise
	}
	if used := f.Version.NumLevels(); used > o.withDefaults().NumLevels {
		o.NumLevels = used
	}
	return &o
}

// addFamilies makes a ColumnFamily for each of the MANIFEST, with its files opened
// and an empty memtable.
func (db *DB) addFamilies(state *manifest.State, stored storedOptions) error {
	var families []*ColumnFamily
	for _, f := range state.Families {
		o := db.optionsFor(f, stored)
		cf, err := db.newColumnFamily(f.ID, f.Name, o)
		if err != nil {
			return err
		}
		cf.logNumber = f.LogNumber
		if mark := cf.markRangeDeletes(f.Features); mark.Set {
			db.marks = append(db.marks, &manifest.VersionEdit{ColumnFamily: cf.id, Features: mark})
		}
		if err := cf.start(f.Version, f.LogNumber); err != nil {
			return db.unsure(f.Name, err)
		}
		families = append(families, cf)
		if cf.id == 0 {
			db.defaultCF = cf
		}
		db.mu.Lock()
		db.setFamiliesLocked(families)
		db.mu.Unlock()
	}
	db.lastSeq = state.LastSeq
	db.visibleSeq.Store(state.LastSeq)
	return nil
}

// start gives a family its first memtable and its files, and publishes them.
func (cf *ColumnFamily) start(v *manifest.Version, logNumber uint64) error {
	m, err := cf.newMemState(logNumber, 0)
	if err != nil {
		return err
	}
	cf.db.mu.Lock()
	defer cf.db.mu.Unlock()
	if cf.files, err = cf.newFileSet(v); err != nil {
		m.free(cf.db)
		return err
	}
	cf.active = m
	cf.publish(m, nil, cf.files)
	return nil
}

func (db *DB) openReadOnly(state *manifest.State) error {
	if state.DBID != "" {
		db.dbID = state.DBID
	}
	var err error
	if db.secondary != nil {
		err = db.openSecondary(state)
	} else {
		_, err = db.replayLogs(state)
	}
	if err != nil {
		return err
	}
	db.opening = false
	db.workers.Add(1)
	db.loading = true
	go db.loadLoop()
	return nil
}

func (db *DB) openWritable(state *manifest.State) error {
	if err := db.identify(state); err != nil {
		return err
	}
	found, err := db.scanDirectory(state)
	if err != nil {
		return err
	}
	db.manifest, err = manifest.NewWriter(db.fs, db.dir, state, manifest.WriterOptions{
		MaxFileSize: db.opts.MaxManifestFileSize,
		Comparator:  db.comparatorOf,
		NumLevels:   db.numLevelsOf,
	}, db.marks...)
	if err != nil {
		return err
	}
	err = db.placed.whileLoading(func() error { // what it flushes lies where tables belong
		replayed, err := db.replayLogs(state)
		if err != nil {
			return err
		}
		return db.finishRecovery(replayed)
	})
	if err != nil {
		return err
	}
	if err := db.unmarkRangeDeletes(); err != nil {
		return err
	}
	for _, d := range db.opts.ColumnFamilies {
		if db.ColumnFamily(d.Name) == nil {
			if _, err := db.CreateColumnFamily(d.Name, d.Options); err != nil {
				return err
			}
		}
	}
	if err := db.writeOptions(); err != nil {
		return err
	}
	db.removeObsolete(found)
	db.joinManager()
	db.logSummary()
	db.opening = false
	db.loading = true
	db.startBackground()
	return nil
}

// identify settles the database id: the MANIFEST's, else that of IDENTITY, else a new one.
func (db *DB) identify(state *manifest.State) error {
	onDisk, err := manifest.ReadIdentity(db.fs, db.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch {
	case state.DBID != "":
		db.dbID = state.DBID
	case onDisk != "":
		db.dbID = onDisk
	case db.dbID == "":
		db.dbID = manifest.NewDBID()
	}
	if db.dbID == onDisk {
		return nil
	}
	number := state.NextFileNumber
	state.MarkFileNumberUsed(number)
	return manifest.WriteIdentity(db.fs, db.dir, db.dbID, number)
}

// abandon undoes an Open that failed, and returns why it did.
func (db *DB) abandon(cause error) error {
	if db.secondary == nil { // that tries again
		db.log.Error("Open failed", "err", cause)
	}
	db.closed.Store(true)
	db.mu.Lock()
	db.stopping = true
	db.work.Broadcast()
	db.mu.Unlock()
	db.endLife()
	db.workers.Wait()
	db.background = nil // it is the cause, or follows from it
	err := errors.Join(cause, db.releaseAll())
	db.notifier.drain()
	db.endInfoLog()
	return err
}
