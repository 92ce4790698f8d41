package plaintable

import (
	"errors"
	"fmt"
	"math"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// What callers branch on. Messages keep RocksDB's wording where it has one.
var (
	// ErrInvalidArgument matches refusals that RocksDB calls "Invalid argument".
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrNotSupported matches refusals that RocksDB calls "Not implemented".
	ErrNotSupported = errors.New("not implemented")
	// ErrFileFull is what Writer.Add returns, with nothing added, for a row that would
	// take the file over its largest size: finish this file and begin another.
	ErrFileFull = errors.New("plain table is full")
)

// MaxFileSize is the largest plain table in bytes: row offsets have 31 bits.
const MaxFileSize = 1<<31 - 1

// EncodingType is how rows store their keys.
type EncodingType uint8

const (
	// Plain stores every key whole (RocksDB: kPlain).
	Plain EncodingType = 0
	// Prefix stores a prefix once for a run of rows (RocksDB: kPrefix).
	Prefix EncodingType = 1
)

// String is RocksDB's name.
func (e EncodingType) String() string {
	switch e {
	case Plain:
		return "kPlain"
	case Prefix:
		return "kPrefix"
	}
	return fmt.Sprintf("EncodingType(%d)", uint8(e))
}

// Options are RocksDB's PlainTableOptions. Zero values mean zero: begin with
// DefaultOptions.
type Options struct {
	// UserKeyLen is the length of every user key in bytes; 0 for any length. The
	// writer refuses keys of another length; a reader takes it from the file.
	UserKeyLen uint32
	// BloomBitsPerKey sizes the bloom filter; 0 for none.
	BloomBitsPerKey int
	// HashTableRatio is prefixes per hash bucket; 0 for a single bucket, searched
	// by bisection, which a family without an extractor must ask for.
	HashTableRatio float64
	// IndexSparseness is how many rows of one prefix share an index record, and
	// with Prefix encoding how many rows share a full key; 0 for one each.
	IndexSparseness int
	// HugePageTLBSize is kept for OPTIONS files. Index and bloom ask for huge pages
	// in any case.
	HugePageTLBSize int
	// EncodingType is for the writer; a reader takes it from the file.
	EncodingType EncodingType
	// FullScanMode makes a reader that holds no index and serves no seek.
	FullScanMode bool
	// StoreIndexInFile makes the writer store index and bloom, so that opening the
	// file needs no scan. A reader uses what the file has.
	StoreIndexInFile bool
}

// DefaultOptions are RocksDB's, except that the index is stored in the file.
func DefaultOptions() Options {
	return Options{BloomBitsPerKey: 10, HashTableRatio: 0.75, IndexSparseness: 16, StoreIndexInFile: true}
}

// validate checks the values by themselves.
func (o *Options) validate() error {
	switch {
	case o.EncodingType > Prefix:
		return fmt.Errorf("%w: plain table: unknown encoding type %d", ErrInvalidArgument, o.EncodingType)
	case o.BloomBitsPerKey < 0 || o.BloomBitsPerKey > math.MaxInt32:
		return fmt.Errorf("%w: plain table: bloom_bits_per_key %d", ErrInvalidArgument, o.BloomBitsPerKey)
	case o.IndexSparseness < 0 || o.IndexSparseness > math.MaxInt32:
		return fmt.Errorf("%w: plain table: index_sparseness %d", ErrInvalidArgument, o.IndexSparseness)
	case math.IsNaN(o.HashTableRatio) || math.IsInf(o.HashTableRatio, 0):
		return fmt.Errorf("%w: plain table: hash_table_ratio %g", ErrInvalidArgument, o.HashTableRatio)
	case o.UserKeyLen > MaxFileSize:
		return fmt.Errorf("%w: plain table: user_key_len %d", ErrInvalidArgument, o.UserKeyLen)
	}
	return nil
}

// validateMode checks that there is an extractor for a hash index.
func (o *Options) validateMode(extractor *prefixhash.Extractor) error {
	if extractor == nil && o.HashTableRatio != 0 {
		return fmt.Errorf("%w: PlainTable requires a prefix extractor enable prefix hash mode", ErrNotSupported)
	}
	return nil
}

// WriterOptions are fixed when a file is begun.
type WriterOptions struct {
	Options
	// Order is the family's order of user keys.
	Order keys.Order
	// Extractor is the family's prefix extractor; nil for none (total order). Every
	// key must lie in its domain, and the keys of a prefix must be neighbours in Order.
	Extractor *prefixhash.Extractor
	// BloomLocality above 0 keeps the six probes of a key in one 64-byte line.
	BloomLocality uint32
	// Identity goes to the properties.
	Identity table.Identity
	// ChunkChecksums adds a meta block of checksums over every byte of the file.
	// RocksDB ignores it.
	ChunkChecksums bool
	// RangeTombstones lets AddTombstone store range deletes, in a meta block that
	// RocksDB ignores: it would show what they delete. The database must keep
	// RocksDB from opening it.
	RangeTombstones bool
	// RocksDBLayout leaves out the row index and the padding that puts bloom
	// lines and buckets on cache lines: the file is laid out as RocksDB's would be,
	// and the first reverse or total-order seek of a file with prefixes scans it.
	RocksDBLayout bool
	// MaxFileSize bounds the file in bytes, tail included; 0 for MaxFileSize.
	MaxFileSize int64
}

func (o *WriterOptions) validate() error {
	if err := o.Options.validate(); err != nil {
		return err
	}
	if err := o.validateMode(o.Extractor); err != nil {
		return err
	}
	if o.MaxFileSize < 0 || o.MaxFileSize > MaxFileSize {
		return fmt.Errorf("%w: plain table: a file of at most %d bytes; the format allows %d", ErrInvalidArgument, o.MaxFileSize, MaxFileSize)
	}
	return nil
}

// VerifyMode is what Open checks beyond what it reads.
type VerifyMode uint8

const (
	// VerifyNone checks nothing more.
	VerifyNone VerifyMode = iota
	// VerifyAtOpen runs VerifyChecksums, which reads the whole file.
	VerifyAtOpen
)

// IndexMemory says whether index and bloom of a file-backed mapping are copied
// to an arena of huge pages.
type IndexMemory uint8

const (
	// IndexAuto copies them under MemoryPopulate and MemoryLock.
	IndexAuto IndexMemory = iota
	// IndexCopy always copies them.
	IndexCopy
	// IndexInPlace reads them from the mapping.
	IndexInPlace
)

// ReaderOptions are fixed when a file is opened.
type ReaderOptions struct {
	Options
	// Order is the family's order of user keys.
	Order keys.Order
	// Extractor is the family's prefix extractor; nil for none. Lookups must have been
	// prepared with it.
	Extractor *prefixhash.Extractor
	// AnyExtractor opens a file whose extractor is not Extractor, which RocksDB
	// refuses; lookups then compute that file's own prefix hash.
	AnyExtractor bool
	// BloomLocality is for a bloom filter built at open: 0 for a plain filter,
	// above 0 for one whose probes share a 64-byte line.
	BloomLocality uint32
	// Memory says how the file is held in RAM.
	Memory    mmapfs.Memory
	Placement Placement
	Index     IndexMemory
	// HugePages asks for huge pages under the mapping; see mmapfs.MapOptions. Load always asks.
	HugePages bool
	Verify    VerifyMode
	// FileSize is the size in bytes that the MANIFEST records; 0 to ask the file.
	FileSize int64
}
