package flatrock

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/memtable"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/plaintable"
	"github.com/flatrock-db/flatrock/prefixhash"
	"github.com/flatrock-db/flatrock/statistics"
)

// Toggle is a boolean option whose default is not always false.
type Toggle int8

const (
	Default Toggle = iota // what the option's documentation says
	On
	Off
)

func (t Toggle) or(def bool) bool {
	switch t {
	case On:
		return true
	case Off:
		return false
	}
	return def
}

// WALRecoveryMode says what Open does with a damaged log. RocksDB: wal_recovery_mode.
type WALRecoveryMode int8

const (
	// PointInTimeRecovery, the default, keeps everything up to the first damage
	// and nothing after it, so that what survives is a prefix of what was written.
	PointInTimeRecovery WALRecoveryMode = iota
	// TolerateCorruptedTailRecords accepts a torn end of the last record written
	// and refuses any other damage.
	TolerateCorruptedTailRecords
	// AbsoluteConsistency refuses any damage, a torn end included.
	AbsoluteConsistency
	// SkipAnyCorruptedRecords drops damaged records and keeps what follows them:
	// a last resort for salvage.
	SkipAnyCorruptedRecords
)

// WALWriteMode says how log records reach the page cache. What a write that
// returned nil promises does not depend on it.
type WALWriteMode int8

const (
	// WALAuto, the default, maps the log where the file system reserves blocks
	// for good (ext4, xfs, tmpfs) and writes it elsewhere.
	WALAuto WALWriteMode = iota
	// WALMapped insists on the mapping: Open fails where it is not safe.
	WALMapped
	// WALWrite always uses write(2).
	WALWrite
)

