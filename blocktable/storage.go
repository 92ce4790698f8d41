package blocktable

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/mutation"
	"github.com/flatrock-db/flatrock/internal/perf"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// blockRef is an uncompressed block in memory. If hold is set the bytes are
// pinned in the cache; otherwise they are the collector's or the Reader's own.
type blockRef struct {
	data []byte
	hint []byte // see hint.go
	room []byte // for the hint, if it is worth while to build it now
	hold blockcache.Handle

	// With protection; see protect.go.
	sums    sumTable
	sumRoom []byte // where sums go or are
	noted   bool   // hint and sums are there as far as they ever will be
	fresh   bool   // the caller has just read and verified the block
	again   bool   // it was found before
}

// cacheKey names a block in the cache.
func (r *Reader) cacheKey(h block.Handle) blockcache.Key {
	return blockcache.Key{File: r.cacheID, Offset: h.Offset}
}

// find looks for the block at h in the cache.
func (r *Reader) find(h block.Handle, kind blockcache.BlockType) (ref blockRef, ok bool) {
	hold, b, noted, again := r.cache.LookupNoted(r.cacheKey(h), kind)
	if hold == 0 {
		return blockRef{}, false
	}
	ref = blockRef{data: b, hold: hold}
	if kind == blockcache.Data || kind == blockcache.PointData {
		n := r.cachedLen(b, h)
		end := len(b) - r.sumRoom
		if ref.data = b[:n:n]; noted {
			ref.hint = b[n:end]
		} else {
			ref.room = b[n:end]
		}
		if r.sumLen != 0 {
			ref.findSums(b[end:], r.sumLen, noted)
			ref.again = again
		}
	} else if kind == blockcache.Index && r.sumLen != 0 {
		n := r.cachedIndexLen(b)
		ref.data = b[:n:n]
		ref.findSums(b[n:len(b)-4], r.sumLen, noted)
		ref.again = true
	}
	return ref, true
}

func (ref *blockRef) findSums(room []byte, sumLen int, noted bool) {
	if ref.sumRoom, ref.noted = room, noted; noted {
		ref.sums = readSums(room, sumLen)
	}
}

// cachedIndexLen is the length of the index block of which b lies in the cache, with
// room for sums behind it.
func (r *Reader) cachedIndexLen(b []byte) int {
	return min(int(binary.LittleEndian.Uint32(b[len(b)-4:])), len(b)-4-sumTail)
}

// cachedLen is the length of the data block at h, of which b lies in the cache. Where
// the file is not compressed the handle has told it, and no load has to wait for it.
func (r *Reader) cachedLen(b []byte, h block.Handle) int {
	if r.compressed {
		// The number lies in memory: a damaged one must not lead out of b.
		n := int(binary.LittleEndian.Uint32(b[len(b)-r.sumRoom-4:]))
		return min(n, len(b)-r.sumRoom-hintTail)
	}
	return int(h.Size)
}

// annotate gives a block its hint, unless somebody else does.
func (r *Reader) annotate(ref *blockRef) {
	if len(ref.room) > hintTail && r.cache.Annotate(ref.hold) {
		buildHint(ref.data, ref.room)
		r.cache.Annotated(ref.hold)
		ref.hint = ref.room
	}
	ref.room = nil
}

// fetchOptions says how a block is to be read.
type fetchOptions struct {
	kind   blockcache.BlockType
	fill   bool // keep it in the cache
	verify bool
	pread  bool       // not through the mapping
	guard  bool       // the caller has a guard, see table.IterOptions
	ahead  *readahead // nil for point reads

	caller table.Caller  // for traces
	point  *pointTrace   // the point read that an index is searched for; nil without a trace
	perf   *perf.Context // where it counts; nil for nowhere
}

// fetch returns the block at h, from the cache if it is there. The caller
// releases it.
func (r *Reader) fetch(h block.Handle, o fetchOptions) (ref blockRef, err error) {
	if r.cache == nil {
		return r.load(h, o)
	}
	ref, hit := r.find(h, o.kind)
	if !hit {
		if ref, err = r.load(h, o); err != nil {
			return ref, err
		}
	} else if o.perf != nil || r.opts.Statistics != nil {
		r.countHit(&ref, o.kind, o.perf, nil)
	}
	if t := r.cache.Tracer(); t != nil {
		r.traced(t, h, &ref, hit, &o)
	}
	return ref, nil
}

// fetchPoint is fetch of a data block for a point read, which adds to a trace itself:
// what it finds in the block belongs there. It counts the hit, too.
func (r *Reader) fetchPoint(h block.Handle, o fetchOptions) (ref blockRef, hit bool, err error) {
	if r.cache != nil {
		if ref, hit = r.find(h, blockcache.PointData); hit {
			return ref, true, nil
		}
	}
	ref, err = r.load(h, o)
	return ref, false, err
}

