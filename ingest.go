package flatrock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// IngestExternalFileOptions tunes an ingestion. Nil means the zero value. RocksDB:
// IngestExternalFileOptions.
type IngestExternalFileOptions struct {
	// MoveFiles links the files into the database and removes the originals once
	// the ingestion is done, instead of copying them. RocksDB: move_files.
	MoveFiles bool
	// FailedMoveFallBackToCopy Off makes MoveFiles an error where the file system
	// cannot link, across file systems for instance. Default means on: the file is
	// copied then. RocksDB: failed_move_fall_back_to_copy.
	FailedMoveFallBackToCopy Toggle
	// SnapshotConsistency Off lets snapshots that exist see the files' keys.
	// Default means on. RocksDB: snapshot_consistency.
	SnapshotConsistency Toggle
	// AllowGlobalSeqno Off refuses files that need a sequence number: that overlap
	// keys of the database, or meet a snapshot. Default means on. RocksDB: allow_global_seqno.
	AllowGlobalSeqno Toggle
	// AllowBlockingFlush Off refuses files that overlap a memtable, which would be
	// flushed while writes wait. Default means on. RocksDB: allow_blocking_flush.
	AllowBlockingFlush Toggle
	// IngestBehind puts the files below all that the family holds: keys that exist
	// win. It needs Options.AllowIngestBehind since the family was created, and room
	// in the last level. RocksDB: ingest_behind.
	IngestBehind bool
	// WriteGlobalSeqno writes the sequence number into the files too, for RocksDB
	// before 5.16; without it the MANIFEST alone has it. A file that is written to is
	// copied even with MoveFiles: a link would share the bytes with the original.
	// RocksDB: write_global_seqno.
	WriteGlobalSeqno bool
	// VerifyChecksumsBeforeIngest reads the files whole and checks every checksum in
	// them first. RocksDB: verify_checksums_before_ingest.
	VerifyChecksumsBeforeIngest bool
	// FailIfNotBottommostLevel refuses files that do not fit into the last level.
	// RocksDB: fail_if_not_bottommost_level.
	FailIfNotBottommostLevel bool
}

// IngestExternalFileArg is what goes into one family. RocksDB: IngestExternalFileArg.
type IngestExternalFileArg struct {
	Family        *ColumnFamily // nil: the default one
	ExternalFiles []string      // paths, at least one
	Options       *IngestExternalFileOptions
}

// IngestExternalFile adds table files, made by an SstFileWriter, to the default
// family; see IngestExternalFiles.
func (db *DB) IngestExternalFile(ctx context.Context, paths []string, o *IngestExternalFileOptions) error {
	return db.defaultCF.IngestExternalFile(ctx, paths, o)
}

// IngestExternalFile is DB.IngestExternalFile for this column family.
func (cf *ColumnFamily) IngestExternalFile(ctx context.Context, paths []string, o *IngestExternalFileOptions) error {
	return cf.db.IngestExternalFiles(ctx, []IngestExternalFileArg{{cf, paths, o}})
}

// IngestExternalFiles adds table files to families without writing their keys
// through the log and the memtables. All files of all families appear
// together, and survive a crash together, or not at all; when it returns nil they survive the
// death of the machine.
//
// The files' keys are newer than all that the family holds, with
// IngestBehind older. Files for one family are given in the order of age: where two overlap,
// the later one wins. A file that overlaps nothing goes as deep as it fits, with sequence
// number 0; any other gets the next number, recorded in the MANIFEST as RocksDB does. A
// plain table keeps the number in its rows: one that needs a number is written anew,
// while writes wait.
//
// Writes wait for the ingestion, but not while files are checked, copied or linked.
// Errors match ErrInvalidArgument (not a file for this family, or what the options
// refuse), ErrCorruption, ErrBackground, or come from the file system; nothing has changed then.
func (db *DB) IngestExternalFiles(ctx context.Context, args []IngestExternalFileArg) (err error) {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	start := time.Now()
	in := &ingestion{db: db, ctx: ctx}
	if err := in.addAll(args); err != nil {
		return err
	}
	if err := in.prepare(); err != nil {
		return errors.Join(err, in.discard())
	}
	db.exclusive(func() { err = in.run() })
	if err != nil {
		return errors.Join(err, in.discard())
	}
	in.removeOriginals()
	for _, f := range in.files {
		db.log.Info("ingestion", "family", f.family.cf.name, "original", f.path, "file", f.meta.Number, "bytes", f.meta.Size,
			"level", f.level, "seq", f.seq, "took", time.Since(start))
	}
	return nil
}

