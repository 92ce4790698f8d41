package flatrock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// RepairOptions says how Repair works. Nil means all zero.
type RepairOptions struct {
	// Options are those of the database. What they say of column families wins over the OPTIONS
	// file; comparators and merge operators that are not built in must be given here. WALDir
	// and FS count too; what says how to open (ReadOnly, CreateIfMissing, …) does not.
	Options *Options
	// DryRun changes nothing, and reports what would be done.
	DryRun bool
	// Progress, if not nil, is called before each table file that is read, or written by a
	// merge: its base name, and how many bytes of table files are done, out of how many.
	Progress func(file string, done, total int64)
}

// RepairReport says what Repair did, or with DryRun would do.
type RepairReport struct {
	// Manifest says what the old MANIFEST was good for.
	Manifest string
	// LevelsKept: the MANIFEST was whole, and files stay in their levels.
	LevelsKept bool
	// Options says where the options of the families come from.
	Options string
	// Lost is the directory that takes what was replaced; empty if there was nothing.
	Lost     string
	LastSeq  uint64 // the newest sequence number in tables and logs
	Families []RepairedFamily
	Tables   []RepairedTable
	Logs     []RepairedLog
	// SetAside are files that no longer count, and lie in Lost.
	SetAside []SetAsideFile
	// Notes are what a person should know besides.
	Notes []string
}

// RepairedFamily is a column family of the repaired database.
type RepairedFamily struct {
	ID         uint32
	Name       string
	Comparator string
}

// RepairedTable is a table file that counts.
type RepairedTable struct {
	Number                  uint64
	Family                  string
	Level                   int    // where it is put; -1: it is merged into new files of the last level
	Size                    uint64 // bytes
	Entries                 uint64
	SmallestSeq, LargestSeq uint64
}

// RepairedLog is a log whose writes are turned into tables of level 0.
type RepairedLog struct {
	Number  uint64
	Records int64 // operations read from it
}

// SetAsideFile is a file that no longer counts.
type SetAsideFile struct {
	Name   string // base name
	Reason string
}

// Repair makes the database in dir one that opens again, from what is left of it: table
// files, logs, and what can be read of MANIFEST and OPTIONS files. The database must not be
// open. RocksDB: RepairDB.
//
//   - Files that are damaged, and what is replaced (MANIFEST and OPTIONS files, logs), go to a
//     new directory below dir/lost. Nothing is deleted.
//   - If a MANIFEST can be read whole, table files keep their levels. Otherwise the levels are
//     lost: tables whose sequence numbers tell their order go to level 0, and the older ones,
//     whose numbers do not, are merged into the last level, unless their keys are apart.
//   - Column families and comparators come from the MANIFEST, from table properties and from
//     the OPTIONS file. A family of which only logs are left may get the name recovered_cf_N.
//   - Logs are read past damage, and turned into tables of level 0. Writes that a table file
//     has already are passed over.
//
// Repaired without its MANIFEST, a database may show again what had been deleted in files that
// were obsolete, but not yet removed, when it was damaged. Errors match ErrNoDatabase,
// ErrLocked, ErrInvalidArgument (a comparator is needed), or come from the file system. Before
// the new MANIFEST is written, an error leaves the directory as it was, and so does the end of
// ctx, which counts up to then; afterwards Repair goes on to its end.
func Repair(ctx context.Context, dir string, o *RepairOptions) (*RepairReport, error) {
	if o == nil {
		o = &RepairOptions{}
	}
	var opts Options
	if o.Options != nil {
		opts = *o.Options
	}
	opts.ReadOnly, opts.CreateIfMissing, opts.ErrorIfExists, opts.CreateMissingColumnFamilies = false, false, false, false
	opts.WALRecoveryMode, opts.AvoidFlushDuringRecovery = SkipAnyCorruptedRecords, false
	db, err := newDB(dir, &opts)
	if err != nil {
		return nil, err
	}
	defer db.endLife()
	if _, err := db.fs.Stat(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s does not exist", ErrNoDatabase, dir)
		}
		return nil, err
	}
	r := &repairer{ctx: ctx, db: db, fs: db.fs, dir: dir, dryRun: o.DryRun, tell: o.Progress, report: &RepairReport{}}
	if err := r.run(&opts); err != nil {
		return r.report, fmt.Errorf("repairing %s: %w", dir, err)
	}
	return r.report, nil
}