// release lets go of a fetched block.
func (r *Reader) release(b *blockRef) {
	if b.hold != 0 {
		r.cache.Release(b.hold)
	}
	*b = blockRef{}
}

// checkHandle makes sure that the block lies before the footer.
func (r *Reader) checkHandle(h block.Handle) error {
	end, ok := h.End(block.TrailerLen)
	if !ok || end > uint64(r.footerStart) {
		return keys.Corruptf(r.name, int64(min(h.Offset, 1<<62)), "expected a block before the footer at %d, found handle %v", r.footerStart, h)
	}
	return nil
}

// room is how much more than the block to reserve in the cache.
func (r *Reader) room(kind blockcache.BlockType) int {
	switch kind {
	case blockcache.Data:
		return r.hintRoom + r.sumRoom
	case blockcache.Index:
		return r.indexRoom()
	}
	return 0
}

func (r *Reader) priority(kind blockcache.BlockType) blockcache.Priority {
	if kind == blockcache.Data {
		return blockcache.Low
	}
	return blockcache.High
}

// loadBlock reads the block at h from the file.
func (r *Reader) loadBlock(h block.Handle, o fetchOptions) (blockRef, error) {
	if err := r.checkHandle(h); err != nil {
		return blockRef{}, err
	}
	n := int(h.Size) + block.TrailerLen
	if r.mapped != nil && !o.pread {
		return r.loadMapped(h, n, o)
	}
	if o.ahead != nil && r.inMemory {
		if o.guard && !o.fill && o.ahead.pace == nil {
			if raw := mmapfs.Borrow(r.file, int64(h.Offset), int64(n)); raw != nil {
				return r.unpack(h, raw, o, true)
			}
		}
		o.ahead.approach(r, h.Offset, n)
	}
	if o.ahead != nil && !(r.inMemory && o.fill && r.cache != nil) {
		raw, err := o.ahead.read(r, h.Offset, n)
		if err != nil {
			return blockRef{}, err
		}
		if raw != nil {
			return r.unpack(h, raw, o, o.ahead.stable)
		}
	}
	if !r.compressed && o.fill && r.cache != nil {
		// The common case of an uncompressed file: straight into the cache.
		key := r.cacheKey(h)
		if hold, whole := r.cache.Reserve(key, max(n, int(h.Size)+r.room(o.kind)), o.kind, r.priority(o.kind)); hold != 0 {
			buf := whole[:n]
			err := r.readAt(buf, h.Offset)
			if err == nil {
				err = r.checkTrailer(h, buf, o.verify)
			}
			if err != nil || compress.Type(buf[h.Size]) != compress.None {
				var ref blockRef
				if err == nil { // compressed after all
					ref, err = r.unpack(h, buf, fetchOptions{kind: o.kind}, false)
				}
				r.cache.Abort(hold)
				return ref, err
			}
			return r.publish(hold, whole, int(h.Size), h, o, binary.LittleEndian.Uint32(buf[h.Size+1:])), nil
		}
	}
	if !r.compressed {
		buf := make([]byte, n)
		if err := r.readAt(buf, h.Offset); err != nil {
			return blockRef{}, err
		}
		return r.unpack(h, buf, o, true)
	}
	scratch := scratchPool.Get().(*[]byte)
	defer scratchPool.Put(scratch)
	if cap(*scratch) < n {
		*scratch = make([]byte, n)
	}
	buf := (*scratch)[:n]
	if err := r.readAt(buf, h.Offset); err != nil {
		return blockRef{}, err
	}
	return r.unpack(h, buf, o, false)
}

// loadMapped is load through the mapping. It has a guard of its own: MultiGet loads
// on several goroutines, and most faults come while the checksum is verified, where they
// leave nothing held.
func (r *Reader) loadMapped(h block.Handle, n int, o fetchOptions) (_ blockRef, err error) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &err)
	o.fill = o.fill && r.compressed
	return r.unpack(h, r.mapped[h.Offset:][:n:n], o, true)
}

var scratchPool = sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }}

// readAt fills buf from the file, or says where it ends.
func (r *Reader) readAt(buf []byte, off uint64) error {
	n, err := r.file.ReadAt(buf, int64(off))
	if n == len(buf) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return keys.Corruptf(r.name, int64(off)+int64(n), "expected %d bytes of a block, found the end of the file after %d", len(buf), n)
	}
	return err
}

