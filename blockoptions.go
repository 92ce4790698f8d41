package flatrock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Compression is how blocks are compressed.
type Compression uint8

// The compressions. BZip2 is only read.
const (
	DefaultCompression Compression = iota // what the option's documentation says
	NoCompression
	SnappyCompression
	ZlibCompression
	LZ4Compression
	LZ4HCCompression
	ZSTDCompression
)

// compressionTypes are the stored types of the compressions.
var compressionTypes = [...]compress.Type{compress.LZ4, compress.None, compress.Snappy, compress.Zlib, compress.LZ4, compress.LZ4HC, compress.ZSTD}

func (c Compression) typ() compress.Type { return compressionTypes[c] }

// String is RocksDB's name of c in OPTIONS files.
func (c Compression) String() string {
	if c == DefaultCompression || int(c) >= len(compressionTypes) {
		return "kDisableCompressionOption"
	}
	return c.typ().OptionName()
}

// ParseCompression reads RocksDB's names, as in OPTIONS files ("kZSTD") and tools ("zstd").
func ParseCompression(s string) (Compression, error) {
	if s == "kDisableCompressionOption" {
		return DefaultCompression, nil
	}
	t, ok := compress.ParseType(s)
	if t == compress.ZSTDNotFinal {
		t = compress.ZSTD
	}
	for c := NoCompression; ok && int(c) < len(compressionTypes); c++ {
		if c.typ() == t {
			return c, nil
		}
	}
	if ok {
		return DefaultCompression, fmt.Errorf("%w: compression %s is read, not written", ErrNotSupported, s)
	}
	return DefaultCompression, fmt.Errorf("%w: unknown compression %q", ErrInvalidArgument, s)
}

// CompressionOptions tunes compression.
type CompressionOptions = blocktable.CompressionOptions

// DefaultCompressionOptions are RocksDB's: to start from when one of them is to be changed.
func DefaultCompressionOptions() CompressionOptions { return blocktable.DefaultCompressionOptions() }

// FilterPolicy chooses the filter of block-based tables; see BloomFilter and RibbonFilter.
type FilterPolicy = blocktable.FilterPolicy

// BloomFilter is a Bloom filter of so many bits a key.
func BloomFilter(bitsPerKey float64) FilterPolicy { return blocktable.Bloom(bitsPerKey) }

// RibbonFilter is a Ribbon filter, smaller than a Bloom filter of the same accuracy
// and dearer to build.
func RibbonFilter(bitsPerKey float64) FilterPolicy { return blocktable.Ribbon(bitsPerKey) }

// The index types, data block index types and checksums of block-based tables, by
// RocksDB's names.
const (
	BinarySearch             = blocktable.BinarySearch
	HashSearch               = blocktable.HashSearch
	TwoLevelIndexSearch      = blocktable.TwoLevelIndexSearch
	BinarySearchWithFirstKey = blocktable.BinarySearchWithFirstKey

	DataBlockBinarySearch  = blocktable.DataBlockBinarySearch
	DataBlockBinaryAndHash = blocktable.DataBlockBinaryAndHash
)

// Checksum is the checksum of blocks.
type Checksum uint8

// The checksums, in the order of their stored numbers. Zero means XXH3.
const (
	DefaultChecksum Checksum = iota
	NoChecksum
	CRC32C
	XXHash
	XXHash64
	XXH3
)

var checksumNames = [...]string{"kXXH3", "kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"}

func (c Checksum) typ() hash.ChecksumType {
	if c == DefaultChecksum {
		return hash.ChecksumXXH3
	}
	return hash.ChecksumType(c - NoChecksum) // the stored numbers, in the same order
}

// IndexShortening says which keys of the index are shortened.
type IndexShortening uint8

// The ways of shortening. Zero means ShortenSeparators.
const (
	DefaultShortening IndexShortening = iota
	NoShortening
	ShortenSeparators
	ShortenSeparatorsAndSuccessor
)

