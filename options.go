package flatrock

import (
	"io/fs"
	"log/slog"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
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
// returned nil promises does not depend on it. RocksDB's secondaries (not ours) follow only
// logs of WALWrite: they pass over what comes later to a block that they have read.
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

	// FileMode is what who may do with files that the database creates, before the umask: 0600 keeps
	// them from everybody but the owner. Directories that it creates have the right to search wherever
	// that has the right to read. Zero means 0644. It needs the operating system's files: another FS
	// decides for itself (see mmapfs.WithFileMode). It has no effect on Windows.
	FileMode fs.FileMode
	// MaxDecompressedSize is the largest block, blob value or log record in bytes that is decompressed:
	// what claims or holds more is an error. It bounds the memory that a file from somebody else
	// can take, since a few kilobytes can be gigabytes compressed. It must be above the largest
	// value. Zero means what the formats allow, 2 GiB for blocks and blobs, 4 GiB for log records.
	MaxDecompressedSize int64

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
	// files that are ingested are read once more for it. Nil means none, or FileChecksumGenCrc32c if the OPTIONS file says so;
	// NoFileChecksums means none. RocksDB: file_checksum_gen_factory.
	FileChecksumGenFactory *FileChecksumGenFactory
	// ManualWALFlush keeps log records in the process until FlushWAL, SyncWAL or a synced write, or until
	// there is a MiB of them: a write that returned nil survives the death of the process only
	// then. It excludes WALMapped. No program inherits it from the OPTIONS file: see LoadLatestOptions.
	// RocksDB: manual_wal_flush.
	ManualWALFlush bool
	// AtomicFlush flushes all families together, and makes the files count together: after a crash the
	// families hold the same prefix of the writes, also of those with DisableWAL. The default is what the
	// OPTIONS file says, and off for a new database. RocksDB: atomic_flush.
	AtomicFlush Toggle
	// WALTTLSeconds and WALSizeLimitMB keep logs that recovery no longer needs, in the directory
	// archive below the logs, for GetUpdatesSince: until they are so many seconds old,
	// and as long as they take at most so many MiB together. Zero is what the OPTIONS file says, negative
	// is no limit; with no limit in either nothing is kept. RocksDB: WAL_ttl_seconds, WAL_size_limit_MB.
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
	// BottomPriorityCompactions is how many automatic compactions into the last level may run
	// beside the others, which they would otherwise keep waiting for long: they have a pool of their own. Those that
	// find it full wait with their files. Zero means no such pool: all count together. RocksDB: a thread
	// pool of Env::Priority::BOTTOM, which is no option and not in OPTIONS files.
	BottomPriorityCompactions int
	// MaxSubcompactions is how many goroutines may share the key range of a compaction out of level 0, of
	// one that was asked for, and of any in the universal style and with the round-robin
	// priority. Zero means 1. RocksDB: max_subcompactions.
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
	// EnablePipelinedWrite lets the next group of writes be logged, and synced if asked for, while the one
	// before still goes into the memtables; with AllowConcurrentMemtableWrite, groups are inserted into skip lists side
	// by side, too. Several writers gain by it. Writes become visible in the order of the log all the same.
	// It excludes AtomicFlush, as in RocksDB. RocksDB: enable_pipelined_write.
	EnablePipelinedWrite bool
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
	// them to level 0 at open, as long as they fit into the families' write buffers; else all is written. RocksDB:
	// avoid_flush_during_recovery.
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
	// MapMemoryFiles reads the files of block-based families, and blob files, that lie in a file system in memory (tmpfs, ramfs:
	// /dev/shm) by copying from a mapping instead of by system calls, which takes a third of the time. It is On by
	// default. Results are the same, and so are the block cache, checksums and statistics; only reads ahead
	// of need fall away. Nothing changes on disks, off Linux, with UseDirectReads, with AllowMmapReads, with an
	// FS that is not the operating system's, and for files beyond a quarter of vm.max_map_count. RocksDB has no such option.
	MapMemoryFiles Toggle
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
