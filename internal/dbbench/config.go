package dbbench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	flatrock "github.com/flatrock-db/flatrock"
)

// config is the command line. Fields are named after their flags; the defaults are
// db_bench's, except for those of flags that are ours.
type config struct {
	traceFlags
	families familyFlags
	storage  storageFlags
	fill     mixedFill
	observe  observeFlags
	elsewhere

	benchmarks, db, walDir string
	existingKeysDB         string
	backupDir, restoreDir  string
	useSingleDeletes       bool
	stddev                 float64
	useExistingDB          bool
	useExistingKeys        bool
	readOnly               bool
	help, version          bool
	keepFilter             bool

	num, reads, writes, deletes int64
	threads, batchSize          int64
	duration                    int64 // seconds
	opsBetweenDurationChecks    int64
	seed                        int64
	finishAfterWrites           bool
	readWritePercent            int64
	deletePercent               int64
	mergeReadPercent, mergeKeys int64
	numDistinct                 int64
	truthDB, expireStyle        string
	keyIDRange                  int64
	timeRange                   uint64
	numDeletionThreads          int64
	mix                         mixFlags

	keySize, prefixSize, keysPerPrefix      int64
	readRandomExpRange                      float64
	valueSize, valueSizeMin, valueSizeMax   int64
	valueSizeDistribution                   string
	compressionRatio                        float64
	compressionType                         string
	seekNexts, maxScanDistance              int64
	reverseIterator, seekMissingPrefix      bool
	totalOrderSeek, prefixSameAsStart       bool
	autoPrefixMode, useTailingIterator      bool
	multireadStride                         int64
	multireadBatched                        bool
	readaheadSize                           int64
	verifyChecksum                          bool
	writeRateLimit, readRateLimit           uint64 // bytes and operations a second
	writesPerSecond                         int64
	sineWrites                              bool
	sineWritesInterval                      uint64 // milliseconds
	sync, disableWAL                        bool
	rangeTombstoneWidth                     int64
	writesPerRangeTombstone                 int64
	writesBeforeDeleteRange                 int64
	maxNumRangeTombstones                   int64
	expandRangeTombstones                   bool
	histogram, statistics                   bool
	statisticsString, reportFile            string
	statsDumpPeriod                         uint64
	reportInterval                          int64
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
	background                                backgroundConfig
	dynamicLevelBytes, disableAutoCompactions bool
	compactionStyle, compactionPri            int64
	maxCompactionBytes                        uint64
	ttlSeconds, periodicSeconds               uint64
	universalSizeRatio, universalMaxSizeAmp   int64
	universalMinMergeWidth                    int64
	universalMaxMergeWidth                    int64
	universalCompression                      int64
	universalMove, universalIncremental       bool
	fifoMaxMB, fifoTTL, fifoWarm              uint64
	fifoMerge                                 bool
	maxTotalWALSize                           uint64
	walTTLSeconds, walSizeLimitMB             uint64
	manualWALFlush, fileChecksum              bool
	avoidFlushDuringRecovery                  bool
	memtablerep                               string
	hashBucketCount                           int64
	mergeOperator                             string
	usePlainTable, mmapRead                   bool
	bloomBits, bloomLocality                  int64

	cacheSize                                                     int64
	cacheIndexAndFilter, pinL0                                    bool
	blockSize, blockRestartInterval, indexBlockRestartInterval    int64
	metadataBlockSize, formatVersion, checksumType                int64
	partitionIndex, partitionIndexAndFilters                      bool
	useHashSearch, indexWithFirstKey                              bool
	indexShortening                                               int64
	dataBlockHashIndex                                            bool
	dataBlockHashRatio                                            float64
	ribbonFilter, wholeKeyFiltering, indexCompression, blockAlign bool
	minLevelToCompress                                            int64

	enableNUMA                                        bool
	numaPlacement                                     string
	plainTableMemory                                  string
	initialReadahead, maxReadahead, readsForReadahead int64
	adaptiveReadahead, asyncIO, autoReadahead         bool

	blockProtection, memtableProtection, batchProtection int64

	plainTableEncoding string
	walWriteMode       string
	mapMemoryFiles     bool
	cpuProfile         string
	mutexProfile       string
	blockProfile       string
}