// Options configures a database. The zero value is valid. Fields keep
// RocksDB's names; each says which.
type Options struct {
	// ColumnFamily holds the options of the default column family. Nil means what
	// the OPTIONS file of the directory says, and RocksDB's defaults for a new one.
	ColumnFamily *ColumnFamilyOptions

	// ColumnFamilies names further families with their options. A family that
	// exists and is not named here is opened too, as the OPTIONS file describes
	// it. A nil Options field means the same.
	ColumnFamilies []ColumnFamilyDescriptor

	// CreateIfMissing creates the database when the directory holds none.
	// RocksDB: create_if_missing.
	CreateIfMissing bool
	// CreateMissingColumnFamilies creates the named families that do not exist.
	// RocksDB: create_missing_column_families.
	CreateMissingColumnFamilies bool
	// ErrorIfExists makes Open fail when the directory holds a database.
	// RocksDB: error_if_exists.
	ErrorIfExists bool
	// ReadOnly opens without writing anything, not even a lock: logs are replayed
	// into memory. Several readers may open the same directory; one that is being
	// written gives the state of the moment. RocksDB: OpenForReadOnly.
	ReadOnly bool

	// Statistics counts what the database does, under RocksDB's names; several databases may
	// share one. Nil counts nothing. See statistics.New. RocksDB: statistics.
	Statistics *statistics.Statistics

	// FS is where files live. Nil means the operating system (mmapfs.OS).
	FS mmapfs.FS
	// Logger receives background events. Nil means a file LOG in the database directory, with
	// RocksDB's lines, which a new one replaces at each Open (see KeepLogFileNum); slog.DiscardHandler
	// makes none. A read-only database writes no file. RocksDB: info_log.
	Logger *slog.Logger
	// InfoLogLevel is the least level of lines in the LOG file. RocksDB: info_log_level.
	InfoLogLevel slog.Level
	// DBLogDir is where LOG files live, under names that begin with the path of the database. Empty means
	// the database directory. RocksDB: db_log_dir.
	DBLogDir string
	// KeepLogFileNum is how many LOG files are kept, the current one included. Zero means 1000.
	// RocksDB: keep_log_file_num.
	KeepLogFileNum int
	// MaxLogFileSize is how many bytes a LOG file may have before a new one is begun. Zero means no
	// limit. RocksDB: max_log_file_size.
	MaxLogFileSize int64
	// LogFileTimeToRoll is the same in seconds. Zero means no limit. RocksDB: log_file_time_to_roll.
	LogFileTimeToRoll int64
	// StatsDumpPeriodSec is how many seconds pass between two dumps of rocksdb.stats into the LOG
	// file. Zero means 600, a negative number never. May change while open. RocksDB: stats_dump_period_sec.
	StatsDumpPeriodSec int
	// Listeners are told what happens; see EventListener. RocksDB: listeners.
	Listeners []*EventListener

	// WALDir is where logs live. Empty means the database directory; Open refuses that when
	// the OPTIONS file names another one.
	// RocksDB: wal_dir.
	WALDir string
	// WALRecoveryMode is what Open does with damaged logs. RocksDB: wal_recovery_mode.
	WALRecoveryMode WALRecoveryMode
	// WALWriteMode is how log records are written.
	WALWriteMode WALWriteMode
	// MaxTotalWALSize is how many bytes of live logs start a flush of the families
	// that keep the oldest alive. Zero means four times the sum over the families of
	// WriteBufferSize × MaxWriteBufferNumber. RocksDB: max_total_wal_size.
	MaxTotalWALSize int64
	// FileChecksumGenFactory makes checksums of whole table files, for the MANIFEST and VerifyFileChecksums;
	// new files are read once more for it. Nil means none; see FileChecksumGenCrc32c. RocksDB: file_checksum_gen_factory.
	FileChecksumGenFactory *FileChecksumGenFactory
	// ManualWALFlush keeps log records in the process until FlushWAL, SyncWAL or a synced write, or until
	// there is a MiB of them: a write that returned nil survives the death of the process only
	// then. It excludes WALMapped. RocksDB: manual_wal_flush.
	ManualWALFlush bool
	// AtomicFlush flushes all families together, and makes the files count together: after a crash the
	// families hold the same prefix of the writes, also of those with DisableWAL. RocksDB: atomic_flush.
	AtomicFlush bool
	// WALTTLSeconds and WALSizeLimitMB keep logs that recovery no longer needs, in the directory
	// archive below the logs, for GetUpdatesSince: until they are so many seconds old,
	// and as long as they take at most so many MiB together. Zero is no limit; with
	// both zero nothing is kept. RocksDB: WAL_ttl_seconds, WAL_size_limit_MB.
	WALTTLSeconds, WALSizeLimitMB int64
	// MaxManifestFileSize is how large a MANIFEST grows, in bytes, before a new one
	// is begun. Zero means 1 GiB. RocksDB: max_manifest_file_size.
	MaxManifestFileSize int64
	// MaxWriteBatchGroupSize bounds how many bytes of concurrent writes share one
	// log record. Zero means 1 MiB. RocksDB: max_write_batch_group_size_bytes.
	MaxWriteBatchGroupSize int64

	// MaxBackgroundJobs is how many flushes and compactions may run at once: a
	// quarter of them, but at least one, are for flushes. Zero means 2. RocksDB: max_background_jobs.
	MaxBackgroundJobs int
	// MaxBackgroundCompactions and MaxBackgroundFlushes say it for each; once one of them is
	// set, MaxBackgroundJobs has no meaning, and the other counts as 1 if it is zero.
	// RocksDB: max_background_compactions, max_background_flushes.
	MaxBackgroundCompactions, MaxBackgroundFlushes int
	// MaxSubcompactions is how many goroutines a compaction out of level 0, or one that was
	// asked for, may share its key range among. Zero means 1. RocksDB: max_subcompactions.
	MaxSubcompactions int

	// MaxBgErrorResumeCount is how often the database tries by itself to Resume after a full disk, each
	// time after BgErrorResumeRetryInterval. Zero means until there is room, a negative number
	// never; zero means 1 s for the interval. RocksDB: max_bgerror_resume_count, bgerror_resume_retry_interval.
	MaxBgErrorResumeCount      int
	BgErrorResumeRetryInterval time.Duration

	// AllowConcurrentMemtableWrite lets the writers of a group insert their own batches side by side,
	// where those are large and the memtables skip lists. Default means on.
	// RocksDB: allow_concurrent_memtable_write.
	AllowConcurrentMemtableWrite Toggle
	// DBWriteBufferSize is how many bytes the memtables of all families together may hold before
	// the oldest is flushed. Zero means no bound. RocksDB: db_write_buffer_size.
	DBWriteBufferSize int64
	// WriteBufferManager bounds the memtables of several databases; it replaces
	// DBWriteBufferSize. It is not stored in the OPTIONS file. RocksDB: write_buffer_manager.
	WriteBufferManager *WriteBufferManager
	// RateLimiter bounds how fast flushes and compactions write, and read if its mode says
	// so. Nil means no bound. It is not stored in the OPTIONS file. RocksDB: rate_limiter.
	RateLimiter *RateLimiter
	// BytesPerSync, if positive, lets the system begin to write table files to the device each time that so many
	// bytes have come together, instead of all at their end; StrictBytesPerSync also waits for the
	// bytes before, so that no more than twice as many are under way. Linux only.
	// RocksDB: bytes_per_sync, strict_bytes_per_sync.
	BytesPerSync       int64
	StrictBytesPerSync bool
	// WALBytesPerSync is BytesPerSync for logs. RocksDB: wal_bytes_per_sync.
	WALBytesPerSync int64
	// CompactionReadaheadSize is how many bytes compactions read at once. Zero means 2 MiB.
	// RocksDB: compaction_readahead_size.
	CompactionReadaheadSize int64

	// DelayedWriteRate is how many bytes a second writes may add at most while a family
	// delays them. The rate falls from there while compactions lose ground, and
	// rises again. Zero means RateLimiter's, or 16 MiB. RocksDB: delayed_write_rate.
	DelayedWriteRate int64

	// AvoidFlushDuringRecovery keeps replayed logs in memory instead of writing
	// them to level 0 at open. RocksDB: avoid_flush_during_recovery.
	AvoidFlushDuringRecovery bool
	// AvoidFlushDuringShutdown lets Close drop writes made with DisableWAL.
	// RocksDB: avoid_flush_during_shutdown.
	AvoidFlushDuringShutdown bool

	// AllowIngestBehind keeps the last level free for files that are ingested with
	// IngestBehind, and keeps deletes and sequence numbers that it makes necessary.
	// Families need three levels or more. RocksDB: allow_ingest_behind.
	AllowIngestBehind bool

	// DBHostID is recorded in table files. Empty means the host's name.
	// RocksDB: db_host_id.
	DBHostID string

	// BlockCacheSize is the capacity in bytes of the cache that block-based
	// families share. Zero means 32 MiB. RocksDB: block_cache.
	BlockCacheSize int64
	// ChargeMemtables makes the block cache smaller by WriteBufferSize for each memtable of the
	// block-based families, so that BlockCacheSize bounds both. RocksDB: a WriteBufferManager with a cache.
	ChargeMemtables bool
	// ChargeTableReaders makes it smaller by what open files hold outside of it: indexes and
	// filters without CacheIndexAndFilterBlocks. RocksDB: cache_usage_options.
	ChargeTableReaders bool
	// AllowMmapReads reads the files of block-based families through mappings: blocks that are
	// not compressed are used where they lie, in the page cache instead of the block cache, and values are copied
	// out of them. (Plain tables are always mapped.) Compactions use read calls all the same. RocksDB:
	// allow_mmap_reads.
	AllowMmapReads bool
	// UseDirectReads reads the files of block-based families around the page cache (O_DIRECT),
	// so that the block cache alone holds them; compactions too. Open fails with ErrNotSupported where that is not
	// possible: off Linux, and on file systems that refuse it, such as tmpfs before Linux 6.6. It excludes
	// AllowMmapReads. RocksDB: use_direct_reads.
	UseDirectReads bool

	// Placement says on which NUMA nodes memory lies and background work runs.
	// DB.Placement shows what came of it.
	Placement Placement

	clock func() time.Time // of tests; nil: time.Now
}

