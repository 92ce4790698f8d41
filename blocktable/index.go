package blocktable

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/prefetch"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// flatIndex is an index that the Reader holds decoded, for searches that touch
// little memory: an array of the eight bytes that follow the prefix that all
// separators share, which decides nearly every comparison, and an array of where
// blocks and separators lie. Large ones live off the Go heap.
type flatIndex struct {
	n      int
	bare   bool // separators are user keys
	order  keys.Order
	common []byte // the user key prefix of all separators, if the order is bytewise
	heads  []byte // n × fixed64: eight bytes after common, big-endian value
	tops   []byte // every topStep-th head: few enough to stay in the processor's cache
	refs   []byte // n × (fixed64 offset, fixed32 size, fixed32 end of the separator)
	seps   []byte // the separators, one after another
	mem    ownBytes

	// With protection; see flatcheck.go.
	sums      []byte
	sumLen    int
	commonSum uint64
}

// ownBytes is memory of a Reader, off the Go heap when it is large.
type ownBytes struct {
	b     []byte
	arena *mmapfs.Arena
}

const offHeapFrom = 32 << 10

func allocOwn(n int) (ownBytes, error) {
	if n < offHeapFrom || n > math.MaxUint32 {
		return ownBytes{b: make([]byte, n)}, nil
	}
	a, err := mmapfs.NewArena(int64(n)+64, mmapfs.ArenaOptions{Name: "table readers"})
	if err != nil {
		return ownBytes{}, err
	}
	off, ok := a.Alloc(uint32(n), 64)
	if !ok {
		a.Free()
		return ownBytes{b: make([]byte, n)}, nil
	}
	return ownBytes{a.Bytes()[off : off+uint64(n)], a}, nil
}

func (o *ownBytes) free() {
	if o.arena != nil {
		o.arena.Free()
	}
	*o = ownBytes{}
}

// flatBuilder collects separators and handles.
type flatBuilder struct {
	seps    []byte
	ends    []uint32
	handles []block.Handle
}

// add appends every entry of an index block.
func (fb *flatBuilder) add(x *indexIter) error {
	for ok := x.first(); ok; ok = x.next() {
		fb.seps = append(fb.seps, x.key...)
		if len(fb.seps) > math.MaxUint32 || x.handle.Size > math.MaxUint32 {
			x.corrupt(x.off, "expected index keys and blocks below 4 GiB, found %d and %d", len(fb.seps), x.handle.Size)
			break
		}
		fb.ends = append(fb.ends, uint32(len(fb.seps)))
		fb.handles = append(fb.handles, x.handle)
	}
	return x.err
}

func (fb *flatBuilder) build(order keys.Order, bare bool, sumLen int) (*flatIndex, error) {
	f := &flatIndex{n: len(fb.ends), bare: bare, order: order, sumLen: sumLen}
	tops := (f.n + topStep - 1) / topStep
	sums := 2 * sumLen * f.n
	mem, err := allocOwn(24*f.n + len(fb.seps) + 8*tops + sums)
	if err != nil {
		return nil, err
	}
	f.mem = mem
	f.heads, f.refs, f.seps = mem.b[:8*f.n], mem.b[8*f.n:24*f.n], mem.b[24*f.n+8*tops:len(mem.b)-sums]
	f.tops = mem.b[24*f.n : 24*f.n+8*tops]
	copy(f.seps, fb.seps)
	for i, h := range fb.handles {
		ref := f.refs[16*i:]
		binary.LittleEndian.PutUint64(ref, h.Offset)
		binary.LittleEndian.PutUint32(ref[8:], uint32(h.Size))
		binary.LittleEndian.PutUint32(ref[12:], fb.ends[i])
	}
	if f.n > 0 && order.Bytewise() {
		first, last := f.userKey(0), f.userKey(f.n-1)
		f.common = bytes.Clone(first[:block.SharedLen(first, last)])
		for i := range f.n {
			k := f.userKey(i)
			if !bytes.HasPrefix(k, f.common) { // out of order: leave it to the comparator
				f.common = nil
				f.order = keys.NewOrder(wrappedBytewise{keys.Bytewise})
				break
			}
			h := head(k[len(f.common):])
			binary.LittleEndian.PutUint64(f.heads[8*i:], h)
			if i%topStep == 0 {
				binary.LittleEndian.PutUint64(f.tops[8*(i/topStep):], h)
			}
		}
	}
	if sums > 0 {
		f.sums = mem.b[len(mem.b)-sums:]
		f.seal()
	}
	return f, nil
}

// wrappedBytewise is the byte order without the shortcuts for it.
type wrappedBytewise struct{ keys.Comparator }

// head is the first eight bytes of k as a number that sorts like them.
func head(k []byte) uint64 {
	if len(k) >= 8 {
		return binary.BigEndian.Uint64(k)
	}
	var v uint64
	for i, c := range k {
		v |= uint64(c) << (56 - 8*i)
	}
	return v
}

