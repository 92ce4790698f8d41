package plaintable

import (
	"sync"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/prefetch"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// iterator implements table.Iterator. A plain table has no order but that of its
// rows; the row index gives it the rest: seeks bisect it, and a step back reads the
// rows between two of its entries once and remembers where they are.
//
// Keys and values are borrowed from the file's memory; if Reader.CanFault, who
// reads them needs the guard.
type iterator struct {
	r     *Reader
	v     *view
	cur   row
	st    run // of cur
	key   []byte
	buf   []byte
	valid bool
	err   error

	// segment holds rows that follow each other, for Prev; at is the place of cur in it if
	// its offset says so.
	segment []segmentRow
	at      int
}

// segmentRow is enough to decode a row without the rows before it.
type segmentRow struct {
	off    uint32
	base   uint32 // offset of the row with the run's full key
	shared int32  // of the run, -1 if not told yet
}

// maxSegment bounds the rows that are remembered; a longer distance between two
// seekable rows is read more than once.
const maxSegment = 4096

// NewIterator returns an iterator over the file as it is in memory now. The
// options are for block-based tables, and have no effect.
func (r *Reader) NewIterator(table.IterOptions) table.Iterator {
	it := iterators.Get().(*iterator)
	it.r, it.v = r, r.view.Load().near()
	return it
}

// iterators are closed ones: a seek makes and closes one for each file that it looks into.
var iterators = sync.Pool{New: func() any { return new(iterator) }}

func (it *iterator) Valid() bool     { return it.valid }
func (it *iterator) UserKey() []byte { return it.key }
func (it *iterator) Trailer() uint64 { return it.cur.trailer }
func (it *iterator) Value() []byte   { return it.cur.value }
func (it *iterator) Err() error      { return it.err }

// Close gives the iterator back; it must not be used afterwards.
func (it *iterator) Close() error {
	if it.r == nil {
		return nil // closed already
	}
	err := it.err
	*it = iterator{buf: it.buf[:0], segment: it.segment[:0]}
	iterators.Put(it)
	return err
}

func (it *iterator) SeekGE(userKey []byte, trailer uint64) bool {
	if !it.begin("Seek()") {
		return false
	}
	if it.v.rowsFault {
		return it.seekGEGuarded(userKey, trailer)
	}
	return it.seekGE(userKey, trailer)
}

func (it *iterator) seekGEGuarded(userKey []byte, trailer uint64) (ok bool) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &it.err)
	return it.seekGE(userKey, trailer)
}

func (it *iterator) SeekPrefixGE(look *keys.Lookup, trailer uint64) bool {
	if !it.begin("Seek()") {
		return false
	}
	if it.v.rowsFault {
		return it.seekPrefixGuarded(look, trailer)
	}
	return it.seekPrefixGE(look, trailer)
}

func (it *iterator) seekPrefixGuarded(look *keys.Lookup, trailer uint64) (ok bool) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &it.err)
	return it.seekPrefixGE(look, trailer)
}

func (it *iterator) SeekLT(userKey []byte, trailer uint64) bool {
	if !it.begin("SeekForPrev()") {
		return false
	}
	if it.v.rowsFault {
		return it.seekLTGuarded(userKey, trailer)
	}
	return it.seekLT(userKey, trailer)
}

func (it *iterator) seekLTGuarded(userKey []byte, trailer uint64) (ok bool) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &it.err)
	return it.seekLT(userKey, trailer)
}

// First is allowed in full scan mode, as are Next, Last and Prev.
func (it *iterator) First() bool {
	it.reset()
	if it.v.rowsFault {
		return it.moveGuarded((*iterator).first)
	}
	return it.first()
}

func (it *iterator) Last() bool {
	it.reset()
	if it.v.rowsFault {
		return it.moveGuarded((*iterator).last)
	}
	return it.last()
}

func (it *iterator) Next() bool {
	it.valid = false
	if it.v.rowsFault {
		return it.moveGuarded((*iterator).next)
	}
	return it.next()
}

func (it *iterator) Prev() bool {
	it.valid = false
	if it.v.rowsFault {
		return it.moveGuarded((*iterator).prev)
	}
	return it.prev()
}

func (it *iterator) moveGuarded(move func(*iterator) bool) (ok bool) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &it.err)
	return move(it)
}

func (it *iterator) reset() { it.valid, it.err = false, nil }

// begin starts a seek, which full scan mode refuses.
func (it *iterator) begin(call string) bool {
	it.reset()
	if it.v.noSeek {
		it.err = errFullScan(call)
		return false
	}
	return true
}

func (it *iterator) fail(off int, d damage) bool {
	it.err = it.v.damaged(off, d)
	return false
}

// load moves to the row at off, which st leads to.
func (it *iterator) load(off int) bool {
	if d := it.v.format.decode(it.v.rows, off, &it.st, &it.cur); d != intact {
		return it.fail(off, d)
	}
	it.key = it.cur.key
	if it.cur.shared >= 0 {
		it.key, it.buf = it.cur.userKey(&it.st, it.buf)
	}
	it.valid = true
	return true
}

// land is loadSeekable where a seek ends, or nearly.
func (it *iterator) land(off int) bool {
	prefetch.Span(it.v.rows, off, off+seekAhead)
	return it.loadSeekable(off)
}

// seekAhead is how many bytes of rows a seek asks for: a few rows, which most who seek go on
// to read. Who reads more goes in order, and processors foresee that.
const seekAhead = 12 * prefetch.Line

