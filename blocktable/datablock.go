package blocktable

import (
	"bytes"
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/prefetch"
)

// Flags of the packed restart count at the end of a data block.
const (
	flagHashIndex = 1 << 31
	flagReserved  = 1 << 30
	flagUniform   = 1 << 29 // keys spread evenly; a hint that needs no heeding
	flagSeparated = 1 << 28
	restartMask   = 1<<28 - 1

	// seekAhead is how many bytes of a block a seek asks for: the entries up to the one it
	// looks for, each of which is where the one before says, and those after it.
	seekAhead = 2 << 10

	// maxHashBlock is the largest block in which the hash index flag counts.
	maxHashBlock = 64 << 10
)

// Buckets of the data block hash index.
const (
	bucketCollision = 254
	bucketEmpty     = 255
)

// dataIter is a cursor over a data block:
//
//	block   := entry* ‖ [values] ‖ fixed32 restart[R] ‖ [bucket[B] ‖ fixed16 B] ‖
//	           [fixed32 values offset] ‖ packed R
//	entry   := varint32 shared ‖ varint32 nonshared ‖ varint32 valuelen ‖
//	           key[shared:] ‖ value                 together
//	         | … valuelen ‖ [varint32 value offset, at restart points] ‖ key[shared:]
//	                                                values apart
//	key     := user key ‖ fixed64 trailer
//
// The zero value is ready for init; it keeps its buffers from block to block.
// UserKey and value are borrowed until the next move.
type dataIter struct {
	order keys.Order
	gseq  uint64 // replaces every sequence number when not zero
	file  string
	base  int64 // offset of the block in the file, for errors

	b        []byte
	end      int // of the entries
	restarts int // offset of the restart array
	n        int // restart points
	values   int // offset of the values when they are apart, else -1
	hash     []byte

	off, next int // of the current entry and of the one after it
	key       []byte
	trailer   uint64
	val       []byte
	nextVal   int // where the next value lies, when apart
	valid     bool
	err       error

	sums sumTable // of the block, if what is found is to be checked; see datacheck.go
	ord  int      // number of the current entry in the block, if restart points are evenly spaced
	from int      // ord when the entry was last checked

	// prev holds the entries of the restart interval that Prev walks backward.
	prev    []prevEntry
	prevBuf []byte
	prevAt  int // the current entry in prev; -1 when prev is not in use
}

// prevEntry is an entry that Prev has decoded.
type prevEntry struct {
	off, next, nextVal int
	keyStart, keyEnd   int
	val                []byte
}

func (d *dataIter) corrupt(off int, format string, args ...any) bool {
	d.valid = false
	d.err = keys.Corruptf(d.file, d.base+int64(off), format, args...)
	return false
}

// init begins on block b, which starts at base of the file; b stays the
// caller's. It leaves the cursor before the first entry.
func (d *dataIter) init(b []byte, base uint64) bool {
	d.b, d.base = b, int64(base)
	d.valid, d.err, d.prevAt, d.values, d.hash = false, nil, -1, -1, nil
	d.sums = sumTable{}
	d.off, d.next = 0, 0
	d.key = d.key[:0]
	if len(b) < 8 {
		return d.corrupt(0, "expected a data block of at least 8 bytes, found %d", len(b))
	}
	at := len(b) - 4
	packed := binary.LittleEndian.Uint32(b[at:])
	if packed&flagReserved != 0 {
		return d.corrupt(at, "expected no reserved flag in the restart count, found %#x", packed)
	}
	values := 0
	if packed&flagSeparated != 0 {
		at -= 4
		if at < 4 {
			return d.corrupt(at, "expected the offset of the values, found a block of %d bytes", len(b))
		}
		values = int(binary.LittleEndian.Uint32(b[at:]))
	}
	if packed&flagHashIndex != 0 && len(b) <= maxHashBlock {
		if at -= 2; at < 4 {
			return d.corrupt(at, "expected a hash index, found a block of %d bytes", len(b))
		}
		buckets := int(binary.LittleEndian.Uint16(b[at:]))
		if at -= buckets; buckets == 0 || at < 4 {
			return d.corrupt(at, "expected a hash index that fits, found %d buckets", buckets)
		}
		d.hash = b[at : at+buckets]
	}
	d.n = int(packed & restartMask)
	if d.n == 0 || d.n > at/4 {
		return d.corrupt(len(b)-4, "expected 1 to %d restart points, found %d", at/4, d.n)
	}
	d.restarts = at - 4*d.n
	d.end = d.restarts
	if packed&flagSeparated != 0 {
		if values > d.restarts {
			return d.corrupt(at, "expected values before %d, found %d", d.restarts, values)
		}
		d.values, d.end = values, values
	}
	return true
}

