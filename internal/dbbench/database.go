package dbbench

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/statistics"
)

// memtableKinds are the values of --memtablerep, with the names that db_bench prints.
var memtableKinds = map[string]struct {
	kind flatrock.MemTableKind
	name string
}{
	"skip_list":       {flatrock.SkipList, "SkipListFactory"},
	"prefix_hash":     {flatrock.HashSkipList, "HashSkipListRepFactory"},
	"hash_linkedlist": {flatrock.HashLinkList, "HashLinkListRepFactory"},
	"vector":          {flatrock.Vector, "VectorRepFactory"},
}

// walModes are the values of --wal_write_mode.
var walModes = map[string]flatrock.WALWriteMode{"auto": flatrock.WALAuto, "mapped": flatrock.WALMapped, "write": flatrock.WALWrite}

// familyOptions are the options of the column family that the flags describe.
func (c *config) familyOptions(memory flatrock.PlainTableMemory) (*flatrock.ColumnFamilyOptions, error) {
	rep, ok := memtableKinds[c.memtablerep]
	if !ok {
		return nil, fmt.Errorf("--memtablerep=%s: want skip_list, prefix_hash, hash_linkedlist or vector", c.memtablerep)
	}
	hashed := rep.kind == flatrock.HashSkipList || rep.kind == flatrock.HashLinkList
	if hashed && c.prefixSize == 0 {
		return nil, fmt.Errorf("--memtablerep=%s needs --prefix_size", c.memtablerep)
	}
	if _, ok := walModes[c.walWriteMode]; !ok {
		return nil, fmt.Errorf("--wal_write_mode=%s: want auto, mapped or write", c.walWriteMode)
	}
	o := &flatrock.ColumnFamilyOptions{
		MemTable:                         flatrock.MemTableOptions{Kind: rep.kind, BucketCount: int(c.hashBucketCount)},
		WriteBufferSize:                  c.writeBufferSize,
		MaxWriteBufferNumber:             int(c.maxWriteBufferNumber),
		MinWriteBufferNumberToMerge:      int(c.minWriteBufferNumberToMerge),
		NumLevels:                        int(c.numLevels),
		Level0FileNumCompactionTrigger:   int(c.level0Compaction),
		Level0SlowdownWritesTrigger:      int(c.level0Slow),
		Level0StopWritesTrigger:          int(c.level0Stop),
		TargetFileSizeBase:               c.targetFileSizeBase,
		TargetFileSizeMultiplier:         int(c.targetFileSizeMultiplier),
		MaxBytesForLevelBase:             int64(c.maxBytesForLevelBase),
		MaxBytesForLevelMultiplier:       c.maxBytesForLevelMultiplier,
		DisableAutoCompactions:           c.disableAutoCompactions,
		LevelCompactionDynamicLevelBytes: toggle(c.dynamicLevelBytes),
		BloomLocality:                    uint32(c.bloomLocality),
		BlockProtectionBytesPerKey:       int(c.blockProtection),
		MemtableProtectionBytesPerKey:    int(c.memtableProtection),
	}
	c.compaction(o)
	var err error
	if o.MaxBytesForLevelMultiplierAdditional, err = c.storage.additional(); err != nil {
		return nil, err
	}
	if c.prefixSize > 0 {
		o.PrefixExtractor = flatrock.FixedPrefix(int(c.prefixSize))
	}
	if c.mergeOperator != "" {
		op, err := flatrock.ParseMergeOperator(c.mergeOperator)
		if err != nil {
			return nil, fmt.Errorf("--merge_operator=%s: %w", c.mergeOperator, err)
		}
		o.MergeOperator = op
	}
	if !c.usePlainTable {
		return o, c.blockBased(o)
	}
	return o, c.plain(o, memory)
}

