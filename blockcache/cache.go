// Package blockcache holds blocks of files in memory outside the Go heap. It
// knows a block by file id and offset, and never looks into it.
//
// A cache is cut into shards. A shard has
//
//   - slots: an open-addressed table of 32-byte slots, in mapped memory. A slot
//     says which block it is, where its bytes lie, and, in one atomic word, who
//     holds it (a count), how hot it is (a clock of two bits) and its state.
//   - pages: mapped memory cut into pages of one size. A page belongs to a size
//     class and holds blocks of that size, each behind an 8-byte header that
//     names its slot. A block larger than a quarter page is a mapping of its own.
//
// A hit takes no lock: it finds the slot, adds to the count, and looks again
// whether the slot still is that block. Everything else (finding room, evicting,
// publishing) happens under the shard's mutex.
//
// Eviction is CLOCK: a hand sweeps the slots, cools what is warm and evicts what
// is cold and not held. A block enters lukewarm and becomes hot only when it is
// found again, so that a scan passes through without washing the cache out.
// Index and filter blocks enter hot. When the hand does not free room of the
// right size soon, the coldest of a few pages is emptied and changes its class.
package blockcache

import (
	"errors"
	"fmt"
	"github.com/flatrock-db/flatrock/internal/invariant"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// BlockType says what a block holds, for the statistics.
type BlockType uint8

// The block types.
const (
	Data BlockType = iota
	Index
	Filter
	Other // dictionaries, range tombstones, properties
	NumBlockTypes

	// PointData is Data, looked up by a point read. Statistics count it as Data.
	PointData = NumBlockTypes
)

// String is the name in statistics.
func (t BlockType) String() string {
	switch t {
	case Data:
		return "data"
	case Index:
		return "index"
	case Filter:
		return "filter"
	case Other:
		return "other"
	}
	return fmt.Sprintf("BlockType(%d)", uint8(t))
}

// Priority says how long a block stays without being used.
type Priority uint8

// The priorities: Low for data blocks, High for index and filter blocks.
const (
	Low Priority = iota
	High
)

// Key names a block: a file id that is unique in the cache, and the block's
// offset in the file.
type Key struct{ File, Offset uint64 }

// Handle is a held block. Zero is no block.
type Handle uint64

// Options configures a Cache.
type Options struct {
	// Capacity is how many bytes the cache may hold, headers and the waste inside
	// pages included. RocksDB: capacity.
	Capacity int64
	// StrictCapacityLimit makes Reserve fail when everything is held; otherwise
	// the cache grows over its capacity for as long as that lasts.
	StrictCapacityLimit bool
	// Shards is the number of shards, a power of two; zero lets the processors
	// and the capacity decide.
	Shards int
	// EstimatedEntryCharge is the expected size of a block in bytes, for which
	// slots are laid out; zero means 4096. Much smaller blocks fill the slots
	// before the capacity. RocksDB: estimated_entry_charge.
	EstimatedEntryCharge int
	// HugePages asks for huge pages.
	HugePages bool
	// Placement puts the memory on NUMA nodes.
	Placement mmapfs.Placement
}

// Cache is a block cache. Safe for concurrent use.
type Cache struct {
	shards   []*shard
	mask     uint64
	tracer   atomic.Pointer[Tracer] // in a line that every lookup loads
	capacity atomic.Int64
	charged  [numCharges]atomic.Int64
	nextFile atomic.Uint64
	opts     Options
	traceMu  sync.Mutex // held while a trace begins or ends
	closed   bool       // guarded by traceMu
	files    files
}

const minShardCapacity = 16 << 20

// New makes a cache. Close frees it.
func New(o Options) (*Cache, error) {
	if o.Capacity < 0 || o.Capacity > math.MaxInt64/4 {
		return nil, fmt.Errorf("blockcache: capacity %d: expected 0 or more bytes", o.Capacity)
	}
	if o.Shards < 0 || o.Shards&(o.Shards-1) != 0 || o.Shards > 1<<10 {
		return nil, fmt.Errorf("blockcache: %d shards: expected a power of two up to 1024", o.Shards)
	}
	if o.EstimatedEntryCharge <= 0 {
		o.EstimatedEntryCharge = 4096
	}
	n := o.Shards
	if n == 0 {
		for n = 1; n < 4*runtime.GOMAXPROCS(0) && n < 64 && o.Capacity/int64(2*n) >= minShardCapacity; {
			n *= 2
		}
	}
	c := &Cache{opts: o, mask: uint64(n - 1)}
	c.capacity.Store(o.Capacity)
	c.nextFile.Store(1)
	for i := range n {
		s, err := newShard(c, i, o.Capacity/int64(n))
		if err != nil {
			c.Close()
			return nil, err
		}
		c.shards = append(c.shards, s)
	}
	return c, nil
}

// Close frees the memory. The caller guarantees that nothing is held and that
// nobody uses the cache any more.
func (c *Cache) Close() {
	c.traceMu.Lock()
	c.closed = true
	_, _ = c.endTrace() // whoever wants to know ends it first
	c.traceMu.Unlock()
	for _, s := range c.shards {
		s.checkStore()
		s.free()
	}
	c.shards = nil
}

// NewFileID returns a file id that no one else has.
func (c *Cache) NewFileID() uint64 { return c.nextFile.Add(1) }

// hash spreads keys; the high half chooses the shard, the low half the slot.
func (k Key) hash() uint64 {
	h := (k.Offset ^ k.File*0x9E3779B97F4A7C15) * 0xC2B2AE3D27D4EB4F
	h ^= h >> 32
	h *= 0x9E3779B185EBCA87
	return h ^ h>>29
}

func (c *Cache) shard(h uint64) *shard { return c.shards[h>>40&c.mask] }

// Lookup finds a block and holds it: b is pinned until Release. h is zero if the
// block is not in the cache. No lock, no allocation.
func (c *Cache) Lookup(k Key, t BlockType) (h Handle, b []byte) {
	h, b, _, _ = c.LookupNoted(k, t)
	return h, b
}

// LookupNoted is Lookup, and says whether the block has been annotated, and whether it
// was found before since it was published (or was hot from the beginning).
func (c *Cache) LookupNoted(k Key, t BlockType) (h Handle, b []byte, noted, again bool) {
	hash := k.hash()
	s := c.shard(hash)
	i, m, b := s.lookup(k, hash)
	if i < 0 {
		s.stats.stripe().misses[t].Add(1)
		return 0, nil, false, false
	}
	s.stats.stripe().hits[t].Add(1)
	return s.handle(i), b, m&notedBit != 0, m&foundBit != 0 || m&clockMask == clockMask
}

// Prefetch asks the processor for where the cache would find a block, which Lookup waits
// for. It changes nothing.
func (c *Cache) Prefetch(k Key) {
	hash := k.hash()
	s := c.shard(hash)
	s.prefetchSlot(s.home(hash))
}

// Promising reports whether a data block such as the one held is likely to be found
// again before it is evicted: whether a fifth of those that were evicted lately had been.
func (c *Cache) Promising(h Handle) bool {
	s, _ := c.locate(h)
	return s.reused.Load() >= 1<<16/5
}

// SurelyFound is Promising with a share of three quarters.
func (c *Cache) SurelyFound(h Handle) bool {
	s, _ := c.locate(h)
	return s.reused.Load() >= 1<<16*3/4
}

// Annotate claims the right to write, once, into a part of a held block that nobody
// reads before LookupNoted says noted. It reports whether the caller has got it, and
// then has to call Annotated.
func (c *Cache) Annotate(h Handle) bool {
	s, i := c.locate(h)
	meta := &s.slot(i).meta
	return meta.Load()&claimedBit == 0 && meta.Or(claimedBit)&claimedBit == 0
}

// Annotated shows what the caller wrote, after Annotate, to all who find the block
// from now on.
func (c *Cache) Annotated(h Handle) {
	s, i := c.locate(h)
	s.slot(i).meta.Or(notedBit)
}

// Drop makes a held block one that nobody finds any more, because it is damaged. It is
// evicted like any other once those that hold it have released it. It reports whether
// the caller is the first to drop it.
func (c *Cache) Drop(h Handle) bool {
	s, i := c.locate(h)
	meta := &s.slot(i).meta
	first := meta.Or(droppedBit)&droppedBit == 0
	meta.And(^clockMask) // cold: the next to go
	return first
}

// Reserve finds room for n bytes that k will name, and evicts for it. b is the
// caller's to fill, until Publish makes it a block or Abort gives it back.
// h is zero if there is no room.
func (c *Cache) Reserve(k Key, n int, t BlockType, p Priority) (h Handle, b []byte) {
	if n < 0 || n > maxBlock {
		return 0, nil
	}
	hash := k.hash()
	s := c.shard(hash)
	i, b := s.reserve(k, hash, n, t, p)
	if i < 0 {
		s.stats.failures.Add(1)
		return 0, nil
	}
	return s.handle(i), b
}

// Publish makes what Reserve returned findable, cut to n bytes, and keeps holding it.
// If another caller has published the same block meanwhile, that one is held
// and returned instead.
func (c *Cache) Publish(h Handle, n int) (Handle, []byte) {
	s, i := c.locate(h)
	i, b := s.publish(i, n)
	return s.handle(i), b
}

// Abort gives back what Reserve returned.
func (c *Cache) Abort(h Handle) {
	s, i := c.locate(h)
	s.abort(i)
}

// Hold holds once more a block that the caller already holds.
func (c *Cache) Hold(h Handle) {
	s, i := c.locate(h)
	m := s.slot(i).meta.Add(oneRef)
	invariant.Check(m&refMask > 1, "a cached block is held once more by somebody who did not hold it")
}

// Release lets go of a held block. No lock.
func (c *Cache) Release(h Handle) {
	s, i := c.locate(h)
	m := s.slot(i).meta.Add(^uint64(oneRef - 1))
	invariant.Check(m&refMask != refMask, "a cached block was let go once too often")
}

// Unpin is Release, for table.Pin.
func (c *Cache) Unpin(handle uint64) { c.Release(Handle(handle)) }

func (c *Cache) locate(h Handle) (*shard, int) {
	h--
	return c.shards[h>>32], int(h & math.MaxUint32)
}

// Forget evicts the blocks of a file that are not held, for a file that was
// deleted. It costs a walk over all slots.
func (c *Cache) Forget(file uint64) {
	c.undescribe(file)
	for _, s := range c.shards {
		s.evictIf(func(k Key) bool { return k.File == file })
	}
}

// ErrReserve matches SetCapacity's refusal.
var ErrReserve = errors.New("blockcache: the capacity cannot grow so far")

// SetCapacity changes the capacity. It may grow to twice what New was given;
// when it shrinks, blocks that are not held are evicted at once.
func (c *Cache) SetCapacity(n int64) error {
	per := max(n, 0) / int64(len(c.shards))
	for _, s := range c.shards {
		if per > s.reach() {
			return fmt.Errorf("%w: %d bytes, at most %d", ErrReserve, n, s.reach()*int64(len(c.shards)))
		}
	}
	c.capacity.Store(max(n, 0))
	c.applyCapacity()
	return nil
}

// applyCapacity tells the shards their part of what the charges leave.
func (c *Cache) applyCapacity() {
	n := c.capacity.Load()
	for i := range c.charged {
		n -= c.charged[i].Load()
	}
	for _, s := range c.shards {
		s.setCapacity(max(n, 0) / int64(len(c.shards)))
	}
}

// Charge is memory elsewhere that the capacity is to cover.
type Charge uint8

// What may be charged.
const (
	Memtables    Charge = iota // RocksDB: the write buffer manager's cost to the cache
	TableReaders               // indexes and filters that readers hold themselves
	FilterBuilders
	numCharges
)

// chargeStep is how far charges move before the shards hear of it.
const chargeStep = 256 << 10

// AddCharge changes a charge by delta bytes. The blocks make room for it.
func (c *Cache) AddCharge(what Charge, delta int64) {
	now := c.charged[what].Add(delta)
	if now/chargeStep != (now-delta)/chargeStep {
		c.applyCapacity()
	}
}