// restart is the offset of restart point i; ok is false when it is outside.
func (d *dataIter) restart(i int) (off int, ok bool) {
	off = int(binary.LittleEndian.Uint32(d.b[d.restarts+4*i:]))
	if off >= d.end && !(off == 0 && d.end == 0) {
		return 0, d.corrupt(d.restarts+4*i, "expected a restart point below %d, found %d", d.end, off)
	}
	return off, true
}

// entryHeader decodes the lengths of the entry at off; at is where the key starts.
func (d *dataIter) entryHeader(off int) (shared, nonshared, vlen uint32, at int, ok bool) {
	b := d.b[off:d.end]
	if len(b) >= 3 && b[0]|b[1]|b[2] < 0x80 {
		return uint32(b[0]), uint32(b[1]), uint32(b[2]), off + 3, true
	}
	if len(b) >= 4 && b[0]|b[1]|b[3] < 0x80 { // values from 128 bytes on
		return uint32(b[0]), uint32(b[1]), uint32(b[2]&0x7f) | uint32(b[3])<<7, off + 4, true
	}
	rest := b
	if shared, rest, ok = coding.Uvarint32(rest); ok {
		if nonshared, rest, ok = coding.Uvarint32(rest); ok {
			vlen, rest, ok = coding.Uvarint32(rest)
		}
	}
	if !ok {
		return 0, 0, 0, 0, d.corrupt(off, "expected three varints before an entry, found % x", b[:min(len(b), 15)])
	}
	return shared, nonshared, vlen, d.end - len(rest), true
}

// read decodes the entry at off, whose predecessor's key is d.key. isRestart says
// that off is a restart point.
func (d *dataIter) read(off int, isRestart bool) bool {
	shared, nonshared, vlen, at, ok := d.entryHeader(off)
	if !ok {
		return false
	}
	d.ord++
	if d.values >= 0 {
		return d.readApart(off, at, shared, nonshared, vlen, isRestart)
	}
	if int(shared) > len(d.key) || uint64(nonshared)+uint64(vlen) > uint64(d.end-at) || shared+nonshared < 8 {
		return d.corrupt(off, "expected an entry with an internal key, at most %d shared and %d stored bytes, found %d and %d+%d",
			len(d.key), d.end-at, shared, nonshared, vlen)
	}
	keyEnd := at + int(nonshared)
	d.key = append(d.key[:shared], d.b[at:keyEnd]...)
	d.off, d.next = off, keyEnd+int(vlen)
	d.val = d.b[keyEnd:d.next:d.next]
	d.setTrailer()
	return true
}

