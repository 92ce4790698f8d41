package stress

import (
	"math/rand/v2"

	"github.com/flatrock-db/flatrock"
)

// drawFamilyRound draws the options of a family for a round.
func (c Config) drawFamilyRound(rng *rand.Rand, f *familySpec, h harness) *flatrock.ColumnFamilyOptions {
	o := &flatrock.ColumnFamilyOptions{
		MergeOperator:                    chain{},
		PrefixExtractor:                  f.extractor,
		WriteBufferSize:                  pick[int64](rng, 64<<10, 64<<10, 100<<10, 300<<10),
		MaxWriteBufferNumber:             2 + rng.IntN(4),
		MinWriteBufferNumberToMerge:      1 + rng.IntN(2),
		Level0FileNumCompactionTrigger:   2 + rng.IntN(4),
		Level0SlowdownWritesTrigger:      pick(rng, 8, 10),
		Level0StopWritesTrigger:          pick(rng, 12, 20),
		TargetFileSizeBase:               pick[int64](rng, 4<<10, 16<<10, 64<<10),
		MaxBytesForLevelBase:             pick[int64](rng, 16<<10, 64<<10, 256<<10),
		MaxBytesForLevelMultiplier:       pick(rng, 2.0, 4.0, 10.0),
		LevelCompactionDynamicLevelBytes: pick(rng, flatrock.On, flatrock.Off),
		BloomLocality:                    uint32(rng.IntN(2)),
	}
	o.CompactionStyle, o.NumLevels = f.style, f.levels
	o.BlockProtectionBytesPerKey = pick(rng, 0, 0, 1, 8)
	o.MemtableProtectionBytesPerKey = pick(rng, 0, 0, 2, 8)
	o.MemtableVerifyPerKeyChecksumOnSeek = rng.IntN(3) == 0
	o.BlockDamageFailsReads = rng.IntN(4) == 0
	o.ParanoidFileChecks = rng.IntN(5) == 0
	c.drawShape(rng, o)
	drawFilter(rng, o)
	if f.reverse {
		o.Comparator = flatrock.ReverseBytewise
	}
	o.MemTable.Kind = pick(rng, flatrock.SkipList, flatrock.HashSkipList, flatrock.HashLinkList, flatrock.Vector)
	o.MemTable.BucketCount = pick(rng, 1, 16, 300)
	o.MemTable.Threshold = pick(rng, 1, 4, 100)
	o.MemTable.SkipListHeight, o.MemTable.BranchingFactor = pick(rng, 0, 1, 8), pick(rng, 0, 2)
	if f.plain {
		p := f.plainOpts
		p.IndexSparseness = pick(rng, 0, 3, flatrock.IndexEveryRow)
		p.BloomBitsPerKey = pick(rng, 0, 4, flatrock.NoBloom)
		p.StoreIndexInFile = pick(rng, flatrock.On, flatrock.Off)
		p.ChunkChecksums = flatrock.On
		if !h.flips { // nothing else notices a bit in a row
			p.ChunkChecksums = pick(rng, flatrock.On, flatrock.On, flatrock.Off)
		}
		p.Verify = pick(rng, flatrock.VerifyOnDemand, flatrock.VerifyAtOpen, flatrock.VerifyInBackground)
		p.Memory = pick(rng, flatrock.MemoryPopulate, flatrock.MemoryNone, flatrock.MemoryWillNeed, flatrock.MemoryResident, flatrock.MemoryLock)
		p.LoadInBackground = pick(rng, flatrock.On, flatrock.Off)
		p.VerifyReadsOneIn = pick(rng, 0, 0, 1, 10)
		p.ScrubBytesPerSecond = pick[int64](rng, 0, 0, 4<<20)
		o.Table = p
		return o
	}
	b := flatrock.BlockBasedTableOptions{
		BlockSize:                 pick(rng, 200, 1000, 4096),
		BlockSizeDeviation:        pick(rng, 0, 50),
		BlockRestartInterval:      pick(rng, 1, 3, 16),
		IndexBlockRestartInterval: pick(rng, 1, 4),
		MetadataBlockSize:         pick(rng, 100, 4096),
		FormatVersion:             pick(rng, 2, 3, 4, 5, 6, 7),
		IndexType:                 pick(rng, flatrock.BinarySearch, flatrock.TwoLevelIndexSearch, flatrock.BinarySearchWithFirstKey),
		DataBlockIndexType:        pick(rng, flatrock.DataBlockBinarySearch, flatrock.DataBlockBinaryAndHash),
		Checksum:                  pick(rng, flatrock.CRC32C, flatrock.XXHash, flatrock.XXHash64, flatrock.XXH3),
		IndexShortening:           pick(rng, flatrock.NoShortening, flatrock.ShortenSeparators, flatrock.ShortenSeparatorsAndSuccessor),
		FilterPolicy:              pick(rng, flatrock.FilterPolicy{}, flatrock.BloomFilter(8), flatrock.RibbonFilter(8)),
		WholeKeyFiltering:         pick(rng, flatrock.On, flatrock.On, flatrock.Off),
		UseDeltaEncoding:          pick(rng, flatrock.On, flatrock.Off),
		EnableIndexCompression:    pick(rng, flatrock.On, flatrock.Off),
		NoBlockCache:              rng.IntN(6) == 0,
		OptimizeFiltersForMemory:  rng.IntN(2) == 0,
		CacheIndexAndFilterBlocks: rng.IntN(2) == 0,
	}
	if f.extractor != nil && rng.IntN(3) == 0 {
		b.IndexType = flatrock.HashSearch
		b.IndexBlockRestartInterval = 1
	}
	b.PartitionFilters = b.IndexType == flatrock.TwoLevelIndexSearch && rng.IntN(2) == 0
	b.PinL0FilterAndIndexBlocksInCache = b.CacheIndexAndFilterBlocks && rng.IntN(2) == 0
	b.DataBlockHashTableUtilRatio = pick(rng, 0, 0.3)
	b.NumFileReadsForAutoReadahead = pick(rng, 0, 1, flatrock.ReadaheadAtOnce)
	b.InitialAutoReadaheadSize, b.MaxAutoReadaheadSize = pick(rng, 0, 500), pick(rng, 0, 4000)
	o.Table = b
	kinds := []flatrock.Compression{flatrock.NoCompression, flatrock.SnappyCompression, flatrock.ZlibCompression, flatrock.LZ4Compression, flatrock.LZ4HCCompression, flatrock.ZSTDCompression}
	o.Compression = pick(rng, kinds...)
	if rng.IntN(4) == 0 {
		o.CompressionPerLevel = []flatrock.Compression{flatrock.NoCompression, pick(rng, kinds...), pick(rng, kinds...)}
	}
	if rng.IntN(3) == 0 {
		o.BottommostCompression = flatrock.ZSTDCompression
	}
	if rng.IntN(3) == 0 {
		co := flatrock.DefaultCompressionOptions()
		co.ParallelThreads = pick(rng, 1, 2)
		co.MaxDictBytes = pick(rng, 0, 500, 4000)
		co.ZstdMaxTrainBytes = pick(rng, 0, 8000)
		co.Level = pick(rng, co.Level, 1, 4)
		co.WindowBits, co.Strategy = pick(rng, co.WindowBits, 15), pick(rng, 0, 1)
		co.MaxDictBufferBytes = pick[int64](rng, 0, 20000)
		co.UseZstdDictTrainer = rng.IntN(2) == 0
		o.CompressionOptions = co
		o.BottommostCompressionOptions = pick(rng, nil, &co)
	}
	if o.Compression == flatrock.NoCompression && o.BottommostCompression == 0 && len(o.CompressionPerLevel) == 0 && rng.IntN(3) == 0 {
		b.BlockAlign, b.BlockSize = true, pick(rng, 1024, 4096)
		o.Table = b
	}
	return o
}

