package flatrock

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"

	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// recoveryModes are the names of WALRecoveryMode in OPTIONS files.
var recoveryModes = [...]string{"kPointInTimeRecovery", "kTolerateCorruptedTailRecords", "kAbsoluteConsistency", "kSkipAnyCorruptedRecords"}

// keptSettings are options of the database that outlive a caller who is silent about them:
// see Options.adopt.
var keptSettings = []setting[Options]{
	boolSetting("atomic_flush",
		func(o *Options) bool { return o.AtomicFlush.or(false) },
		func(o *Options, b bool) { o.AtomicFlush = toggle(b) }),
	keepSetting("WAL_ttl_seconds", func(o *Options) *int64 { return &o.WALTTLSeconds }),
	keepSetting("WAL_size_limit_MB", func(o *Options) *int64 { return &o.WALSizeLimitMB }),
	{"file_checksum_gen_factory",
		func(o *Options) string {
			if o.FileChecksumGenFactory == FileChecksumGenCrc32c {
				return "FileChecksumGenCrc32cFactory"
			}
			return "nullptr"
		},
		func(o *Options, v optionsfile.Option) error {
			id, _, err := v.Custom()
			if err == nil && !v.IsNull() && id == "FileChecksumGenCrc32cFactory" { // those of others the caller must give
				o.FileChecksumGenFactory = FileChecksumGenCrc32c
			}
			return err
		}},
	flagSetting("allow_ingest_behind", func(o *Options) *bool { return &o.AllowIngestBehind }),
}

// ownSettings are options of the database that only their caller decides, and that
// LoadLatestOptions gives back.
var ownSettings = []setting[Options]{
	flagSetting("manual_wal_flush", func(o *Options) *bool { return &o.ManualWALFlush }),
	{"wal_recovery_mode",
		func(o *Options) string { return recoveryModes[o.WALRecoveryMode] },
		func(o *Options, v optionsfile.Option) error {
			for i, name := range recoveryModes {
				if v.Text() == name {
					o.WALRecoveryMode = WALRecoveryMode(i)
					return nil
				}
			}
			return fmt.Errorf("%w: wal_recovery_mode %q: want one of %v", ErrInvalidArgument, v.Text(), recoveryModes)
		}},
}

// accessSettings are options of the database that OPTIONS files say for RocksDB's sake where
// its plain tables or memtables ask for it.
var accessSettings = []setting[Options]{
	flagSetting("allow_mmap_reads", func(o *Options) *bool { return &o.AllowMmapReads }),
	flagSetting("use_direct_reads", func(o *Options) *bool { return &o.UseDirectReads }),
	boolSetting("allow_concurrent_memtable_write",
		func(o *Options) bool { return o.AllowConcurrentMemtableWrite.or(true) },
		func(o *Options, b bool) { o.AllowConcurrentMemtableWrite = toggle(b) }),
}

// keepSetting is for limits whose negative value of ours says none, whatever is stored.
func keepSetting(name string, field func(*Options) *int64) setting[Options] {
	return setting[Options]{name,
		func(o *Options) string { return strconv.FormatInt(max(*field(o), 0), 10) },
		func(o *Options, v optionsfile.Option) error {
			n, err := v.Uint64()
			*field(o) = int64(min(n, 1<<32)) // more is no limit either
			return err
		}}
}

// adopt takes over from an OPTIONS file what the caller is silent about and other programs
// count on: that the families are flushed together, that logs are kept for followers, that
// files have checksums, and what AllowIngestBehind keeps, which is lost for good once a
// compaction ran without it.
func (opts *Options) adopt(f *optionsfile.File) error {
	var stored Options
	if err := readSettings(f.DB(), keptSettings, &stored); err != nil {
		return err
	}
	if opts.AtomicFlush == Default {
		opts.AtomicFlush = stored.AtomicFlush
	}
	if err := opts.checkPipelined(); err != nil {
		return err
	}
	if opts.WALTTLSeconds == 0 {
		opts.WALTTLSeconds = stored.WALTTLSeconds
	}
	if opts.WALSizeLimitMB == 0 {
		opts.WALSizeLimitMB = stored.WALSizeLimitMB
	}
	if opts.FileChecksumGenFactory == nil {
		opts.FileChecksumGenFactory = stored.FileChecksumGenFactory
	}
	opts.AllowIngestBehind = opts.AllowIngestBehind || stored.AllowIngestBehind
	return nil
}

// LoadLatestOptions returns the options that the newest OPTIONS file in dir has, of the
// database and in ColumnFamilies of each family, ready for Open. Open by itself takes the options
// of families from there, and those of the database only where it says so. What has no
// form in such a file (custom comparators and merge operators, listeners, caches) is left
// to the caller. A nil fsys is the operating system's. RocksDB: LoadLatestOptions.
func LoadLatestOptions(fsys mmapfs.FS, dir string) (*Options, error) {
	if fsys == nil {
		fsys = mmapfs.OS
	}
	o, db := &Options{FS: fsys}, &DB{dir: dir, fs: fsys, log: slog.New(slog.DiscardHandler)}
	f, number, err := optionsfile.LoadLatest(db.fs, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no OPTIONS file", ErrNoDatabase, dir)
	}
	if err == nil {
		err = o.load(db, f)
	}
	if err != nil {
		return nil, fmt.Errorf("OPTIONS-%06d: %w", number, err)
	}
	return o, nil
}

// LoadOptionsFromFile is LoadLatestOptions of one OPTIONS file, wherever it lies: to make a
// database like another, or to try options of RocksDB's tuning. Its wal_dir, the path of a
// database that exists, is left out. RocksDB: LoadOptionsFromFile.
func LoadOptionsFromFile(fsys mmapfs.FS, file string) (*Options, error) {
	if fsys == nil {
		fsys = mmapfs.OS
	}
	o, db := &Options{FS: fsys}, &DB{dir: filepath.Dir(file), fs: fsys, log: slog.New(slog.DiscardHandler)}
	f, err := optionsfile.LoadFile(fsys, file)
	if err == nil {
		err = o.load(db, f)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	o.WALDir = ""
	return o, nil
}

func (opts *Options) load(db *DB, f *optionsfile.File) error {
	s := f.DB()
	for _, table := range [][]setting[Options]{dbSettings, keptSettings, ownSettings} {
		if err := readSettings(s, table, opts); err != nil {
			return err
		}
	}
	if v, ok := s.Lookup("wal_dir"); ok && v.Text() != "" && !sameDir(v.Text(), db.dir) {
		opts.WALDir = v.Text()
	}
	plain, hash := false, false
	for _, name := range f.Families() {
		o, err := db.readFamily(f, name)
		if err != nil {
			return fmt.Errorf("column family %q: %w", name, err)
		}
		_, isPlain := o.Table.(PlainTableOptions)
		plain, hash = plain || isPlain, hash || o.MemTable.Kind != SkipList
		opts.ColumnFamilies = append(opts.ColumnFamilies, ColumnFamilyDescriptor{Name: name, Options: o})
	}
	// With plain tables, and with memtables of one writer, the file says what RocksDB needs.
	var given Options
	if err := readSettings(s, accessSettings, &given); err != nil {
		return err
	}
	if !plain {
		opts.AllowMmapReads, opts.UseDirectReads = given.AllowMmapReads, given.UseDirectReads
	}
	if !hash {
		opts.AllowConcurrentMemtableWrite = given.AllowConcurrentMemtableWrite
	}
	return nil
}
