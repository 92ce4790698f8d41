package memtable

import (
	"errors"
	"fmt"
	"math"

	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// Errors of Add. After any of them nothing was inserted.
var (
	// ErrFull means that the arena has no room for the entry.
	ErrFull = errors.New("memtable: arena is full")
	// ErrDuplicate means that an entry of the same user key and trailer exists.
	ErrDuplicate = errors.New("memtable: duplicate internal key")
	// ErrTooLarge means that the key is not below 256 MiB, or that key and value
	// together come too close to 4 GiB.
	ErrTooLarge = errors.New("memtable: entry is too large")
)

// Kind is a memtable structure.
type Kind int

const (
	SkipList     Kind = iota // RocksDB: SkipListFactory
	HashSkipList             // RocksDB: HashSkipListRepFactory
	HashLinkList             // RocksDB: HashLinkListRepFactory
	Vector                   // RocksDB: VectorRepFactory
)

// String is the name of RocksDB's factory, as an OPTIONS file stores it.
func (k Kind) String() string {
	switch k {
	case SkipList:
		return "SkipListFactory"
	case HashSkipList:
		return "HashSkipListRepFactory"
	case HashLinkList:
		return "HashLinkListRepFactory"
	case Vector:
		return "VectorRepFactory"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

const (
	// EntryOverhead is the most that one entry may take in the arena on top of its
	// key and value, in bytes: a tower of the greatest height, lengths, trailer and
	// rounding, and the head tower of a list that it turns into a skip list. A
	// usual entry takes 24 to 40.
	EntryOverhead = 144
	// MaxReserve is the largest arena in bytes: what 4-byte links reach, less the
	// numbers that hash linked lists use as counts, and what an arena rounds up to.
	MaxReserve = (int64(math.MaxUint32)-maxThreshold)*linkUnit - 4<<20

	maxHeight    = 12
	maxBuckets   = 1 << 27
	maxThreshold = 1 << 20
	minReserve   = 64 << 10
)

// Options describe a memtable. Zero fields take RocksDB's defaults.
type Options struct {
	Order keys.Order
	// Extractor finds prefixes; Add and Get are given prefix lengths and hashes
	// that it made. Without one, the hash kinds are skip lists, as in RocksDB.
	Extractor *prefixhash.Extractor
	Kind      Kind
	// BucketCount is the number of buckets of the hash kinds: zero means 1,000,000
	// for HashSkipList (16 bytes each at height 4) and 50,000 for HashLinkList (8
	// bytes each). It is lowered so that the buckets take at most a quarter of
	// Reserve. RocksDB: bucket_count.
	BucketCount int
	// SkipListHeight is the greatest height of a tower: zero means 12 for SkipList
	// and 4 for the hash kinds; at most 12. RocksDB: skiplist_height.
	SkipListHeight int
	// BranchingFactor is how many times fewer nodes each level has: zero means 4;
	// at least 2. RocksDB: branching_factor.
	BranchingFactor int
	// Threshold is how many entries a HashLinkList bucket holds as a list: zero
	// means 256; at least 3, at most 2^20. RocksDB: threshold.
	Threshold int
	// FilterRatio is the part of Reserve that a Bloom filter over prefixes takes:
	// zero means 1/128 for the hash kinds and none for the others; at most 0.25.
	// A Vector has none. RocksDB: memtable_prefix_bloom_size_ratio.
	FilterRatio float64
	// WholeKeyFilter adds whole keys to the filter, for Gets that have no prefix or
	// whose prefix is common. It needs a FilterRatio, and a hash of each key.
	// RocksDB: memtable_whole_key_filtering.
	WholeKeyFilter bool
	// Reserve is the size of the arena in bytes: zero means 64 MiB, at least
	// 64 KiB, at most MaxReserve. It is address space; memory is taken as it is used.
	Reserve int64
	// Protection is how many bytes of checksum each entry has: 0, 1, 2, 4 or 8; see
	// protect.go. VerifyOnSeek checks what searches compare too. RocksDB:
	// memtable_protection_bytes_per_key, memtable_verify_per_key_checksum_on_seek.
	Protection   int
	VerifyOnSeek bool
	// Arena says where the arena's memory comes from.
	Arena mmapfs.ArenaOptions
}

func (o Options) withDefaults() (Options, error) {
	if o.Kind < SkipList || o.Kind > Vector {
		return o, fmt.Errorf("memtable: unknown kind %d", int(o.Kind))
	}
	if !hash.ValidProtection(o.Protection) {
		return o, fmt.Errorf("memtable: a protection of %d bytes an entry: want 0, 1, 2, 4 or 8", o.Protection)
	}
	if (o.Kind == HashSkipList || o.Kind == HashLinkList) && o.Extractor == nil {
		o.Kind = SkipList
	}
	if o.SkipListHeight <= 0 {
		o.SkipListHeight = 4
		if o.Kind == SkipList {
			o.SkipListHeight = maxHeight
		}
	}
	o.SkipListHeight = min(o.SkipListHeight, maxHeight)
	if o.BranchingFactor <= 0 {
		o.BranchingFactor = 4
	}
	o.BranchingFactor = max(o.BranchingFactor, 2)
	if o.Threshold <= 0 {
		o.Threshold = 256
	}
	o.Threshold = min(max(o.Threshold, 3), maxThreshold)
	if o.Reserve <= 0 {
		o.Reserve = 64 << 20
	}
	if o.Reserve > MaxReserve {
		return o, fmt.Errorf("memtable: arena of %d bytes; at most %d can be addressed", o.Reserve, MaxReserve)
	}
	o.Reserve = max(o.Reserve, minReserve)
	if o.BucketCount <= 0 {
		o.BucketCount = 1_000_000
		if o.Kind == HashLinkList {
			o.BucketCount = 50_000
		}
	}
	bucketLen := int64(linkUnit)
	if o.Kind == HashSkipList {
		bucketLen = int64(skipBucketLen(o.SkipListHeight))
	}
	o.BucketCount = int(min(int64(o.BucketCount), o.Reserve/4/bucketLen, maxBuckets))
	hashed := o.Kind == HashSkipList || o.Kind == HashLinkList
	if o.WholeKeyFilter = o.WholeKeyFilter && o.FilterRatio > 0; hashed && !(o.FilterRatio > 0) {
		o.FilterRatio = 1.0 / 128
	}
	if o.Kind == Vector || !(o.FilterRatio > 0) || o.Extractor == nil && !o.WholeKeyFilter {
		o.FilterRatio, o.WholeKeyFilter = 0, false
	}
	o.FilterRatio = min(o.FilterRatio, 0.25)
	if o.Arena.Name == "" {
		o.Arena.Name = "memtable"
	}
	return o, nil
}