// drawShape draws when and how compactions are.
func (c Config) drawShape(rng *rand.Rand, o *flatrock.ColumnFamilyOptions) {
	o.CompactionPri = pick(rng, flatrock.MinOverlappingRatio, flatrock.ByCompensatedSize, flatrock.OldestLargestSeqFirst, flatrock.OldestSmallestSeqFirst, flatrock.RoundRobin)
	u := flatrock.DefaultUniversalOptions()
	u.SizeRatio = pick(rng, u.SizeRatio, 50)
	u.MinMergeWidth = pick(rng, 2, 3)
	u.MaxMergeWidth = pick(rng, u.MaxMergeWidth, 4)
	u.MaxSizeAmplificationPercent = pick(rng, u.MaxSizeAmplificationPercent, 20)
	u.StopStyle = pick(rng, flatrock.StopTotalSize, flatrock.StopSimilarSize)
	u.AllowTrivialMove = rng.IntN(3) == 0
	u.Incremental = rng.IntN(4) == 0
	u.CompressionSizePercent = pick(rng, u.CompressionSizePercent, 60)
	u.MaxReadAmp = pick(rng, u.MaxReadAmp, 0, 6)
	o.CompactionOptionsUniversal = u
	o.MaxCompactionBytes = pick[int64](rng, 0, 0, 40<<10)
	o.TTL = pick[int64](rng, 0, flatrock.NoTTL, 1)
	o.PeriodicCompactionSeconds = pick[int64](rng, 0, flatrock.NoTTL, 1)
	o.BottommostFileCompactionDelay = pick[int64](rng, 0, 0, 1)
	o.TargetFileSizeMultiplier = pick(rng, 0, 2)
	o.DisableAutoCompactions = rng.IntN(8) == 0
	if rng.IntN(4) == 0 {
		o.CompactOnDeletion = &flatrock.CompactOnDeletion{Window: pick(rng, 16, 40), Trigger: pick(rng, 4, 10), Ratio: pick(rng, 0, 0.3), MinFileSize: pick[int64](rng, 0, 3000)}
	}
	if rng.IntN(6) == 0 {
		o.SoftPendingCompactionBytesLimit, o.HardPendingCompactionBytesLimit = 256<<10, 4<<20
	}
	if o.LevelCompactionDynamicLevelBytes == flatrock.Off && rng.IntN(3) == 0 {
		o.MaxBytesForLevelMultiplierAdditional = []int{1, 2, 1}
	}
}