// readApart is the rest of read for blocks that keep their values apart.
func (d *dataIter) readApart(off, at int, shared, nonshared, vlen uint32, isRestart bool) bool {
	if isRestart || shared == 0 && d.isRestart(off) {
		v, rest, ok := coding.Uvarint32(d.b[at:d.end])
		if !ok || uint64(v) > uint64(d.restarts-d.values) {
			return d.corrupt(at, "expected the offset of a value below %d", d.restarts-d.values)
		}
		at, d.nextVal = d.end-len(rest), d.values+int(v)
	}
	if int(shared) > len(d.key) || uint64(nonshared) > uint64(d.end-at) || shared+nonshared < 8 ||
		d.nextVal < d.values || uint64(vlen) > uint64(d.restarts-d.nextVal) {
		return d.corrupt(off, "expected an entry with an internal key, at most %d shared, %d stored and %d value bytes, found %d, %d and %d",
			len(d.key), d.end-at, d.restarts-d.nextVal, shared, nonshared, vlen)
	}
	d.key = append(d.key[:shared], d.b[at:at+int(nonshared)]...)
	d.off, d.next = off, at+int(nonshared)
	d.val = d.b[d.nextVal : d.nextVal+int(vlen) : d.nextVal+int(vlen)]
	d.nextVal += int(vlen)
	d.setTrailer()
	return true
}

func (d *dataIter) setTrailer() {
	d.trailer = binary.LittleEndian.Uint64(d.key[len(d.key)-8:])
	if d.gseq != 0 {
		d.trailer = d.gseq<<8 | d.trailer&0xff
	}
	d.valid = true
}

// isRestart reports whether off is a restart point.
func (d *dataIter) isRestart(off int) bool {
	i := d.restartBefore(off + 1)
	return i >= 0 && int(binary.LittleEndian.Uint32(d.b[d.restarts+4*i:])) == off
}

