// Package memtable holds the mutable sorted structures that a column family
// writes to before its entries reach a table file, one a file:
//
//	skiplist.go      one skip list over all entries; concurrent inserts
//	hashskiplist.go  an array of small skip lists, one a prefix bucket (prefix_hash)
//	hashlinklist.go  an array of linked lists that grow into skip lists (hash_linkedlist)
//	vector.go        an unsorted log that is sorted when it is read in order (vector)
//
// filter.go answers most Gets of absent keys before any of them is searched.
//
// Entries lie in an off-heap arena as nodes: a tower of 4-byte links, then the
// user key, the trailer and the value side by side (memory_unsafe.go). A hash
// memtable's bucket is the head tower itself, so that a Get that hits costs two
// dependent cache misses: the bucket and the node.
//
// # Who may touch it
//
//	M1 A node is written in full before the link that publishes it is stored, and
//	   only its links change afterwards.
//	M2 Entries are never removed; a link, once set, only ever moves to a node that
//	   sorts before its old target (a new entry in between).
//	M3 In every list, entries are in internal key order, and no two are equal.
//	M4 In a hash memtable all entries of a prefix are in one bucket; keys outside
//	   the extractor's domain are in a list of their own.
//	M5 The chain of older links, from newest, meets every entry of a hash or vector
//	   memtable, in reverse order of insertion.
//
// Readers take no lock and are never blocked. Add may be called by one goroutine
// at a time, or by several where ConcurrentAdd says so, beside any number of
// readers.
//
// # Gets of a skip list
//
// Beside the list lies a hash table of the newest entry of each key (points_unsafe.go),
// which answers a Get in place of a search, unless there are more keys than it has room for.
//
// # Total order over hash memtables
//
// RocksDB copies a hash memtable into a new skip list for each iterator in total
// order. Here iterators share sorted runs of links (runs.go): a new iterator
// sorts only what was inserted since the last one, and runs merge geometrically.
//
// Fact sheet: plain-table, section 12.
package memtable

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// MemTable is one memtable. See the package comment for who may call what at once.
type MemTable struct {
	// Fixed by New.
	*memory
	order      keys.Order
	bytewise   bool
	kind       Kind
	extractor  *prefixhash.Extractor
	height     int // greatest tower of a bucket's list
	thresholds [maxHeight]uint32
	main       list // all of a SkipList; keys outside the domain of a hash kind
	buckets    prefixhash.Buckets
	bucketOff  uint64 // arena offset of the first bucket
	bucketLen  uint64
	threshold  uint32
	filter     filter
	emptyBytes int64

	verifyOnSeek bool

	points points

	runs runs // sorted runs of the kinds that have no total order of their own

	// What Add changes lies on lines of its own, so that readers on other
	// processors keep the fields above cached.
	_ [64]byte

	// newest is the link of the newest entry in its low half and the number of
	// entries in its high half, so that both are published by one store. Hash and
	// vector kinds only.
	newest  atomic.Uint64
	maxSeq  atomic.Uint64 // vector only
	entries atomic.Int64  // skip list only
	deletes atomic.Int64
	data    atomic.Int64
	tail    tail
	_       [64]byte
}

// New makes an empty memtable. It must be freed.
func New(o Options) (*MemTable, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	mem, err := newMappedMemory(o.Reserve, o.Arena)
	if err != nil {
		return nil, fmt.Errorf("memtable: %w", err)
	}
	m, err := newMemTable(o, mem)
	if err != nil {
		mem.release()
	}
	return m, err
}

// newMemTable takes options with defaults applied, and mem over.
func newMemTable(o Options, mem *memory) (*MemTable, error) {
	m := &MemTable{
		memory:    mem,
		order:     o.Order,
		bytewise:  o.Order.Bytewise(),
		kind:      o.Kind,
		extractor: o.Extractor,
		height:    o.SkipListHeight,
		threshold: uint32(o.Threshold),
	}
	m.sumLen, m.verifyOnSeek = hash.EntrySumLen(o.Protection), o.VerifyOnSeek && o.Protection != 0
	share := uint64(1) << 32
	for i := range m.thresholds {
		share /= uint64(o.BranchingFactor)
		m.thresholds[i] = uint32(share)
	}
	m.main.height = maxHeight
	if o.Kind == SkipList {
		m.main.height = o.SkipListHeight
	}
	var ok bool
	if m.main.head, ok = m.newTower(m.main.height); !ok {
		return nil, ErrFull
	}
	switch o.Kind {
	case HashSkipList:
		m.bucketLen = uint64(skipBucketLen(o.SkipListHeight))
		ok = m.newBuckets(o.BucketCount)
	case HashLinkList:
		m.bucketLen = linkUnit
		ok = m.newBuckets(o.BucketCount)
	}
	if !ok || !m.newFilter(o) {
		return nil, ErrFull
	}
	m.runs.init()
	if o.Kind == SkipList && m.sumLen == 0 && !o.Order.Custom() {
		arena := &o.Arena
		if mem.heap != nil {
			arena = nil
		}
		m.points.init(o.Reserve, arena)
	}
	m.emptyBytes = m.usedBytes()
	return m, nil
}

