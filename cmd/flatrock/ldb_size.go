package main

import (
	"errors"
	"fmt"

	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// approximateSize prints what share of its table files a range takes, by RocksDB's
// rules: to a block in block-based tables; plain tables count whole or not at all.
func (l *ldb) approximateSize() error {
	for _, name := range []string{"from", "to"} {
		if !l.has(name) {
			return failedf("%s must be specified for approxsize command", name)
		}
	}
	from, err := l.keyOption("from")
	if err != nil {
		return err
	}
	to, err := l.keyOption("to")
	if err != nil {
		return err
	}
	s, err := l.state(manifest.RecoverOptions{})
	if err != nil {
		return failedf("%w", err)
	}
	family := s.FamilyNamed(l.family)
	if family == nil {
		return l.noFamily()
	}
	r := sizeRange{order: family.Version.Order(), from: from, to: to}
	total := uint64(0)
	for _, f := range liveFiles(s) {
		if f.family != family {
			continue
		}
		n, err := l.sizeWithin(&r, f.meta)
		if err != nil {
			return failedf("%w", err)
		}
		total += n
	}
	if l.json {
		return l.jsonValue(map[string]any{"cf": l.family, "bytes": total})
	}
	_, err = fmt.Fprintln(l.out, total)
	return err
}

// sizeRange is a range of user keys, from inclusive, to exclusive.
type sizeRange struct {
	order    keys.Order
	from, to []byte
}

// bound orders an internal key against the first that could exist of a user key.
func (r *sizeRange) bound(key []byte, trailer uint64, userKey []byte) int {
	return r.order.CompareInternal(key, trailer, userKey, keys.Pack(keys.MaxSeq, keys.KindSeek))
}

// sizeWithin is how much of a file lies in the range.
func (l *ldb) sizeWithin(r *sizeRange, m *manifest.FileMetadata) (n uint64, err error) {
	if r.order.Compare(r.from, r.to) >= 0 || r.bound(m.LargestKey, m.LargestTrailer, r.from) <= 0 || r.bound(m.SmallestKey, m.SmallestTrailer, r.to) > 0 {
		return 0, nil
	}
	beginsInside := r.bound(m.SmallestKey, m.SmallestTrailer, r.from) >= 0
	endsInside := r.bound(m.LargestKey, m.LargestTrailer, r.to) < 0
	if beginsInside && endsInside {
		return m.Size, nil
	}
	t, err := l.openLive(m)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	table, ok := t.Reader.(*blocktable.Reader)
	dataSize := t.Properties().DataSize
	if !ok || dataSize == 0 {
		if endsInside {
			return m.Size, nil
		}
		return 0, nil
	}
	start, end, err := l.blockOffsets(table, r, dataSize)
	if err != nil {
		return 0, err
	}
	scale := func(n uint64) uint64 { return uint64(float64(n) / float64(dataSize) * float64(m.Size)) }
	switch {
	case beginsInside:
		return scale(end), nil
	case endsInside:
		return m.Size - scale(start), nil
	}
	return scale(end - start), nil
}

// blockOffsets are where the first blocks begin that may hold the ends of the range;
// size stands for a place after the last block.
func (l *ldb) blockOffsets(t *blocktable.Reader, r *sizeRange, size uint64) (start, end uint64, err error) {
	start, end = size, size
	foundStart := false
	err = t.EachDataBlock(func(separator []byte, h block.Handle) error {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if !foundStart && r.order.Compare(separator, r.from) >= 0 {
			start, foundStart = h.Offset, true
		}
		if r.order.Compare(separator, r.to) >= 0 {
			end = h.Offset
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return start, end, err
}