// checkTrailer verifies the checksum of the block whose stored form is raw,
// trailer included.
func (r *Reader) checkTrailer(h block.Handle, raw []byte, verify bool) error {
	if !verify || mutation.On(mutation.IgnoreChecksum) {
		return nil
	}
	n := len(raw) - block.TrailerLen
	stored := binary.LittleEndian.Uint32(raw[n+1:])
	sum := hash.Checksum(r.footer.Checksum, raw[:n], raw[n]) + r.footer.Modifier(h.Offset)
	if sum != stored {
		return keys.Corruptf(r.name, int64(h.Offset), "expected %v checksum %#08x of a block of %d bytes, found %#08x",
			r.footer.Checksum, stored, h.Size, sum)
	}
	return nil
}

// unpack verifies and decompresses the stored form of a block, trailer included,
// into the cache if o says so. stable means that raw may be kept.
func (r *Reader) unpack(h block.Handle, raw []byte, o fetchOptions, stable bool) (blockRef, error) {
	if err := r.checkTrailer(h, raw, o.verify); err != nil {
		return blockRef{}, err
	}
	n := len(raw) - block.TrailerLen
	typ := compress.Type(raw[n])
	body := raw[:n:n]
	if typ == compress.None && stable && (!o.fill || r.mapped != nil && !o.pread) {
		return blockRef{data: body}, nil
	}
	dec := r.decoder
	if o.kind == blockcache.Data {
		dec = r.dataDecoder
	}
	size, body, err := dec.Size(typ, body)
	if err != nil {
		return blockRef{}, keys.Corruptf(r.name, int64(h.Offset), "%v", err)
	}
	if size < 0 {
		out, err := dec.DecodeUnsized(typ, body)
		if err != nil {
			return blockRef{}, keys.Corruptf(r.name, int64(h.Offset), "%v", err)
		}
		typ, body, size = compress.None, out, len(out)
	}
	// A block that is compressed although its file says that none is stays out of
	// the cache, where the handle is taken for the length.
	if o.fill && r.cache != nil && (r.compressed || size == int(h.Size)) {
		key := r.cacheKey(h)
		if hold, buf := r.cache.Reserve(key, size+r.room(o.kind), o.kind, r.priority(o.kind)); hold != 0 {
			if err := r.decodeInto(hold, dec, buf[:size], typ, body); err != nil {
				return blockRef{}, keys.Corruptf(r.name, int64(h.Offset), "%v", err)
			}
			return r.publish(hold, buf, size, h, o, binary.LittleEndian.Uint32(raw[n+1:])), nil
		}
	}
	if typ == compress.None && stable {
		return blockRef{data: body}, nil
	}
	var out []byte
	if o.ahead != nil && o.ahead.stable {
		out = o.ahead.plainRoom(size)
	} else {
		out = make([]byte, size)
	}
	if err := dec.Decode(out, typ, body); err != nil {
		return blockRef{}, keys.Corruptf(r.name, int64(h.Offset), "%v", err)
	}
	return blockRef{data: out}, nil
}

// decodeInto decompresses into memory that Reserve returned, and gives it back after an
// error, or a fault in a mapping.
func (r *Reader) decodeInto(hold blockcache.Handle, dec *compress.Decoder, dst []byte, typ compress.Type, body []byte) (err error) {
	done := false
	defer func() {
		if !done || err != nil {
			r.cache.Abort(hold)
		}
	}()
	err = dec.Decode(dst, typ, body)
	done = true
	return err
}

// publish makes the block of n bytes at the start of buf, which Reserve returned,
// visible. stored is the checksum in the file.
func (r *Reader) publish(hold blockcache.Handle, buf []byte, n int, h block.Handle, o fetchOptions, stored uint32) blockRef {
	kind := o.kind
	size := n + r.room(kind)
	switch {
	case kind == blockcache.Data:
		binary.LittleEndian.PutUint64(buf[size-r.sumRoom-hintTail:], uint64(n)<<32)
		r.putProof(buf[:size], n, h, stored)
	case kind == blockcache.Index && r.sumLen != 0:
		binary.LittleEndian.PutUint32(buf[size-4:], uint32(n))
		r.putProof(buf[:size-4], n, h, stored)
	}
	ours := hold
	hold, buf = r.cache.Publish(hold, size)
	ref := blockRef{data: buf, hold: hold, fresh: hold == ours}
	switch {
	case kind == blockcache.Data:
		n = r.cachedLen(buf, h)
		ref.data = buf[:n:n]
		end := len(buf) - r.sumRoom
		if r.sumLen != 0 || o.ahead == nil && r.cache.Promising(hold) {
			ref.room = buf[n:end] // the block is in the processor's cache now
		}
		if r.sumLen != 0 {
			ref.sumRoom = buf[end:]
		}
	case kind == blockcache.Index && r.sumLen != 0:
		n = r.cachedIndexLen(buf)
		ref.data = buf[:n:n]
		ref.sumRoom = buf[n : len(buf)-4]
	}
	return ref
}

