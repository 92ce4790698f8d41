package flatrock

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/plaintable"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// writtenAs is the RocksDB version whose option names the OPTIONS files keep to:
// RocksDB refuses a file with a name that it does not know.
const writtenAs = "7.8.3"

// storedOptions is what an OPTIONS file says about the families, by name.
type storedOptions map[string]*ColumnFamilyOptions

// loadOptions reads the newest OPTIONS file. A directory without one, or with one
// that RocksDB itself would refuse, has no stored options.
func (db *DB) loadOptions() (storedOptions, error) {
	f, number, err := optionsfile.LoadLatest(db.fs, db.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return storedOptions{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("OPTIONS-%06d: %w", number, err)
	}
	return db.optionsOf(f, number)
}

// optionsOf is what an OPTIONS file says about the families.
func (db *DB) optionsOf(f *optionsfile.File, number uint64) (storedOptions, error) {
	if v, ok := f.Find(optionsfile.TitleDB, "").Lookup("wal_dir"); ok && db.opts.WALDir == "" && v.Text() != "" && !sameDir(v.Text(), db.dir) {
		// Never followed on its own: in a copy of a database (a checkpoint, a backup) it
		// names the logs of the original.
		return nil, fmt.Errorf("%w: OPTIONS-%06d says that the logs are in %q: set Options.WALDir to where they are now", ErrInvalidArgument, number, v.Text())
	}
	if db.opening {
		if err := db.opts.adopt(f); err != nil {
			return nil, fmt.Errorf("OPTIONS-%06d: %w", number, err)
		}
	}
	stored := storedOptions{}
	for _, name := range f.Families() {
		o, err := db.readFamily(f, name)
		if err != nil {
			return nil, fmt.Errorf("OPTIONS-%06d: column family %q: %w", number, name, err)
		}
		stored[name] = o
	}
	return stored, nil
}

func sameDir(a, b string) bool { return filepath.Clean(a) == filepath.Clean(b) }

// setting ties an option to its name in OPTIONS files.
type setting[T any] struct {
	name string
	get  func(*T) string
	set  func(*T, optionsfile.Option) error
}

func intSetting[T any, I int | int64 | uint32](name string, field func(*T) *I) setting[T] {
	return setting[T]{name,
		func(o *T) string { return strconv.FormatInt(int64(*field(o)), 10) },
		func(o *T, v optionsfile.Option) error {
			n, err := v.Int64()
			*field(o) = I(n)
			return err
		}}
}

// limitSetting is for limits whose zero in RocksDB means none, our NoLimit.
func limitSetting[T any](name string, field func(*T) *int64) setting[T] {
	return setting[T]{name,
		func(o *T) string { return strconv.FormatInt(max(*field(o), 0), 10) },
		func(o *T, v optionsfile.Option) error {
			n, err := v.Int64()
			if n == 0 {
				n = NoLimit
			}
			*field(o) = n
			return err
		}}
}

// unsetSetting is for numbers whose -1 in RocksDB is our zero: not set.
func unsetSetting[T any](name string, field func(*T) *int) setting[T] {
	return setting[T]{name,
		func(o *T) string {
			if n := *field(o); n != 0 {
				return strconv.Itoa(n)
			}
			return "-1"
		},
		func(o *T, v optionsfile.Option) error {
			n, err := v.Int64()
			*field(o) = int(max(n, 0))
			return err
		}}
}

func boolSetting[T any](name string, get func(*T) bool, set func(*T, bool)) setting[T] {
	return setting[T]{name,
		func(o *T) string { return strconv.FormatBool(get(o)) },
		func(o *T, v optionsfile.Option) error {
			b, err := v.Bool()
			set(o, b)
			return err
		}}
}

func toggle(b bool) Toggle {
	if b {
		return On
	}
	return Off
}

// familySettings are the options of a family that are plain values.
var familySettings = slices.Concat(compactionSettings, []setting[ColumnFamilyOptions]{
	intSetting("write_buffer_size", func(o *ColumnFamilyOptions) *int64 { return &o.WriteBufferSize }),
	intSetting("max_write_buffer_number", func(o *ColumnFamilyOptions) *int { return &o.MaxWriteBufferNumber }),
	intSetting("min_write_buffer_number_to_merge", func(o *ColumnFamilyOptions) *int { return &o.MinWriteBufferNumberToMerge }),
	intSetting("num_levels", func(o *ColumnFamilyOptions) *int { return &o.NumLevels }),
	intSetting("level0_file_num_compaction_trigger", func(o *ColumnFamilyOptions) *int { return &o.Level0FileNumCompactionTrigger }),
	intSetting("level0_slowdown_writes_trigger", func(o *ColumnFamilyOptions) *int { return &o.Level0SlowdownWritesTrigger }),
	intSetting("level0_stop_writes_trigger", func(o *ColumnFamilyOptions) *int { return &o.Level0StopWritesTrigger }),
	limitSetting("soft_pending_compaction_bytes_limit", func(o *ColumnFamilyOptions) *int64 { return &o.SoftPendingCompactionBytesLimit }),
	limitSetting("hard_pending_compaction_bytes_limit", func(o *ColumnFamilyOptions) *int64 { return &o.HardPendingCompactionBytesLimit }),
	intSetting("target_file_size_base", func(o *ColumnFamilyOptions) *int64 { return &o.TargetFileSizeBase }),
	intSetting("target_file_size_multiplier", func(o *ColumnFamilyOptions) *int { return &o.TargetFileSizeMultiplier }),
	intSetting("max_bytes_for_level_base", func(o *ColumnFamilyOptions) *int64 { return &o.MaxBytesForLevelBase }),
	{"max_bytes_for_level_multiplier",
		func(o *ColumnFamilyOptions) string { return optionsfile.FormatFloat(o.MaxBytesForLevelMultiplier) },
		func(o *ColumnFamilyOptions, v optionsfile.Option) (err error) {
			o.MaxBytesForLevelMultiplier, err = v.Float64()
			return err
		}},
	flagSetting("paranoid_file_checks", func(o *ColumnFamilyOptions) *bool { return &o.ParanoidFileChecks }),
	boolSetting("level_compaction_dynamic_level_bytes",
		func(o *ColumnFamilyOptions) bool { return o.LevelCompactionDynamicLevelBytes.or(true) },
		func(o *ColumnFamilyOptions, b bool) { o.LevelCompactionDynamicLevelBytes = toggle(b) }),
	boolSetting("disable_auto_compactions",
		func(o *ColumnFamilyOptions) bool { return o.DisableAutoCompactions },
		func(o *ColumnFamilyOptions, b bool) { o.DisableAutoCompactions = b }),
	intSetting("bloom_locality", func(o *ColumnFamilyOptions) *uint32 { return &o.BloomLocality }),
	notWritten(intSetting("block_protection_bytes_per_key", func(o *ColumnFamilyOptions) *int { return &o.BlockProtectionBytesPerKey })),
	intSetting("memtable_protection_bytes_per_key", func(o *ColumnFamilyOptions) *int { return &o.MemtableProtectionBytesPerKey }),
	notWritten(flagSetting("memtable_verify_per_key_checksum_on_seek", func(o *ColumnFamilyOptions) *bool { return &o.MemtableVerifyPerKeyChecksumOnSeek })),
})

// dbSettings are the options of the database that are plain values.
var dbSettings = []setting[Options]{
	intSetting("max_total_wal_size", func(o *Options) *int64 { return &o.MaxTotalWALSize }),
	intSetting("max_manifest_file_size", func(o *Options) *int64 { return &o.MaxManifestFileSize }),
	{"info_log_level",
		func(o *Options) string { return infoLogLevelName(o.InfoLogLevel) },
		func(o *Options, v optionsfile.Option) (err error) {
			o.InfoLogLevel, err = parseInfoLogLevel(v.Text())
			return err
		}},
	notWritten(setting[Options]{"db_log_dir", // RocksDB 7.8 does not write it either
		func(o *Options) string { return optionsfile.Escape(o.DBLogDir) },
		func(o *Options, v optionsfile.Option) error {
			o.DBLogDir = v.Text()
			return nil
		}}),
	intSetting("keep_log_file_num", func(o *Options) *int { return &o.KeepLogFileNum }),
	intSetting("max_log_file_size", func(o *Options) *int64 { return &o.MaxLogFileSize }),
	intSetting("log_file_time_to_roll", func(o *Options) *int64 { return &o.LogFileTimeToRoll }),
	{"stats_dump_period_sec",
		func(o *Options) string { return strconv.Itoa(max(o.StatsDumpPeriodSec, 0)) },
		func(o *Options, v optionsfile.Option) error {
			n, err := v.Int()
			if o.StatsDumpPeriodSec = n; n == 0 {
				o.StatsDumpPeriodSec = -1 // RocksDB's word for never
			}
			return err
		}},
	intSetting("delayed_write_rate", func(o *Options) *int64 { return &o.DelayedWriteRate }),
	intSetting("max_background_jobs", func(o *Options) *int { return &o.MaxBackgroundJobs }),
	unsetSetting("max_background_compactions", func(o *Options) *int { return &o.MaxBackgroundCompactions }),
	unsetSetting("max_background_flushes", func(o *Options) *int { return &o.MaxBackgroundFlushes }),
	{"max_bgerror_resume_count",
		func(o *Options) string {
			switch n := o.MaxBgErrorResumeCount; {
			case n == 0:
				return strconv.Itoa(math.MaxInt32)
			default:
				return strconv.Itoa(max(n, 0))
			}
		},
		func(o *Options, v optionsfile.Option) error {
			n, err := v.Int64()
			switch {
			case n <= 0:
				n = -1
			case n == math.MaxInt32:
				n = 0
			}
			o.MaxBgErrorResumeCount = int(n)
			return err
		}},
	{"bgerror_resume_retry_interval",
		func(o *Options) string { return strconv.FormatInt(o.BgErrorResumeRetryInterval.Microseconds(), 10) },
		func(o *Options, v optionsfile.Option) error {
			n, err := v.Int64()
			o.BgErrorResumeRetryInterval = time.Duration(n) * time.Microsecond
			return err
		}},
	intSetting("db_write_buffer_size", func(o *Options) *int64 { return &o.DBWriteBufferSize }),
	intSetting("bytes_per_sync", func(o *Options) *int64 { return &o.BytesPerSync }),
	intSetting("wal_bytes_per_sync", func(o *Options) *int64 { return &o.WALBytesPerSync }),
	flagSetting("strict_bytes_per_sync", func(o *Options) *bool { return &o.StrictBytesPerSync }),
	{"compaction_readahead_size",
		func(o *Options) string { return strconv.FormatInt(o.CompactionReadaheadSize, 10) },
		func(o *Options, v optionsfile.Option) error {
			n, err := v.Int64()
			o.CompactionReadaheadSize = max(n, 0)
			return err
		}},
	intSetting("max_subcompactions", func(o *Options) *int { return &o.MaxSubcompactions }),
	flagSetting("enable_pipelined_write", func(o *Options) *bool { return &o.EnablePipelinedWrite }),
	flagSetting("avoid_flush_during_recovery", func(o *Options) *bool { return &o.AvoidFlushDuringRecovery }),
	flagSetting("avoid_flush_during_shutdown", func(o *Options) *bool { return &o.AvoidFlushDuringShutdown }),
}

// plainSettings are the options of plain tables, as the format has them: zero
// means zero here.
var plainSettings = []setting[plaintable.Options]{
	intSetting("user_key_len", func(o *plaintable.Options) *uint32 { return &o.UserKeyLen }),
	intSetting("bloom_bits_per_key", func(o *plaintable.Options) *int { return &o.BloomBitsPerKey }),
	{"hash_table_ratio",
		func(o *plaintable.Options) string { return optionsfile.FormatFloat(o.HashTableRatio) },
		func(o *plaintable.Options, v optionsfile.Option) (err error) {
			o.HashTableRatio, err = v.Float64()
			return err
		}},
	intSetting("index_sparseness", func(o *plaintable.Options) *int { return &o.IndexSparseness }),
	intSetting("huge_page_tlb_size", func(o *plaintable.Options) *int { return &o.HugePageTLBSize }),
	{"encoding_type",
		func(o *plaintable.Options) string {
			if o.EncodingType == plaintable.Prefix {
				return "kPrefix"
			}
			return "kPlain"
		},
		func(o *plaintable.Options, v optionsfile.Option) error {
			switch v.Text() {
			case "kPlain":
				o.EncodingType = plaintable.Plain
			case "kPrefix":
				o.EncodingType = plaintable.Prefix
			default:
				return fmt.Errorf("%w: encoding_type %q: want kPlain or kPrefix", ErrInvalidArgument, v.Text())
			}
			return nil
		}},
	boolSetting("full_scan_mode",
		func(o *plaintable.Options) bool { return o.FullScanMode },
		func(o *plaintable.Options, b bool) { o.FullScanMode = b }),
	boolSetting("store_index_in_file",
		func(o *plaintable.Options) bool { return o.StoreIndexInFile },
		func(o *plaintable.Options, b bool) { o.StoreIndexInFile = b }),
}

// readSettings applies what a section says; names that are not in the table are
// RocksDB's options without meaning here.
func readSettings[T any](s *optionsfile.Section, table []setting[T], o *T) error {
	for _, t := range table {
		v, ok := s.Lookup(t.name)
		if !ok {
			continue
		}
		if err := t.set(o, v); err != nil {
			return fmt.Errorf("line %d: %s=%s: %w", v.Line, t.name, v.Value, err)
		}
	}
	return nil
}

func writeSettings[T any](s *optionsfile.Section, table []setting[T], o *T) {
	for _, t := range table {
		if t.get != nil {
			s.Set(t.name, t.get(o))
		}
	}
}

// notWritten is s for names that are only read: RocksDB refuses a file with a
// name that it does not know.
func notWritten[T any](s setting[T]) setting[T] {
	s.get = nil
	return s
}

// memtableForms are the names of the memtables in OPTIONS files.
var memtableForms = []struct {
	kind        MemTableKind
	name, short string
}{
	{SkipList, "SkipListFactory", "skip_list"},
	{HashSkipList, "HashSkipListRepFactory", "prefix_hash"},
	{HashLinkList, "HashLinkListRepFactory", "hash_linkedlist"},
	{Vector, "VectorRepFactory", "vector"},
}

func (db *DB) readFamily(f *optionsfile.File, name string) (*ColumnFamilyOptions, error) {
	o := new(ColumnFamilyOptions)
	s := f.Find(optionsfile.TitleFamily, name)
	if err := readSettings(s, familySettings, o); err != nil {
		return nil, err
	}
	if v, ok := s.Lookup("comparator"); ok && v.Text() == ReverseBytewise.Name() {
		o.Comparator = ReverseBytewise // other names: the MANIFEST decides
	}
	if v, ok := s.Lookup("prefix_extractor"); ok {
		e, err := prefixhash.Parse(v.Text())
		if err != nil {
			// Keys and files do not depend on it, so the family opens; files that were
			// built with it say so themselves.
			db.log.Warn("unknown prefix extractor in the OPTIONS file", "family", name, "extractor", v.Text())
		}
		o.PrefixExtractor = e
	}
	if v, ok := s.Lookup("merge_operator"); ok {
		op, err := readMergeOperator(v)
		if err != nil {
			db.log.Warn("unknown merge operator in the OPTIONS file; reading merge operands will fail", "family", name, "operator", v.Text())
		}
		o.MergeOperator = op
	}
	if v, ok := s.Lookup("memtable_factory"); ok {
		m, err := readMemtable(v)
		if err != nil {
			return nil, fmt.Errorf("line %d: memtable_factory=%s: %w", v.Line, v.Value, err)
		}
		o.MemTable = m
	}
	factory := "BlockBasedTable"
	if v, ok := s.Lookup("table_factory"); ok {
		id, _, err := v.Custom()
		if err != nil {
			return nil, err
		}
		factory = id
	}
	switch factory {
	case "PlainTable":
		po := plaintable.DefaultOptions()
		po.StoreIndexInFile = false // RocksDB's default, where the file is silent
		if t := f.Table(name); t != nil {
			if err := readSettings(t, plainSettings, &po); err != nil {
				return nil, err
			}
		}
		o.Table = plainOptions(po)
	case "BlockBasedTable", "BlockBasedTableFactory":
		var bo BlockBasedTableOptions
		if t := f.Table(name); t != nil {
			if err := readSettings(t, blockSettings, &bo); err != nil {
				return nil, err
			}
		}
		if err := readSettings(s, compressionSettings, o); err != nil {
			return nil, err
		}
		o.Table = bo
	default:
		return nil, fmt.Errorf("%w: table_factory %q: want PlainTable or BlockBasedTable", ErrNotSupported, factory)
	}
	return o, nil
}

// plainOptions turns the format's options, where zero means zero, into ours.
func plainOptions(f plaintable.Options) PlainTableOptions {
	o := PlainTableOptions{
		UserKeyLen:       f.UserKeyLen,
		BloomBitsPerKey:  f.BloomBitsPerKey,
		HashTableRatio:   f.HashTableRatio,
		IndexSparseness:  f.IndexSparseness,
		EncodingType:     f.EncodingType,
		FullScanMode:     f.FullScanMode,
		StoreIndexInFile: toggle(f.StoreIndexInFile),
	}
	if o.BloomBitsPerKey == 0 {
		o.BloomBitsPerKey = NoBloom
	}
	if o.HashTableRatio == 0 {
		o.HashTableRatio = TotalOrder
	}
	if o.IndexSparseness == 0 {
		o.IndexSparseness = IndexEveryRow
	}
	return o
}

func readMemtable(v optionsfile.Option) (m MemTableOptions, err error) {
	id, params, err := v.Custom()
	if err != nil {
		return m, err
	}
	// The short forms carry the bucket count behind a colon: prefix_hash:1000.
	base, count, hasCount := cutColon(id)
	for _, form := range memtableForms {
		if base == form.name || base == form.short {
			m.Kind = form.kind
			if hasCount {
				m.BucketCount, err = strconv.Atoi(count)
				if err != nil {
					return m, err
				}
			}
			for _, p := range params {
				var field *int
				switch p.Key {
				case "bucket_count":
					field = &m.BucketCount
				case "skiplist_height":
					field = &m.SkipListHeight
				case "branching_factor":
					field = &m.BranchingFactor
				case "threshold":
					field = &m.Threshold
				default:
					continue
				}
				n, err := p.Int64()
				if err != nil {
					return m, err
				}
				*field = int(n)
			}
			if form.kind == SkipList || form.kind == Vector {
				m.BucketCount = 0 // for these the number means something else (lookahead, size)
			}
			return m, nil
		}
	}
	return m, fmt.Errorf("%w: unknown memtable %q", ErrNotSupported, base)
}

func cutColon(s string) (base, rest string, ok bool) {
	for i := range len(s) {
		if s[i] == ':' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func (m MemTableOptions) text() string {
	n := func(key string, v int) optionsfile.Option {
		return optionsfile.Option{Key: key, Value: strconv.Itoa(v)}
	}
	id := func(s string) optionsfile.Option { return optionsfile.Option{Key: "id", Value: s} }
	switch m.Kind {
	case HashSkipList:
		return optionsfile.FormatObject(id("HashSkipListRepFactory"), n("branching_factor", m.BranchingFactor), n("skiplist_height", m.SkipListHeight), n("bucket_count", m.BucketCount))
	case HashLinkList:
		return optionsfile.FormatObject(id("HashLinkListRepFactory"), n("threshold", m.Threshold), n("bucket_count", m.BucketCount))
	case Vector:
		return "VectorRepFactory"
	}
	return "SkipListFactory"
}

// writeOptions writes a new OPTIONS file with the options in force, so that Open,
// RocksDB and its tools find the families as they are.
func (db *DB) writeOptions() error {
	db.optionsMu.Lock()
	defer db.optionsMu.Unlock()
	return db.writeOptionsLocked()
}

// writeOptionsLocked is writeOptions under optionsMu. It adds families that are about to
// be created.
func (db *DB) writeOptionsLocked(coming ...*ColumnFamily) error {
	f := optionsfile.New(writtenAs)
	db.writeDBOptions(f)
	for _, cf := range append(db.ColumnFamilies(), coming...) {
		cf.writeOptions(f)
	}
	if err := optionsfile.Write(db.fs, db.dir, db.manifest.NewFileNumber(), f); err != nil {
		return err
	}
	db.whenDeletable(func() {
		if err := optionsfile.Prune(db.fs, db.dir); err != nil {
			db.log.Warn("deleting older OPTIONS files", "err", err) // the next file that is written tries again
		}
	})
	return nil
}

func (db *DB) writeDBOptions(f *optionsfile.File) {
	s := f.Add(optionsfile.TitleDB, "")
	s.Set("create_if_missing", strconv.FormatBool(db.opts.CreateIfMissing))
	s.Set("create_missing_column_families", strconv.FormatBool(db.opts.CreateMissingColumnFamilies))
	s.Set("max_open_files", "-1")
	if db.opts.WALDir != "" && !sameDir(db.opts.WALDir, db.dir) {
		s.Set("wal_dir", optionsfile.Escape(db.opts.WALDir))
	}
	writeSettings(s, dbSettings, db.mutable())
	writeSettings(s, keptSettings, db.opts)
	writeSettings(s, ownSettings, db.opts)
	hash, plain := false, false
	for _, cf := range db.ColumnFamilies() {
		kind := cf.opts.MemTable.Kind
		hash = hash || kind != SkipList
		_, isPlain := cf.opts.Table.(PlainTableOptions)
		plain = plain || isPlain
	}
	// RocksDB refuses to open a memtable that takes one writer only with the default,
	// true, and its plain tables are fast only through mmap.
	s.Set("allow_concurrent_memtable_write", strconv.FormatBool(!hash && db.opts.AllowConcurrentMemtableWrite.or(true)))
	s.Set("allow_mmap_reads", strconv.FormatBool(plain || db.opts.AllowMmapReads))
	s.Set("use_direct_reads", strconv.FormatBool(db.opts.UseDirectReads && !plain)) // RocksDB refuses both
}

func (cf *ColumnFamily) writeOptions(f *optionsfile.File) {
	o := cf.mutable()
	s := f.Add(optionsfile.TitleFamily, cf.name)
	s.Set("comparator", optionsfile.Escape(o.Comparator.Name()))
	extractor := "nullptr"
	if o.PrefixExtractor != nil {
		extractor = optionsfile.Escape(o.PrefixExtractor.Name())
	}
	s.Set("prefix_extractor", extractor)
	s.Set("merge_operator", formatMergeOperator(o.MergeOperator))
	s.Set("memtable_factory", o.MemTable.text())
	s.Set("table_factory", o.Table.tableFactoryName())
	writeSettings(s, familySettings, o)
	o.unstored(s)
	s.Set("compression", "kNoCompression")
	t := f.Add(optionsfile.TitleTable+o.Table.tableFactoryName(), cf.name)
	switch to := o.Table.(type) {
	case PlainTableOptions:
		po := to.format()
		writeSettings(t, plainSettings, &po)
		if po.HashTableRatio != 0 {
			// RocksDB's iterators skip this many versions of a key, then seek; and a seek
			// in total order is an error in its plain tables with a hash index. Without
			// this its scans (ldb scan among them) end there.
			s.Set("max_sequential_skip_in_iterations", "18446744073709551615")
		}
	case BlockBasedTableOptions:
		writeSettings(t, blockSettings, &to)
		writeSettings(s, compressionSettings, o)
	}
}
