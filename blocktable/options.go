package blocktable

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// IndexType is the kind of index. RocksDB: index_type.
type IndexType uint8

// The index types.
const (
	BinarySearch             IndexType = indexBinary
	HashSearch               IndexType = indexHash // needs a prefix extractor whose domain has every key
	TwoLevelIndexSearch      IndexType = indexTwoLevel
	BinarySearchWithFirstKey IndexType = indexFirstKey
)

// String is RocksDB's name in OPTIONS files.
func (t IndexType) String() string {
	return enumName(uint8(t), "kBinarySearch", "kHashSearch", "kTwoLevelIndexSearch", "kBinarySearchWithFirstKey")
}

// DataBlockIndexType says whether data blocks carry a hash index. RocksDB: data_block_index_type.
type DataBlockIndexType uint8

// The data block index types.
const (
	DataBlockBinarySearch  DataBlockIndexType = 0
	DataBlockBinaryAndHash DataBlockIndexType = 1
)

// String is RocksDB's name in OPTIONS files.
func (t DataBlockIndexType) String() string {
	return enumName(uint8(t), "kDataBlockBinarySearch", "kDataBlockBinaryAndHash")
}

// IndexShortening says which index keys are shortened. RocksDB: index_shortening.
type IndexShortening uint8

// The ways of shortening.
const (
	NoShortening                  IndexShortening = 0
	ShortenSeparators             IndexShortening = 1
	ShortenSeparatorsAndSuccessor IndexShortening = 2
)

// String is RocksDB's name in OPTIONS files.
func (s IndexShortening) String() string {
	return enumName(uint8(s), "kNoShortening", "kShortenSeparators", "kShortenSeparatorsAndSuccessor")
}

func enumName(v uint8, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return strconv.Itoa(int(v))
}

// FilterPolicy chooses the filter. The zero value is none. RocksDB: filter_policy.
type FilterPolicy struct {
	// BitsPerKey is the size; a Ribbon filter takes less for the same accuracy.
	BitsPerKey float64
	// Ribbon builds Ribbon filters from format version 5 on.
	Ribbon bool
}

// Bloom is a Bloom filter of so many bits a key.
func Bloom(bitsPerKey float64) FilterPolicy { return FilterPolicy{BitsPerKey: bitsPerKey} }

// Ribbon is a Ribbon filter with the accuracy of a Bloom filter of so many bits a key.
func Ribbon(bitsPerKey float64) FilterPolicy {
	return FilterPolicy{BitsPerKey: bitsPerKey, Ribbon: true}
}

// None reports whether no filter is wanted.
func (p FilterPolicy) None() bool { return p == FilterPolicy{} }

// String is the form in OPTIONS files.
func (p FilterPolicy) String() string {
	bits := strconv.FormatFloat(p.BitsPerKey, 'g', -1, 64)
	switch {
	case p.None():
		return "nullptr"
	case p.Ribbon:
		return "ribbonfilter:" + bits + ":0"
	}
	return "bloomfilter:" + bits + ":false"
}

// name is the property rocksdb.filter.policy.
func (p FilterPolicy) name() string {
	switch {
	case p.None():
		return ""
	case p.Ribbon:
		return "ribbonfilter"
	}
	return "bloomfilter"
}

// millibits is thousandths of a bit a key, as RocksDB rounds; zero builds no filter.
func (p FilterPolicy) millibits() int {
	switch {
	case p.BitsPerKey < 0.5:
		return 0
	case p.BitsPerKey < 1:
		return 1000
	case !(p.BitsPerKey < 100):
		return 100000
	}
	return int(p.BitsPerKey*1000 + 0.500001)
}

// ParseFilterPolicy reads "bloom:N", "ribbon:N", the forms of OPTIONS files
// ("bloomfilter:10:false", "ribbonfilter:10:0"), and "nullptr" or nothing for none.
func ParseFilterPolicy(s string) (FilterPolicy, error) {
	f := strings.Split(strings.TrimPrefix(strings.TrimSpace(s), "rocksdb."), ":")
	switch f[0] {
	case "", "nullptr":
		if len(f) == 1 {
			return FilterPolicy{}, nil
		}
	case "bloom", "bloomfilter", "ribbon", "ribbonfilter":
		if len(f) == 2 || len(f) == 3 {
			bits, err := strconv.ParseFloat(f[1], 64)
			if err == nil && bits >= 0 {
				return FilterPolicy{BitsPerKey: bits, Ribbon: f[0][0] == 'r'}, nil
			}
		}
	}
	return FilterPolicy{}, fmt.Errorf("filter policy %q: expected bloom:N, ribbon:N or nullptr", s)
}