var shorteningNames = [...]string{"kShortenSeparators", "kNoShortening", "kShortenSeparators", "kShortenSeparatorsAndSuccessor"}

func (s IndexShortening) mode() blocktable.IndexShortening {
	if s == DefaultShortening {
		return blocktable.ShortenSeparators
	}
	return blocktable.IndexShortening(s - NoShortening)
}

// BlockBasedTableOptions chooses RocksDB's block-based table: blocks read through a
// block cache, for data on flash. Zero sizes and toggles mean RocksDB's defaults.
// RocksDB: BlockBasedTableOptions.
type BlockBasedTableOptions struct {
	// BlockSize is about how many bytes of entries a data block has. Zero means 4096.
	BlockSize int
	// BlockSizeDeviation is by how many per cent a block may stay smaller. Zero means 10.
	BlockSizeDeviation int
	// BlockRestartInterval is how many keys of a data block share prefixes. Zero means 16.
	BlockRestartInterval int
	// IndexBlockRestartInterval is the same for index blocks. Zero means 1.
	IndexBlockRestartInterval int
	// MetadataBlockSize is about the size of a partition of index or filter. Zero means 4096.
	MetadataBlockSize int
	// FormatVersion is 2 to 7. Zero means 5, the newest that RocksDB 7 reads.
	FormatVersion int
	// IndexType is BinarySearch, HashSearch, TwoLevelIndexSearch or BinarySearchWithFirstKey.
	IndexType blocktable.IndexType
	// IndexShortening says which index keys are shortened. Zero means ShortenSeparators.
	IndexShortening IndexShortening
	// PartitionFilters cuts the filter like the index; with TwoLevelIndexSearch only.
	PartitionFilters bool
	// DataBlockIndexType adds a hash index to data blocks.
	DataBlockIndexType blocktable.DataBlockIndexType
	// DataBlockHashTableUtilRatio is entries per bucket of it. Zero means 0.75.
	DataBlockHashTableUtilRatio float64
	// Checksum is the checksum of every block. Zero means XXH3.
	Checksum Checksum
	// FilterPolicy is the filter; the zero value means none.
	FilterPolicy FilterPolicy
	// WholeKeyFiltering adds whole keys to the filter. Default means on.
	WholeKeyFiltering Toggle
	// UseDeltaEncoding shares key prefixes in data blocks. Default means on. It is not stored in
	// the OPTIONS file: RocksDB 7.8 would refuse the file.
	UseDeltaEncoding Toggle
	// EnableIndexCompression compresses index blocks too. Default means on.
	EnableIndexCompression Toggle
	// BlockAlign pads data blocks to pages; needs NoCompression.
	BlockAlign bool
	// OptimizeFiltersForMemory gives filters what would be lost of the memory that they take in the block cache,
	// by its size classes, for fewer wrong answers. With FormatVersion 5 or later; older filters stay as they are. RocksDB does the same with its
	// allocator's sizes, and makes other filters smaller in return; as little is lost here (a hundredth or two), ours only grow.
	// RocksDB: optimize_filters_for_memory, which is true in newer versions; the default here is false.
	OptimizeFiltersForMemory bool

	// InitialAutoReadaheadSize is how many bytes an iterator that reads blocks in sequence reads ahead at
	// first, and MaxAutoReadaheadSize where doubling ends. Zero means 8 KiB and 256 KiB; NoAutoReadahead
	// means none. RocksDB: initial_auto_readahead_size, max_auto_readahead_size.
	InitialAutoReadaheadSize, MaxAutoReadaheadSize int
	// NumFileReadsForAutoReadahead is how many blocks in sequence it reads before. Zero means 2;
	// ReadaheadAtOnce means none. RocksDB: num_file_reads_for_auto_readahead.
	NumFileReadsForAutoReadahead int

	// NoBlockCache reads blocks from the file each time.
	NoBlockCache bool
	// CacheIndexAndFilterBlocks keeps index and filter in the block cache, where they
	// may be evicted, instead of in memory of their own.
	CacheIndexAndFilterBlocks bool
	// PinL0FilterAndIndexBlocksInCache keeps those of level 0 there for good.
	PinL0FilterAndIndexBlocksInCache bool
}

