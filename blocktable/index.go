package blocktable

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
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

func (fb *flatBuilder) build(order keys.Order, bare bool) (*flatIndex, error) {
	f := &flatIndex{n: len(fb.ends), bare: bare, order: order}
	tops := (f.n + topStep - 1) / topStep
	mem, err := allocOwn(24*f.n + len(fb.seps) + 8*tops)
	if err != nil {
		return nil, err
	}
	f.mem = mem
	f.heads, f.refs, f.seps = mem.b[:8*f.n], mem.b[8*f.n:24*f.n], mem.b[24*f.n+8*tops:]
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
	return f.seps[start:binary.LittleEndian.Uint32(f.refs[16*i+12:])]
}

func (f *flatIndex) userKey(i int) []byte {
	s := f.sep(i)
	if !f.bare {
		s = s[:len(s)-8]
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
	h := c.r.index.handle(i)
	var err error
	if c.part, err = c.r.fetch(h, c.o); err != nil {
		c.err = err
		return false
	}
	c.open = true
	if !c.raw.init(c.part.data, h.Offset) {
		c.err = c.raw.err
		return false
	}
	return true
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

// seekGE moves to the block that holds the first entry at or after the target,
// if any does.
func (c *indexCursor) seekGE(userKey []byte, trailer uint64) bool {
	i := c.r.index.seek(userKey, trailer)
	if !c.r.partitioned {
		c.i = i
		return i < c.r.index.n
	}
	if i >= c.r.index.n || !c.load(i) {
		return false
	}
	if c.settle(c.raw.seekGE(userKey, trailer)) {
		return true
	}
	return c.err == nil && c.nextPartition()
}

func (c *indexCursor) nextPartition() bool {
	for c.i+1 < c.r.index.n {
		if !c.load(c.i + 1) {
			return false
		}
		if c.settle(c.raw.first()) {
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
		return c.r.index.n > 0
	}
	if c.r.index.n == 0 || !c.load(0) {
		return false
	}
	return c.settle(c.raw.first()) || c.err == nil && c.nextPartition()
}

func (c *indexCursor) next() bool {
	if !c.r.partitioned {
		c.i++
		return c.i < c.r.index.n
	}
	return c.settle(c.raw.next()) || c.err == nil && c.nextPartition()
}

func (c *indexCursor) last() bool {
	if !c.r.partitioned {
		c.i = c.r.index.n - 1
		return c.i >= 0
	}
	if c.r.index.n == 0 || !c.load(c.r.index.n-1) {
		return false
	}
	return c.settle(c.raw.last()) || c.err == nil && c.prevPartition()
}

func (c *indexCursor) prev() bool {
	if !c.r.partitioned {
		c.i--
		return c.i >= 0
	}
	return c.settle(c.raw.prev()) || c.err == nil && c.prevPartition()
}

func (c *indexCursor) prevPartition() bool {
	for c.i > 0 {
		if !c.load(c.i - 1) {
			return false
		}
		if c.settle(c.raw.last()) {
			return true
		}
		if c.err != nil {
			return false
		}
	}
	return false
}