// plain gives o plain tables.
func (c *config) plain(o *flatrock.ColumnFamilyOptions, memory flatrock.PlainTableMemory) error {
	plain := flatrock.PlainTableOptions{UserKeyLen: uint32(c.keySize), Memory: memory}
	switch {
	case c.bloomBits == 0:
		plain.BloomBitsPerKey = flatrock.NoBloom
	case c.bloomBits > 0:
		plain.BloomBitsPerKey = int(c.bloomBits)
	}
	if c.prefixSize == 0 {
		plain.HashTableRatio = flatrock.TotalOrder
	}
	switch c.plainTableEncoding {
	case "plain":
	case "prefix":
		plain.EncodingType = flatrock.PrefixEncoding
	default:
		return fmt.Errorf("--plain_table_encoding=%s: want plain or prefix", c.plainTableEncoding)
	}
	o.Table = plain
	return nil
}

// toggle turns a flag that is on by default into an option.
func toggle(on bool) flatrock.Toggle {
	if on {
		return flatrock.On
	}
	return flatrock.Off
}

// orLess is the option whose zero means the default, for a flag whose zero means zero.
func orLess(flag int64) int {
	if flag == 0 {
		return -1
	}
	return int(flag)
}

// blockBased gives o block-based tables.
func (c *config) blockBased(o *flatrock.ColumnFamilyOptions) error {
	if c.checksumType < 0 || c.checksumType > 4 {
		return fmt.Errorf("--checksum_type=%d: want 0 to 4", c.checksumType)
	}
	if c.indexShortening < 0 || c.indexShortening > 2 {
		return fmt.Errorf("--index_shortening_mode=%d: want 0 to 2", c.indexShortening)
	}
	compression, err := flatrock.ParseCompression(c.compressionType)
	if err != nil {
		return fmt.Errorf("--compression_type=%s: %w", c.compressionType, err)
	}
	o.Compression = compression
	o.CompressionOptions = c.storage.compression()
	if c.minLevelToCompress >= 0 {
		o.CompressionPerLevel = make([]flatrock.Compression, c.numLevels)
		for l := range o.CompressionPerLevel {
			o.CompressionPerLevel[l] = compression
			if int64(l) < c.minLevelToCompress {
				o.CompressionPerLevel[l] = flatrock.NoCompression
			}
		}
	}
	t := flatrock.BlockBasedTableOptions{
		BlockSize: int(c.blockSize), BlockRestartInterval: int(c.blockRestartInterval),
		IndexBlockRestartInterval: int(c.indexBlockRestartInterval), MetadataBlockSize: int(c.metadataBlockSize),
		FormatVersion: int(c.formatVersion), DataBlockHashTableUtilRatio: c.dataBlockHashRatio,
		// RocksDB's numbers, after the one that means the default.
		Checksum:                         flatrock.NoChecksum + flatrock.Checksum(c.checksumType),
		IndexShortening:                  flatrock.NoShortening + flatrock.IndexShortening(c.indexShortening),
		PartitionFilters:                 c.partitionIndexAndFilters,
		WholeKeyFiltering:                toggle(c.wholeKeyFiltering),
		EnableIndexCompression:           toggle(c.indexCompression),
		BlockAlign:                       c.blockAlign,
		OptimizeFiltersForMemory:         c.storage.filtersForMemory,
		NoBlockCache:                     c.cacheSize <= 0,
		CacheIndexAndFilterBlocks:        c.cacheIndexAndFilter,
		PinL0FilterAndIndexBlocksInCache: c.pinL0,
		InitialAutoReadaheadSize:         orLess(c.initialReadahead),
		MaxAutoReadaheadSize:             orLess(c.maxReadahead),
		NumFileReadsForAutoReadahead:     orLess(c.readsForReadahead),
	}
	switch {
	case c.partitionIndex || c.partitionIndexAndFilters:
		t.IndexType = flatrock.TwoLevelIndexSearch
	case c.useHashSearch:
		t.IndexType = flatrock.HashSearch
	case c.indexWithFirstKey:
		t.IndexType = flatrock.BinarySearchWithFirstKey
	}
	if c.dataBlockHashIndex {
		t.DataBlockIndexType = flatrock.DataBlockBinaryAndHash
	}
	switch {
	case c.bloomBits > 0 && c.ribbonFilter:
		t.FilterPolicy = flatrock.RibbonFilter(float64(c.bloomBits))
	case c.bloomBits > 0:
		t.FilterPolicy = flatrock.BloomFilter(float64(c.bloomBits))
	}
	o.Table = t
	return nil
}