// Values of options of which zero means the default, for RocksDB's zero.
const (
	NoAutoReadahead = -1 // InitialAutoReadaheadSize, MaxAutoReadaheadSize: no readahead by itself
	ReadaheadAtOnce = -1 // NumFileReadsForAutoReadahead: from the first block on
)

func (BlockBasedTableOptions) tableFactoryName() string { return "BlockBasedTable" }

func (o BlockBasedTableOptions) format() blocktable.Options {
	f := blocktable.DefaultOptions()
	for _, v := range []struct {
		dst *int
		src int
	}{
		{&f.BlockSize, o.BlockSize},
		{&f.BlockSizeDeviation, o.BlockSizeDeviation},
		{&f.BlockRestartInterval, o.BlockRestartInterval},
		{&f.IndexBlockRestartInterval, o.IndexBlockRestartInterval},
		{&f.MetadataBlockSize, o.MetadataBlockSize},
		{&f.FormatVersion, o.FormatVersion},
	} {
		if v.src != 0 {
			*v.dst = v.src
		}
	}
	if o.DataBlockHashTableUtilRatio != 0 {
		f.DataBlockHashTableUtilRatio = o.DataBlockHashTableUtilRatio
	}
	f.IndexType, f.DataBlockIndexType = o.IndexType, o.DataBlockIndexType
	f.IndexShortening = o.IndexShortening.mode()
	f.PartitionFilters, f.BlockAlign = o.PartitionFilters, o.BlockAlign
	f.OptimizeFiltersForMemory = o.OptimizeFiltersForMemory
	f.Checksum, f.FilterPolicy = o.Checksum.typ(), o.FilterPolicy
	f.WholeKeyFiltering = o.WholeKeyFiltering.or(true)
	f.UseDeltaEncoding = o.UseDeltaEncoding.or(true)
	f.EnableIndexCompression = o.EnableIndexCompression.or(true)
	return f
}

func (o BlockBasedTableOptions) validate(cf *ColumnFamilyOptions) error {
	if int(o.Checksum) >= len(checksumNames) || int(o.IndexShortening) >= len(shorteningNames) {
		return fmt.Errorf("%w: block-based table: unknown Checksum %d or IndexShortening %d", ErrInvalidArgument, o.Checksum, o.IndexShortening)
	}
	// The writer knows what can be written together: ask it for each level.
	for level := range cf.NumLevels {
		for _, bottom := range []bool{false, true} {
			w := o.writerOptions(cf, level, bottom, table.Identity{})
			if err := w.Validate(); err != nil {
				return fmt.Errorf("%w: %w", ErrInvalidArgument, err)
			}
		}
	}
	return nil
}

// writerOptions are those of a file for a level as CompressionPerLevel counts them.
func (o BlockBasedTableOptions) writerOptions(cf *ColumnFamilyOptions, level int, bottommost bool, id table.Identity) blocktable.WriterOptions {
	c := cf.Compression
	if n := len(cf.CompressionPerLevel); n > 0 {
		c = cf.CompressionPerLevel[min(level, n-1)]
	}
	co := cf.CompressionOptions
	if bottommost && cf.BottommostCompression != DefaultCompression {
		c = cf.BottommostCompression
		if cf.BottommostCompressionOptions != nil {
			co = *cf.BottommostCompressionOptions
		}
	}
	return blocktable.WriterOptions{
		Options:            o.format(),
		Extractor:          cf.PrefixExtractor,
		Identity:           id,
		Compression:        c.typ(),
		CompressionOptions: co,
	}
}

