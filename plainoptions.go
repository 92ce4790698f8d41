package flatrock

import (
	"fmt"
	"math"

	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/plaintable"
)

// TableFactory chooses a table format: PlainTableOptions or BlockBasedTableOptions.
type TableFactory interface {
	tableFactoryName() string // as in OPTIONS files
	validate(cf *ColumnFamilyOptions) error
}

// Encoding is how plain tables store keys.
type Encoding = plaintable.EncodingType

// PlainEncoding stores each key whole, PrefixEncoding shares prefixes between rows.
const (
	PlainEncoding  = plaintable.Plain
	PrefixEncoding = plaintable.Prefix
)

// Values that give zero back its own meaning in PlainTableOptions.
const (
	NoBloom       = -1 // BloomBitsPerKey: no bloom filter
	TotalOrder    = -1 // HashTableRatio: no hash index, binary search only
	IndexEveryRow = -1 // IndexSparseness: RocksDB's 0
)

// PlainTableOptions chooses RocksDB's plain table: rows read through mmap, for
// data that lives in RAM. RocksDB: PlainTableOptions, NewPlainTableFactory.
type PlainTableOptions struct {
	// UserKeyLen is the length of every key in bytes, or zero for any length.
	// Adding a key of another length to a fixed-length family is refused.
	UserKeyLen uint32
	// BloomBitsPerKey sizes the bloom filter. Zero means 10; NoBloom means none.
	BloomBitsPerKey int
	// HashTableRatio is prefixes per hash bucket. Zero means 0.75; TotalOrder means
	// no hash index, which is also what a family without a PrefixExtractor needs.
	HashTableRatio float64
	// IndexSparseness is how many rows of a prefix share an index record. Zero
	// means 16; IndexEveryRow means one each.
	IndexSparseness int
	// EncodingType is PlainEncoding (the default) or PrefixEncoding.
	EncodingType Encoding
	// FullScanMode reads files without index: only full scans work.
	FullScanMode bool
	// StoreIndexInFile stores index and bloom filter in the file, so that opening it needs no
	// scan. Default means on; RocksDB's default is off.
	StoreIndexInFile Toggle
	// ChunkChecksums adds a checksum for each 64 KiB of rows, which RocksDB
	// ignores. Default means on.
	ChunkChecksums Toggle
	// RangeDeletes On allows DeleteRange, which RocksDB's plain tables do not have: files keep
	// range deletes in a meta block that RocksDB would ignore, and so show what they delete. Therefore the family is
	// marked in the MANIFEST, and from then on RocksDB refuses to open the database. Off refuses DeleteRange again, and
	// takes the mark away at an Open that finds no range delete left (CompactRange with BottommostForce removes them). Default
	// means as the MANIFEST says: off in new families. It is not stored in the OPTIONS file.
	RangeDeletes Toggle
	// Verify says when the checksums of files are checked beyond what reads check: not at all
	// (the default; see DB.VerifyChecksum), when they are opened, or in the background after Open.
	Verify VerifyMode
	// VerifyReadsOneIn checks one of so many Gets and keys of MultiGets that find a row against the
	// checksums of the 64 KiB of rows around it, as they lie in memory. The choice is random; a check takes some
	// microseconds. Damage is an error of the read. Zero means none; 10000 costs less than a nanosecond a read on
	// average, besides the choice. It needs ChunkChecksums in the file. Not stored in the OPTIONS file.
	VerifyReadsOneIn int
	// ScrubBytesPerSecond goes over the rows of all files of the family in the background, again and again, at most
	// at this rate, and checks them as VerifyReadsOneIn does. Damage stops writes with ErrBackground.
	// Zero means not to. Not stored in the OPTIONS file.
	ScrubBytesPerSecond int64

	// Memory is how files are kept in RAM: none, willneed, populate (the default),
	// lock, or resident. See mmapfs.Memory. It is not stored in the OPTIONS file.
	Memory PlainTableMemory
	// LoadInBackground lets Open return before the files are in RAM: reads are
	// served from the mapping meanwhile. Default means on.
	LoadInBackground Toggle

	// marked: the MANIFEST says that files may hold range deletes.
	marked bool
}

// VerifyMode says when whole table files are checked against their checksums.
type VerifyMode int8

const (
	// VerifyOnDemand leaves it to DB.VerifyChecksum. The default.
	VerifyOnDemand VerifyMode = iota
	// VerifyAtOpen reads each file whole before it serves reads; damage fails Open.
	VerifyAtOpen
	// VerifyInBackground reads the files after Open. Damage stops writes with ErrBackground,
	// which wraps the error that names the file.
	VerifyInBackground
)