// Options are RocksDB's BlockBasedTableOptions that shape a file. Start from
// DefaultOptions; a size that is zero means the default as well.
type Options struct {
	// BlockSize is about how many bytes of entries a data block has before
	// compression. Default 4096. RocksDB: block_size.
	BlockSize int
	// BlockSizeDeviation is by how many per cent a block may stay below BlockSize
	// so as not to pass it. Default 10. RocksDB: block_size_deviation.
	BlockSizeDeviation int
	// BlockRestartInterval is how many keys share a prefix. Default 16. RocksDB: block_restart_interval.
	BlockRestartInterval int
	// IndexBlockRestartInterval is the same for index blocks. Default 1. RocksDB: index_block_restart_interval.
	IndexBlockRestartInterval int
	// MetadataBlockSize is about the size of an index or filter partition. Default 4096. RocksDB: metadata_block_size.
	MetadataBlockSize int
	// PartitionFilters cuts the filter like the index; needs TwoLevelIndexSearch,
	// and is ignored without it. RocksDB: partition_filters.
	PartitionFilters bool
	// DataBlockIndexType adds a hash index to data blocks. RocksDB: data_block_index_type.
	DataBlockIndexType DataBlockIndexType
	// DataBlockHashTableUtilRatio is entries per bucket of that index. Default 0.75.
	// RocksDB: data_block_hash_table_util_ratio.
	DataBlockHashTableUtilRatio float64
	// IndexType is the kind of index. RocksDB: index_type.
	IndexType IndexType
	// IndexShortening is which index keys are shortened. Default ShortenSeparators. RocksDB: index_shortening.
	IndexShortening IndexShortening
	// Checksum is the checksum of every block. Default kXXH3. RocksDB: checksum.
	Checksum hash.ChecksumType
	// FormatVersion is 2 to 7. Default 5, the newest that RocksDB 7 reads; 6 needs
	// RocksDB 8.6, 7 needs 10.4. RocksDB: format_version.
	FormatVersion int
	// FilterPolicy is the filter. Default none. RocksDB: filter_policy.
	FilterPolicy FilterPolicy
	// OptimizeFiltersForMemory makes filters of format version 5 or later as large as the memory that they take in a
	// block cache anyway: its size classes, or whole pages. They answer yes wrongly a little less often. Files
	// differ from those without. RocksDB: optimize_filters_for_memory.
	OptimizeFiltersForMemory bool
	// WholeKeyFiltering adds whole keys to the filter. Default true. RocksDB: whole_key_filtering.
	WholeKeyFiltering bool
	// UseDeltaEncoding shares key prefixes in data blocks. Default true. RocksDB: use_delta_encoding.
	UseDeltaEncoding bool
	// BlockAlign pads data blocks so that none crosses a page. Needs no compression. RocksDB: block_align.
	BlockAlign bool
	// EnableIndexCompression compresses index blocks like data blocks. Default true.
	// RocksDB: enable_index_compression.
	EnableIndexCompression bool
}

// DefaultOptions are RocksDB's defaults, with format version 5.
func DefaultOptions() Options {
	return Options{
		BlockSize:                   4096,
		BlockSizeDeviation:          10,
		BlockRestartInterval:        16,
		IndexBlockRestartInterval:   1,
		MetadataBlockSize:           4096,
		DataBlockHashTableUtilRatio: 0.75,
		IndexShortening:             ShortenSeparators,
		Checksum:                    hash.ChecksumXXH3,
		FormatVersion:               5,
		WholeKeyFiltering:           true,
		UseDeltaEncoding:            true,
		EnableIndexCompression:      true,
	}
}

// CompressionOptions are RocksDB's CompressionOptions. Start from
// DefaultCompressionOptions; the zero value means the same.
type CompressionOptions struct {
	// WindowBits is recorded, not used: streams use zlib's window of 32 KiB.
	WindowBits int
	// Level is the algorithm's own scale; compress.DefaultLevel is its default.
	Level    int
	Strategy int // recorded, not used
	// MaxDictBytes is the size of the dictionary made from samples of the file's
	// blocks; zero makes none.
	MaxDictBytes int
	// ZstdMaxTrainBytes is how many bytes of samples a zstd dictionary is trained
	// from; zero takes the samples themselves.
	ZstdMaxTrainBytes int
	// ParallelThreads compresses so many blocks at once; 0 and 1 compress where
	// Add is called.
	ParallelThreads int
	// MaxDictBufferBytes bounds how much is held back to sample from; zero holds
	// back the whole file.
	MaxDictBufferBytes int64
	// UseZstdDictTrainer trains; otherwise the samples are only finalized. Recorded.
	UseZstdDictTrainer bool
}

// DefaultCompressionOptions are RocksDB's defaults.
func DefaultCompressionOptions() CompressionOptions {
	return CompressionOptions{WindowBits: -14, Level: compress.DefaultLevel, ParallelThreads: 1, UseZstdDictTrainer: true}
}