// restartBefore is the last restart point below off, or -1.
func (d *dataIter) restartBefore(off int) int {
	lo, hi := 0, d.n
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if int(binary.LittleEndian.Uint32(d.b[d.restarts+4*mid:])) < off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

func (d *dataIter) userKey() []byte { n := len(d.key) - 8; return d.key[:n:n] }

// compare orders the current entry against (userKey, trailer).
func (d *dataIter) compare(userKey []byte, trailer uint64) int {
	return d.order.CompareInternal(d.key[:len(d.key)-8], d.trailer, userKey, trailer)
}

// atRestart moves to restart point i.
func (d *dataIter) atRestart(i int) bool {
	d.prevAt = -1
	off, ok := d.restart(i)
	if !ok {
		return false
	}
	if off >= d.end { // a block without entries
		d.valid = false
		return false
	}
	d.key = d.key[:0]
	d.ord = i*d.sums.interval - 1
	return d.read(off, true)
}

// first moves to the first entry.
func (d *dataIter) first() bool {
	if d.sums.count > 0 {
		return d.firstChecked()
	}
	return d.atRestart(0)
}

// last moves to the last entry.
func (d *dataIter) last() bool {
	if d.sums.count > 0 {
		return d.lastChecked()
	}
	return d.toLast()
}

func (d *dataIter) toLast() bool {
	if !d.atRestart(d.n - 1) {
		return false
	}
	for d.next < d.end {
		if !d.read(d.next, false) {
			return false
		}
	}
	return true
}

// forward moves to the next entry.
func (d *dataIter) forward() bool {
	if d.sums.count > 0 {
		return d.forwardChecked()
	}
	d.prevAt = -1
	if d.next >= d.end {
		d.valid = false
		return false
	}
	return d.read(d.next, false)
}

// backward moves to the entry before the current one.
func (d *dataIter) backward() bool {
	if d.sums.count > 0 {
		return d.backwardChecked()
	}
	return d.toPrevious()
}

func (d *dataIter) toPrevious() bool {
	if d.prevAt > 0 {
		d.take(d.prevAt - 1)
		d.ord--
		return true
	}
	target := d.off
	i := d.restartBefore(target)
	if i < 0 {
		d.valid, d.prevAt = false, -1
		return false
	}
	// Decode the interval that ends before the current entry.
	d.prev, d.prevBuf = d.prev[:0], d.prevBuf[:0]
	if !d.atRestart(i) {
		return false
	}
	for {
		start := len(d.prevBuf)
		d.prevBuf = append(d.prevBuf, d.key...)
		d.prev = append(d.prev, prevEntry{d.off, d.next, d.nextVal, start, len(d.prevBuf), d.val})
		if d.next >= target {
			break
		}
		if !d.read(d.next, false) {
			return false
		}
	}
	if d.next != target {
		return d.corrupt(d.off, "expected an entry that ends at %d, found one that ends at %d", target, d.next)
	}
	d.prevAt = len(d.prev) - 1
	return true
}

func (d *dataIter) take(i int) {
	e := &d.prev[i]
	d.prevAt = i
	d.off, d.next, d.nextVal, d.val = e.off, e.next, e.nextVal, e.val
	d.key = append(d.key[:0], d.prevBuf[e.keyStart:e.keyEnd]...)
	d.setTrailer()
}

// seekGE moves to the first entry at or after (userKey, trailer).
func (d *dataIter) seekGE(userKey []byte, trailer uint64) bool {
	if d.sums.count > 0 {
		return d.seekGEChecked(userKey, trailer)
	}
	i, ok := d.searchRestarts(userKey, trailer)
	if !ok {
		return false
	}
	if off, ok := d.restart(i); ok {
		prefetch.Span(d.b, off, min(off+seekAhead, d.end))
	}
	if !d.atRestart(i) {
		return false
	}
	return d.scanGE(userKey, trailer, d.end)
}

// scanGE goes on from the current entry to the first at or after the target, but
// not to one at limit or beyond.
func (d *dataIter) scanGE(userKey []byte, trailer uint64, limit int) bool {
	if !d.order.Bytewise() {
		for d.compare(userKey, trailer) < 0 {
			if d.next >= limit {
				d.valid = false
				return false
			}
			if !d.read(d.next, false) {
				return false
			}
		}
		return true
	}
	for {
		uk := d.key[:len(d.key)-8]
		c := bytes.Compare(uk, userKey)
		if c > 0 || c == 0 && d.trailer <= trailer {
			return true
		}
		if d.next >= limit {
			d.valid = false
			return false
		}
		if !d.read(d.next, false) {
			return false
		}
	}
}

// searchRestarts finds the last restart point whose key is before the target, or
// the first restart point.
func (d *dataIter) searchRestarts(userKey []byte, trailer uint64) (i int, ok bool) {
	lo, hi := 0, d.n-1
	for lo < hi {
		mid := int(uint(lo+hi+1) >> 1)
		off, ok := d.restart(mid)
		if !ok {
			return 0, false
		}
		uk, t, ok := d.restartKey(off)
		if !ok {
			return 0, false
		}
		if d.order.CompareInternal(uk, t, userKey, trailer) < 0 {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo, true
}

// restartKey is the key of the entry at restart point off, borrowed from the block.
func (d *dataIter) restartKey(off int) (userKey []byte, trailer uint64, ok bool) {
	if off >= d.end {
		return nil, 0, d.corrupt(off, "expected a restart point below %d", d.end)
	}
	shared, nonshared, _, at, ok := d.entryHeader(off)
	if !ok {
		return nil, 0, false
	}
	if d.values >= 0 {
		_, rest, ok := coding.Uvarint32(d.b[at:d.end])
		if !ok {
			return nil, 0, d.corrupt(at, "expected the offset of a value")
		}
		at = d.end - len(rest)
	}
	if shared != 0 || nonshared < 8 || uint64(nonshared) > uint64(d.end-at) {
		return nil, 0, d.corrupt(off, "expected a whole internal key of at most %d bytes at a restart point, found %d shared and %d stored", d.end-at, shared, nonshared)
	}
	k := d.b[at : at+int(nonshared)]
	trailer = binary.LittleEndian.Uint64(k[len(k)-8:])
	if d.gseq != 0 {
		trailer = d.gseq<<8 | trailer&0xff
	}
	return k[:len(k)-8], trailer, true
}

// seekLT moves to the last entry before (userKey, trailer).
func (d *dataIter) seekLT(userKey []byte, trailer uint64) bool {
	if d.seekGE(userKey, trailer) {
		return d.backward()
	}
	if d.err != nil {
		return false
	}
	return d.last()
}

// get finds the first entry of userKey at or after trailer. more says that the
// search has to go on in the next block: every entry of this one is before the
// target, and no separator says that the key ends here. whole says that no user
// key goes on in another block.
func (d *dataIter) get(userKey []byte, trailer uint64, whole bool) (found, more bool) {
	if d.sums.count > 0 {
		// The hash index could be damaged too: an answer comes from between two checked entries.
		if !d.seekGEChecked(userKey, trailer) {
			return false, d.err == nil && !whole
		}
		return d.order.Compare(d.userKey(), userKey) == 0, false
	}
	if whole && d.hash != nil {
		bucket := d.hash[hash.Slice(userKey)%uint32(len(d.hash))]
		switch {
		case bucket == bucketEmpty:
			return false, false
		case bucket != bucketCollision:
			if int(bucket) >= d.n {
				d.corrupt(d.restarts, "expected a bucket below %d, found %d", d.n, bucket)
				return false, false
			}
			limit := d.end
			if int(bucket)+1 < d.n {
				var ok bool
				if limit, ok = d.restart(int(bucket) + 1); !ok {
					return false, false
				}
			}
			if !d.atRestart(int(bucket)) || !d.scanGE(userKey, trailer, limit) {
				return false, false
			}
			return d.order.Compare(d.userKey(), userKey) == 0, false
		}
	}
	if d.values < 0 && d.gseq == 0 && d.order.Bytewise() {
		if found, more, ok := d.getBytewise(userKey, trailer, whole); ok {
			return found, more
		}
		d.err = nil // the search below finds out again
	}
	if !d.seekGE(userKey, trailer) {
		return false, d.err == nil && !whole
	}
	return d.order.Compare(d.userKey(), userKey) == 0, false
}

// getBytewise is get for keys in byte order, and puts no key together: it follows how
// many bytes of the target the current key, which is before it, begins with. An entry
// that shares more than those with the key before it is before the target as well.
// ok is false if the entries are damaged or not of a kind that it knows; the cursor
// is then anywhere.
func (d *dataIter) getBytewise(userKey []byte, trailer uint64, whole bool) (found, more, ok bool) {
	i, ok := d.searchRestarts(userKey, trailer)
	if !ok {
		return false, false, false
	}
	at, ok := d.restart(i)
	if !ok {
		return false, false, false
	}
	same, last := 0, 0 // last is the length of the user key before
	for at < d.end {
		shared, nonshared, vlen, key, ok := d.entryHeader(at)
		if !ok || nonshared < keys.TrailerLen || uint64(nonshared)+uint64(vlen) > uint64(d.end-key) ||
			int(shared) > last { // or it shares bytes of the trailer
			return false, false, false
		}
		last = int(shared+nonshared) - keys.TrailerLen
		end := key + int(nonshared) - keys.TrailerLen
		at = end + keys.TrailerLen + int(vlen)
		if int(shared) > same {
			continue
		}
		stored, want := d.b[key:end], userKey[shared:]
		n := block.SharedLen(stored, want)
		switch same = int(shared) + n; {
		case n < len(stored) && n < len(want) && stored[n] < want[n] || n == len(stored) && n < len(want):
			continue
		case n < len(stored):
			return false, false, true // beyond the target
		}
		if d.trailer = binary.LittleEndian.Uint64(d.b[end:]); d.trailer > trailer {
			continue // the key, but newer
		}
		d.val = d.b[end+keys.TrailerLen : at : at]
		return true, false, true
	}
	return false, !whole, true
}
