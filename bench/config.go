package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	flatrock "github.com/flatrock-db/flatrock"
)

// config is the command line. Fields are named after their flags; the defaults are
// db_bench's, except for those of flags that are ours.
type config struct {
	benchmarks, db, walDir string
	useExistingDB          bool
	useExistingKeys        bool
	readOnly               bool
	help                   bool

	num, reads, writes, deletes int64
	threads, batchSize          int64
	duration                    int64 // seconds
	opsBetweenDurationChecks    int64
	seed                        int64
	finishAfterWrites           bool

	keySize, prefixSize, keysPerPrefix      int64
	readRandomExpRange                      float64
	valueSize, valueSizeMin, valueSizeMax   int64
	valueSizeDistribution                   string
	compressionRatio                        float64
	compressionType                         string
	seekNexts, maxScanDistance              int64
	reverseIterator                         bool
	totalOrderSeek, prefixSameAsStart       bool
	multireadStride                         int64
	readaheadSize                           int64
	verifyChecksum                          bool
	writeRateLimit, readRateLimit           uint64 // bytes and operations a second
	writesPerSecond                         int64
	sync, disableWAL                        bool
	rangeTombstoneWidth                     int64
	writesPerRangeTombstone                 int64
	writesBeforeDeleteRange                 int64
	maxNumRangeTombstones                   int64
	expandRangeTombstones                   bool
	histogram, statistics                   bool
	statsInterval, statsIntervalSeconds     int64
	statsPerInterval                        int64
	progressReports, confidenceIntervalOnly bool
	reportOpenTiming                        bool
	perfLevel                               int64

	numLevels                                 int64
	writeBufferSize                           int64
	maxWriteBufferNumber                      int64
	minWriteBufferNumberToMerge               int64
	targetFileSizeBase                        int64
	targetFileSizeMultiplier                  int64
	maxBytesForLevelBase                      uint64
	maxBytesForLevelMultiplier                float64
	level0Compaction, level0Slow, level0Stop  int64
	dynamicLevelBytes, disableAutoCompactions bool
	maxTotalWALSize                           uint64
	avoidFlushDuringRecovery                  bool
	memtablerep                               string
	hashBucketCount                           int64
	mergeOperator                             string
	usePlainTable, mmapRead                   bool
	bloomBits, bloomLocality                  int64
	blockSize, cacheSize                      int64

	plainTableMemory   string
	plainTableEncoding string
	walWriteMode       string

	given map[string]bool // flags that were on the command line
}

func newConfig() *config {
	return &config{
		benchmarks: "fillseq,fillsync,fillrandom,overwrite,readrandom,seekrandom,readseq,readreverse,compact,readrandom,multireadrandom,readwhilewriting",
		num:        1_000_000, reads: -1, writes: -1, deletes: -1,
		threads: 1, batchSize: 1, opsBetweenDurationChecks: 1000,
		keySize: 16, valueSize: 100, valueSizeMin: 100, valueSizeMax: 102400,
		valueSizeDistribution: "fixed", compressionRatio: 0.5, compressionType: "snappy",
		verifyChecksum: true, rangeTombstoneWidth: 100, progressReports: true, perfLevel: 1,
		numLevels: 7, writeBufferSize: 64 << 20, maxWriteBufferNumber: 2, minWriteBufferNumberToMerge: 1,
		targetFileSizeBase: 64 << 20, targetFileSizeMultiplier: 1,
		maxBytesForLevelBase: 256 << 20, maxBytesForLevelMultiplier: 10,
		level0Compaction: 4, level0Slow: 20, level0Stop: 36,
		memtablerep: "skip_list", hashBucketCount: 1 << 20,
		bloomBits: -1, blockSize: 4096, cacheSize: 8 << 20,
		plainTableMemory: "auto", plainTableEncoding: "plain", walWriteMode: "auto",
	}
}