// putProof writes the proof of the n bytes at the start of buf to its end, and that there
// are no sums yet.
func (r *Reader) putProof(buf []byte, n int, h block.Handle, stored uint32) {
	if r.sumLen == 0 {
		return
	}
	if r.ownProof {
		stored = r.proofOf(h, buf[:n])
	}
	tail := buf[len(buf)-sumTail:]
	binary.LittleEndian.PutUint32(tail, stored)
	binary.LittleEndian.PutUint64(tail[4:], 0)
}

// readahead reads ahead of an iterator, or holds the tail of a file while it is
// opened. Not safe for concurrent use.
type readahead struct {
	buf    []byte
	off    uint64 // of buf in the file
	plain  []byte // a block decompressed, for iterators that do not fill the cache
	stable bool   // what read returned stays as it is until the next read
	fixed  int    // bytes to read ahead; 0 grows from auto.start to auto.most
	auto   autoReadahead
	size   int    // the next readahead
	next   uint64 // where a sequential reader comes next
	limit  uint64 // nothing from here on is wanted; 0 if not known
	runs   int    // blocks read in sequence so far
	pace   func(n int)
	near   uint64 // what lies before it was approached already
	came   uint64 // where a sequential reader comes next, and how many blocks it has passed: for approach
	passed int
}

// approachAfter is how many blocks in sequence a reader of a file in memory reads before pages are approached for
// it, unless it asked for readahead.
const approachAfter = 16

// approach has a goroutine touch the pages of a file in memory that a sequential reader comes to next.
func (a *readahead) approach(r *Reader, off uint64, n int) {
	if a.fixed <= block.TrailerLen { // 1 while a file is opened
		if a.fixed > 0 || a.auto.start == 0 {
			return
		}
		if off != a.came {
			a.passed = 0
		}
		a.came = off + uint64(n)
		if a.passed++; a.passed < max(approachAfter, a.auto.after) {
			return
		}
	}
	end := uint64(r.footerStart)
	if a.limit > off {
		end = min(end, a.limit)
	}
	const step = mmapfs.ApproachStep
	if a.near > off+2*step || a.near < off {
		a.near = off // somewhere else
	}
	if off+uint64(n)+step/2 > a.near && a.near < end {
		size := min(step, end-a.near)
		mmapfs.Approach(r.file, int64(a.near), int64(size))
		a.near += size
	}
}

// plainRoom is where a block of n bytes is decompressed to, as stable as what read returned.
func (a *readahead) plainRoom(n int) []byte {
	if cap(a.plain) < n {
		a.plain = make([]byte, max(n, min(2*cap(a.plain), 64<<10)))
	}
	return a.plain[:n:n]
}

// autoReadahead is how readahead adapts: after so many blocks in sequence it begins with
// start bytes, and doubles up to most. With start or most zero there is none.
type autoReadahead struct{ start, most, after int }

// defaultAuto is RocksDB's.
var defaultAuto = autoReadahead{start: 8 << 10, most: 256 << 10, after: 2}

// autoOf fills in the defaults; negative sizes mean no readahead.
func autoOf(o *ReaderOptions) autoReadahead {
	a := defaultAuto
	if o.InitialReadahead != 0 {
		a.start = max(o.InitialReadahead, 0)
	}
	if o.MaxReadahead != 0 {
		a.most = max(o.MaxReadahead, 0)
	}
	if o.ReadaheadAfter != 0 {
		a.after = max(o.ReadaheadAfter, 0)
	}
	a.start = min(a.start, a.most)
	return a
}

// read returns n bytes at off, borrowed until the next read, or nil when the
// caller had better read them itself.
func (a *readahead) read(r *Reader, off uint64, n int) ([]byte, error) {
	if off >= a.off && off+uint64(n) <= a.off+uint64(len(a.buf)) {
		a.next = off + uint64(n)
		return a.buf[off-a.off:][:n:n], nil
	}
	sequential := off == a.next
	a.next = off + uint64(n)
	size := a.fixed
	if r.inMemory && a.pace == nil {
		size = n // a reader that is paced asks for more at a time
	} else if size == 0 {
		if !sequential {
			a.runs, a.size = 0, a.auto.start
		} else {
			a.runs++
		}
		if a.auto.start == 0 || a.runs < a.auto.after {
			return nil, nil
		}
		size = a.size
		a.size = min(2*a.size, a.auto.most)
	}
	end := uint64(r.footerStart)
	if a.limit > off {
		end = min(end, a.limit)
	}
	size = max(n, int(min(uint64(size), end-off)))
	if cap(a.buf) < size {
		a.buf = make([]byte, size)
	}
	a.buf, a.off = a.buf[:size], off
	if a.pace != nil {
		a.pace(size)
	}
	if err := r.readAt(a.buf, off); err != nil {
		a.buf = a.buf[:0]
		return nil, err
	}
	return a.buf[:n:n], nil
}
