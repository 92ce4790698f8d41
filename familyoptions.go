package flatrock

import (
	"fmt"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/memtable"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// ColumnFamilyDescriptor names a family and its options.
type ColumnFamilyDescriptor struct {
	Name    string
	Options *ColumnFamilyOptions // nil: as stored, or the defaults
}

// Comparator orders user keys: Bytewise, ReverseBytewise, or an order of a program's own, with the methods
//
//	Name() string
//	Compare(a, b []byte) int
//	AppendSeparator(dst, a, b []byte) []byte
//	AppendSuccessor(dst, a []byte) []byte
//
// Name is in the MANIFEST and in block-based tables; opening a family with a comparator of another name fails, and names both.
// Compare returns a negative number, zero or a positive one as a sorts before, with or after b; it must be a total order,
// and always the same. AppendSeparator appends a short key s with a <= s < b to dst, given a < b, and AppendSuccessor one with
// a <= s; appending a itself is always right. All are called by several goroutines at a time. RocksDB: Comparator.
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
	// skip list serves, as in RocksDB. A skip list has a hash table of the newest entries
	// beside it, which Gets ask first (not with a custom comparator, nor with per-key
	// checksums): about a tenth of WriteBufferSize, in which it does not count.
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
	// element serves the deeper levels. With LevelCompactionDynamicLevelBytes the second element is the base level's,
	// that into which level 0 is merged, whatever its number. RocksDB: compression_per_level.
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
