package plaintable

import (
	"bytes"
	"encoding/binary"
	"sync"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/prefetch"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Get finds the newest row of look.UserKey visible at look.Seq. The value is
// borrowed from the file's memory, as long as the Reader is open; if CanFault,
// reading it needs the guard. No pin is set. Errors match keys.ErrCorruption,
// mmapfs.ErrFault, or ErrInvalidArgument in full scan mode.
//
// It costs the cache miss of the row alone where the keys of the file come in series, else
// first that of a line of the index. Where the file
// has no lines, and for the few prefixes that they leave out, it is the bloom filter
// and the bucket, which overlap, then a sub-index record and its rows where
// prefixes share a bucket, then the row. No allocation, no lock, no system call.
func (r *Reader) Get(look *keys.Lookup, _ *table.Pin) (value []byte, trailer uint64, ok bool, err error) {
	v := r.view.Load()
	if v.detour {
		if v = v.near(); v.indexFault && v.series == nil || v.noSeek {
			return v.getGuarded(look)
		}
	}
	if v.lacks(look.UserKey) {
		return nil, 0, false, nil
	}
	if v.series != nil {
		off, ok := v.series.find(look.UserKey)
		switch {
		case !ok:
			return nil, 0, false, nil
		case v.rowsFault:
			return v.readOnlyGuarded(look, off)
		}
		return v.readOnly(look, off)
	}
	prefixLen, h := v.target(look)
	p := v.place(h)
	if look.Tallying || look.Perf != nil {
		v.countFilter(look, p)
	}
	if p.none() {
		return nil, 0, false, nil
	}
	if v.rowsFault {
		return v.readGuarded(look, prefixLen, h, p)
	}
	return v.read(look, prefixLen, h, p)
}

// countFilter counts what index lines or the bloom filter said of the lookup's prefix.
func (v *view) countFilter(look *keys.Lookup, p place) {
	if v.bloom.kind == noBloom && len(v.lines) == 0 {
		return
	}
	if look.Tallying {
		look.Tally.PrefixChecked++
		if p.none() {
			look.Tally.PrefixUseful++
		}
	}
	if c := look.Perf; c != nil && p.none() {
		c.BloomSSTMissCount++
	} else if c != nil {
		c.BloomSSTHitCount++
	}
}

func (v *view) getGuarded(look *keys.Lookup) (value []byte, trailer uint64, ok bool, err error) {
	if v.noSeek {
		return nil, 0, false, errFullScan("Get()")
	}
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &err)
	prefixLen, h := v.target(look)
	return v.read(look, prefixLen, h, v.place(h))
}

func (v *view) readGuarded(look *keys.Lookup, prefixLen int, h uint32, p place) (value []byte, trailer uint64, ok bool, err error) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &err)
	return v.read(look, prefixLen, h, p)
}

func (v *view) readOnlyGuarded(look *keys.Lookup, off int) (value []byte, trailer uint64, ok bool, err error) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &err)
	return v.readOnly(look, off)
}

// readOnly finishes a Get from the offset of the only row that may have the key.
func (v *view) readOnly(look *keys.Lookup, off int) (value []byte, trailer uint64, ok bool, err error) {
	prefetch.Span(v.rows, off, off+rowAhead)
	n := len(look.UserKey)
	if n >= len(v.rows)-off {
		return nil, 0, false, v.damaged(off, badKey)
	}
	if string(v.rows[off:off+n]) != string(look.UserKey) {
		return nil, 0, false, nil
	}
	var r row
	if d := decodeTail(v.rows, off+n, &r); d != intact {
		return nil, 0, false, v.damaged(off, d)
	}
	return r.value, r.trailer, r.trailer <= look.Trailer(), nil
}

// rowAhead is how much of a row is asked for at once: three cache lines.
const rowAhead = 2*prefetch.Line + 1

// read finishes a Get from where the index says that the prefix is.
func (v *view) read(look *keys.Lookup, prefixLen int, h uint32, p place) (value []byte, trailer uint64, ok bool, err error) {
	if p.line {
		if value, trailer, ok, err = v.scan(look, prefixLen, int(p.at), false); ok || err != nil || !p.maybe {
			return value, trailer, ok, err
		}
		var st run
		var r row
		if v.rowAt(int(p.at), &st, &r) == intact && v.hasPrefix(r.key, look.UserKey[:prefixLen]) {
			return nil, 0, false, nil // it is the prefix, without such a row
		}
		p = place{at: v.probe(h)}
	}
	off, checked, ok, err := v.locate(look.UserKey, look.Trailer(), prefixLen, p.at)
	if !ok {
		return nil, 0, false, err
	}
	return v.scan(look, prefixLen, off, checked)
}

