package stress

import (
	"fmt"
	"math/rand/v2"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Config says what a run does. The zero value of a field means its default.
type Config struct {
	// Seed decides options and operations.
	Seed uint64
	// Dir is the directory that the run works in; it is made, and its content replaced.
	Dir string
	// Workers is how many goroutines work on the database. Default 4.
	Workers int
	// Families is how many column families it has. Default 4.
	Families int
	// Keys is how many keys a family has. Default 300.
	Keys int
	// Ops is how many operations a worker does in a round. Default 2000.
	Ops int
	// Rounds ends the run, and so does the context. Default: no end.
	Rounds int
	// Sync, from 0 to 100, is how many of a hundred writes are synced. Default 10; negative: none.
	Sync int
	// RoundsPerDB is how many rounds a database lives, with one set of formats. Default 8.
	RoundsPerDB int
	// Verbose, if not nil, is called with what goes on.
	Log func(format string, args ...any)
}

func (c Config) withDefaults() Config {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.Workers, 4)
	def(&c.Families, 4)
	def(&c.Keys, 300)
	def(&c.Ops, 2000)
	def(&c.Sync, 10)
	def(&c.RoundsPerDB, 8)
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	return c
}

// rng draws for a purpose, so that one purpose's draws do not move another's.
func (c Config) rng(purpose string, at ...uint64) *rand.Rand {
	h := mix(c.Seed)
	for _, b := range []byte(purpose) {
		h = mix(h ^ uint64(b))
	}
	for _, a := range at {
		h = mix(h ^ a)
	}
	return rand.New(rand.NewPCG(h, 0x666c6174726f636b))
}

// familySpec is what stays the same for the life of a database.
type familySpec struct {
	name      string
	keys      keyspace
	plain     bool
	reverse   bool
	extractor *flatrock.PrefixExtractor // nil: none
	plainOpts flatrock.PlainTableOptions
	style     flatrock.CompactionStyle
}

// drawFamilies draws the formats of database number db.
func (c Config) drawFamilies(db uint64) []familySpec {
	rng := c.rng("families", db)
	var specs []familySpec
	for i := range c.Families {
		s := familySpec{name: flatrock.DefaultColumnFamilyName}
		if i > 0 {
			s.name = fmt.Sprintf("family%d", i)
		}
		s.keys = keyspace{n: c.Keys, prefixes: 1 + rng.IntN(min(60, c.Keys)), fixed: rng.IntN(4) == 0}
		s.plain = i%2 == int(db%2)
		s.reverse = rng.IntN(5) == 0
		switch rng.IntN(5) {
		case 0:
		case 1:
			s.extractor = flatrock.FixedPrefix(2)
		case 2:
			s.extractor = flatrock.FixedPrefix(1 + rng.IntN(8))
		case 3:
			s.extractor = flatrock.CappedPrefix(1 + rng.IntN(12))
		case 4:
			s.extractor = flatrock.NoopPrefix()
		}
		if s.plain {
			p := flatrock.PlainTableOptions{}
			if s.extractor == nil {
				p.HashTableRatio = flatrock.TotalOrder
			} else {
				p.HashTableRatio = pick(rng, 0, 0.5, 2, flatrock.TotalOrder)
				p.EncodingType = pick(rng, flatrock.PlainEncoding, flatrock.PrefixEncoding)
			}
			if s.keys.fixed {
				p.UserKeyLen = 8
			}
			p.RangeDeletes = pick(rng, flatrock.On, flatrock.Default)
			s.plainOpts = p
		}
		s.style = pick(rng, flatrock.CompactionStyleLevel, flatrock.CompactionStyleLevel, flatrock.CompactionStyleUniversal)
		specs = append(specs, s)
	}
	return specs
}

// allowsRanges reports whether the family takes DeleteRange.
func (s *familySpec) allowsRanges() bool {
	return !s.plain || s.plainOpts.RangeDeletes == flatrock.On
}