func (o *Options) now() time.Time {
	if o.clock != nil {
		return o.clock()
	}
	return time.Now()
}

// ColumnFamilyDescriptor names a family and its options.
type ColumnFamilyDescriptor struct {
	Name    string
	Options *ColumnFamilyOptions // nil: as stored, or the defaults
}

// Comparator orders user keys; see Bytewise and ReverseBytewise.
type Comparator = keys.Comparator

// Bytewise is the default order, ReverseBytewise its opposite.
var (
	Bytewise        = keys.Bytewise
	ReverseBytewise = keys.ReverseBytewise
)

// PrefixExtractor maps a key to its prefix. RocksDB: SliceTransform.
type PrefixExtractor = prefixhash.Extractor

// FixedPrefix takes the first n bytes; shorter keys have no prefix.
func FixedPrefix(n int) *PrefixExtractor { return prefixhash.Fixed(n) }

// CappedPrefix takes at most the first n bytes.
func CappedPrefix(n int) *PrefixExtractor { return prefixhash.Capped(n) }

// NoopPrefix takes the whole key.
func NoopPrefix() *PrefixExtractor { return prefixhash.Noop() }

// MemTableKind chooses the structure of memtables.
type MemTableKind = memtable.Kind

// The memtables of RocksDB: skip_list, prefix_hash, hash_linkedlist, vector.
const (
	SkipList     = memtable.SkipList
	HashSkipList = memtable.HashSkipList
	HashLinkList = memtable.HashLinkList
	Vector       = memtable.Vector
)

// MemTableOptions chooses and tunes the memtable. RocksDB: memtable_factory.
type MemTableOptions struct {
	// Kind is the structure. A hash kind needs a PrefixExtractor; without one the
	// skip list serves, as in RocksDB.
	Kind MemTableKind
	// BucketCount is the number of hash buckets. Zero means 1,000,000 for
	// HashSkipList and 50,000 for HashLinkList.
	BucketCount int
	// SkipListHeight and BranchingFactor shape the lists of HashSkipList. Zero
	// means 4 and 4.
	SkipListHeight  int
	BranchingFactor int
	// Threshold is how many entries turn a list of HashLinkList into a skip list.
	// Zero means 256.
	Threshold int
}

// TableFactory chooses a table format: PlainTableOptions or BlockBasedTableOptions.
type TableFactory interface {
	tableFactoryName() string // as in OPTIONS files
	validate(cf *ColumnFamilyOptions) error
}

// Encoding is how plain tables store keys.
type Encoding = plaintable.EncodingType

// PlainEncoding stores each key whole, PrefixEncoding shares prefixes between rows.
const (
	PlainEncoding  = plaintable.Plain
	PrefixEncoding = plaintable.Prefix
)

// Values that give zero back its own meaning in PlainTableOptions.
const (
	NoBloom       = -1 // BloomBitsPerKey: no bloom filter
	TotalOrder    = -1 // HashTableRatio: no hash index, binary search only
	IndexEveryRow = -1 // IndexSparseness: RocksDB's 0
)