func (o BlockBasedTableOptions) readerOptions(cf *ColumnFamily, meta *manifest.FileMetadata, level int) blocktable.ReaderOptions {
	r := blocktable.ReaderOptions{
		FileSize:                  int64(meta.Size),
		Order:                     cf.order,
		Extractor:                 cf.opts.PrefixExtractor,
		Cache:                     cf.db.cache,
		CacheIndexAndFilterBlocks: o.CacheIndexAndFilterBlocks,
		VerifyChecksums:           true,
		Mmap:                      cf.db.opts.AllowMmapReads,
		CopyFromMapping:           cf.db.opts.MapMemoryFiles.or(true),
		PinIndexAndFilterBlocks:   o.PinL0FilterAndIndexBlocksInCache && level == 0,
		ManifestLargestSeq:        meta.LargestSeq,
		HasManifestLargestSeq:     true,
		Statistics:                cf.db.stats,
		Trace:                     blockcache.FileInfo{Family: uint64(cf.id), Name: cf.name, Level: uint32(level), Number: meta.Number},
		RestartInterval:           o.format().BlockRestartInterval,
		MaxDecompressed:           cf.db.opts.MaxDecompressedSize,
	}
	cf.protectBlocks(&r)
	r.InitialReadahead, r.MaxReadahead, r.ReadaheadAfter = o.InitialAutoReadaheadSize, o.MaxAutoReadaheadSize, o.NumFileReadsForAutoReadahead
	if o.NoBlockCache {
		r.Cache = nil
	} else {
		r.CacheID = r.Cache.NewFileID()
	}
	return r
}

// blockSettings are the options of block-based tables in OPTIONS files.
var blockSettings = []setting[BlockBasedTableOptions]{
	orDefault(intSetting("block_size", func(o *BlockBasedTableOptions) *int { return &o.BlockSize }), "4096"),
	orDefault(intSetting("block_size_deviation", func(o *BlockBasedTableOptions) *int { return &o.BlockSizeDeviation }), "10"),
	orDefault(intSetting("block_restart_interval", func(o *BlockBasedTableOptions) *int { return &o.BlockRestartInterval }), "16"),
	orDefault(intSetting("index_block_restart_interval", func(o *BlockBasedTableOptions) *int { return &o.IndexBlockRestartInterval }), "1"),
	orDefault(intSetting("metadata_block_size", func(o *BlockBasedTableOptions) *int { return &o.MetadataBlockSize }), "4096"),
	orDefault(intSetting("format_version", func(o *BlockBasedTableOptions) *int { return &o.FormatVersion }), "5"),
	zeroIsLess(intSetting("initial_auto_readahead_size", func(o *BlockBasedTableOptions) *int { return &o.InitialAutoReadaheadSize }), "8192"),
	zeroIsLess(intSetting("max_auto_readahead_size", func(o *BlockBasedTableOptions) *int { return &o.MaxAutoReadaheadSize }), "262144"),
	zeroIsLess(intSetting("num_file_reads_for_auto_readahead", func(o *BlockBasedTableOptions) *int { return &o.NumFileReadsForAutoReadahead }), "2"),
	enumSetting("index_type", func(o *BlockBasedTableOptions) *blocktable.IndexType { return &o.IndexType },
		"kBinarySearch", "kHashSearch", "kTwoLevelIndexSearch", "kBinarySearchWithFirstKey"),
	enumSetting("index_shortening", func(o *BlockBasedTableOptions) *IndexShortening { return &o.IndexShortening }, shorteningNames[:]...),
	enumSetting("data_block_index_type", func(o *BlockBasedTableOptions) *blocktable.DataBlockIndexType { return &o.DataBlockIndexType },
		"kDataBlockBinarySearch", "kDataBlockBinaryAndHash"),
	{"data_block_hash_table_util_ratio",
		func(o *BlockBasedTableOptions) string {
			return optionsfile.FormatFloat(o.format().DataBlockHashTableUtilRatio)
		},
		func(o *BlockBasedTableOptions, v optionsfile.Option) (err error) {
			o.DataBlockHashTableUtilRatio, err = v.Float64()
			return err
		}},
	enumSetting("checksum", func(o *BlockBasedTableOptions) *Checksum { return &o.Checksum }, checksumNames[:]...),
	{"filter_policy",
		func(o *BlockBasedTableOptions) string { return o.FilterPolicy.String() },
		func(o *BlockBasedTableOptions, v optionsfile.Option) (err error) {
			o.FilterPolicy, err = blocktable.ParseFilterPolicy(v.Text())
			return err
		}},
	toggleSetting("whole_key_filtering", func(o *BlockBasedTableOptions) *Toggle { return &o.WholeKeyFiltering }),
	notWritten(toggleSetting("use_delta_encoding", func(o *BlockBasedTableOptions) *Toggle { return &o.UseDeltaEncoding })), // unknown to RocksDB 7.8
	toggleSetting("enable_index_compression", func(o *BlockBasedTableOptions) *Toggle { return &o.EnableIndexCompression }),
	flagSetting("partition_filters", func(o *BlockBasedTableOptions) *bool { return &o.PartitionFilters }),
	flagSetting("optimize_filters_for_memory", func(o *BlockBasedTableOptions) *bool { return &o.OptimizeFiltersForMemory }),
	flagSetting("block_align", func(o *BlockBasedTableOptions) *bool { return &o.BlockAlign }),
	flagSetting("no_block_cache", func(o *BlockBasedTableOptions) *bool { return &o.NoBlockCache }),
	flagSetting("cache_index_and_filter_blocks", func(o *BlockBasedTableOptions) *bool { return &o.CacheIndexAndFilterBlocks }),
	flagSetting("pin_l0_filter_and_index_blocks_in_cache", func(o *BlockBasedTableOptions) *bool { return &o.PinL0FilterAndIndexBlocksInCache }),
}