// ingestion is one call of IngestExternalFiles.
type ingestion struct {
	db       *DB
	ctx      context.Context
	families []*familyIngestion
	files    []*externalFile // of all families
	lastSeq  uint64          // what the database's last sequence number becomes
	// installed: the MANIFEST may name the files.
	installed bool
}

// familyIngestion is what goes into one family.
type familyIngestion struct {
	cf      *ColumnFamily
	o       IngestExternalFileOptions
	files   []*externalFile // oldest first
	overlap bool            // two of the files overlap
}

func (in *ingestion) addAll(args []IngestExternalFileArg) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: nothing to ingest", ErrInvalidArgument)
	}
	for _, a := range args {
		f := &familyIngestion{cf: a.Family}
		if f.cf == nil {
			f.cf = in.db.defaultCF
		}
		if a.Options != nil {
			f.o = *a.Options
		}
		switch {
		case f.cf.db != in.db:
			return fmt.Errorf("%w: column family %q belongs to another database", ErrInvalidArgument, f.cf.name)
		case len(a.ExternalFiles) == 0:
			return fmt.Errorf("%w: column family %q: no external files given", ErrInvalidArgument, f.cf.name)
		case slices.ContainsFunc(in.families, func(g *familyIngestion) bool { return g.cf == f.cf }):
			return fmt.Errorf("%w: column family %q is given twice", ErrInvalidArgument, f.cf.name)
		case f.o.IngestBehind && !in.db.opts.AllowIngestBehind:
			return fmt.Errorf("%w: column family %q: IngestBehind needs Options.AllowIngestBehind", ErrInvalidArgument, f.cf.name)
		}
		for _, path := range a.ExternalFiles {
			e := &externalFile{family: f, path: path}
			f.files = append(f.files, e)
			in.files = append(in.files, e)
		}
		in.families = append(in.families, f)
	}
	return nil
}

// prepare checks the files and brings them into the directory, under numbers that
// no MANIFEST names. Writes go on meanwhile.
func (in *ingestion) prepare() error {
	for _, f := range in.files {
		if err := in.ctx.Err(); err != nil {
			return err
		}
		if err := f.inspect(); err != nil {
			return err
		}
	}
	for _, f := range in.families {
		if f.overlap = f.anyOverlap(); f.overlap && f.o.IngestBehind {
			return fmt.Errorf("%w: column family %q: files with overlapping ranges cannot be ingested behind", ErrInvalidArgument, f.cf.name)
		}
	}
	for _, f := range in.files {
		if err := in.ctx.Err(); err != nil {
			return err
		}
		if err := f.bring(); err != nil {
			return err
		}
	}
	return in.db.fs.SyncDir(in.db.dir)
}

// run makes the files part of the database. The commit leader calls it.
func (in *ingestion) run() error {
	db := in.db
	if db.closed.Load() {
		return ErrClosed
	}
	for _, f := range in.families {
		if err := db.usable(f.cf); err != nil {
			return err
		}
	}
	if err := in.flushOverlapped(); err != nil {
		return err
	}
	// What is durable from now on must not be newer than writes that a crash of the
	// machine could still take.
	if err := db.syncLogs(); err != nil {
		return db.fail("WAL sync", err)
	}
	// A snapshot is taken before the ingestion or after it.
	haveSnapshots := db.snapshots.freeze()
	defer db.snapshots.thaw()
	in.holdCompactions(true)
	defer in.holdCompactions(false)
	if err := in.place(haveSnapshots); err != nil {
		return err
	}
	for _, f := range in.files {
		if err := f.number(); err != nil {
			return err
		}
		if err := in.db.addChecksum(f.meta); err != nil {
			return err
		}
	}
	var changes []familyChange
	for _, f := range in.families {
		edit := &manifest.VersionEdit{ColumnFamily: f.cf.id}
		for _, e := range f.files {
			e.meta.EpochNumber = f.epoch()
			edit.NewFiles = append(edit.NewFiles, manifest.NewFile{Level: e.level, Meta: e.meta})
		}
		changes = append(changes, familyChange{cf: f.cf, edit: edit, ingested: true})
	}
	if err := db.installAll(changes, in.lastSeq); err != nil {
		if db.manifest.Err() == nil {
			return err // a file did not open: nothing has changed
		}
		in.installed = true
		return db.fail("ingestion", err)
	}
	in.installed = true
	db.lastSeq = in.lastSeq
	db.visibleSeq.Store(in.lastSeq)
	in.tellIngested()
	return nil
}

