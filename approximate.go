package flatrock

import (
	"fmt"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// SizeApproximationOptions says what GetApproximateSizes counts. Nil means files
// alone. RocksDB: SizeApproximationOptions.
type SizeApproximationOptions struct {
	// IncludeMemtables counts what memtables hold of a range. RocksDB: include_memtables.
	IncludeMemtables bool
	// ExcludeFiles leaves files out. RocksDB: include_files=false.
	ExcludeFiles bool
}

// GetApproximateSizes estimates how many bytes of files, compressed as they are, the
// keys of each range take in the default family. RocksDB: GetApproximateSizes.
func (db *DB) GetApproximateSizes(o *SizeApproximationOptions, ranges []KeyRange) ([]uint64, error) {
	return db.defaultCF.GetApproximateSizes(o, ranges)
}

// GetApproximateSizes is DB.GetApproximateSizes for this column family. A range goes from Start up to
// and without End; nil is no bound. Files that lie in it count whole; of
// block-based ones that it cuts the share of their blocks counts, of plain ones all
// if their end lies in it, and nothing else.
func (cf *ColumnFamily) GetApproximateSizes(o *SizeApproximationOptions, ranges []KeyRange) (sizes []uint64, err error) {
	if o == nil {
		o = &SizeApproximationOptions{}
	}
	s, stripe, err := cf.enter()
	if err != nil {
		return nil, err
	}
	defer s.release(stripe)
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &err)
	sizes = make([]uint64, len(ranges))
	for i, r := range ranges {
		if !o.ExcludeFiles {
			for _, level := range s.files.levels {
				for _, f := range level {
					n, err := f.handle.sizeWithin(r)
					if err != nil {
						return nil, err
					}
					sizes[i] += n
				}
			}
		}
		if o.IncludeMemtables {
			_, n := s.memTableStats(r)
			sizes[i] += n
		}
	}
	return sizes, nil
}

// GetApproximateMemTableStats counts the entries that the memtables of the default family hold
// of a range, old versions included, and their bytes. It walks them. RocksDB:
// GetApproximateMemTableStats.
func (db *DB) GetApproximateMemTableStats(r KeyRange) (count, size uint64, err error) {
	return db.defaultCF.GetApproximateMemTableStats(r)
}

// GetApproximateMemTableStats is DB.GetApproximateMemTableStats for this column family.
func (cf *ColumnFamily) GetApproximateMemTableStats(r KeyRange) (count, size uint64, err error) {
	s, stripe, err := cf.enter()
	if err != nil {
		return 0, 0, err
	}
	defer s.release(stripe)
	count, size = s.memTableStats(r)
	return count, size, nil
}

func (s *readState) memTableStats(r KeyRange) (count, size uint64) {
	for _, m := range append([]*memState{s.active}, s.immutables...) {
		it := m.mem.NewIterator()
		ok := false
		if r.Start == nil {
			ok = it.First()
		} else {
			ok = it.SeekGE(r.Start, keys.Pack(keys.MaxSeq, keys.KindSeek))
		}
		for ; ok && (r.End == nil || s.cf.order.Compare(it.UserKey(), r.End) < 0); ok = it.Next() {
			count++
			size += uint64(len(it.UserKey()) + keys.TrailerLen + len(it.Value()))
		}
		it.Close()
	}
	return count, size
}

// sizeWithin is how much of the file lies in the range, by RocksDB's rules.
func (h *tableHandle) sizeWithin(r KeyRange) (uint64, error) {
	o, m := h.cf.order, h.meta
	// bound orders an internal key against the first that could exist of a user key.
	bound := func(key []byte, trailer uint64, userKey []byte) int {
		return o.CompareInternal(key, trailer, userKey, keys.Pack(keys.MaxSeq, keys.KindSeek))
	}
	if r.Start != nil && r.End != nil && o.Compare(r.Start, r.End) >= 0 {
		return 0, nil
	}
	if r.Start != nil && bound(m.LargestKey, m.LargestTrailer, r.Start) <= 0 || r.End != nil && bound(m.SmallestKey, m.SmallestTrailer, r.End) > 0 {
		return 0, nil
	}
	begins := r.Start == nil || bound(m.SmallestKey, m.SmallestTrailer, r.Start) >= 0
	ends := r.End == nil || bound(m.LargestKey, m.LargestTrailer, r.End) < 0
	if begins && ends {
		return m.Size, nil
	}
	data := h.reader().Properties().DataSize
	if h.block == nil || data == 0 {
		if ends {
			return m.Size, nil
		}
		return 0, nil
	}
	offset := func(key []byte, none uint64) (uint64, error) {
		if key == nil {
			return none, nil
		}
		off, err := h.block.OffsetOf(key)
		return min(off, data), err
	}
	start, end := uint64(0), data
	var err error
	if !begins {
		if start, err = offset(r.Start, 0); err != nil {
			return 0, err
		}
	}
	if !ends {
		if end, err = offset(r.End, data); err != nil {
			return 0, err
		}
	}
	scale := func(n uint64) uint64 { return uint64(float64(n) / float64(data) * float64(m.Size)) }
	if ends {
		return m.Size - scale(start), nil
	}
	return scale(end - min(start, end)), nil
}

// KeyMayExist tells without reading data blocks whether the default family can have a value
// for key; see ColumnFamily.KeyMayExist.
func (db *DB) KeyMayExist(ro *ReadOptions, key, dst []byte) (value []byte, found, may bool, err error) {
	return db.defaultCF.KeyMayExist(ro, key, dst)
}

// KeyMayExist tells whether the family can have a value for key: false is certain, true
// may be wrong. It asks memtables, plain tables, and the filters of block-based files, and reads no
// data blocks. When it comes upon the value on the way, found is true and value is
// dst with it appended. RocksDB: KeyMayExist.
func (cf *ColumnFamily) KeyMayExist(ro *ReadOptions, key, dst []byte) (value []byte, found, may bool, err error) {
	s, stripe, err := cf.enter()
	if err != nil {
		return dst, false, false, err
	}
	defer s.release(stripe)
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &err)
	look := keys.Lookup{UserKey: key, Seq: cf.readSeq(ro)}
	ro.apply(&look)
	cf.opts.PrefixExtractor.Prepare(&look)
	answer := func(v []byte, trailer uint64) ([]byte, bool, bool, error) {
		switch kind := keys.KindOf(trailer); {
		case isDelete(kind):
			return dst, false, false, nil
		case kind == keys.KindValue:
			return append(dst, v...), true, true, nil
		}
		return dst, false, true, nil
	}
	for _, m := range append([]*memState{s.active}, s.immutables...) {
		v, trailer, ok, err := m.get(&look)
		if err != nil {
			return dst, false, true, err
		}
		if ok {
			return answer(v, trailer)
		}
	}
	for l, level := range s.files.levels {
		for i := range level {
			r := &level[i]
			if !r.mayHold(&look) {
				continue
			}
			h := r.handle
			if h.block != nil {
				if may, err := h.block.MayContain(&look); err != nil || may {
					return dst, false, true, err
				}
				if h.tombs != nil && h.tombs.Cover(key, look.Seq) > 0 {
					return dst, false, false, nil
				}
				continue
			}
			var pin table.Pin
			v, trailer, ok, err := h.get(&look, &pin)
			if err != nil {
				return dst, false, true, fmt.Errorf("level %d: %w", l, err)
			}
			if ok {
				value, found, may, err = answer(v, trailer)
				pin.Release()
				return value, found, may, err
			}
		}
	}
	return dst, false, false, nil
}