// compressionSettings are the options of a family that only block-based tables use.
var compressionSettings = []setting[ColumnFamilyOptions]{
	{"compression",
		func(o *ColumnFamilyOptions) string { return cmpDefault(o.Compression).String() },
		func(o *ColumnFamilyOptions, v optionsfile.Option) (err error) {
			o.Compression, err = ParseCompression(v.Text())
			if errors.Is(err, ErrNotSupported) {
				err = nil // files name their own compression; ours are written with the default
			}
			return err
		}},
	{"bottommost_compression",
		func(o *ColumnFamilyOptions) string { return o.BottommostCompression.String() },
		func(o *ColumnFamilyOptions, v optionsfile.Option) (err error) {
			o.BottommostCompression, err = ParseCompression(v.Text())
			return err
		}},
	{"compression_per_level",
		func(o *ColumnFamilyOptions) string {
			var names []string
			for _, c := range o.CompressionPerLevel {
				names = append(names, cmpDefault(c).String())
			}
			return optionsfile.FormatList(names...)
		},
		func(o *ColumnFamilyOptions, v optionsfile.Option) error {
			list, err := v.List()
			if err != nil {
				return err
			}
			for _, e := range list {
				c, err := ParseCompression(e.Text())
				if err != nil {
					return err
				}
				o.CompressionPerLevel = append(o.CompressionPerLevel, c)
			}
			return nil
		}},
	{"compression_opts",
		func(o *ColumnFamilyOptions) string { return compressionText(o.CompressionOptions, false) },
		func(o *ColumnFamilyOptions, v optionsfile.Option) (err error) {
			o.CompressionOptions, _, err = readCompression(v)
			return err
		}},
	{"bottommost_compression_opts",
		func(o *ColumnFamilyOptions) string {
			if b := o.BottommostCompressionOptions; b != nil {
				return compressionText(*b, true)
			}
			return compressionText(CompressionOptions{}, false)
		},
		func(o *ColumnFamilyOptions, v optionsfile.Option) error {
			c, enabled, err := readCompression(v)
			if enabled {
				o.BottommostCompressionOptions = &c
			}
			return err
		}},
}