// bindings ties every flag with a meaning to its field of c.
func bindings(c *config) []binding {
	return []binding{
		{"benchmarks", &c.benchmarks, "what to run, in this order; see the list below"},
		{"db", &c.db, "directory of the database; empty means flatrock-bench-UID/dbbench in the system's temporary directory"},
		{"wal_dir", &c.walDir, "directory of the logs; empty means that of the database"},
		{"use_existing_db", &c.useExistingDB, "keep the database that --db holds; benchmarks that want a fresh one are skipped"},
		{"use_existing_keys", &c.useExistingKeys, "draw keys from those in the database, which are read into memory first; --num is ignored"},
		{"readonly", &c.readOnly, "open the database read-only"},
		{"help", &c.help, "show this text"},

		{"num", &c.num, "number of keys"},
		{"reads", &c.reads, "read operations a thread; negative means --num"},
		{"writes", &c.writes, "write operations a thread; negative means --num"},
		{"deletes", &c.deletes, "delete operations a thread; negative means --num"},
		{"threads", &c.threads, "concurrent threads (goroutines)"},
		{"batch_size", &c.batchSize, "operations a write batch, keys a MultiGet"},
		{"duration", &c.duration, "seconds that random benchmarks run; zero means by count"},
		{"ops_between_duration_checks", &c.opsBetweenDurationChecks, "look at the clock every so many operations"},
		{"seed", &c.seed, "base of the random numbers; zero means from the clock"},
		{"finish_after_writes", &c.finishAfterWrites, "the writer of readwhilewriting stops after --writes operations"},

		{"key_size", &c.keySize, "bytes a key"},
		{"prefix_size", &c.prefixSize, "bytes of the prefix that hash memtables and plain tables hash; zero means no prefix extractor"},
		{"keys_per_prefix", &c.keysPerPrefix, "average number of keys a prefix; zero means that the prefix is the start of the number"},
		{"read_random_exp_range", &c.readRandomExpRange, "skew of readrandom and multireadrandom: num * exp(-r), r uniform up to this"},
		{"value_size", &c.valueSize, "bytes a value"},
		{"value_size_distribution_type", &c.valueSizeDistribution, "fixed, uniform or normal"},
		{"value_size_min", &c.valueSizeMin, "least size of uniform and normal values"},
		{"value_size_max", &c.valueSizeMax, "greatest size of uniform and normal values"},
		{"compression_ratio", &c.compressionRatio, "values shrink to this fraction when compressed"},
		{"compression_type", &c.compressionType, "compression of block-based tables"},
		{"seek_nexts", &c.seekNexts, "steps after each seek"},
		{"max_scan_distance", &c.maxScanDistance, "bound of the iterator in keys from the seek's; zero means none"},
		{"reverse_iterator", &c.reverseIterator, "step backwards after a seek"},
		{"total_order_seek", &c.totalOrderSeek, "seeks ignore prefix hashes"},
		{"prefix_same_as_start", &c.prefixSameAsStart, "iterators end with the prefix of the seek's key"},
		{"multiread_stride", &c.multireadStride, "distance between the keys of a MultiGet; zero means random keys"},
		{"readahead_size", &c.readaheadSize, "bytes that iterators read ahead; zero adapts"},
		{"verify_checksum", &c.verifyChecksum, "verify blocks read from storage"},
		{"benchmark_write_rate_limit", &c.writeRateLimit, "bytes a second that all writers together write; zero means no limit"},
		{"benchmark_read_rate_limit", &c.readRateLimit, "operations a second that all readers together do; zero means no limit"},
		{"writes_per_second", &c.writesPerSecond, "operations a second of the writer in readwhilewriting (db_bench of 2013); zero means no limit"},
		{"sync", &c.sync, "sync every write"},
		{"disable_wal", &c.disableWAL, "write no log"},
		{"range_tombstone_width", &c.rangeTombstoneWidth, "keys that a range delete covers"},
		{"writes_per_range_tombstone", &c.writesPerRangeTombstone, "writes between range deletes; zero means none"},
		{"writes_before_delete_range", &c.writesBeforeDeleteRange, "writes before the first range delete"},
		{"max_num_range_tombstones", &c.maxNumRangeTombstones, "greatest number of range deletes"},
		{"expand_range_tombstones", &c.expandRangeTombstones, "delete the keys one by one instead"},
		{"histogram", &c.histogram, "print latency histograms"},
		{"statistics", &c.statistics, "print the database's counters at the end"},
		{"stats_interval", &c.statsInterval, "report a thread's progress every so many operations"},
		{"stats_interval_seconds", &c.statsIntervalSeconds, "report a thread's progress every so many seconds"},
		{"stats_per_interval", &c.statsPerInterval, "print the database's statistics with each of these reports"},
		{"progress_reports", &c.progressReports, "show progress, if standard error is a terminal"},
		{"confidence_interval_only", &c.confidenceIntervalOnly, "print 95% confidence intervals between repeats"},
		{"report_open_timing", &c.reportOpenTiming, "print how long opening the database took"},
		{"perf_level", &c.perfLevel, "printed in the header only"},

		{"num_levels", &c.numLevels, "levels"},
		{"write_buffer_size", &c.writeBufferSize, "bytes a memtable"},
		{"max_write_buffer_number", &c.maxWriteBufferNumber, "memtables"},
		{"min_write_buffer_number_to_merge", &c.minWriteBufferNumberToMerge, "memtables a flush waits for"},
		{"target_file_size_base", &c.targetFileSizeBase, "bytes a file of level 1"},
		{"target_file_size_multiplier", &c.targetFileSizeMultiplier, "factor of the file size a level"},
		{"max_bytes_for_level_base", &c.maxBytesForLevelBase, "bytes of level 1"},
		{"max_bytes_for_level_multiplier", &c.maxBytesForLevelMultiplier, "factor of the bytes a level"},
		{"level0_file_num_compaction_trigger", &c.level0Compaction, "files in level 0 that start a compaction"},
		{"level0_slowdown_writes_trigger", &c.level0Slow, "files in level 0 that slow writes"},
		{"level0_stop_writes_trigger", &c.level0Stop, "files in level 0 that stop writes"},
		{"level_compaction_dynamic_level_bytes", &c.dynamicLevelBytes, "size levels from the last one upwards"},
		{"disable_auto_compactions", &c.disableAutoCompactions, "compact only when asked"},
		{"max_total_wal_size", &c.maxTotalWALSize, "bytes of logs that start a flush; zero means by the memtables"},
		{"avoid_flush_during_recovery", &c.avoidFlushDuringRecovery, "keep replayed logs in memory"},
		{"memtablerep", &c.memtablerep, "skip_list, prefix_hash, hash_linkedlist or vector"},
		{"hash_bucket_count", &c.hashBucketCount, "buckets of a hash memtable"},
		{"merge_operator", &c.mergeOperator, "merge operator of the database"},
		{"use_plain_table", &c.usePlainTable, "plain tables instead of block-based ones"},
		{"mmap_read", &c.mmapRead, "read files through mmap; plain tables always are"},
		{"bloom_bits", &c.bloomBits, "bits a key of bloom filters; negative means the default, zero none"},
		{"bloom_locality", &c.bloomLocality, "plain tables: 1 keeps the probes of a key in one cache line"},
		{"block_size", &c.blockSize, "bytes a block"},
		{"cache_size", &c.cacheSize, "bytes of the block cache"},

		{"plain_table_memory", &c.plainTableMemory, "ours: how plain tables are kept in memory: none, willneed, populate, lock, resident, or auto: resident if the data fits in a quarter of free memory, else populate"},
		{"plain_table_encoding", &c.plainTableEncoding, "ours: how plain tables store keys: plain or prefix"},
		{"wal_write_mode", &c.walWriteMode, "ours: how logs are written: auto, mapped or write"},
	}
}