// loadSeekable moves to the row at off, which an index points to.
func (it *iterator) loadSeekable(off int) bool {
	it.st = run{}
	if d := it.v.rowAt(off, &it.st, &it.cur); d != intact {
		return it.fail(off, d)
	}
	it.key = it.cur.key
	it.valid = true
	return true
}

func (it *iterator) first() bool {
	return len(it.v.rows) > 0 && it.land(0)
}

func (it *iterator) next() bool {
	return it.cur.next < len(it.v.rows) && it.load(it.cur.next)
}

// forward walks from a valid position to the first row at or after (userKey, trailer).
func (it *iterator) forward(userKey []byte, trailer uint64) bool {
	for it.valid && it.v.order.CompareInternal(it.key, it.cur.trailer, userKey, trailer) < 0 {
		it.valid = false
		it.next()
	}
	return it.valid
}

func (it *iterator) seekGE(userKey []byte, trailer uint64) bool {
	if it.v.series != nil {
		return it.seekSeries(userKey, trailer)
	}
	x, err := it.r.rowIndexOf(it.v)
	if err != nil || x.len() == 0 {
		it.err = err
		return false
	}
	// The last entry before the target is in [low, high); entry 0 stands in if none is.
	low, high := 0, x.len()
	for high-low > 1 {
		mid := int(uint(low+high) / 2)
		if !it.loadSeekable(x.at(mid)) {
			return false
		}
		it.valid = false
		if it.v.order.CompareInternal(it.key, it.cur.trailer, userKey, trailer) < 0 {
			low = mid
		} else {
			high = mid
		}
	}
	return it.land(x.at(low)) && it.forward(userKey, trailer)
}

func (it *iterator) seekSeries(userKey []byte, trailer uint64) bool {
	off := it.v.series.lowerBound(it.v.rows, userKey)
	return off < len(it.v.rows) && it.land(off) && it.forward(userKey, trailer)
}

func (it *iterator) seekPrefixGE(look *keys.Lookup, trailer uint64) bool {
	prefix := look.UserKey[:look.PrefixLen]
	if !it.v.lookHash || it.v.series != nil {
		return it.seekGE(look.UserKey, trailer) && it.inPrefix(prefix)
	}
	p := it.v.place(look.Hash)
	if p.line {
		if !it.land(int(p.at)) {
			return false
		}
		if it.inPrefix(prefix) {
			return it.forward(look.UserKey, trailer) && it.inPrefix(prefix)
		}
		if !p.maybe {
			return false
		}
		p = place{at: it.v.probe(look.Hash)}
	}
	if p.none() {
		return false
	}
	off, checked, ok, err := it.v.locate(look.UserKey, trailer, look.PrefixLen, p.at)
	if !ok {
		it.err = err
		return false
	}
	if !it.land(off) {
		return false
	}
	if !checked && !it.inPrefix(prefix) {
		return false
	}
	return it.forward(look.UserKey, trailer) && it.inPrefix(prefix)
}

// inPrefix keeps the position if the family's extractor gives prefix.
func (it *iterator) inPrefix(prefix []byte) bool {
	n := len(prefix)
	if e := it.r.o.Extractor; e != nil {
		n = e.PrefixLen(it.key)
	}
	it.valid = n == len(prefix) && len(it.key) >= n && string(it.key[:n]) == string(prefix)
	return it.valid
}

func (it *iterator) seekLT(userKey []byte, trailer uint64) bool {
	if it.seekGE(userKey, trailer) {
		it.valid = false
		return it.prev()
	}
	return it.err == nil && it.last()
}

func (it *iterator) last() bool { return it.before(len(it.v.rows)) }

// prev moves to the row before cur.
func (it *iterator) prev() bool {
	if it.at > 0 && it.at < len(it.segment) && int(it.segment[it.at].off) == it.cur.off {
		it.at--
		return it.loadSegment()
	}
	return it.before(it.cur.off)
}

// before moves to the row that ends at end, by reading the rows from the last
// entry of the row index before it.
func (it *iterator) before(end int) bool {
	if end <= 0 {
		return false
	}
	x, err := it.r.rowIndexOf(it.v)
	if err != nil || x.len() == 0 {
		it.err = err
		return false
	}
	low, high := 0, x.len()
	for high-low > 1 {
		if mid := int(uint(low+high) / 2); x.at(mid) < end {
			low = mid
		} else {
			high = mid
		}
	}
	it.segment, it.at = it.segment[:0], 0
	var st run
	var r row
	base, off := 0, x.at(low)
	for off < end {
		if d := it.v.format.decode(it.v.rows, off, &st, &r); d != intact {
			return it.fail(off, d)
		}
		if r.shared < 0 {
			base = off
		}
		if len(it.segment) == 2*maxSegment {
			it.segment = it.segment[:copy(it.segment, it.segment[maxSegment:])]
		}
		it.segment = append(it.segment, segmentRow{uint32(off), uint32(base), int32(st.shared)})
		off = r.next
	}
	if off != end || len(it.segment) == 0 {
		it.err = keys.Corruptf(it.v.file, int64(x.at(low)), "expected rows from an entry of the row index to end at %d, found the end of one at %d", end, off)
		return false
	}
	it.at = len(it.segment) - 1
	return it.loadSegment()
}

// loadSegment moves to row at of the segment.
func (it *iterator) loadSegment() bool {
	s := it.segment[it.at]
	it.st = run{}
	if s.base != s.off {
		if d := it.v.rowAt(int(s.base), &it.st, &it.cur); d != intact {
			return it.fail(int(s.base), d)
		}
		it.st.shared = int(s.shared)
	}
	return it.load(int(s.off))
}
