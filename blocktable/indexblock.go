package blocktable

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// indexFormat is how a file's index blocks are encoded. It holds for partitions,
// the top-level block and the index of filter partitions alike.
type indexFormat struct {
	// userKeys: separators are bare user keys, without a trailer.
	userKeys bool
	// delta: entries have no value length, and a handle may be told as the change
	// of its size, its block following right after the one before.
	delta bool
	// firstKey: the first internal key of the data block follows the handle.
	firstKey bool
}

// indexIter is a cursor over an index block:
//
//	entry := varint32 shared ‖ varint32 nonshared ‖ [varint32 valuelen] ‖
//	         key[shared:] ‖ value
//	value := handle, or with delta and shared > 0 zigzag64 size change,
//	         ‖ [length-prefixed first key]
//
// The zero value is ready for init.
type indexIter struct {
	order keys.Order
	f     indexFormat
	file  string
	base  int64

	b        []byte
	end      int
	n        int
	off, nxt int
	key      []byte
	handle   block.Handle
	valid    bool
	err      error

	sums sumTable // of the block, if what is found is to be checked; see indexcheck.go
	ord  int      // number of the current entry, if restart points are evenly spaced
	from int      // ord when the entry was last checked
}

func (x *indexIter) corrupt(off int, format string, args ...any) bool {
	x.valid = false
	x.err = keys.Corruptf(x.file, x.base+int64(off), format, args...)
	return false
}

func (x *indexIter) init(b []byte, base uint64) bool {
	x.b, x.base, x.valid, x.err = b, int64(base), false, nil
	x.sums = sumTable{}
	if len(b) < 8 {
		return x.corrupt(0, "expected an index block of at least 8 bytes, found %d", len(b))
	}
	at := len(b) - 4
	x.n = int(binary.LittleEndian.Uint32(b[at:]) & restartMask)
	if x.n == 0 || x.n > at/4 {
		return x.corrupt(at, "expected 1 to %d restart points, found %d", at/4, x.n)
	}
	x.end = at - 4*x.n
	return true
}

// read decodes the entry at off; its predecessor's key is x.key, and its
// predecessor's handle x.handle, unless fresh.
func (x *indexIter) read(off int, fresh bool) bool {
	b := x.b[off:x.end]
	if fresh {
		x.key = x.key[:0]
	}
	shared, b, ok := coding.Uvarint32(b)
	var nonshared, vlen uint32
	if ok {
		nonshared, b, ok = coding.Uvarint32(b)
	}
	if ok && !x.f.delta {
		vlen, b, ok = coding.Uvarint32(b)
	}
	least := uint32(8)
	if x.f.userKeys {
		least = 0
	}
	if !ok || int(shared) > len(x.key) || uint64(nonshared)+uint64(vlen) > uint64(len(b)) || shared+nonshared < least {
		return x.corrupt(off, "expected an index entry that shares at most %d and stores at most %d bytes, found %d and %d+%d",
			len(x.key), len(b), shared, nonshared, vlen)
	}
	x.key = append(x.key[:shared], b[:nonshared]...)
	b = b[nonshared:]
	if shared > 0 && x.f.delta {
		change, n := binary.Varint(b)
		size := int64(x.handle.Size) + change
		if n <= 0 || size < 0 || size > 1<<40 {
			return x.corrupt(off, "expected the change of a block's size from %d, found %d", x.handle.Size, change)
		}
		x.handle = block.Handle{Offset: x.handle.Offset + x.handle.Size + block.TrailerLen, Size: uint64(size)}
		b = b[n:]
	} else {
		value := b
		if !x.f.delta {
			value = b[:vlen]
		}
		h, rest, ok := block.DecodeHandle(value)
		if !ok {
			return x.corrupt(off, "expected a handle in an index entry, found % x", value[:min(len(value), 20)])
		}
		x.handle = h
		if x.f.delta {
			b = rest
		} else {
			b = b[vlen:]
		}
	}
	if x.f.firstKey && x.f.delta {
		if _, b, ok = coding.Slice(b); !ok {
			return x.corrupt(off, "expected the first key of a block in its index entry")
		}
	}
	x.off, x.nxt, x.valid = off, x.end-len(b), true
	x.ord++
	return true
}

func (x *indexIter) restart(i int) (int, bool) {
	off := int(binary.LittleEndian.Uint32(x.b[x.end+4*i:]))
	if off >= x.end && !(off == 0 && x.end == 0) {
		return 0, x.corrupt(x.end+4*i, "expected a restart point below %d, found %d", x.end, off)
	}
	return off, true
}

func (x *indexIter) atRestart(i int) bool {
	off, ok := x.restart(i)
	if !ok {
		return false
	}
	if off >= x.end {
		x.valid = false
		return false
	}
	x.ord = i*x.sums.interval - 1
	return x.read(off, true)
}

func (x *indexIter) first() bool {
	if x.sums.count > 0 {
		return x.toEntry(0)
	}
	return x.atRestart(0)
}

func (x *indexIter) next() bool {
	if x.sums.count > 0 {
		return x.nextChecked()
	}
	return x.toNext()
}

func (x *indexIter) toNext() bool {
	if x.nxt >= x.end {
		x.valid = false
		return false
	}
	return x.read(x.nxt, false)
}

func (x *indexIter) last() bool {
	if x.sums.count > 0 {
		return x.toEntry(x.sums.count - 1)
	}
	if !x.atRestart(x.n - 1) {
		return false
	}
	for x.nxt < x.end {
		if !x.read(x.nxt, false) {
			return false
		}
	}
	return true
}

func (x *indexIter) prev() bool {
	if x.sums.count > 0 {
		return x.toEntry(x.from - 1)
	}
	target := x.off
	lo, hi := 0, x.n
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if int(binary.LittleEndian.Uint32(x.b[x.end+4*mid:])) < target {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		x.valid = false
		return false
	}
	if !x.atRestart(lo - 1) {
		return false
	}
	for x.nxt < target {
		if !x.read(x.nxt, false) {
			return false
		}
	}
	return true
}

// compare orders the current separator against a target.
func (x *indexIter) compare(userKey []byte, trailer uint64) int {
	return compareSeparator(x.order, x.f.userKeys, x.key, userKey, trailer)
}

// compareSeparator orders a separator against a target. A bare user key stands
// for the last entry of that key.
func compareSeparator(o keys.Order, bare bool, sep, userKey []byte, trailer uint64) int {
	if bare {
		return o.Compare(sep, userKey)
	}
	n := len(sep) - 8
	if n < 0 {
		return -1 // damaged in memory
	}
	return o.CompareInternal(sep[:n], binary.LittleEndian.Uint64(sep[n:]), userKey, trailer)
}

// seekGE moves to the first separator at or after the target.
func (x *indexIter) seekGE(userKey []byte, trailer uint64) bool {
	lo, hi := 0, x.n-1
	for lo < hi {
		mid := int(uint(lo+hi+1) >> 1)
		if !x.atRestart(mid) {
			if x.err == nil {
				x.corrupt(x.end+4*mid, "expected an entry at restart point %d", mid)
			}
			return false
		}
		if x.compare(userKey, trailer) < 0 {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	if !x.atRestart(lo) {
		return false
	}
	if x.sums.count > 0 {
		return x.scanChecked(userKey, trailer)
	}
	for x.compare(userKey, trailer) < 0 {
		if !x.next() {
			return false
		}
	}
	return true
}