// check refuses values that cannot work, before anything is created.
func (c *config) check() error {
	if c.help {
		return nil
	}
	switch {
	case c.num < 1:
		return fmt.Errorf("--num=%d: want at least 1", c.num)
	case c.threads < 1:
		return fmt.Errorf("--threads=%d: want at least 1", c.threads)
	case c.batchSize < 1:
		return fmt.Errorf("--batch_size=%d: want at least 1", c.batchSize)
	case c.keySize < 1 || c.keySize > 1<<20:
		return fmt.Errorf("--key_size=%d: want 1 to %d", c.keySize, 1<<20)
	case c.keySize < 8 && c.num>>(8*c.keySize) > 0:
		return fmt.Errorf("--key_size=%d: too small for --num=%d different keys", c.keySize, c.num)
	case c.prefixSize < 0 || c.prefixSize > c.keySize:
		return fmt.Errorf("--prefix_size=%d: want 0 to --key_size=%d", c.prefixSize, c.keySize)
	case c.keysPerPrefix < 0 || c.keysPerPrefix > c.num:
		return fmt.Errorf("--keys_per_prefix=%d: want 0 to --num=%d", c.keysPerPrefix, c.num)
	case c.keysPerPrefix > 0 && c.prefixSize == 0:
		return fmt.Errorf("--keys_per_prefix=%d needs --prefix_size", c.keysPerPrefix)
	case c.valueSize < 0 || c.valueSize > 1<<30:
		return fmt.Errorf("--value_size=%d: want 0 to %d", c.valueSize, 1<<30)
	case c.valueSizeMin < 0 || c.valueSizeMax > 1<<30 || c.valueSizeMin > c.valueSizeMax:
		return fmt.Errorf("--value_size_min=%d, --value_size_max=%d: want 0 to %d, in order", c.valueSizeMin, c.valueSizeMax, 1<<30)
	case c.opsBetweenDurationChecks < 1:
		return fmt.Errorf("--ops_between_duration_checks=%d: want at least 1", c.opsBetweenDurationChecks)
	case c.useExistingKeys && !c.useExistingDB:
		return fmt.Errorf("--use_existing_keys needs --use_existing_db")
	case c.useExistingKeys && c.maxNumRangeTombstones > 0:
		return fmt.Errorf("--use_existing_keys and --max_num_range_tombstones exclude each other")
	case c.readOnly && !c.useExistingDB:
		return fmt.Errorf("--readonly needs --use_existing_db")
	case c.sync && c.disableWAL:
		return fmt.Errorf("--sync and --disable_wal exclude each other")
	case c.rangeTombstoneWidth < 1 || c.writesPerRangeTombstone < 0 || c.maxNumRangeTombstones < 0:
		return fmt.Errorf("--range_tombstone_width, --writes_per_range_tombstone, --max_num_range_tombstones: want no negative numbers, and a width")
	}
	switch c.valueSizeDistribution {
	case "fixed", "uniform", "normal":
	default:
		return fmt.Errorf("--value_size_distribution_type=%s: want fixed, uniform or normal", c.valueSizeDistribution)
	}
	if c.plainTableMemory != "auto" {
		if _, err := flatrock.ParsePlainTableMemory(c.plainTableMemory); err != nil {
			return fmt.Errorf("--plain_table_memory=%s: want auto, none, willneed, populate, lock or resident", c.plainTableMemory)
		}
	}
	if _, err := parseBenchmarks(c.benchmarks); err != nil {
		return err
	}
	_, err := c.familyOptions(flatrock.MemoryPopulate)
	return err
}

// readsEach, writesEach and deletesEach are operations a thread.
func (c *config) readsEach() int64   { return orNum(c.reads, c.num) }
func (c *config) writesEach() int64  { return orNum(c.writes, c.num) }
func (c *config) deletesEach() int64 { return orNum(c.deletes, c.num) }

func orNum(n, num int64) int64 {
	if n < 0 {
		return num
	}
	return n
}

// directory is where the database lives. The default is the same for every run of a
// user, as db_bench's is, so that a second command finds what the first filled.
func (c *config) directory() string {
	if c.db != "" {
		return c.db
	}
	return filepath.Join(os.TempDir(), "flatrock-bench-"+strconv.Itoa(os.Getuid()), "dbbench")
}