// scan looks for the lookup's row from offset off on. checked tells that the row
// there is known to have the prefix.
func (v *view) scan(look *keys.Lookup, prefixLen, off int, checked bool) (value []byte, trailer uint64, ok bool, err error) {
	if off >= len(v.rows) {
		return nil, 0, false, keys.Corruptf(v.file, v.index.off, "index: expected the offset of a row in %d bytes of rows, found %d", len(v.rows), off)
	}
	// The value's cache lines come with the key's: where the value lies is known only
	// once the key's line is there, too late to load them beside it.
	prefetch.Span(v.rows, off, off+rowAhead)
	switch {
	case v.words:
		return v.scanWords(look, prefixLen, off, checked)
	case v.format.prefix:
		return v.scanRuns(look, prefixLen, off, checked)
	}
	return v.scanPlain(look, prefixLen, off, checked)
}

// scanPlain looks for the lookup's row from offset off on, in Plain encoding.
func (v *view) scanPlain(look *keys.Lookup, prefixLen, off int, checked bool) (value []byte, trailer uint64, ok bool, err error) {
	target := look.UserKey
	newest := look.Trailer()
	var r row
	for off < len(v.rows) {
		if d := v.format.decode(v.rows, off, nil, &r); d != intact {
			return nil, 0, false, v.damaged(off, d)
		}
		switch c := v.order.Compare(r.key, target); {
		case c == 0:
			if r.trailer <= newest {
				return r.value, r.trailer, true, nil
			}
		case c > 0:
			return nil, 0, false, nil
		case !checked && !v.hasPrefix(r.key, target[:prefixLen]):
			return nil, 0, false, nil
		}
		checked = true
		off = r.next
	}
	return nil, 0, false, nil
}

// scanWords is scanPlain where every key has one length of at least eight bytes
// and order is bytewise: it compares the first eight as a number, and most rows need no
// other test.
func (v *view) scanWords(look *keys.Lookup, prefixLen, off int, checked bool) (value []byte, trailer uint64, ok bool, err error) {
	target := look.UserKey
	n := v.format.keyLen
	if len(target) != n || n < 8 {
		return nil, 0, false, nil // no row has such a key
	}
	word := binary.BigEndian.Uint64(target)
	newest := look.Trailer()
	rows := v.rows
	for off < len(rows) {
		if len(rows)-off <= n {
			return nil, 0, false, v.damaged(off, badKey)
		}
		key := rows[off : off+n]
		c := 1
		if w := binary.BigEndian.Uint64(key); w < word {
			c = -1
		} else if w == word {
			c = bytes.Compare(key[8:], target[8:])
		}
		if c > 0 {
			return nil, 0, false, nil
		}
		if c < 0 && !checked && !v.hasPrefix(key, target[:prefixLen]) {
			return nil, 0, false, nil
		}
		var r row
		if d := decodeTail(rows, off+n, &r); d != intact {
			return nil, 0, false, v.damaged(off, d)
		}
		if c == 0 && r.trailer <= newest {
			return r.value, r.trailer, true, nil
		}
		checked = true
		off = r.next
	}
	return nil, 0, false, nil
}

// scanRuns is scanPlain for Prefix encoding.
func (v *view) scanRuns(look *keys.Lookup, prefixLen, off int, checked bool) (value []byte, trailer uint64, ok bool, err error) {
	target := look.UserKey
	newest := look.Trailer()
	var st run
	var r row
	for off < len(v.rows) {
		if d := v.format.decode(v.rows, off, &st, &r); d != intact {
			if d == noFullKey {
				d = notFullKey
			}
			return nil, 0, false, v.damaged(off, d)
		}
		switch c := v.compare(&st, &r, target); {
		case c == 0:
			if r.trailer <= newest {
				return r.value, r.trailer, true, nil
			}
		case c > 0:
			return nil, 0, false, nil
		case !checked && !v.hasPrefix(r.key, target[:prefixLen]): // the first row is a full key
			return nil, 0, false, nil
		}
		checked = true
		off = r.next
	}
	return nil, 0, false, nil
}

// compare orders the user key of r, whose run is st, and target.
func (v *view) compare(st *run, r *row, target []byte) int {
	if r.shared < 0 {
		return v.order.Compare(r.key, target)
	}
	head := st.base[:r.shared]
	if v.order.Custom() {
		return v.compareJoined(head, r.key, target)
	}
	n := min(len(head), len(target))
	c := bytes.Compare(head, target[:n])
	if c == 0 {
		c = bytes.Compare(r.key, target[n:])
		if n < len(head) {
			c = 1 // the row's key is longer than target, which it begins with
		}
	}
	if !v.order.Bytewise() {
		c = -c
	}
	return c
}