// compressionFields are the members of the object compression_opts.
var compressionFields = []setting[CompressionOptions]{
	intSetting("max_dict_buffer_bytes", func(o *CompressionOptions) *int64 { return &o.MaxDictBufferBytes }),
	intSetting("max_dict_bytes", func(o *CompressionOptions) *int { return &o.MaxDictBytes }),
	intSetting("parallel_threads", func(o *CompressionOptions) *int { return &o.ParallelThreads }),
	intSetting("zstd_max_train_bytes", func(o *CompressionOptions) *int { return &o.ZstdMaxTrainBytes }),
	intSetting("level", func(o *CompressionOptions) *int { return &o.Level }),
	flagSetting("use_zstd_dict_trainer", func(o *CompressionOptions) *bool { return &o.UseZstdDictTrainer }),
	intSetting("strategy", func(o *CompressionOptions) *int { return &o.Strategy }),
	intSetting("window_bits", func(o *CompressionOptions) *int { return &o.WindowBits }),
}

func compressionText(c CompressionOptions, enabled bool) string {
	if c == (CompressionOptions{}) {
		c = DefaultCompressionOptions()
	}
	fields := []optionsfile.Option{{Key: "enabled", Value: strconv.FormatBool(enabled)}}
	for _, f := range compressionFields {
		fields = append(fields, optionsfile.Option{Key: f.name, Value: f.get(&c)})
	}
	return optionsfile.FormatObject(fields...)
}

// readCompression reads the object of options, or the form of older RocksDBs:
// window_bits:level:strategy:max_dict_bytes and so on.
func readCompression(v optionsfile.Option) (c CompressionOptions, enabled bool, err error) {
	c = DefaultCompressionOptions()
	if !strings.HasPrefix(v.Value, "{") {
		return c, false, nil // RocksDB before 6: what it tuned is not known any more
	}
	fields, err := v.Object()
	for _, f := range fields {
		if err != nil {
			break
		}
		if f.Key == "enabled" {
			enabled, err = f.Bool()
			continue
		}
		for _, s := range compressionFields {
			if s.name == f.Key {
				err = s.set(&c, f)
			}
		}
	}
	return c, enabled, err
}

func cmpDefault(c Compression) Compression {
	if c == DefaultCompression {
		return LZ4Compression
	}
	return c
}

// orDefault writes def where the field is zero, which means the default.
func orDefault[T any](s setting[T], def string) setting[T] {
	get := s.get
	s.get = func(o *T) string {
		if v := get(o); v != "0" {
			return v
		}
		return def
	}
	return s
}

// zeroIsLess is s for options whose zero means def here, and -1 what RocksDB's zero does.
func zeroIsLess[T any](s setting[T], def string) setting[T] {
	get, set := s.get, s.set
	s.get = func(o *T) string {
		switch v := get(o); v {
		case "0":
			return def
		case "-1":
			return "0"
		default:
			return v
		}
	}
	s.set = func(o *T, v optionsfile.Option) error {
		if n, err := v.Int64(); err == nil && n == 0 {
			v.Value = "-1"
		}
		return set(o, v)
	}
	return s
}

// enumSetting is an option whose values have names; the first is that of zero.
func enumSetting[T any, E ~uint8](name string, field func(*T) *E, names ...string) setting[T] {
	return setting[T]{name,
		func(o *T) string { return names[*field(o)] },
		func(o *T, v optionsfile.Option) error {
			for i := len(names) - 1; i >= 0; i-- { // the explicit value rather than the default of the same name
				if names[i] == v.Text() {
					*field(o) = E(i)
					return nil
				}
			}
			return fmt.Errorf("%w: %s=%q: want one of %s", ErrInvalidArgument, name, v.Text(), strings.Join(names, ", "))
		}}
}

func toggleSetting[T any](name string, field func(*T) *Toggle) setting[T] {
	return boolSetting(name, func(o *T) bool { return field(o).or(true) }, func(o *T, b bool) { *field(o) = toggle(b) })
}

func flagSetting[T any](name string, field func(*T) *bool) setting[T] {
	return setting[T]{name,
		func(o *T) string { return strconv.FormatBool(*field(o)) },
		func(o *T, v optionsfile.Option) (err error) {
			*field(o), err = v.Bool()
			return err
		}}
}