// setOptions changes some options while the database is open.
func (w *worker) setOptions(family int) error {
	if w.rng.IntN(4) == 0 {
		return w.db.SetDBOptions(map[string]string{
			"max_total_wal_size":        pick(w.rng, "0", "100000", "400000"),
			"max_background_jobs":       pick(w.rng, "1", "2", "4"),
			"max_subcompactions":        pick(w.rng, "1", "3"),
			"bytes_per_sync":            pick(w.rng, "0", "8192"),
			"compaction_readahead_size": pick(w.rng, "0", "10000"),
		})
	}
	o := map[string]string{
		"disable_auto_compactions":           pick(w.rng, "true", "false", "false"),
		"write_buffer_size":                  pick(w.rng, "65536", "100000", "300000"),
		"max_write_buffer_number":            pick(w.rng, "2", "5"),
		"level0_file_num_compaction_trigger": pick(w.rng, "2", "4", "6"),
		"target_file_size_base":              pick(w.rng, "4096", "20000", "65536"),
		"max_bytes_for_level_base":           pick(w.rng, "16384", "200000"),
		"paranoid_file_checks":               pick(w.rng, "true", "false", "false"),
		"ttl":                                pick(w.rng, "0", "1", "1000"),
	}
	if s := &w.specs[family]; !s.plain {
		if b := w.families[family].Options().Table.(flatrock.BlockBasedTableOptions); !b.BlockAlign {
			o["compression"] = pick(w.rng, "kNoCompression", "kSnappyCompression", "kZSTD", "kLZ4HCCompression")
			o["block_based_table_factory"] = "{block_size=" + pick(w.rng, "300", "5000") + ";}"
		}
	}
	return w.families[family].SetOptions(o)
}