func (f *flatIndex) sep(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = binary.LittleEndian.Uint32(f.refs[16*i-4:])
	}
	end := binary.LittleEndian.Uint32(f.refs[16*i+12:])
	if start > end || uint64(end) > uint64(len(f.seps)) {
		return nil // damaged in memory
	}
	return f.seps[start:end]
}

func (f *flatIndex) userKey(i int) []byte {
	s := f.sep(i)
	if !f.bare {
		s = s[:max(len(s)-8, 0)]
	}
	return s
}

// handle is where block i lies.
func (f *flatIndex) handle(i int) block.Handle {
	ref := f.refs[16*i:]
	return block.Handle{Offset: binary.LittleEndian.Uint64(ref), Size: uint64(binary.LittleEndian.Uint32(ref[8:]))}
}

// seek is the first entry whose separator is at or after the target, or n.
func (f *flatIndex) seek(userKey []byte, trailer uint64) int {
	lo, hi := 0, f.n
	if f.order.Bytewise() && f.n > 0 {
		m := min(len(userKey), len(f.common))
		switch c := bytes.Compare(userKey[:m], f.common[:m]); {
		case c > 0:
			return f.n
		case c < 0 || m < len(f.common):
			return 0
		}
		lo, hi = f.headRange(head(userKey[m:]))
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if compareSeparator(f.order, f.bare, f.sep(mid), userKey, trailer) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// topStep is how many heads there are for each of tops: two cache lines.
const topStep = 16

// firstHead is the first of n heads, from lo on, that is at least h, or lo+n.
func firstHead(heads []byte, lo, n int, h uint64) int {
	for n > 0 {
		half := n >> 1
		if binary.LittleEndian.Uint64(heads[8*(lo+half):]) < h {
			lo += half + 1
			n -= half + 1
		} else {
			n = half
		}
	}
	return lo
}

// headRange is the range of entries whose head is h; if it is empty, both ends
// are the first entry with a larger one.
func (f *flatIndex) headRange(h uint64) (lo, hi int) {
	heads := f.heads
	if top := firstHead(f.tops, 0, len(f.tops)/8, h); top > 0 {
		lo = topStep*(top-1) + 1
		prefetch.Span(f.refs, 16*lo, 16*(lo+topStep))
		prefetch.Span(heads, 8*lo, 8*(lo+topStep))
		lo = firstHead(heads, lo, min(topStep*top, f.n)-lo, h)
	}
	hi = lo
	for hi < f.n && binary.LittleEndian.Uint64(heads[8*hi:]) == h {
		hi++
		if hi-lo > 16 { // a long run: search for its end
			a, b := hi, f.n
			for a < b {
				mid := int(uint(a+b) >> 1)
				if binary.LittleEndian.Uint64(heads[8*mid:]) <= h {
					a = mid + 1
				} else {
					b = mid
				}
			}
			return lo, a
		}
	}
	return lo, hi
}

// indexCursor walks the data blocks of a file: over the flat index, or, when the
// flat index names partitions, over partitions fetched through the cache.
type indexCursor struct {
	r    *Reader
	o    fetchOptions
	i    int // entry of the flat index
	part blockRef
	raw  indexIter
	open bool // part holds partition i
	err  error
}

func (c *indexCursor) init(r *Reader, o fetchOptions) {
	o.kind = blockcache.Index
	c.r, c.o, c.i, c.open, c.err = r, o, -1, false, nil
	c.raw.order, c.raw.f, c.raw.file = r.opts.Order, r.indexFormat, r.name
}

func (c *indexCursor) close() {
	if c.open {
		c.r.release(&c.part)
		c.open = false
	}
}

// load fetches partition i.
func (c *indexCursor) load(i int) bool {
	if c.open && c.i == i {
		return true
	}
	c.close()
	c.i = i
	if !c.intact() {
		return false
	}
	h := c.r.index.handle(i)
	var err error
	if c.part, err = c.r.fetch(h, c.o); err != nil {
		c.err = err
		return false
	}
	c.open = true
	ok := true
	if c.r.sumLen != 0 && !c.r.secure(&c.part, h, blockcache.Index, true) {
		c.raw.err, ok = c.r.damaged(h, blockcache.Index), false
	}
	if ok && c.enter(h) || c.reload() {
		return true
	}
	if c.err == nil {
		c.err = c.raw.err
	}
	return false
}

// intact checks the entry of the flat index that a step came to.
func (c *indexCursor) intact() bool {
	if bad := c.r.index.intact(c.i); bad >= 0 {
		c.err = c.r.damagedIndex(bad)
		return false
	}
	return true
}

// enter puts raw on the partition.
func (c *indexCursor) enter(h block.Handle) bool {
	if !c.raw.init(c.part.data, h.Offset) {
		return false
	}
	c.raw.sums = c.part.sums
	return true
}

// reload fetches the partition, in which raw found damage, again from the file; false if
// that could not help.
func (c *indexCursor) reload() bool {
	if c.raw.err == nil || !c.open || !c.r.fromMemory(&c.part) {
		return false
	}
	h := c.r.index.handle(c.i)
	c.r.discard(&c.part, h, c.raw.err)
	if c.r.opts.NoReread {
		return false
	}
	c.close()
	var err error
	if c.part, err = c.r.load(h, c.o); err != nil {
		c.err = err
		return false
	}
	c.open = true
	c.r.secure(&c.part, h, blockcache.Index, true)
	return c.enter(h)
}

// firstOf and lastOf move to the ends of the partition.
func (c *indexCursor) firstOf() bool {
	ok := c.raw.first()
	if !ok && c.reload() {
		ok = c.raw.first()
	}
	return c.settle(ok)
}

func (c *indexCursor) lastOf() bool {
	ok := c.raw.last()
	if !ok && c.reload() {
		ok = c.raw.last()
	}
	return c.settle(ok)
}

// again does a step by that failed in the partition once more, by the number of the entry.
func (c *indexCursor) again(by int) bool {
	to, err := c.raw.from+by, c.raw.err
	if !c.reload() {
		return false
	}
	if c.raw.sums.count == 0 { // no room for sums this time: places are not known
		c.raw.err = err
		return false
	}
	return c.raw.toEntry(to)
}

// settle takes over an error of the partition.
func (c *indexCursor) settle(ok bool) bool {
	if !ok && c.raw.err != nil {
		c.err = c.raw.err
	}
	return ok
}

// userKey is the user key of the separator: at or after every key of the block,
// and at or before every key of the next.
func (c *indexCursor) userKey() []byte {
	if !c.r.partitioned {
		return c.r.index.userKey(c.i)
	}
	if k := c.raw.key; !c.r.indexFormat.userKeys {
		return k[:len(k)-keys.TrailerLen]
	} else {
		return k
	}
}

func (c *indexCursor) handle() block.Handle {
	if c.r.partitioned {
		return c.raw.handle
	}
	return c.r.index.handle(c.i)
}

// prefetchNext asks the processor for where the block after the current one is found.
func (c *indexCursor) prefetchNext() {
	if i := c.i + 1; !c.r.partitioned && c.r.cache != nil && i < c.r.index.n {
		c.r.cache.Prefetch(c.r.cacheKey(c.r.index.handle(i)))
	}
}

// seekGE moves to the block that holds the first entry at or after the target,
// if any does.
func (c *indexCursor) seekGE(userKey []byte, trailer uint64) bool {
	i := c.r.index.seek(userKey, trailer)
	if c.r.index.sums != nil {
		if bad := c.r.index.proves(i, userKey, trailer); bad >= 0 {
			c.err = c.r.damagedIndex(bad)
			return false
		}
	}
	if !c.r.partitioned {
		c.i = i
		return i < c.r.index.n
	}
	if i >= c.r.index.n || !c.load(i) {
		return false
	}
	ok := c.raw.seekGE(userKey, trailer)
	if !ok && c.reload() {
		ok = c.raw.seekGE(userKey, trailer)
	}
	return c.settle(ok) || c.err == nil && c.nextPartition()
}

func (c *indexCursor) nextPartition() bool {
	for c.i+1 < c.r.index.n {
		if !c.load(c.i + 1) {
			return false
		}
		if c.firstOf() {
			return true
		}
		if c.err != nil {
			return false
		}
	}
	return false
}

func (c *indexCursor) first() bool {
	if !c.r.partitioned {
		c.i = 0
		return c.r.index.n > 0 && c.intact()
	}
	if c.r.index.n == 0 || !c.load(0) {
		return false
	}
	return c.firstOf() || c.err == nil && c.nextPartition()
}

func (c *indexCursor) next() bool {
	if !c.r.partitioned {
		c.i++
		return c.i < c.r.index.n && c.intact()
	}
	ok := c.raw.next()
	if !ok && c.raw.err != nil {
		ok = c.again(1)
	}
	return c.settle(ok) || c.err == nil && c.nextPartition()
}

func (c *indexCursor) last() bool {
	if !c.r.partitioned {
		c.i = c.r.index.n - 1
		return c.i >= 0 && c.intact()
	}
	if c.r.index.n == 0 || !c.load(c.r.index.n-1) {
		return false
	}
	return c.lastOf() || c.err == nil && c.prevPartition()
}

func (c *indexCursor) prev() bool {
	if !c.r.partitioned {
		c.i--
		return c.i >= 0 && c.intact()
	}
	ok := c.raw.prev()
	if !ok && c.raw.err != nil {
		ok = c.again(-1)
	}
	return c.settle(ok) || c.err == nil && c.prevPartition()
}

func (c *indexCursor) prevPartition() bool {
	for c.i > 0 {
		if !c.load(c.i - 1) {
			return false
		}
		if c.lastOf() {
			return true
		}
		if c.err != nil {
			return false
		}
	}
	return false
}
