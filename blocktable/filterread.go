package blocktable

import (
	"strings"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// filterReader answers for a file's filter.
type filterReader struct {
	kind     filterKind
	wholeKey bool
	prefix   bool // prefixes were added by the extractor that the Reader has

	own    ownBytes     // a full filter that the Reader holds
	handle block.Handle // a full filter in the cache

	parts    *flatIndex // of partitions
	ownParts [][]byte   // the partitions themselves, when there is no cache
}

type filterKind uint8

const (
	filterNone filterKind = iota
	filterOwn
	filterCached
	filterPartitioned
)

func (f *filterReader) memory() int64 {
	n := int64(len(f.own.b))
	if f.parts != nil {
		n += int64(len(f.parts.mem.b))
	}
	for _, p := range f.ownParts {
		n += int64(len(p))
	}
	return n
}

func (f *filterReader) free() {
	f.own.free()
	if f.parts != nil {
		f.parts.mem.free()
	}
	f.kind = filterNone
}

// partitions are the handles of the filter's partitions.
func (f *filterReader) partitions() (hs []block.Handle) {
	if f.parts != nil {
		for i := range f.parts.n {
			hs = append(hs, f.parts.handle(i))
		}
	}
	return hs
}

func (r *Reader) readFilter(tail *readahead) error {
	var h block.Handle
	for _, m := range r.metas {
		if name, ok := strings.CutPrefix(m.Name, block.MetaFullFilter); ok {
			if isFilterName(name) {
				r.filter.kind, h = filterOwn, m.Handle
			} else {
				r.unknownFilters++
			}
		} else if name, ok := strings.CutPrefix(m.Name, block.MetaPartitionedFilter); ok {
			if isFilterName(name) {
				r.filter.kind, h = filterPartitioned, m.Handle
			} else {
				r.unknownFilters++
			}
		} else if strings.HasPrefix(m.Name, block.MetaObsoleteFilter) {
			r.unknownFilters++
		}
	}
	f := &r.filter
	if f.kind == filterNone {
		return nil
	}
	// Files older than the property have whole keys.
	f.wholeKey = string(r.props.User[block.PropWholeKeyFiltering]) != "0"
	f.prefix = r.opts.Extractor != nil && r.props.PrefixExtractorName == r.opts.Extractor.Name()
	if f.kind == filterPartitioned {
		return r.readFilterPartitions(h, tail)
	}
	if err := r.checkHandle(h); err != nil {
		return err
	}
	if r.cacheIndex() {
		f.kind, f.handle = filterCached, h
		ref, err := r.fetch(h, fetchOptions{kind: blockcache.Filter, fill: true, verify: true, caller: r.opts.OpenCaller})
		if err != nil {
			return err
		}
		if r.opts.PinIndexAndFilterBlocks && ref.hold != 0 {
			r.pinned = append(r.pinned, ref.hold)
			return nil
		}
		r.release(&ref)
		return nil
	}
	b, err := r.metaBlock(h, tail)
	if err != nil {
		return err
	}
	if f.own, err = allocOwn(len(b)); err != nil {
		return err
	}
	copy(f.own.b, b)
	return nil
}

func (r *Reader) readFilterPartitions(h block.Handle, tail *readahead) error {
	b, err := r.metaBlock(h, tail)
	if err != nil {
		return err
	}
	x := indexIter{order: r.opts.Order, f: r.indexFormat, file: r.name}
	x.f.firstKey = false
	if !x.init(b, h.Offset) {
		return x.err
	}
	var fb flatBuilder
	if err := fb.add(&x); err != nil {
		return err
	}
	f := &r.filter
	if f.parts, err = fb.build(r.opts.Order, r.indexFormat.userKeys, r.sumLen); err != nil {
		return err
	}
	for _, h := range f.partitions() {
		if err := r.checkHandle(h); err != nil {
			return err
		}
		switch {
		case r.cache == nil:
			b, err := r.metaBlock(h, tail)
			if err != nil {
				return err
			}
			f.ownParts = append(f.ownParts, append([]byte(nil), b...))
		case r.opts.PinIndexAndFilterBlocks:
			ref, err := r.fetch(h, fetchOptions{kind: blockcache.Filter, fill: true, verify: true, caller: r.opts.OpenCaller})
			if err != nil {
				return err
			}
			if ref.hold != 0 {
				r.pinned = append(r.pinned, ref.hold)
			}
		}
	}
	return nil
}

// mayContain asks the filter about a point lookup.
func (r *Reader) mayContain(look *keys.Lookup) (bool, error) {
	f := &r.filter
	if f.kind == filterNone {
		return true, nil
	}
	key := look.UserKey
	bare := key[:max(0, len(key)-r.timestamp)]
	switch {
	case f.wholeKey:
	case f.prefix:
		n := r.opts.Extractor.PrefixLen(bare)
		if n < 0 {
			return true, nil
		}
		bare = bare[:n]
	default:
		return true, nil
	}
	may, err := r.ask(look, key, bare)
	if err == nil && r.observed(look) {
		r.countFilter(look, may)
	}
	return may, err
}

// mayContainPrefix asks the filter about a prefix of userKey.
func (r *Reader) mayContainPrefix(userKey []byte, prefixLen int) (bool, error) {
	if r.filter.kind == filterNone || !r.filter.prefix {
		return true, nil
	}
	return r.ask(nil, userKey, userKey[:prefixLen])
}

// ask tests an entry in the filter, or in the partition for userKey. look is the point
// read that asks, nil for an iterator.
func (r *Reader) ask(look *keys.Lookup, userKey, entry []byte) (bool, error) {
	f := &r.filter
	h := f.handle
	switch f.kind {
	case filterOwn:
		return filterMayMatch(f.own.b, entry), nil
	case filterPartitioned:
		if f.parts.n == 0 {
			return false, nil
		}
		i := f.parts.seek(userKey, keys.Pack(keys.MaxSeq, keys.KindSeek))
		if f.parts.sums != nil && f.parts.proves(i, userKey, keys.Pack(keys.MaxSeq, keys.KindSeek)) >= 0 {
			return true, nil // damaged in memory: the index will tell
		}
		i = min(i, f.parts.n-1)
		if f.ownParts != nil {
			return filterMayMatch(f.ownParts[i], entry), nil
		}
		h = f.parts.handle(i)
	}
	o := fetchOptions{kind: blockcache.Filter, fill: true, verify: true, caller: table.CallerIterator}
	if look != nil {
		o.perf = look.Perf
	}
	ref, hit := r.find(h, o.kind)
	if !hit {
		var err error
		if ref, err = r.load(h, o); err != nil {
			return false, err
		}
	} else if o.perf != nil || r.opts.Statistics != nil {
		r.countHit(&ref, o.kind, o.perf, tallyOf(look))
	}
	if t := r.cache.Tracer(); t != nil {
		if look != nil {
			r.tracedFilter(t, look, h, &ref, hit, &o)
		} else {
			r.traced(t, h, &ref, hit, &o)
		}
	}
	may := filterMayMatch(ref.data, entry)
	r.release(&ref)
	return may, nil
}

// isFilterName reports whether a meta block of this name, after its prefix, is a
// filter of a built-in kind; RocksDB 7.0 used several.
func isFilterName(name string) bool {
	switch {
	case name == block.MetaFilterName, name == "bloomfilter", name == "ribbonfilter", strings.HasPrefix(name, "rocksdb.internal."):
		return true
	}
	return false
}