// PlainTableOptions chooses RocksDB's plain table: rows read through mmap, for
// data that lives in RAM. RocksDB: PlainTableOptions, NewPlainTableFactory.
type PlainTableOptions struct {
	// UserKeyLen is the length of every key in bytes, or zero for any length.
	// Adding a key of another length to a fixed-length family is refused.
	UserKeyLen uint32
	// BloomBitsPerKey sizes the bloom filter. Zero means 10; NoBloom means none.
	BloomBitsPerKey int
	// HashTableRatio is prefixes per hash bucket. Zero means 0.75; TotalOrder means
	// no hash index, which is also what a family without a PrefixExtractor needs.
	HashTableRatio float64
	// IndexSparseness is how many rows of a prefix share an index record. Zero
	// means 16; IndexEveryRow means one each.
	IndexSparseness int
	// EncodingType is PlainEncoding (the default) or PrefixEncoding.
	EncodingType Encoding
	// FullScanMode reads files without index: only full scans work.
	FullScanMode bool
	// StoreIndexInFile stores index and bloom filter in the file, so that opening it needs no
	// scan. Default means on; RocksDB's default is off.
	StoreIndexInFile Toggle
	// ChunkChecksums adds a checksum for each 64 KiB of rows, which RocksDB
	// ignores. Default means on.
	ChunkChecksums Toggle
	// RangeDeletes On allows DeleteRange, which RocksDB's plain tables do not have: files keep
	// range deletes in a meta block that RocksDB would ignore, and so show what they delete. Therefore the family is
	// marked in the MANIFEST, and from then on RocksDB refuses to open the database. Off refuses DeleteRange again, and
	// takes the mark away at an Open that finds no range delete left (CompactRange with BottommostForce removes them). Default
	// means as the MANIFEST says: off in new families. It is not stored in the OPTIONS file.
	RangeDeletes Toggle
	// Verify says when the checksums of files are checked beyond what reads check: not at all
	// (the default; see DB.VerifyChecksum), when they are opened, or in the background after Open.
	Verify VerifyMode
	// VerifyReadsOneIn checks one of so many Gets and keys of MultiGets that find a row against the
	// checksums of the 64 KiB of rows around it, as they lie in memory. The choice is random; a check takes some
	// microseconds. Damage is an error of the read. Zero means none; 10000 costs less than a nanosecond a read on
	// average, besides the choice. It needs ChunkChecksums in the file. Not stored in the OPTIONS file.
	VerifyReadsOneIn int
	// ScrubBytesPerSecond goes over the rows of all files of the family in the background, again and again, at most
	// at this rate, and checks them as VerifyReadsOneIn does. Damage stops writes with ErrBackground.
	// Zero means not to. Not stored in the OPTIONS file.
	ScrubBytesPerSecond int64

	// Memory is how files are kept in RAM: none, willneed, populate (the default),
	// lock, or resident. See mmapfs.Memory. It is not stored in the OPTIONS file.
	Memory PlainTableMemory
	// LoadInBackground lets Open return before the files are in RAM: reads are
	// served from the mapping meanwhile. Default means on.
	LoadInBackground Toggle

	// marked: the MANIFEST says that files may hold range deletes.
	marked bool
}

// VerifyMode says when whole table files are checked against their checksums.
type VerifyMode int8

const (
	// VerifyOnDemand leaves it to DB.VerifyChecksum. The default.
	VerifyOnDemand VerifyMode = iota
	// VerifyAtOpen reads each file whole before it serves reads; damage fails Open.
	VerifyAtOpen
	// VerifyInBackground reads the files after Open. Damage stops writes with ErrBackground,
	// which wraps the error that names the file.
	VerifyInBackground
)

// PlainTableMemory is how the files of a plain-table family are kept in RAM.
type PlainTableMemory int8

const (
	// MemoryPopulate maps files and reads them in ahead of use; on tmpfs (Linux 6.1 and later) they move to
	// huge pages meanwhile. The default.
	MemoryPopulate PlainTableMemory = iota
	// MemoryNone maps files and lets page faults read them.
	MemoryNone
	// MemoryWillNeed maps files and asks the kernel to read them in.
	MemoryWillNeed
	// MemoryLock maps files and locks them in RAM (RLIMIT_MEMLOCK applies).
	MemoryLock
	// MemoryResident copies files into huge pages of anonymous memory and drops
	// the page cache: fastest, and no read can fault.
	MemoryResident
)

func (m PlainTableMemory) policy() mmapfs.Memory {
	switch m {
	case MemoryNone:
		return mmapfs.MemoryNone
	case MemoryWillNeed:
		return mmapfs.MemoryWillNeed
	case MemoryLock:
		return mmapfs.MemoryLock
	case MemoryResident:
		return mmapfs.MemoryResident
	}
	return mmapfs.MemoryPopulate
}

// String is the name that ParsePlainTableMemory reads.
func (m PlainTableMemory) String() string { return m.policy().String() }