// PlainTableMemory is how the files of a plain-table family are kept in RAM.
type PlainTableMemory int8

const (
	// MemoryPopulate maps files and reads them in ahead of use; on tmpfs (Linux 6.1 and later) they move to
	// huge pages meanwhile. The default.
	MemoryPopulate PlainTableMemory = iota
	// MemoryNone maps files and lets page faults read them.
	MemoryNone
	// MemoryWillNeed maps files and asks the kernel to read them in.
	MemoryWillNeed
	// MemoryLock maps files and locks them in RAM (RLIMIT_MEMLOCK applies).
	MemoryLock
	// MemoryResident copies files into huge pages of anonymous memory and drops
	// the page cache: fastest, and no read can fault.
	MemoryResident
)

func (m PlainTableMemory) policy() mmapfs.Memory {
	switch m {
	case MemoryNone:
		return mmapfs.MemoryNone
	case MemoryWillNeed:
		return mmapfs.MemoryWillNeed
	case MemoryLock:
		return mmapfs.MemoryLock
	case MemoryResident:
		return mmapfs.MemoryResident
	}
	return mmapfs.MemoryPopulate
}

// String is the name that ParsePlainTableMemory reads.
func (m PlainTableMemory) String() string { return m.policy().String() }

// ParsePlainTableMemory reads none, willneed, populate, lock or resident.
func ParsePlainTableMemory(s string) (PlainTableMemory, error) {
	for m := MemoryPopulate; m <= MemoryResident; m++ {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, fmt.Errorf("%w: memory policy %q: want none, willneed, populate, lock or resident", ErrInvalidArgument, s)
}

func (PlainTableOptions) tableFactoryName() string { return "PlainTable" }

func (o PlainTableOptions) format() plaintable.Options {
	f := plaintable.DefaultOptions()
	f.UserKeyLen = o.UserKeyLen
	switch {
	case o.BloomBitsPerKey < 0:
		f.BloomBitsPerKey = 0
	case o.BloomBitsPerKey > 0:
		f.BloomBitsPerKey = o.BloomBitsPerKey
	}
	switch {
	case o.HashTableRatio < 0:
		f.HashTableRatio = 0
	case o.HashTableRatio > 0:
		f.HashTableRatio = o.HashTableRatio
	}
	switch {
	case o.IndexSparseness < 0:
		f.IndexSparseness = 0
	case o.IndexSparseness > 0:
		f.IndexSparseness = o.IndexSparseness
	}
	f.EncodingType = o.EncodingType
	f.FullScanMode = o.FullScanMode
	f.StoreIndexInFile = o.StoreIndexInFile.or(true)
	return f
}

func (o PlainTableOptions) validate(cf *ColumnFamilyOptions) error {
	f := o.format()
	switch {
	case cf.PrefixExtractor == nil && f.HashTableRatio != 0 && !f.FullScanMode:
		return fmt.Errorf("%w: plain table: a hash index (HashTableRatio %g) needs a PrefixExtractor; without one set HashTableRatio to TotalOrder", ErrInvalidArgument, f.HashTableRatio)
	case cf.PrefixExtractor == nil && f.EncodingType == plaintable.Prefix:
		return fmt.Errorf("%w: plain table: PrefixEncoding needs a PrefixExtractor", ErrInvalidArgument)
	case f.EncodingType != plaintable.Plain && f.EncodingType != plaintable.Prefix:
		return fmt.Errorf("%w: plain table: unknown EncodingType %d", ErrInvalidArgument, f.EncodingType)
	case math.IsNaN(f.HashTableRatio) || math.IsInf(f.HashTableRatio, 0):
		return fmt.Errorf("%w: plain table: HashTableRatio %g", ErrInvalidArgument, f.HashTableRatio)
	case o.VerifyReadsOneIn < 0 || o.ScrubBytesPerSecond < 0:
		return fmt.Errorf("%w: plain table: VerifyReadsOneIn %d, ScrubBytesPerSecond %d: want 0 or more", ErrInvalidArgument, o.VerifyReadsOneIn, o.ScrubBytesPerSecond)
	case o.Verify < VerifyOnDemand || o.Verify > VerifyInBackground:
		return fmt.Errorf("%w: plain table: unknown Verify mode %d", ErrInvalidArgument, o.Verify)
	case o.Memory < MemoryPopulate || o.Memory > MemoryResident:
		return fmt.Errorf("%w: plain table: unknown memory policy %d", ErrInvalidArgument, o.Memory)
	}
	return nil
}