func newConfig() *config {
	return &config{
		traceFlags: defaultTraceFlags, families: familyFlags{count: 1}, storage: defaultStorage, fill: defaultMixedFill, observe: defaultObserve, elsewhere: defaultElsewhere,

		benchmarks: "fillseq,fillsync,fillrandom,overwrite,readrandom,seekrandom,readseq,readreverse,compact,readrandom,multireadrandom,readwhilewriting",
		num:        1_000_000, reads: -1, writes: -1, deletes: -1,
		threads: 1, batchSize: 1, opsBetweenDurationChecks: 1000,
		keySize: 16, valueSize: 100, valueSizeMin: 100, valueSizeMax: 102400,
		readWritePercent: 90, deletePercent: 2, mergeReadPercent: 70, mergeKeys: -1, numDistinct: 1000, truthDB: "/dev/shm/truth_db/dbbench",
		expireStyle: "none", useSingleDeletes: true, stddev: 2000, keyIDRange: 100000, timeRange: 100000, numDeletionThreads: 1,
		mix:                   defaultMix(),
		valueSizeDistribution: "fixed", compressionRatio: 0.5, compressionType: "snappy",
		verifyChecksum: true, rangeTombstoneWidth: 100, progressReports: true, perfLevel: 1, sineWritesInterval: 10000, reportFile: "report.csv", statsDumpPeriod: 600,
		numLevels: 7, writeBufferSize: 64 << 20, maxWriteBufferNumber: 2, minWriteBufferNumberToMerge: 1,
		targetFileSizeBase: 64 << 20, targetFileSizeMultiplier: 1,
		maxBytesForLevelBase: 256 << 20, maxBytesForLevelMultiplier: 10,
		level0Compaction: 4, level0Slow: 20, level0Stop: 36, background: newBackgroundConfig(),
		compactionPri: 3, ttlSeconds: defaultAge, periodicSeconds: defaultAge, universalCompression: -1, fifoMerge: true,
		memtablerep: "skip_list", hashBucketCount: 1 << 20,
		bloomBits: -1, cacheSize: 8 << 20, blockSize: 4096, blockRestartInterval: 16, indexBlockRestartInterval: 1,
		metadataBlockSize: 4096, formatVersion: 5, checksumType: 4, indexShortening: 2, dataBlockHashRatio: 0.75,
		wholeKeyFiltering: true, indexCompression: true, minLevelToCompress: -1,
		initialReadahead: 8 << 10, maxReadahead: 256 << 10, readsForReadahead: 2, autoReadahead: true,
		numaPlacement: "default", plainTableMemory: "auto", plainTableEncoding: "plain", walWriteMode: "auto", mapMemoryFiles: true,
	}
}

// check refuses values that cannot work, before anything is created.
func (c *config) check() error {
	if c.help {
		return nil
	}
	if err := c.traceFlags.check(); err != nil {
		return err
	}
	if err := errors.Join(c.families.check(), c.storage.check(), c.fill.check(), c.elsewhere.check(c)); err != nil {
		return err
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
	case c.seekMissingPrefix && (c.prefixSize <= 8 || c.keysPerPrefix > 0):
		return fmt.Errorf("--seek_missing_prefix needs --prefix_size above 8, and no --keys_per_prefix")
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
	case c.existingKeysDB != "" && !c.useExistingKeys:
		return fmt.Errorf("--existing_keys_db needs --use_existing_keys")
	case c.useExistingKeys && c.families.count > 1:
		return fmt.Errorf("--use_existing_keys and --num_column_families exclude each other")
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
	if _, _, err := parsePlacement(c.numaPlacement); err != nil {
		return err
	}
	if _, err := parseBenchmarks(c.benchmarks); err != nil {
		return err
	}
	switch {
	case c.expireStyle != "none" && c.expireStyle != "compaction_filter" && c.expireStyle != "delete":
		return fmt.Errorf("--expire_style=%s: want none, compaction_filter or delete", c.expireStyle)
	case c.keyIDRange < 1 || c.numDeletionThreads < 1 || c.numDistinct < 1:
		return fmt.Errorf("--key_id_range=%d, --num_deletion_threads=%d, --numdistinct=%d: want at least 1", c.keyIDRange, c.numDeletionThreads, c.numDistinct)
	case c.readWritePercent < 0 || c.deletePercent < 0 || c.mergeReadPercent < 0 || max(c.readWritePercent+c.deletePercent, c.mergeReadPercent) > 100:
		return fmt.Errorf("--readwritepercent=%d, --deletepercent=%d, --mergereadpercent=%d: want percentages, and the first two at most 100 together",
			c.readWritePercent, c.deletePercent, c.mergeReadPercent)
	}
	if c.compactionStyle < 0 || c.compactionStyle > 3 || c.compactionPri < 0 || c.compactionPri > 4 {
		return fmt.Errorf("--compaction_style=%d, --compaction_pri=%d: want 0 to 3 and 0 to 4", c.compactionStyle, c.compactionPri)
	}
	_, err := c.familyOptions(flatrock.MemoryPopulate)
	return err
}

// readsEach, writesEach and deletesEach are operations a thread.
func (c *config) readsEach() int64   { return orNum(c.reads, c.num) }
func (c *config) writesEach() int64  { return orNum(c.writes, c.num) }
func (c *config) deletesEach() int64 { return orNum(c.deletes, c.num) }

// readWritesEach is for benchmarks that do both: the greater of --reads and --writes.
func (c *config) readWritesEach() int64 { return orNum(max(c.reads, c.writes), c.num) }

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