// joined holds buffers for comparators that need a key in one piece.
var joined = sync.Pool{New: func() any { return new([]byte) }}

func (v *view) compareJoined(head, rest, target []byte) int {
	buf := joined.Get().(*[]byte)
	defer joined.Put(buf)
	*buf = append(append((*buf)[:0], head...), rest...)
	return v.order.Compare(*buf, target)
}

// Cursor is one lookup of a batch on its way through the stages. The zero Cursor
// is ready for StageBucket; it may be used again.
type Cursor struct {
	v         *view
	prefixLen int
	hash      uint32
	p         place
	stage     uint8
}

const (
	stageLine   uint8 = iota // what the line says comes next
	stageBucket              // what the bucket says does
	stageRecord              // the rows of the sub-index record do
	stageRows                // all is loaded
	stageOnly                // it is the only row that may have the key
	stageNone                // there is no such row
)

// StageBucket begins a lookup: it loads its line of the index, or else bucket and bloom
// filter, and waits for none. A batch calls it for all its lookups, then StageRow for all until
// none asks for more, then Finish for each, so that the cache misses of a stage
// overlap. If CanFault, all of that runs under the caller's mmapfs.Guard: unlike Get,
// the stages do not raise it themselves.
func (r *Reader) StageBucket(look *keys.Lookup, c *Cursor) {
	v := r.view.Load()
	if v.detour {
		v = v.near()
	}
	c.v = v
	if v.noSeek || v.lacks(look.UserKey) {
		c.stage = stageNone
		return
	}
	if v.series != nil {
		off, ok := v.series.find(look.UserKey)
		if c.stage = stageNone; ok {
			c.p, c.stage = place{at: uint32(off)}, stageOnly
			prefetch.Span(v.rows, off, off+rowAhead)
		}
		return
	}
	c.prefixLen, c.hash = v.target(look)
	if len(v.lines) > 0 {
		v.lines.prefetch(c.hash)
		c.stage = stageLine
		return
	}
	c.stageProbe()
}

// stageProbe loads bucket and bloom filter.
func (c *Cursor) stageProbe() {
	c.p = place{at: c.v.probe(c.hash)}
	c.stage = stageBucket
}

// StageRow loads what comes next. It returns true if that was not yet the row: call
// it once more when the other lookups of the batch have had their turn. Finish may
// be called at any time after StageBucket.
func (r *Reader) StageRow(c *Cursor) (again bool) {
	v := c.v
	switch c.stage {
	case stageLine:
		off, f := v.lines.find(c.hash)
		switch f {
		case foundNone:
			c.stage = stageNone
			return false
		case foundAsk:
			c.stageProbe()
			return true
		}
		c.p = place{at: uint32(off), line: true, maybe: f == foundMaybe}
		prefetch.Span(v.rows, off, off+rowAhead)
		c.stage = stageRows
	case stageBucket:
		if c.p.none() {
			c.stage = stageNone
			return false
		}
		if c.p.at&subIndexBit == 0 {
			prefetch.Span(v.rows, int(c.p.at), int(c.p.at)+rowAhead)
			c.stage = stageRows
			return false
		}
		prefetch.At(v.index.sub, int(c.p.at&^subIndexBit))
		c.stage = stageRecord
		return true
	case stageRecord:
		if offsets, ok := v.index.record(int(c.p.at &^ subIndexBit)); ok {
			if len(offsets) > 4*prefetchRecords {
				// The search begins in the middle.
				offsets = offsets[len(offsets)/8*4:][:4]
			}
			if len(offsets) > 8 {
				// Bisected first: only the keys are needed of most rows.
				prefetchRows(v.rows, offsets)
			} else {
				for ; len(offsets) >= 4; offsets = offsets[4:] {
					off := rowIndex(offsets).at(0)
					prefetch.Span(v.rows, off, off+rowAhead)
				}
			}
		}
		c.stage = stageRows
	}
	return false
}

// Finish is Get for a staged lookup.
func (r *Reader) Finish(look *keys.Lookup, c *Cursor) (value []byte, trailer uint64, ok bool, err error) {
	switch v := c.v; c.stage {
	case stageNone:
		if v.noSeek {
			return nil, 0, false, errFullScan("Get()")
		}
		return nil, 0, false, nil
	case stageOnly:
		return v.readOnly(look, int(c.p.at))
	case stageLine:
		c.p = v.place(c.hash)
	}
	if c.p.none() {
		return nil, 0, false, nil
	}
	return c.v.read(look, c.prefixLen, c.hash, c.p)
}