// repairer is one run of Repair.
type repairer struct {
	ctx    context.Context
	db     *DB // never opened: its options, and what reads OPTIONS files
	fs     mmapfs.FS
	dir    string
	dryRun bool
	tell   func(file string, done, total int64) // may be nil
	done   int64                                // bytes of table files that are read, of total
	total  int64
	report *RepairReport

	files    map[manifest.FileKind][]uint64 // what is in dir, ascending
	logs     []wal.LogFile
	next     uint64 // file number that is free
	stored   storedOptions
	complete bool // stored has every family that existed
	order    []string
	history  history
	tables   []*repairTable
	families []*repairFamily
	blobs    map[uint32][]manifest.BlobAddition
	logSeq   uint64
	logIDs   map[uint32]bool // families with operations in logs
	prepared bool            // logs hold a transaction that is not settled
	replaced []string        // base names of what goes to lost, besides logs
}

func (r *repairer) run(opts *Options) (err error) {
	release := func() error { return nil }
	if !r.dryRun {
		lock, err := r.fs.Lock(manifest.LockName(r.dir))
		if err != nil {
			return err
		}
		locked := true
		release = func() error {
			if !locked {
				return nil
			}
			locked = false
			return lock.Close()
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	for _, step := range []func() error{r.list, r.readOptions, r.readHistory, r.inspectTables, r.scanLogs, r.nameFamilies, r.inspectBlobs} {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	state, merges, err := r.layOut()
	if err != nil || r.dryRun {
		r.summarize(state)
		return err
	}
	if err := r.merge(merges); err != nil {
		return err
	}
	err = r.finishVersions(state, merges)
	if err == nil {
		r.summarize(state)
		err = r.keepReplaced()
	}
	if err != nil {
		return errors.Join(err, r.removeMerged(merges))
	}
	w, err := manifest.NewWriter(r.fs, r.dir, state, manifest.WriterOptions{Comparator: r.comparatorNamed})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := r.removeReplaced(); err != nil {
		return err
	}
	if r.prepared {
		r.report.Notes = append(r.report.Notes, "the logs hold a transaction that is prepared, and neither committed nor rolled back: they are left as they are; open the database read-only, or settle it with RocksDB")
		return nil
	}
	if err := release(); err != nil {
		return err
	}
	return r.replay(opts)
}

// replay opens the database, which turns the logs into tables, and closes it.
func (r *repairer) replay(opts *Options) error {
	o := *opts
	o.ColumnFamily, o.ColumnFamilies = nil, nil
	for _, f := range r.families {
		given := r.db.givenOptions(f.name)
		if given == nil && r.stored[f.name] == nil {
			given = f.opts
		}
		if given != nil {
			o.ColumnFamilies = append(o.ColumnFamilies, ColumnFamilyDescriptor{Name: f.name, Options: given})
		}
	}
	db, err := newDB(r.dir, &o)
	if err != nil {
		return err
	}
	db.replayAbove = map[uint32]uint64{}
	for _, f := range r.families {
		db.replayAbove[f.id] = f.flushed
	}
	if err := db.open(); err != nil {
		return db.abandon(err)
	}
	return db.Close()
}

// list sorts the files of the directory.
func (r *repairer) list() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	r.files = map[manifest.FileKind][]uint64{}
	r.next = 2
	seen := map[uint64]bool{}
	note := func(name string) (manifest.FileKind, uint64, error) {
		kind, number, ok := manifest.ParseName(name)
		if !ok || kind == manifest.KindInfoLog || kind == manifest.KindProgress {
			return manifest.KindUnknown, 0, nil
		}
		if number > maxFileNumber {
			return 0, 0, fmt.Errorf("%w: %s: its number is too large to count on from: want at most %d", ErrInvalidArgument, name, uint64(maxFileNumber))
		}
		r.next = max(r.next, number+1)
		return kind, number, nil
	}
	for _, name := range names {
		kind, number, err := note(name)
		if err != nil {
			return err
		}
		if kind == manifest.KindTable {
			if seen[number] {
				r.setAside(name, fmt.Sprintf("there is a second table file of number %d", number))
				continue
			}
			seen[number] = true
		}
		if kind != manifest.KindUnknown {
			r.files[kind] = append(r.files[kind], number)
		}
	}
	if walDir := r.db.walDir(); walDir != r.dir {
		if names, err = r.fs.List(walDir); err != nil {
			return err
		}
	}
	for _, name := range names {
		kind, number, err := note(name)
		if err != nil {
			return err
		}
		if kind == manifest.KindLog {
			r.logs = append(r.logs, wal.LogFile{Number: number, Path: filepath.Join(r.db.walDir(), name)})
		}
	}
	sortLogs(r.logs)
	if len(r.files[manifest.KindTable])+len(r.logs)+len(r.files[manifest.KindManifest])+len(r.files[manifest.KindOptions]) == 0 {
		return fmt.Errorf("%w: no table file, log, MANIFEST or OPTIONS file in it", ErrNoDatabase)
	}
	return nil
}

func (r *repairer) setAside(name, reason string) {
	r.report.SetAside = append(r.report.SetAside, SetAsideFile{name, reason})
	r.replaced = append(r.replaced, name)
}

func (r *repairer) newNumber() uint64 {
	r.next++
	return r.next - 1
}

// scanLogs learns which families have operations in logs, and the newest sequence number.
func (r *repairer) scanLogs() error {
	r.logIDs = map[uint32]bool{}
	counts := map[uint64]int64{}
	p := wal.NewReplayer(wal.ReplayOptions{
		FS: r.fs, Mode: wal.SkipAnyCorruptedRecords, MaxRecord: r.db.opts.MaxDecompressedSize,
		Apply: func(log, seq uint64, op *wal.Op) error {
			if counts[log]++; counts[log]%1024 == 0 && r.ctx.Err() != nil {
				return r.ctx.Err()
			}
			if !r.history.dropped[op.CF] {
				r.logIDs[op.CF] = true
			}
			r.logSeq = max(r.logSeq, seq)
			return nil
		},
	})
	for _, l := range r.logs {
		if err := p.Replay(l); err != nil {
			if !errors.Is(err, keys.ErrCorruption) {
				return err
			}
			r.report.Notes = append(r.report.Notes, fmt.Sprintf("log %d: %v", l.Number, err))
		}
		r.report.Logs = append(r.report.Logs, RepairedLog{l.Number, counts[l.Number]})
	}
	if n, ok := p.NextSeq(); ok && n > 0 {
		r.logSeq = max(r.logSeq, n-1)
	}
	if n := p.Damaged(); n > 0 {
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("the logs are damaged in %d places, which are passed over", n))
	}
	r.prepared = len(p.Prepared()) > 0
	return nil
}

// keepReplaced links what will go, and the logs, into a new directory below lost.
func (r *repairer) keepReplaced() (err error) {
	if err := r.ctx.Err(); err != nil || len(r.replaced)+len(r.logs) == 0 {
		return err
	}
	stamp := r.db.opts.now().UTC().Format("20060102-150405")
	lost := filepath.Join(r.dir, "lost", stamp)
	for i := 1; ; i++ {
		if _, err := r.fs.Stat(lost); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
		lost = filepath.Join(r.dir, "lost", fmt.Sprintf("%s-%d", stamp, i))
	}
	made := lost // what to remove if it fails
	if _, err := r.fs.Stat(filepath.Dir(lost)); errors.Is(err, fs.ErrNotExist) {
		made = filepath.Dir(lost)
	}
	defer func() {
		if err != nil {
			r.report.Lost = ""
			err = errors.Join(err, r.fs.RemoveAll(made))
		}
	}()
	if err := r.fs.MkdirAll(lost); err != nil {
		return err
	}
	r.report.Lost = lost
	c := &copier{db: r.db, dir: lost}
	keep := func(path string) error {
		info, err := r.fs.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return fmt.Errorf("%w: %s is a directory", ErrInvalidArgument, path)
		}
		return c.linkOrCopy(r.ctx, path, filepath.Join(lost, filepath.Base(path)), info.Size())
	}
	for _, name := range r.replaced {
		if err := keep(filepath.Join(r.dir, name)); err != nil {
			return err
		}
	}
	c.copies = true // a link would be cut, or written over, with the log
	for _, l := range r.logs {
		if err := keep(l.Path); err != nil {
			return err
		}
	}
	if err := r.fs.SyncDir(lost); err != nil {
		return err
	}
	return r.ctx.Err() // the last moment
}

// removeReplaced removes what is kept in lost; the new MANIFEST does not name it.
func (r *repairer) removeReplaced() error {
	for _, name := range r.replaced {
		if name == manifest.CurrentBase || name == manifest.IdentityBase {
			continue // replaced already, or when the database opens
		}
		if err := r.fs.Remove(filepath.Join(r.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return r.fs.SyncDir(r.dir)
}

// summarize fills in the report.
func (r *repairer) summarize(state *manifest.State) {
	if state != nil {
		r.report.LastSeq = state.LastSeq
	}
	for _, f := range r.families {
		r.report.Families = append(r.report.Families, RepairedFamily{f.id, f.name, f.order.Comparator().Name()})
	}
	for _, t := range r.tables {
		if t.family != nil {
			r.report.Tables = append(r.report.Tables, RepairedTable{t.meta.Number, t.family.name, t.level, t.meta.Size, t.entries, t.meta.SmallestSeq, t.meta.LargestSeq})
		}
	}
}

func (r *repairer) now() uint64 { return uint64(r.db.opts.now().Truncate(time.Second).Unix()) }