func (m *MemTable) newFilter(o Options) bool {
	size := min(int64(float64(o.Reserve)*o.FilterRatio), math.MaxInt32) &^ (linkUnit - 1)
	if size == 0 {
		return true
	}
	off, ok := m.alloc(uint32(size))
	m.filter = filter{off: off, words: uint64(size) / 4, whole: o.WholeKeyFilter}
	return ok
}

// newBuckets allocates the bucket array, aligned to its buckets where those
// divide a cache line, so that none lies across two.
func (m *MemTable) newBuckets(count int) bool {
	const line = 64
	size := uint64(count)*m.bucketLen + line
	off, ok := m.alloc(uint32((size + linkUnit - 1) &^ (linkUnit - 1)))
	if !ok {
		return false
	}
	m.bucketOff = (off + line - 1) &^ (line - 1)
	m.buckets = prefixhash.NewBuckets(uint32(count))
	return true
}

// Add inserts an entry; key and value are copied. prefixLen and hash are those of
// a keys.Lookup of userKey, made by the memtable's extractor. Errors: ErrFull,
// ErrDuplicate, ErrTooLarge; after an error nothing was inserted. An entry is
// visible to readers that start after Add returned. No allocation, no lock.
func (m *MemTable) Add(userKey []byte, trailer uint64, value []byte, prefixLen int, hash uint32) error {
	if !nodeFits(userKey, value) {
		return ErrTooLarge
	}
	var err error
	switch {
	case m.kind == SkipList:
		m.filterKey(userKey, prefixLen, hash)
		err = m.addSkipList(userKey, trailer, value)
	case m.kind == Vector:
		err = m.appendVector(userKey, trailer, value)
	case prefixLen < 0:
		err = m.insert(m.main, userKey, trailer, value, prefixLen, hash)
	case m.kind == HashSkipList:
		err = m.insert(m.skipBucket(hash), userKey, trailer, value, prefixLen, hash)
	default:
		err = m.insertLinkBucket(userKey, trailer, value, prefixLen, hash)
	}
	if err != nil {
		return err
	}
	m.data.Add(int64(len(userKey) + len(value)))
	switch keys.KindOf(trailer) {
	case keys.KindDelete, keys.KindSingleDelete, keys.KindDeleteWithTimestamp:
		m.deletes.Add(1)
	}
	return nil
}

func (m *MemTable) addSkipList(userKey []byte, trailer uint64, value []byte) error {
	var h uint64
	pointed := m.points.serves()
	if pointed {
		h = pointHash(userKey)
		m.points.prefetch(h)
	}
	n, err := m.insertConcurrent(m.main, userKey, trailer, value)
	if err != nil {
		return err
	}
	if pointed {
		m.addPoint(n, h)
	}
	m.entries.Add(1)
	return nil
}

// publishNewest makes n the head of the chain of older links (M5) and counts it.
// old is what newest held when n was written.
func (m *MemTable) publishNewest(n node, old uint64) {
	m.newest.Store((old>>32+1)<<32 | uint64(m.link(n)))
}

// ConcurrentAdd reports whether several goroutines may call Add at once.
func (m *MemTable) ConcurrentAdd() bool { return m.kind == SkipList }

// Kind is the structure in use, which differs from Options.Kind when a hash kind
// was asked for without an extractor.
func (m *MemTable) Kind() Kind { return m.kind }

// listOf is the list that holds every entry of a key; not for Vector.
func (m *MemTable) listOf(prefixLen int, hash uint32) list {
	switch {
	case m.kind == SkipList || prefixLen < 0:
		return m.main
	case m.kind == HashSkipList:
		return m.skipBucket(hash)
	}
	return m.linkBucket(hash)
}

// Get finds the newest entry of look.UserKey whose sequence number is at most
// look.Seq. Deletes and merge operands are results like any other; look again
// with a smaller Seq for what is below. The value is borrowed: valid until Free.
// Safe for concurrent use; no lock. No allocation, except that a Get which finds
// many unsorted entries in a Vector sorts them first.
func (m *MemTable) Get(look *keys.Lookup) (value []byte, trailer uint64, ok bool) {
	if m.kind == Vector {
		return m.getVector(look)
	}
	if !m.mayHaveKey(look.UserKey, look.PrefixLen, look.Hash) {
		return nil, 0, false
	}
	if m.points.serves() {
		n := m.point(look.UserKey, pointHash(look.UserKey))
		if n.none() {
			return nil, 0, false
		}
		if trailer := n.trailer(); trailer <= look.Trailer() {
			return n.value(), trailer, true
		}
	}
	n, equal := m.seekGE(m.listOf(look.PrefixLen, look.Hash), look.UserKey, look.Trailer())
	if !equal {
		return nil, 0, false
	}
	return n.value(), n.trailer(), true
}