func shapeOf(c Config, specs []familySpec) shape {
	s := shape{Workers: c.Workers}
	for _, f := range specs {
		s.Families = append(s.Families, f.keys)
	}
	return s
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// roundOptions is what is drawn for each round.
type roundOptions struct {
	db     flatrock.Options
	noWAL  bool // every write of the round goes without a log
	noSync bool
	// protect is WriteOptions.ProtectionBytesPerKey.
	protect int
}

// drawRound draws the options of a round.
func (c Config) drawRound(specs []familySpec, fsys mmapfs.FS, db, round uint64, h harness) roundOptions {
	rng := c.rng("round", db, round)
	var r roundOptions
	o := &r.db
	o.FS = fsys
	o.CreateIfMissing, o.CreateMissingColumnFamilies = true, true
	o.WALWriteMode = pick(rng, flatrock.WALAuto, flatrock.WALWrite)
	if h.mapped {
		o.WALWriteMode = pick(rng, flatrock.WALMapped, flatrock.WALWrite)
	}
	o.MaxManifestFileSize = pick[int64](rng, 0, 1000, 5000)
	o.AvoidFlushDuringRecovery = rng.IntN(3) == 0
	o.MaxTotalWALSize = pick[int64](rng, 0, 0, 100<<10, 400<<10)
	o.MaxWriteBatchGroupSize = pick[int64](rng, 0, 0, 1000)
	o.BlockCacheSize = pick[int64](rng, 64<<10, 256<<10, 4<<20)
	o.ChargeMemtables = rng.IntN(4) == 0
	o.ChargeTableReaders = rng.IntN(4) == 0
	switch rng.IntN(4) {
	case 0:
		o.AllowMmapReads = !h.flips // a mapped block that is not compressed is not verified again
	case 1:
		o.UseDirectReads = h.direct
	}
	o.MaxBackgroundJobs = pick(rng, 1, 2, 4)
	o.MaxSubcompactions = pick(rng, 1, 1, 3)
	o.DelayedWriteRate = pick[int64](rng, 16<<20, 1<<30) // a slow machine must not make a round last minutes
	r.protect = pick(rng, 0, 0, 8)
	r.noWAL = rng.IntN(8) == 0
	r.noSync = rng.IntN(4) == 0
	for i := range specs {
		f := &specs[i]
		cfo := c.drawFamilyRound(rng, f, h)
		if i == 0 {
			o.ColumnFamily = cfo
			continue
		}
		o.ColumnFamilies = append(o.ColumnFamilies, flatrock.ColumnFamilyDescriptor{Name: f.name, Options: cfo})
	}
	return r
}

func (c Config) drawFamilyRound(rng *rand.Rand, f *familySpec, h harness) *flatrock.ColumnFamilyOptions {
	o := &flatrock.ColumnFamilyOptions{
		MergeOperator:                    chain{},
		PrefixExtractor:                  f.extractor,
		WriteBufferSize:                  pick[int64](rng, 64<<10, 64<<10, 100<<10, 300<<10),
		MaxWriteBufferNumber:             2 + rng.IntN(4),
		MinWriteBufferNumberToMerge:      1 + rng.IntN(2),
		Level0FileNumCompactionTrigger:   2 + rng.IntN(4),
		Level0SlowdownWritesTrigger:      8,
		Level0StopWritesTrigger:          12,
		TargetFileSizeBase:               pick[int64](rng, 4<<10, 16<<10, 64<<10),
		MaxBytesForLevelBase:             pick[int64](rng, 16<<10, 64<<10, 256<<10),
		MaxBytesForLevelMultiplier:       pick(rng, 2.0, 4.0, 10.0),
		LevelCompactionDynamicLevelBytes: pick(rng, flatrock.On, flatrock.Off),
		BloomLocality:                    uint32(rng.IntN(2)),
	}
	o.CompactionStyle = f.style
	o.BlockProtectionBytesPerKey = pick(rng, 0, 0, 1, 8)
	o.MemtableProtectionBytesPerKey = pick(rng, 0, 0, 2, 8)
	if f.reverse {
		o.Comparator = flatrock.ReverseBytewise
	}
	o.MemTable.Kind = pick(rng, flatrock.SkipList, flatrock.HashSkipList, flatrock.HashLinkList, flatrock.Vector)
	o.MemTable.BucketCount = pick(rng, 1, 16, 300)
	o.MemTable.Threshold = pick(rng, 1, 4, 100)
	if f.plain {
		p := f.plainOpts
		p.IndexSparseness = pick(rng, 0, 3, flatrock.IndexEveryRow)
		p.BloomBitsPerKey = pick(rng, 0, 4, flatrock.NoBloom)
		p.StoreIndexInFile = pick(rng, flatrock.On, flatrock.Off)
		p.ChunkChecksums = flatrock.On
		p.Verify = pick(rng, flatrock.VerifyOnDemand, flatrock.VerifyAtOpen, flatrock.VerifyInBackground)
		p.Memory = pick(rng, flatrock.MemoryPopulate, flatrock.MemoryNone, flatrock.MemoryWillNeed, flatrock.MemoryResident)
		p.LoadInBackground = pick(rng, flatrock.On, flatrock.Off)
		o.Table = p
		return o
	}
	b := flatrock.BlockBasedTableOptions{
		BlockSize:                 pick(rng, 200, 1000, 4096),
		BlockRestartInterval:      pick(rng, 1, 3, 16),
		IndexBlockRestartInterval: pick(rng, 1, 4),
		MetadataBlockSize:         pick(rng, 100, 4096),
		FormatVersion:             pick(rng, 2, 3, 4, 5, 6),
		IndexType:                 pick(rng, flatrock.BinarySearch, flatrock.TwoLevelIndexSearch, flatrock.BinarySearchWithFirstKey),
		DataBlockIndexType:        pick(rng, flatrock.DataBlockBinarySearch, flatrock.DataBlockBinaryAndHash),
		Checksum:                  pick(rng, flatrock.CRC32C, flatrock.XXHash, flatrock.XXHash64, flatrock.XXH3),
		IndexShortening:           pick(rng, flatrock.NoShortening, flatrock.ShortenSeparators, flatrock.ShortenSeparatorsAndSuccessor),
		FilterPolicy:              pick(rng, flatrock.FilterPolicy{}, flatrock.BloomFilter(8), flatrock.RibbonFilter(8)),
		WholeKeyFiltering:         pick(rng, flatrock.On, flatrock.On, flatrock.Off),
		UseDeltaEncoding:          pick(rng, flatrock.On, flatrock.Off),
		EnableIndexCompression:    pick(rng, flatrock.On, flatrock.Off),
		NoBlockCache:              rng.IntN(6) == 0,
		CacheIndexAndFilterBlocks: rng.IntN(2) == 0,
	}
	if f.extractor != nil && rng.IntN(3) == 0 {
		b.IndexType = flatrock.HashSearch
		b.IndexBlockRestartInterval = 1
	}
	b.PartitionFilters = b.IndexType == flatrock.TwoLevelIndexSearch && rng.IntN(2) == 0
	b.PinL0FilterAndIndexBlocksInCache = b.CacheIndexAndFilterBlocks && rng.IntN(2) == 0
	o.Table = b
	o.Compression = pick(rng, flatrock.NoCompression, flatrock.SnappyCompression, flatrock.ZlibCompression, flatrock.LZ4Compression, flatrock.ZSTDCompression)
	if rng.IntN(3) == 0 {
		o.BottommostCompression = flatrock.ZSTDCompression
	}
	if rng.IntN(3) == 0 {
		co := flatrock.DefaultCompressionOptions()
		co.ParallelThreads = 2
		o.CompressionOptions = co
	}
	return o
}

// harness is what the surroundings of a round allow.
type harness struct {
	mapped bool // the log can be mapped
	direct bool // direct reads work
	flips  bool // bits of what is read flip
	ingest bool // files may be ingested: they are durable at once, so they may outlive writes before them
}
