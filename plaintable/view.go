package plaintable

import (
	"fmt"

	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/prefetch"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// view is an open file in memory: what a read needs and nothing else. It never
// changes; Reader.Load makes another.
type view struct {
	rows   []byte
	lines  lineIndex    // nil if there are none: the buckets serve
	series *seriesIndex // nil if the keys are no series: then they serve
	index  index
	bloom  bloomFilter
	format rowFormat
	order  keys.Order
	// extractor is the index's, nil in total order. lookHash tells that it is the
	// family's too, so that a lookup brings the hash along.
	extractor *prefixhash.Extractor
	lookHash  bool
	words     bool // keys of one length of 8 bytes or more, bytewise, Plain encoding
	noSeek    bool // FullScanMode
	// rowsFault and indexFault tell that reading them may fault: the guard must be up.
	rowsFault  bool
	indexFault bool
	// detour tells that a read must look at the fields before it begins: the index may
	// fault, there is no seeking, or there are replicas.
	detour bool

	// replicas are the views of NUMA nodes that have copies, all alike; here tells
	// which is the caller's. Only the published view has them, and is itself none.
	replicas []*view
	here     func() int

	file   string
	rowIdx rowIndex // nil if the file has none that serves
	whole  []byte   // the file
	m      *mmapfs.Mapping

	rowsArena  *mmapfs.Arena // holds whole, of a replica; nil where m does
	indexArena *mmapfs.Arena // holds index and bloom; nil where whole does
}

// lacks reports whether the length of a key tells that the file has no such key.
func (v *view) lacks(userKey []byte) bool {
	return v.format.keyLen > 0 && len(userKey) != v.format.keyLen
}

// target is the prefix length of the lookup's key and its hash, for this view's
// index and bloom filter. A key outside the extractor's domain, which a writer
// refuses, is its own prefix.
func (v *view) target(look *keys.Lookup) (prefixLen int, h uint32) {
	if v.lookHash && look.PrefixLen >= 0 {
		return look.PrefixLen, look.Hash
	}
	return v.targetOf(look.UserKey)
}

func (v *view) targetOf(userKey []byte) (prefixLen int, h uint32) {
	if v.extractor == nil {
		if v.bloom.kind == noBloom {
			return 0, 0
		}
		return 0, hash.Slice(userKey)
	}
	prefixLen = v.prefixLen(userKey)
	return prefixLen, hash.Slice(userKey[:prefixLen])
}

func (v *view) prefixLen(userKey []byte) int {
	if n := v.extractor.PrefixLen(userKey); n >= 0 {
		return n
	}
	return len(userKey)
}

// hasPrefix reports whether the prefix of userKey is prefix.
func (v *view) hasPrefix(userKey, prefix []byte) bool {
	return v.extractor == nil || v.prefixLen(userKey) == len(prefix) && string(userKey[:len(prefix)]) == string(prefix)
}

// place is where the index says that the rows of a prefix begin.
type place struct {
	at    uint32 // the offset of a row if line, else a bucket
	line  bool   // a line says so: the row is the prefix's first, or there is none of it
	maybe bool   // line, but if the row is another's the buckets must be asked
}

// none reports whether there is no such prefix.
func (p place) none() bool { return p.at == emptyBucket && !p.line }

// place asks the index for a prefix hash.
func (v *view) place(h uint32) place {
	if len(v.lines) > 0 {
		switch off, f := v.lines.find(h); f {
		case foundNone:
			return place{at: emptyBucket}
		case foundRow, foundMaybe:
			return place{at: uint32(off), line: true, maybe: f == foundMaybe}
		}
	}
	return place{at: v.probe(h)}
}

// probe returns the bucket of hash h, emptyBucket if the bloom filter rules it
// out. The bucket is loaded first, so that its miss overlaps those of the filter.
func (v *view) probe(h uint32) (bucket uint32) {
	bucket = v.index.at(h)
	if !v.bloom.mayContain(h) {
		return emptyBucket
	}
	return bucket
}

func (v *view) damaged(off int, d damage) error { return damageError(v.file, v.rows, off, d) }

// rowAt decodes a row where an index points: it must be seekable.
func (v *view) rowAt(off int, st *run, r *row) damage {
	*st = run{}
	d := v.format.decode(v.rows, off, st, r)
	if d == noFullKey {
		return notFullKey
	}
	return d
}

// prefetchRecords is how many rows a bisection asks for together once so few are left:
// their cache misses overlap, where its own steps would wait for one after the other.
const prefetchRecords = 16

// locate finds where a scan for (userKey, trailer) in a bucket begins: at the
// last indexed row before it, or at the first after it. checked tells that the
// row has the prefix; ok is false if no row of the bucket does.
func (v *view) locate(userKey []byte, trailer uint64, prefixLen int, bucket uint32) (off int, checked, ok bool, err error) {
	if bucket&subIndexBit == 0 {
		return int(bucket), v.extractor == nil, bucket < emptyBucket, nil
	}
	p := int(bucket &^ subIndexBit)
	offsets, ok := v.index.record(p)
	if !ok {
		return 0, false, false, v.index.recordError(v.file, p)
	}
	n := len(offsets) / 4
	at := rowIndex(offsets)
	asked := false
	var st run
	var r row
	low, high := 0, n
	var lowKey []byte
	for high-low > 1 {
		if !asked && high-low <= prefetchRecords {
			prefetchRows(v.rows, offsets[4*low:4*high])
			asked = true
		}
		mid := int(uint(low+high) / 2)
		if d := v.rowAt(at.at(mid), &st, &r); d != intact {
			return 0, false, false, v.damaged(at.at(mid), d)
		}
		c := v.order.CompareInternal(r.key, r.trailer, userKey, trailer)
		if c == 0 {
			return at.at(mid), true, true, nil
		}
		if c < 0 {
			low, lowKey = mid, r.key
		} else {
			high = mid
		}
	}
	if v.extractor == nil {
		return at.at(low), true, true, nil
	}
	if low == 0 {
		if d := v.rowAt(at.at(0), &st, &r); d != intact {
			return 0, false, false, v.damaged(at.at(0), d)
		}
		lowKey = r.key
	}
	if v.hasPrefix(lowKey, userKey[:prefixLen]) {
		if low+1 < n {
			prefetchSpan(v.rows, at.at(low), at.at(low+1))
		}
		return at.at(low), true, true, nil
	}
	if low+1 < n {
		return at.at(low + 1), false, true, nil
	}
	return 0, false, false, nil
}

// prefetchRows asks for the first line of the rows of a record, so that their cache
// misses overlap instead of following each other through the search.
func prefetchRows(rows, offsets []byte) {
	for ; len(offsets) >= 4; offsets = offsets[4:] {
		prefetch.At(rows, rowIndex(offsets).at(0))
	}
}

// maxSpanAhead is the longest stretch of rows, in bytes, that is asked for before it is scanned.
const maxSpanAhead = 4 << 10

// prefetchSpan asks for the rows between two index records, if they are close: a scan
// learns where the next row is only from the row before it.
func prefetchSpan(rows []byte, off, end int) {
	if uint(end-off) <= maxSpanAhead {
		prefetch.Span(rows, off, end)
	}
}

func errFullScan(call string) error {
	return fmt.Errorf("%w: %s is not allowed in full scan mode", ErrInvalidArgument, call)
}