// Touch loads the bucket that a Get of look starts from, so that the misses of a
// batch overlap. The result means nothing, but must be used, lest the compiler
// drop the load.
func (m *MemTable) Touch(look *keys.Lookup) uint64 {
	if m.points.serves() {
		m.points.prefetch(pointHash(look.UserKey))
		return 0
	}
	if m.kind == Vector || !m.mayHavePrefix(look.PrefixLen, look.Hash) {
		return 0
	}
	return uint64(m.listOf(look.PrefixLen, look.Hash).head.next(0))
}

// TouchNode loads the first node of the bucket, which Touch should have loaded
// some time before. The result must be used.
func (m *MemTable) TouchNode(look *keys.Lookup) uint64 {
	if m.points.serves() {
		m.prefetchPoint(pointHash(look.UserKey))
		return 0
	}
	if m.kind == SkipList || !m.mayHavePrefix(look.PrefixLen, look.Hash) {
		return 0
	}
	return m.TouchAddNode(look.PrefixLen, look.Hash)
}

// TouchAdd loads the bucket that an Add with these arguments links into, and
// TouchAddNode, some time later, its first node. A writer that has a batch of
// Adds at hand makes their misses overlap by calling each for all of them first.
// The results must be used.
func (m *MemTable) TouchAdd(prefixLen int, hash uint32) uint64 {
	if m.kind == Vector {
		return 0
	}
	return uint64(m.listOf(prefixLen, hash).head.next(0))
}

// TouchAddNode is the second step after TouchAdd.
func (m *MemTable) TouchAddNode(prefixLen int, hash uint32) uint64 {
	if link := m.TouchAdd(prefixLen, hash); link != 0 && (m.sumLen == 0 || m.lies(uint32(link))) {
		n := m.at(uint32(link))
		return uint64(n.keyLen()) + n.trailer()
	}
	return 0
}

// compare orders a node and an internal key.
func (m *MemTable) compare(n node, key []byte, trailer uint64) int {
	var c int
	if m.bytewise {
		c = bytes.Compare(n.key(), key)
	} else {
		c = m.order.Compare(n.key(), key)
	}
	if c != 0 {
		return c
	}
	switch t := n.trailer(); {
	case t > trailer:
		return -1
	case t < trailer:
		return 1
	}
	return 0
}

// randomHeight draws a tower height of at most limit.
func (m *MemTable) randomHeight(limit int) int {
	h, r := 1, rand.Uint32()
	for h < limit && r < m.thresholds[h-1] {
		h++
	}
	return h
}

// MarkImmutable tells that no Add will follow. A Vector is sorted now, once and
// for all; other kinds need nothing. Safe beside readers.
func (m *MemTable) MarkImmutable() {
	if m.kind == Vector {
		m.acquireRuns().release()
	}
}

// NewIterator returns an iterator over all entries in internal key order, which
// must be closed before Free. It sees at least the entries whose Add returned
// before its first positioning call, perhaps newer ones, and stays valid while
// writers go on. Making one is cheap; over hash and vector kinds its first
// positioning call in total order sorts what was inserted since the last such
// call of any iterator. Steps take no lock and do not allocate.
func (m *MemTable) NewIterator() table.Iterator {
	if m.sumLen != 0 {
		return m.newCheckedIterator()
	}
	if m.kind == SkipList {
		return &listIterator{m: m}
	}
	return &hashIterator{m: m}
}

// Entries is the number of entries, deletes included.
func (m *MemTable) Entries() int64 {
	if m.kind == SkipList {
		return m.entries.Load()
	}
	return int64(m.newest.Load() >> 32)
}

// Deletes is the number of entries that delete one key.
func (m *MemTable) Deletes() int64 { return m.deletes.Load() }

// DataBytes is the length of all user keys and values.
func (m *MemTable) DataBytes() int64 { return m.data.Load() }

// UsedBytes is how much of the arena is in use, buckets and filter included, as
// RocksDB counts memtables against write_buffer_size.
func (m *MemTable) UsedBytes() int64 { return m.usedBytes() }

// Memory is the part of the arena that is in use, for those who ask on which NUMA
// node it lies; nil if it is on the Go heap. Borrowed until Free, and not to be read.
func (m *MemTable) Memory() []byte {
	if m.arena == nil {
		return nil
	}
	return m.arena.Bytes()[:m.arena.Used()]
}

// EmptyBytes is what UsedBytes was before the first entry.
func (m *MemTable) EmptyBytes() int64 { return m.emptyBytes }

// RunBytes is what the sorted runs of iterators take outside of the arena.
func (m *MemTable) RunBytes() int64 { return m.runs.bytes.Load() }

// HasRoom reports whether bytes more, as BatchBytes counts them, surely fit.
func (m *MemTable) HasRoom(bytes int64) bool { return bytes <= m.size-m.usedBytes() }

// BatchBytes is an upper bound of the arena bytes that a batch takes: entries is
// how many it has, rawBytes the length of their keys and values.
func BatchBytes(entries int, rawBytes int64) int64 {
	return int64(entries)*EntryOverhead + rawBytes
}

// Free unmaps all memory. No reader, iterator or borrowed value may be in use;
// the MemTable must not be used again.
func (m *MemTable) Free() {
	m.runs.free()
	m.points.release()
	m.release()
}