// String is the property rocksdb.compression_options.
func (c CompressionOptions) String() string {
	trainer := 0
	if c.UseZstdDictTrainer {
		trainer = 1
	}
	return fmt.Sprintf("window_bits=%d; level=%d; strategy=%d; max_dict_bytes=%d; zstd_max_train_bytes=%d; enabled=0; max_dict_buffer_bytes=%d; use_zstd_dict_trainer=%d; ",
		c.WindowBits, c.Level, c.Strategy, c.MaxDictBytes, c.ZstdMaxTrainBytes, c.MaxDictBufferBytes, trainer)
}

// PropertyCollector watches the entries of one file and adds properties to it.
type PropertyCollector interface {
	// Name is recorded in the property rocksdb.property.collectors.
	Name() string
	// Add sees every point entry in order; the slices are borrowed for the call.
	Add(userKey []byte, trailer uint64, value []byte)
	// Finish returns the properties.
	Finish() map[string][]byte
}

// WriterOptions says how a table is written.
type WriterOptions struct {
	Options
	// Order is the order in which entries come.
	Order keys.Order
	// Extractor is the prefix extractor, nil for none.
	Extractor *prefixhash.Extractor
	// Identity goes into the properties.
	Identity table.Identity
	// Compression is the type for data and index blocks.
	Compression compress.Type
	// CompressionOptions tunes it.
	CompressionOptions CompressionOptions
	// Collectors add properties.
	Collectors []PropertyCollector
	// SkipFilter writes no filter, whatever FilterPolicy says: for the bottommost
	// level. RocksDB: optimize_filters_for_hits.
	SkipFilter bool

	// baseContext fixes the base context checksum of format versions 6 and 7, which
	// is random otherwise.
	baseContext uint32
}

// Validate refuses what NewWriter would refuse.
func (o WriterOptions) Validate() error { return o.fill() }

// fill replaces zeros by defaults, and refuses what cannot be written.
func (o *WriterOptions) fill() error {
	d := DefaultOptions()
	for _, v := range []struct{ field, def *int }{
		{&o.BlockSize, &d.BlockSize},
		{&o.BlockRestartInterval, &d.BlockRestartInterval},
		{&o.IndexBlockRestartInterval, &d.IndexBlockRestartInterval},
		{&o.MetadataBlockSize, &d.MetadataBlockSize},
		{&o.FormatVersion, &d.FormatVersion},
	} {
		if *v.field == 0 {
			*v.field = *v.def
		}
		if *v.field < 0 {
			return fmt.Errorf("blocktable: a size or interval of %d: expected more than 0", *v.field)
		}
	}
	if o.DataBlockHashTableUtilRatio == 0 {
		o.DataBlockHashTableUtilRatio = d.DataBlockHashTableUtilRatio
	}
	if o.BlockSizeDeviation < 0 || o.BlockSizeDeviation > 100 {
		o.BlockSizeDeviation = 0
	}
	if o.CompressionOptions == (CompressionOptions{}) {
		o.CompressionOptions = DefaultCompressionOptions()
	}
	switch {
	case o.FormatVersion < 2 || o.FormatVersion > block.MaxVersion:
		return fmt.Errorf("blocktable: format version %d: expected 2 to %d", o.FormatVersion, block.MaxVersion)
	case !o.Checksum.Valid():
		return fmt.Errorf("blocktable: unknown checksum type %d", o.Checksum)
	case o.IndexType > BinarySearchWithFirstKey:
		return fmt.Errorf("blocktable: unknown index type %d", o.IndexType)
	case o.IndexType == HashSearch && o.Extractor == nil:
		return fmt.Errorf("blocktable: the hash index needs a prefix extractor")
	case !o.Compression.CanWrite():
		return fmt.Errorf("blocktable: %v can be read, but not written", o.Compression)
	case o.Compression == compress.ZSTDNotFinal && o.FormatVersion > 5:
		return fmt.Errorf("blocktable: %v is gone from the RocksDB that reads format version %d", o.Compression, o.FormatVersion)
	case o.BlockAlign && o.Compression != compress.None:
		return fmt.Errorf("blocktable: BlockAlign needs compression off, and it is %v", o.Compression)
	case o.BlockAlign && o.BlockSize&(o.BlockSize-1) != 0:
		return fmt.Errorf("blocktable: BlockAlign needs a block size that is a power of two, and it is %d", o.BlockSize)
	case o.DataBlockHashTableUtilRatio <= 0:
		return fmt.Errorf("blocktable: DataBlockHashTableUtilRatio %v: expected more than 0", o.DataBlockHashTableUtilRatio)
	}
	if o.IndexType == HashSearch {
		o.IndexBlockRestartInterval = 1
	}
	if o.IndexType != TwoLevelIndexSearch {
		o.PartitionFilters = false
	}
	return nil
}

// deltaValues says whether index values are delta encoded.
func (o *Options) deltaValues() bool { return o.FormatVersion >= 4 && !o.BlockAlign }

// seekKind is the kind in shortened separators: the highest of the RocksDB
// version that reads the format.
func (o *Options) seekKind() keys.Kind {
	if o.FormatVersion >= 6 {
		return keys.KindValuePreferredSeqno
	}
	return keys.KindEntity
}