// ParsePlainTableMemory reads none, willneed, populate, lock or resident.
func ParsePlainTableMemory(s string) (PlainTableMemory, error) {
	for m := MemoryPopulate; m <= MemoryResident; m++ {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, fmt.Errorf("%w: memory policy %q: want none, willneed, populate, lock or resident", ErrInvalidArgument, s)
}

func (PlainTableOptions) tableFactoryName() string { return "PlainTable" }

func (o PlainTableOptions) format() plaintable.Options {
	f := plaintable.DefaultOptions()
	f.UserKeyLen = o.UserKeyLen
	switch {
	case o.BloomBitsPerKey < 0:
		f.BloomBitsPerKey = 0
	case o.BloomBitsPerKey > 0:
		f.BloomBitsPerKey = o.BloomBitsPerKey
	}
	switch {
	case o.HashTableRatio < 0:
		f.HashTableRatio = 0
	case o.HashTableRatio > 0:
		f.HashTableRatio = o.HashTableRatio
	}
	switch {
	case o.IndexSparseness < 0:
		f.IndexSparseness = 0
	case o.IndexSparseness > 0:
		f.IndexSparseness = o.IndexSparseness
	}
	f.EncodingType = o.EncodingType
	f.FullScanMode = o.FullScanMode
	f.StoreIndexInFile = o.StoreIndexInFile.or(true)
	return f
}

func (o PlainTableOptions) validate(cf *ColumnFamilyOptions) error {
	f := o.format()
	switch {
	case cf.PrefixExtractor == nil && f.HashTableRatio != 0 && !f.FullScanMode:
		return fmt.Errorf("%w: plain table: a hash index (HashTableRatio %g) needs a PrefixExtractor; without one set HashTableRatio to TotalOrder", ErrInvalidArgument, f.HashTableRatio)
	case cf.PrefixExtractor == nil && f.EncodingType == plaintable.Prefix:
		return fmt.Errorf("%w: plain table: PrefixEncoding needs a PrefixExtractor", ErrInvalidArgument)
	case f.EncodingType != plaintable.Plain && f.EncodingType != plaintable.Prefix:
		return fmt.Errorf("%w: plain table: unknown EncodingType %d", ErrInvalidArgument, f.EncodingType)
	case math.IsNaN(f.HashTableRatio) || math.IsInf(f.HashTableRatio, 0):
		return fmt.Errorf("%w: plain table: HashTableRatio %g", ErrInvalidArgument, f.HashTableRatio)
	case o.VerifyReadsOneIn < 0 || o.ScrubBytesPerSecond < 0:
		return fmt.Errorf("%w: plain table: VerifyReadsOneIn %d, ScrubBytesPerSecond %d: want 0 or more", ErrInvalidArgument, o.VerifyReadsOneIn, o.ScrubBytesPerSecond)
	case o.Verify < VerifyOnDemand || o.Verify > VerifyInBackground:
		return fmt.Errorf("%w: plain table: unknown Verify mode %d", ErrInvalidArgument, o.Verify)
	case o.Memory < MemoryPopulate || o.Memory > MemoryResident:
		return fmt.Errorf("%w: plain table: unknown memory policy %d", ErrInvalidArgument, o.Memory)
	}
	return nil
}

// ColumnFamilyOptions configures a column family. The zero value is a
// block-based family with a skip list, as in RocksDB.
type ColumnFamilyOptions struct {
	// Comparator orders the keys. Nil means Bytewise. It cannot change once the
	// family exists. RocksDB: comparator.
	Comparator Comparator
	// MergeOperator resolves Merge. Nil makes Merge an error. RocksDB: merge_operator.
	MergeOperator MergeOperator
	// PrefixExtractor gives hash memtables and plain tables the part of the key
	// that they hash. RocksDB: prefix_extractor.
	PrefixExtractor *PrefixExtractor
	// MemTable is the structure that takes writes. RocksDB: memtable_factory.
	MemTable MemTableOptions
	// Table is the format of files. Nil means BlockBasedTableOptions{}. RocksDB: table_factory.
	Table TableFactory

	// WriteBufferSize is how many bytes a memtable holds before it becomes
	// immutable. Zero means 64 MiB; the least is 64 KiB. RocksDB: write_buffer_size.
	WriteBufferSize int64
	// MaxWriteBufferNumber is how many memtables may exist, the active one
	// included, before writes wait for a flush. Zero means 2. RocksDB: max_write_buffer_number.
	MaxWriteBufferNumber int
	// MinWriteBufferNumberToMerge is how many immutable memtables a flush waits for.
	// Zero means 1. RocksDB: min_write_buffer_number_to_merge.
	MinWriteBufferNumberToMerge int

	// NumLevels is the number of levels. Zero means 7. RocksDB: num_levels.
	NumLevels int
	// Level0FileNumCompactionTrigger is how many files in level 0 start a
	// compaction. Zero means 4. RocksDB: level0_file_num_compaction_trigger.
	Level0FileNumCompactionTrigger int
	// Level0SlowdownWritesTrigger is how many files in level 0 slow writes down to
	// Options.DelayedWriteRate, Level0StopWritesTrigger how many hold them, unless
	// DisableAutoCompactions. Zero means 20 and 36. RocksDB:
	// level0_slowdown_writes_trigger, level0_stop_writes_trigger.
	Level0SlowdownWritesTrigger int
	Level0StopWritesTrigger     int
	// SoftPendingCompactionBytesLimit is how many bytes compactions may be behind before
	// writes are slowed down, HardPendingCompactionBytesLimit before they are held. Zero means
	// 64 GiB and 256 GiB, NoLimit none. RocksDB: soft_pending_compaction_bytes_limit,
	// hard_pending_compaction_bytes_limit.
	SoftPendingCompactionBytesLimit int64
	HardPendingCompactionBytesLimit int64
	// TargetFileSizeBase is the size in bytes of files in level 1;
	// TargetFileSizeMultiplier is the factor per level below. Zero means 64 MiB and 1.
	TargetFileSizeBase       int64
	TargetFileSizeMultiplier int
	// MaxBytesForLevelBase is the target size of level 1 in bytes;
	// MaxBytesForLevelMultiplier is the factor per level below. Zero means 256 MiB and 10.
	MaxBytesForLevelBase       int64
	MaxBytesForLevelMultiplier float64
	// LevelCompactionDynamicLevelBytes sizes levels from the last one upwards. Default means
	// on, as in RocksDB since 8.4. RocksDB: level_compaction_dynamic_level_bytes.
	LevelCompactionDynamicLevelBytes Toggle
	// MaxBytesForLevelMultiplierAdditional multiplies the target of level i+1 once more by element i;
	// missing elements count as 1. Without LevelCompactionDynamicLevelBytes only. RocksDB:
	// max_bytes_for_level_multiplier_additional.
	MaxBytesForLevelMultiplierAdditional []int
	// CompactionStyle is how files are kept in shape: in levels (the default), as sorted runs
	// that are merged by their sizes, which writes less and takes more space, or first in, first out, for data that
	// may be forgotten. RocksDB: compaction_style.
	CompactionStyle CompactionStyle
	// CompactionPri is which file of a level moves down first. RocksDB: compaction_pri.
	CompactionPri CompactionPri
	// CompactionOptionsUniversal tunes the universal style. The zero value means
	// DefaultUniversalOptions, from which to start for others. RocksDB: compaction_options_universal.
	CompactionOptionsUniversal UniversalOptions
	// CompactionOptionsFIFO tunes the FIFO style. A zero MaxTableFilesSize means 1 GiB.
	// RocksDB: compaction_options_fifo.
	CompactionOptionsFIFO FIFOOptions
	// MaxCompactionBytes bounds a compaction in bytes, where it can be chosen, and what a file overlaps in
	// the level below. Zero means 25 times TargetFileSizeBase. RocksDB: max_compaction_bytes.
	MaxCompactionBytes int64
	// TTL is the age in seconds of data at which it moves down a level though no level is too large,
	// until it is in the last; in the FIFO style the age at which files are dropped. Zero means 30 days
	// with block-based tables and NoTTL with plain tables; with these it is not stored in the OPTIONS
	// file, as RocksDB refuses it. RocksDB: ttl.
	TTL int64
	// PeriodicCompactionSeconds is the age in seconds at which a file is written anew. Zero means 30
	// days with block-based tables in the universal style, or in levels with a compaction filter, else
	// NoTTL. With plain tables it is not stored either. RocksDB: periodic_compaction_seconds.
	PeriodicCompactionSeconds int64
	// BottommostFileCompactionDelay is how many seconds old a file must be before the release of a
	// snapshot has it written anew to free what the snapshot held. It is not stored in the OPTIONS
	// file, whose version does not know it. RocksDB: bottommost_file_compaction_delay.
	BottommostFileCompactionDelay int64
	// CompactOnDeletion, if not nil, marks files with many deletes, and they are compacted soon.
	// RocksDB: NewCompactOnDeletionCollectorFactory among table_properties_collector_factories; like these it
	// is not stored in the OPTIONS file.
	CompactOnDeletion *CompactOnDeletion
	// DisableAutoCompactions leaves compaction to CompactRange.
	// RocksDB: disable_auto_compactions.
	DisableAutoCompactions bool

	// ParanoidFileChecks reads each file back that a flush or compaction wrote, and compares its
	// entries with those that went in, before it counts. RocksDB: paranoid_file_checks.
	ParanoidFileChecks bool

	// Compression is the compression of block-based tables. Zero means LZ4, as in RocksDB since
	// 11.5; plain tables are never compressed. RocksDB: compression.
	Compression Compression
	// CompressionPerLevel, if not empty, overrides Compression by level; the last
	// element serves the deeper levels. RocksDB: compression_per_level.
	CompressionPerLevel []Compression
	// BottommostCompression overrides both for the deepest level that holds data.
	// Zero means not to. RocksDB: bottommost_compression.
	BottommostCompression Compression
	// CompressionOptions tunes the compression: level, dictionaries, parallel threads. The zero
	// value means DefaultCompressionOptions, from which to start for others. RocksDB: compression_opts.
	CompressionOptions CompressionOptions
	// BottommostCompressionOptions, if not nil, replaces CompressionOptions where
	// BottommostCompression is in force. RocksDB: bottommost_compression_opts, with enabled.
	BottommostCompressionOptions *CompressionOptions

	// CompactionFilter decides about entries while compactions rewrite them; it must be safe for
	// concurrent use. CompactionFilterFactory makes one for each compaction instead, and is not asked
	// where there is a CompactionFilter. Neither is kept in the OPTIONS file. RocksDB:
	// compaction_filter, compaction_filter_factory.
	CompactionFilter        CompactionFilter
	CompactionFilterFactory CompactionFilterFactory

	// BloomLocality is 0 for a bloom filter over the whole file, and more for one
	// whose probes of a key share a cache line. Plain tables only. RocksDB: bloom_locality.
	BloomLocality uint32

	// BlockProtectionBytesPerKey is how many bytes of checksum each entry of a block-based file has
	// while its block is in memory, beside a parity byte: 0 (the default), 1, 2, 4 or 8. Reads check what they
	// return; doc/protection.md says what is caught. A block that changed is dropped from the cache and read
	// again from the file, once. It counts for files opened later, and is not written to OPTIONS files, where
	// RocksDB 7.8 does not know it. RocksDB: block_protection_bytes_per_key.
	BlockProtectionBytesPerKey int
	// BlockDamageFailsReads makes reads that meet such a block fail with a BlockDamageError instead
	// of reading it again. It is dropped from the cache all the same.
	BlockDamageFailsReads bool
	// MemtableProtectionBytesPerKey is the same for the entries of memtables, which reads, iterators and
	// flushes check. Damage there is an error: there is nothing to read again. RocksDB:
	// memtable_protection_bytes_per_key.
	MemtableProtectionBytesPerKey int
	// MemtableVerifyPerKeyChecksumOnSeek checks every entry that a search of a protected memtable
	// compares, not only where it ends. It is not written to OPTIONS files. RocksDB:
	// memtable_verify_per_key_checksum_on_seek.
	MemtableVerifyPerKeyChecksumOnSeek bool
}

// NoLimit is RocksDB's zero in options whose zero means the default.
const NoLimit = -1

// DefaultColumnFamilyName is the family that every database has.
const DefaultColumnFamilyName = "default"

// withDefaults returns a copy of o with every zero replaced.
func (o *ColumnFamilyOptions) withDefaults() *ColumnFamilyOptions {
	c := *o
	if c.Comparator == nil {
		c.Comparator = Bytewise
	}
	if c.Table == nil {
		c.Table = BlockBasedTableOptions{}
	}
	m := &c.MemTable
	if m.BucketCount == 0 {
		m.BucketCount = 1_000_000
		if m.Kind == HashLinkList {
			m.BucketCount = 50_000
		}
	}
	orInt(&m.SkipListHeight, 4)
	orInt(&m.BranchingFactor, 4)
	orInt(&m.Threshold, 256)
	orInt(&c.WriteBufferSize, 64<<20)
	c.WriteBufferSize = max(c.WriteBufferSize, 64<<10)
	orInt(&c.MaxWriteBufferNumber, 2)
	orInt(&c.MinWriteBufferNumberToMerge, 1)
	c.MinWriteBufferNumberToMerge = min(c.MinWriteBufferNumberToMerge, max(1, c.MaxWriteBufferNumber-1))
	orInt(&c.NumLevels, 7)
	orInt(&c.Level0FileNumCompactionTrigger, 4)
	orInt(&c.Level0SlowdownWritesTrigger, 20)
	orInt(&c.Level0StopWritesTrigger, 36)
	orInt(&c.SoftPendingCompactionBytesLimit, 64<<30)
	orInt(&c.HardPendingCompactionBytesLimit, 256<<30)
	orInt(&c.TargetFileSizeBase, 64<<20)
	orInt(&c.TargetFileSizeMultiplier, 1)
	orInt(&c.MaxBytesForLevelBase, 256<<20)
	if c.MaxBytesForLevelMultiplier == 0 {
		c.MaxBytesForLevelMultiplier = 10
	}
	if c.CompressionOptions == (CompressionOptions{}) {
		c.CompressionOptions = DefaultCompressionOptions()
	}
	c.fillCompaction()
	// RocksDB keeps the three triggers in order.
	c.Level0SlowdownWritesTrigger = max(c.Level0SlowdownWritesTrigger, c.Level0FileNumCompactionTrigger)
	c.Level0StopWritesTrigger = max(c.Level0StopWritesTrigger, c.Level0SlowdownWritesTrigger)
	if soft, hard := c.SoftPendingCompactionBytesLimit, c.HardPendingCompactionBytesLimit; soft < 0 {
		c.SoftPendingCompactionBytesLimit = hard
	} else if hard > 0 {
		c.SoftPendingCompactionBytesLimit = min(soft, hard)
	}
	return &c
}

func orInt[T int | int64](p *T, def T) {
	if *p == 0 {
		*p = def
	}
}

// validate refuses what could not work later, at a flush for instance. It
// expects defaults to be filled in.
func (o *ColumnFamilyOptions) validate(name string) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: column family %q: %s", ErrInvalidArgument, name, fmt.Sprintf(format, args...))
	}
	switch {
	case o.MemTable.Kind < SkipList || o.MemTable.Kind > Vector:
		return fail("unknown memtable kind %d", o.MemTable.Kind)
	case o.MemTable.BucketCount < 1:
		return fail("MemTable.BucketCount %d: want at least 1", o.MemTable.BucketCount)
	case o.NumLevels < 1 || o.NumLevels > 64:
		return fail("NumLevels %d: want 1 to 64", o.NumLevels)
	case o.MaxWriteBufferNumber < 1:
		return fail("MaxWriteBufferNumber %d: want at least 1", o.MaxWriteBufferNumber)
	case o.WriteBufferSize > maxWriteBufferSize:
		return fail("WriteBufferSize %d: want at most %d", o.WriteBufferSize, int64(maxWriteBufferSize))
	case o.TargetFileSizeBase < 0 || o.TargetFileSizeMultiplier < 1:
		return fail("TargetFileSizeBase %d, TargetFileSizeMultiplier %d: want positive numbers", o.TargetFileSizeBase, o.TargetFileSizeMultiplier)
	case o.MaxBytesForLevelBase < 0 || o.MaxBytesForLevelMultiplier < 1:
		return fail("MaxBytesForLevelBase %d, MaxBytesForLevelMultiplier %g: want positive numbers", o.MaxBytesForLevelBase, o.MaxBytesForLevelMultiplier)
	}
	if err := o.validateProtection(); err != nil {
		return fail("%v", err)
	}
	if err := o.validateCompaction(); err != nil {
		return fail("%v", err)
	}
	if err := o.Table.validate(o); err != nil {
		return fmt.Errorf("column family %q: %w", name, err)
	}
	return nil
}