// behindEpoch is the epoch number of files that were ingested behind: older than all others.
const behindEpoch = 1

func (f *familyIngestion) epoch() uint64 {
	if f.o.IngestBehind {
		return behindEpoch
	}
	return f.cf.db.manifest.NewEpoch(f.cf.id)
}

// flushOverlapped writes memtables to level 0 that hold keys of the files' ranges.
func (in *ingestion) flushOverlapped() error {
	db := in.db
	var waits []*ColumnFamily // for their immutable memtables
	var full []*ColumnFamily  // their active one too
	for _, f := range in.families {
		if f.o.IngestBehind {
			continue // below whatever a memtable becomes
		}
		// Of a read state, so that a flush that ends meanwhile does not free them. Nobody else
		// makes the active one immutable.
		s, reader, err := f.cf.enter()
		if err != nil {
			return err
		}
		active := f.overlapsMemtable(s.active)
		overlap := active || slices.ContainsFunc(s.immutables, f.overlapsMemtable)
		s.release(reader)
		if !overlap {
			continue
		}
		if !f.o.AllowBlockingFlush.or(true) {
			return fmt.Errorf("%w: column family %q: the files overlap a memtable, and AllowBlockingFlush is off", ErrInvalidArgument, f.cf.name)
		}
		waits = append(waits, f.cf)
		if active {
			full = append(full, f.cf)
		}
	}
	return db.flushHeld(in.ctx, full, waits)
}

// flushHeld writes memtables to level 0 while nobody writes: those of waits that are immutable, and the
// active ones of full, which are among waits. Only the commit leader calls it.
func (db *DB) flushHeld(ctx context.Context, full, waits []*ColumnFamily) error {
	if len(full) > 0 {
		if err := db.switchMemtables(full, 0); err != nil {
			return err
		}
	}
	for _, cf := range waits {
		db.mu.Lock()
		if len(cf.immutables) > 0 {
			cf.flushBelow = max(cf.flushBelow, cf.immutables[0].id)
		}
		db.work.Broadcast()
		db.mu.Unlock()
	}
	for _, cf := range waits {
		err := db.waitUntil(ctx, func() (bool, error) { return len(cf.immutables) == 0, db.background })
		if err != nil {
			return err
		}
	}
	return nil
}

// holdCompactions keeps compactions of the families from being chosen: one whose
// output meets the files would not know of them.
func (in *ingestion) holdCompactions(hold bool) {
	db := in.db
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, f := range in.families {
		f.cf.ingesting = hold
	}
	db.work.Broadcast()
}

// discard removes what a failed ingestion left in the directory, unless the
// MANIFEST may name it.
func (in *ingestion) discard() error {
	if in.installed {
		return nil
	}
	var errs []error
	for _, f := range in.files {
		if f.meta == nil {
			continue
		}
		if err := in.db.fs.Remove(f.internalPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeOriginals ends MoveFiles. A file that stays is no harm.
func (in *ingestion) removeOriginals() {
	for _, f := range in.files {
		if !f.family.o.MoveFiles {
			continue
		}
		if err := in.db.fs.Remove(f.path); err != nil {
			in.db.log.Warn("removing the original of an ingested file", "file", f.path, "err", err)
		}
	}
}