// memoryChoice is how plain tables are kept in memory, and why.
type memoryChoice struct {
	policy     flatrock.PlainTableMemory
	auto       bool
	data, free int64 // bytes; free is -1 where the system does not tell
}

func (m memoryChoice) String() string {
	s := m.policy.String()
	switch {
	case !m.auto:
	case m.free < 0:
		s += " (auto: free memory is not known here)"
	case m.policy == flatrock.MemoryResident:
		s += fmt.Sprintf(" (auto: %.1f MB of data fit in a quarter of %.1f MB of free memory)", mb(m.data), mb(m.free))
	default:
		s += fmt.Sprintf(" (auto: %.1f MB of data do not fit in a quarter of %.1f MB of free memory)", mb(m.data), mb(m.free))
	}
	return s
}

// chooseMemory decides --plain_table_memory=auto by the data that is there or that
// the flags will write.
func (b *bench) chooseMemory(existing bool) (memoryChoice, error) {
	if b.c.plainTableMemory != "auto" {
		policy, err := flatrock.ParsePlainTableMemory(b.c.plainTableMemory)
		return memoryChoice{policy: policy}, err
	}
	m := memoryChoice{auto: true, free: freeMemory(), policy: flatrock.MemoryPopulate}
	if existing {
		entries, err := os.ReadDir(b.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return m, err
		}
		for _, e := range entries {
			if kind, _, ok := manifest.ParseName(e.Name()); ok && kind == manifest.KindTable {
				if info, err := e.Info(); err == nil { // else it is gone already
					m.data += info.Size()
				}
			}
		}
	} else {
		const perRow = 20 // row header, index and bloom filter, rounded up
		m.data = b.c.num * (b.c.keySize + b.c.valueSize + perRow)
	}
	if m.free >= 0 && m.data <= m.free/4 {
		m.policy = flatrock.MemoryResident
	}
	return m, nil
}

// options are the database options that the flags describe.
func (b *bench) options(existing bool) (*flatrock.Options, error) {
	c := b.c
	if c.optionsFile != "" {
		return b.fileOptions(existing)
	}
	var err error
	if b.memory, err = b.chooseMemory(existing); err != nil {
		return nil, err
	}
	family, err := c.familyOptions(b.memory.policy)
	if err != nil {
		return nil, err
	}
	if c.expireStyle == "compaction_filter" {
		family.CompactionFilter = &expiry{&b.clock, c.timeRange}
	}
	if c.keepFilter {
		family.CompactionFilter = keepAll{}
	}
	placement, err := c.placement()
	if err != nil {
		return nil, err
	}
	o := &flatrock.Options{
		Placement:    placement,
		ColumnFamily: family, CreateIfMissing: !existing, ReadOnly: c.readOnly,
		WALDir: c.walDir, WALWriteMode: walModes[c.walWriteMode], MaxTotalWALSize: int64(c.maxTotalWALSize),
		WALTTLSeconds: int64(c.walTTLSeconds), WALSizeLimitMB: int64(c.walSizeLimitMB), ManualWALFlush: c.manualWALFlush,
		AvoidFlushDuringRecovery: c.avoidFlushDuringRecovery, BlockCacheSize: c.blockCacheSize(),
		AllowMmapReads: c.mmapRead && !c.usePlainTable, UseDirectReads: c.storage.directReads, ChargeTableReaders: c.storage.chargeReaders,
		MapMemoryFiles: toggle(c.mapMemoryFiles), Logger: b.logger(),
		Statistics: b.statistics(), StatsDumpPeriodSec: statsDumpPeriod(c.statsDumpPeriod),
	}
	o.ColumnFamilies, o.CreateMissingColumnFamilies = c.families.descriptors(family), !c.readOnly
	if c.fileChecksum {
		o.FileChecksumGenFactory = flatrock.FileChecksumGenCrc32c
	}
	c.background.apply(o, family)
	return o, nil
}