// maxWriteBufferSize keeps a memtable within the reach of its 4-byte links.
const maxWriteBufferSize = 16 << 30

// ReadOptions tunes one read. Nil means the zero value.
type ReadOptions struct {
	// Snapshot is the state to read. Nil means the newest.
	Snapshot *Snapshot
	// LowerBound and UpperBound limit an iterator to LowerBound <= key < UpperBound.
	// They are borrowed until the iterator is closed. RocksDB: iterate_lower_bound,
	// iterate_upper_bound.
	LowerBound, UpperBound []byte
	// PrefixSameAsStart ends an iterator where the prefix of the key it was
	// positioned with ends. RocksDB: prefix_same_as_start.
	PrefixSameAsStart bool
	// TotalOrderSeek makes seeks ignore prefix hashes. Answers are the same; it is
	// faster for an iterator that will leave the prefix at once. RocksDB: total_order_seek.
	TotalOrderSeek bool
	// AutoPrefixMode lets seeks go through prefix hashes only where UpperBound keeps the walk within the
	// prefix, and ignore them elsewhere. Answers are the same either way; without it, every seek to a key
	// with a prefix goes through them, unless TotalOrderSeek. RocksDB: auto_prefix_mode.
	AutoPrefixMode bool
	// Tailing makes an iterator begin each SeekGE, SeekLT, SeekLE, First and Last with what the family
	// holds at that moment. Steps stay in the moment of the last such call. It has no effect with a
	// Snapshot. RocksDB: tailing.
	Tailing bool
	// PinData keeps the keys and values that an iterator shows valid until it is closed, by copying them.
	// Default means off: they are valid until the next move. RocksDB: pin_data.
	PinData bool
	// MaxSkippableInternalKeys is how many hidden entries (deleted keys, older versions) one move of an
	// iterator may pass over before it fails with ErrIncomplete. Zero means no limit.
	// RocksDB: max_skippable_internal_keys.
	MaxSkippableInternalKeys uint64
	// FillCache Off keeps blocks that this read loads out of the block cache.
	// Default means on. RocksDB: fill_cache.
	FillCache Toggle
	// VerifyChecksums Off trusts blocks that come from storage. Default means on.
	// RocksDB: verify_checksums.
	VerifyChecksums Toggle
	// ReadaheadSize is how many bytes an iterator reads ahead; zero adapts, see
	// BlockBasedTableOptions.InitialAutoReadaheadSize. RocksDB: readahead_size.
	ReadaheadSize int
	// AutoReadaheadSize Off lets readahead go beyond UpperBound. Default means on: it ends with the last block that may
	// hold something below the bound. RocksDB: auto_readahead_size.
	AutoReadaheadSize Toggle
	// AdaptiveReadahead keeps what readahead has grown to from one file of a level to the next, instead of
	// beginning anew with each. RocksDB: adaptive_readahead.
	AdaptiveReadahead bool
	// AsyncIO is accepted and changes nothing: a MultiGet reads its blocks side by side anyway, and iterators read
	// ahead through the page cache, where the kernel goes on reading by itself. RocksDB: async_io.
	AsyncIO bool
	// Perf is where what the read does is added up; nil for nowhere. One goroutine at a time
	// may use it, and an iterator does until it is closed. RocksDB: get_perf_context.
	Perf *PerfContext
}

// WriteOptions tunes one write. Nil means the zero value.
type WriteOptions struct {
	// Sync waits until the write would survive the death of the machine; without
	// it a write that returned survives the death of the process. RocksDB: sync.
	Sync bool
	// DisableWAL skips the log: the write survives only once it is flushed.
	// RocksDB: disableWAL.
	DisableWAL bool
	// ProtectionBytesPerKey is 0 (the default) or 8: with 8 each operation of the batch has a checksum
	// from the beginning of Write, or from when it was added if Batch.Protect was called, which is checked
	// before it is logged and as it enters the memtable. Changed memory fails the write with ErrCorruption.
	// RocksDB: protection_bytes_per_key.
	ProtectionBytesPerKey int
	// Perf is where what the write does is added up; nil for nowhere. RocksDB: get_perf_context.
	Perf *PerfContext
}

// FlushOptions tunes Flush. Nil means the zero value.
type FlushOptions struct {
	// NoWait returns once the flush is scheduled. RocksDB: wait=false.
	NoWait bool
}
