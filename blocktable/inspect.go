package blocktable

import (
	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// EachDataBlock calls f with the data blocks of the file in order: the user key of
// the separator in the index, borrowed for the call, and the handle. For tools; an
// error of f ends the walk and is returned.
func (r *Reader) EachDataBlock(f func(separator []byte, h block.Handle) error) (err error) {
	if r.Faultable() {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	var c indexCursor
	c.init(r, fetchOptions{verify: true})
	defer c.close()
	for ok := c.first(); ok; ok = c.next() {
		if err := f(c.userKey(), c.handle()); err != nil {
			return err
		}
	}
	return c.err
}

// EachInBlock calls f with the entries of the data block at h in order, borrowed for
// the call. For tools; an error of f ends the walk and is returned.
func (r *Reader) EachInBlock(h block.Handle, f func(userKey []byte, trailer uint64, value []byte) error) (err error) {
	if r.Faultable() {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	ref, err := r.fetch(h, fetchOptions{kind: blockcache.Data, verify: true})
	if err != nil {
		return err
	}
	defer r.release(&ref)
	d := &dataIter{order: r.opts.Order, gseq: r.gseq, file: r.name}
	if !d.init(ref.data, h.Offset) {
		return d.err
	}
	for ok := d.first(); ok; ok = d.forward() {
		if err := f(d.userKey(), d.trailer, d.val); err != nil {
			return err
		}
	}
	return d.err
}

// OffsetOf is where in the file the data block begins that may hold userKey, or the
// first key after it; behind the last block it is the size of the data. It reads the index alone.
func (r *Reader) OffsetOf(userKey []byte) (off uint64, err error) {
	if r.Faultable() {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	var c indexCursor
	c.init(r, fetchOptions{verify: true, caller: table.CallerApproximateSize})
	defer c.close()
	if c.seekGE(userKey, keys.Pack(keys.MaxSeq, keys.KindSeek)) {
		return c.handle().Offset, nil
	}
	return r.props.DataSize, c.err
}

// MayContain reports whether the filter lets the file have the key: false is
// certain. It reads no data block.
func (r *Reader) MayContain(look *keys.Lookup) (bool, error) { return r.mayContain(look) }
