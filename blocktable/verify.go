package blocktable

import (
	"context"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/table"
)

// VerifyChecksums reads the whole file and checks the checksum of every block. The context is asked
// before each block that is read.
func (r *Reader) VerifyChecksums(ctx context.Context) error {
	ahead := &readahead{fixed: defaultAuto.most}
	for _, m := range r.metas {
		if m.Name == block.MetaProperties || m.Name == block.MetaPropertiesOld {
			if _, err := r.readProperties(m.Handle, &readahead{fixed: 1}); err != nil {
				return err
			}
			continue
		}
		if err := r.verifyBlock(ctx, m.Handle, ahead); err != nil {
			return err
		}
	}
	if err := r.verifyBlock(ctx, r.footer.MetaIndex, ahead); err != nil {
		return err
	}
	if !r.footer.Index.IsZero() {
		if err := r.verifyBlock(ctx, r.footer.Index, ahead); err != nil {
			return err
		}
	}
	for _, h := range r.filter.partitions() {
		if err := r.verifyBlock(ctx, h, ahead); err != nil {
			return err
		}
	}
	var c indexCursor
	c.init(r, fetchOptions{verify: true, pread: true, caller: table.CallerVerifyChecksum})
	defer c.close()
	part := -1
	for ok := c.first(); ok; ok = c.next() {
		if r.partitioned && c.i != part {
			part = c.i
			if err := r.verifyBlock(ctx, r.index.handle(part), ahead); err != nil {
				return err
			}
		}
		if err := r.verifyBlock(ctx, c.handle(), ahead); err != nil {
			return err
		}
	}
	return c.err
}

// verifyBlock checks a block in the file, whatever the cache has.
func (r *Reader) verifyBlock(ctx context.Context, h block.Handle, ahead *readahead) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.checkHandle(h); err != nil {
		return err
	}
	raw, err := ahead.read(r, h.Offset, int(h.Size)+block.TrailerLen)
	if err != nil {
		return err
	}
	if r.footer.Checksum == hash.ChecksumNone && r.footer.BaseContextChecksum == 0 {
		return nil
	}
	return r.checkTrailer(h, raw, true)
}
