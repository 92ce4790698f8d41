package blocktable

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// Index types, as the property says.
const (
	indexBinary = iota
	indexHash
	indexTwoLevel
	indexFirstKey
)

func (r *Reader) readIndex(tail *readahead) error {
	typ := uint32(indexBinary)
	if v, ok := r.props.User[block.PropIndexType]; ok {
		if len(v) != 4 {
			return keys.Corruptf(r.name, int64(r.footer.MetaIndex.Offset), "expected an index type of 4 bytes, found % x", v)
		}
		typ = binary.LittleEndian.Uint32(v)
	}
	if typ > indexFirstKey {
		return keys.Corruptf(r.name, int64(r.footer.MetaIndex.Offset), "expected index type 0 to 3, found %d", typ)
	}
	r.indexFormat = indexFormat{
		userKeys: r.props.IndexKeyIsUserKey != 0,
		delta:    r.props.IndexValueIsDelta != 0,
		firstKey: typ == indexFirstKey,
	}
	h := r.footer.Index
	if r.footer.Version >= 6 {
		var ok bool
		if h, ok = block.FindMeta(r.metas, block.MetaIndexBlock); !ok {
			return keys.Corruptf(r.name, int64(r.footer.MetaIndex.Offset), "expected an index handle in the metaindex, found none")
		}
	}
	var top, whole flatBuilder
	if typ == indexTwoLevel || r.cacheIndex() {
		if typ == indexTwoLevel {
			b, err := r.metaBlock(h, tail)
			if err != nil {
				return err
			}
			if err := r.flatten(&top, b, h); err != nil {
				return err
			}
		} else if err := r.wholeIndexAsPartition(&top, h); err != nil {
			return err
		}
		if r.cache != nil {
			r.partitioned = true
			var err error
			if r.index, err = top.build(r.opts.Order, r.indexFormat.userKeys, r.sumLen); err != nil {
				return err
			}
			return r.pinPartitions()
		}
		for _, h := range top.handles {
			if err := r.flattenBlock(&whole, h, tail); err != nil {
				return err
			}
		}
	} else if err := r.flattenBlock(&whole, h, tail); err != nil {
		return err
	}
	var err error
	r.index, err = whole.build(r.opts.Order, r.indexFormat.userKeys, r.sumLen)
	return err
}

func (r *Reader) cacheIndex() bool { return r.cache != nil && r.opts.CacheIndexAndFilterBlocks }

func (r *Reader) flattenBlock(fb *flatBuilder, h block.Handle, tail *readahead) error {
	b, err := r.metaBlock(h, tail)
	if err != nil {
		return err
	}
	return r.flatten(fb, b, h)
}

func (r *Reader) flatten(fb *flatBuilder, b []byte, h block.Handle) error {
	x := indexIter{order: r.opts.Order, f: r.indexFormat, file: r.name}
	if !x.init(b, h.Offset) {
		return x.err
	}
	return fb.add(&x)
}

// wholeIndexAsPartition makes the one index block look like the only partition
// under a top level, so that the cache can hold it.
func (r *Reader) wholeIndexAsPartition(top *flatBuilder, h block.Handle) error {
	ref, err := r.fetch(h, fetchOptions{kind: blockcache.Index, fill: true, verify: true, caller: r.opts.OpenCaller})
	if err != nil {
		return err
	}
	defer r.release(&ref)
	x := indexIter{order: r.opts.Order, f: r.indexFormat, file: r.name}
	if !x.init(ref.data, h.Offset) {
		return x.err
	}
	if x.last() {
		top.seps = append(top.seps, x.key...)
		top.ends = append(top.ends, uint32(len(x.key)))
		top.handles = append(top.handles, h)
	}
	return x.err
}

// pinPartitions holds the index partitions if the options say so.
func (r *Reader) pinPartitions() error {
	if !r.opts.PinIndexAndFilterBlocks {
		return nil
	}
	for i := range r.index.n {
		ref, err := r.fetch(r.index.handle(i), fetchOptions{kind: blockcache.Index, fill: true, verify: true, caller: r.opts.OpenCaller})
		if err != nil {
			return err
		}
		if ref.hold != 0 {
			r.pinned = append(r.pinned, ref.hold)
		}
	}
	return nil
}