// statistics are those of all databases of the run, nil without --statistics.
func (b *bench) statistics() *statistics.Statistics {
	if b.stats == nil && (b.c.statistics || b.c.statisticsString != "") {
		b.stats = statistics.New()
		b.stats.SetLevel(statistics.Level(b.c.storage.statsLevel))
	}
	return b.stats
}

// statsDumpPeriod is the option of that many seconds, where zero means never.
func statsDumpPeriod(seconds uint64) int {
	if seconds == 0 {
		return -1
	}
	return int(min(seconds, math.MaxInt32))
}

// blockCacheSize is the capacity of the block cache. Plain tables have no use for one.
func (c *config) blockCacheSize() int64 {
	if c.usePlainTable || c.cacheSize <= 0 {
		return 1
	}
	return c.cacheSize
}

// open opens the database; unless existing, what was there is removed first.
func (b *bench) open(existing bool) error {
	if !existing {
		if err := destroy(b.dir, b.c.walDir); err != nil {
			return err
		}
		for _, dir := range []string{b.dir, b.c.walDir} {
			if dir != "" {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
			}
		}
	}
	o, err := b.options(existing)
	if err != nil {
		return err
	}
	start := time.Now()
	if b.c.secondary {
		b.db, err = flatrock.OpenAsSecondary(b.dir, o)
	} else {
		b.db, err = flatrock.Open(b.dir, o)
	}
	if err != nil {
		return err
	}
	if b.c.secondary {
		b.follower = follow(b.db, time.Duration(b.c.secondaryInterval)*time.Second)
	}
	opened := time.Since(start)
	b.openFamilies()
	if b.c.reportOpenTiming {
		fmt.Fprintf(b.out, "OpenDb:     %v milliseconds\n", float64(opened.Microseconds())/1000)
	}
	if err := b.db.WaitLoaded(b.ctx); err != nil {
		return err
	}
	if b.c.reportOpenTiming && b.c.usePlainTable {
		fmt.Fprintf(b.out, "LoadDb:     %v milliseconds\n", float64(time.Since(start).Microseconds())/1000)
	}
	b.keys = newKeyMaker(b.c)
	if b.c.useExistingKeys {
		return b.loadKeys()
	}
	return nil
}

// reopenEmpty starts over with an empty database.
func (b *bench) reopenEmpty() error {
	if err := b.endTraces(); err != nil {
		return err
	}
	db := b.db
	b.db = nil
	if err := db.Close(); err != nil {
		return err
	}
	return b.open(false)
}

// loadKeys reads all keys into memory, for --use_existing_keys: those of the database, or
// of that of --existing_keys_db.
func (b *bench) loadKeys() (err error) {
	from, dir := b.cf, b.dir
	if b.c.existingKeysDB != "" {
		dir = b.c.existingKeysDB
		db, err := flatrock.Open(dir, &flatrock.Options{ReadOnly: true})
		if err != nil {
			return fmt.Errorf("--existing_keys_db=%s: %w", dir, err)
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		from = db.DefaultColumnFamily()
	}
	it, err := from.NewIterator(&flatrock.ReadOptions{TotalOrderSeek: true})
	if err != nil {
		return err
	}
	all := new(existingKeys)
	for key := range it.All() {
		all.add(key)
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return err
	}
	if all.count() == 0 {
		return fmt.Errorf("--use_existing_keys: the database in %s has no keys", dir)
	}
	b.keys.existing = all
	b.c.num = all.count()
	fmt.Fprintf(b.log, "%d existing keys are used\n", all.count())
	return nil
}

// destroy removes the files of a database, and nothing else, from its directories.
func destroy(dirs ...string) error {
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			kind, _, ok := manifest.ParseName(e.Name())
			if !ok || kind == manifest.KindUnknown || e.IsDir() {
				continue
			}
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func mb(n int64) float64 { return float64(n) / (1 << 20) }
