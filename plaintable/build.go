package plaintable

import (
	"context"
	"fmt"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// scanner walks all rows of a view.
type scanner struct {
	v    *view
	st   run
	row  row
	off  int // of the next row
	buf  []byte
	key  []byte // user key of row; borrowed until the next step
	full bool   // row is seekable
}

// next decodes the next row; false at the end of the rows, or with an error.
func (s *scanner) next() (bool, error) {
	if s.off >= len(s.v.rows) {
		return false, nil
	}
	if d := s.v.format.decode(s.v.rows, s.off, &s.st, &s.row); d != intact {
		return false, s.v.damaged(s.off, d)
	}
	s.off = s.row.next
	s.key, s.buf = s.row.userKey(&s.st, s.buf)
	s.full = s.row.shared < 0
	return true, nil
}

// userKey is the whole user key: borrowed from the rows, or put together in buf,
// which is returned for the next call.
func (r *row) userKey(st *run, buf []byte) (key, rest []byte) {
	if r.shared < 0 {
		return r.key, buf
	}
	buf = append(append(buf[:0], st.base[:r.shared]...), r.key...)
	return buf, buf
}

// buildIndex makes index, bloom filter and row index of a file that does not
// store them, in one scan. The bloom filter is sized by prefixes, in total order by rows.
func (r *Reader) buildIndex(v *view, p mmapfs.Placement) error {
	ib := indexBuilder{sparseness: r.o.IndexSparseness}
	var rb rowIndexBuilder
	var rowHashes packed
	bits := r.o.BloomBitsPerKey
	s := scanner{v: v}
	var prefix []byte
	var prefixHash uint32
	for first := true; ; first = false {
		ok, err := s.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if v.extractor == nil {
			if first {
				ib.begins()
			}
			if bits > 0 {
				rowHashes.add(uint64(hash.Slice(s.key)))
			}
		} else if p := s.key[:v.prefixLen(s.key)]; first || string(p) != string(prefix) {
			prefix = append(prefix[:0], p...)
			prefixHash = hash.Slice(p)
			ib.begins()
		}
		ib.row(prefixHash, uint32(s.row.off), s.full)
		rb.row(uint32(s.row.off), s.full)
	}
	if v.rowIdx == nil {
		v.rowIdx = rb.rowIndex
		r.rowIdx.Store(&rb.rowIndex)
	}
	hashes := int64(ib.prefixes)
	if v.extractor == nil {
		hashes = int64(rowHashes.n)
	}
	bloomBits := uint32(min(hashes*int64(bits), maxMemoryBloom))
	if err := r.allocIndex(v, &ib, bloomBits, p); err != nil {
		return err
	}
	if v.bloom.kind == noBloom {
		return nil
	}
	if v.extractor == nil {
		for h := range rowHashes.all() {
			v.bloom.add(uint32(h))
		}
		return nil
	}
	for rec := range ib.records.all() { // each prefix has a record
		v.bloom.add(uint32(rec >> 32))
	}
	return nil
}

// allocIndex builds the index in an arena, and an empty bloom filter.
func (r *Reader) allocIndex(v *view, ib *indexBuilder, bloomBits uint32, p mmapfs.Placement) error {
	ratio := r.o.HashTableRatio
	if v.extractor == nil {
		ratio = 0
	}
	buckets := bucketsFor(ib.prefixes, ratio)
	bound := ib.sizeBound(buckets)
	if buckets == 0 || bound > MaxFileSize {
		return fmt.Errorf("%w: plain table: %s: hash_table_ratio %g asks for too many buckets for %d prefixes", ErrInvalidArgument, r.file, ratio, ib.prefixes)
	}
	size, lines := bloomSize(bloomBits, r.o.BloomLocality)
	if bloomBits == 0 {
		size = 0
	}
	lined := int64(0)
	if v.extractor != nil && v.series == nil {
		lined = linesSize(ib.prefixes)
	}
	a, err := r.reserve(bound+lined+size+blockAlign, p, indexArena)
	if err != nil {
		return err
	}
	v.indexArena = a
	// The header is put before a cache line, so that the buckets begin on one.
	mem, err := r.alloc(a, int(bound)+blockAlign)
	if err != nil {
		return err
	}
	head := ib.headerLen(buckets)
	b := ib.build(mem[blockAlign-head:], buckets)
	if v.index, err = decodeIndex(r.file, -1, b); err != nil {
		return err
	}
	v.index.off = -1
	if lined > 0 {
		if v.lines, err = r.alloc(a, int(lined)); err != nil {
			return err
		}
		v.lines.fill(ib.records.all())
	}
	if size == 0 {
		return nil
	}
	wordBytes := int(size+7) &^ 7
	if mem, err = r.alloc(a, wordBytes); err != nil {
		return err
	}
	if lines > 0 {
		v.bloom = newLinesBloom(mem, lines, 9)
	} else {
		v.bloom = newMemoryBloom(words(mem), size)
	}
	return nil
}

// rowIndexOf returns a row index of the file: the stored one, or one built by a
// scan the first time, for all who come later.
func (r *Reader) rowIndexOf(v *view) (rowIndex, error) {
	if v.rowIdx != nil || len(v.rows) == 0 {
		return v.rowIdx, nil
	}
	if x := r.rowIdx.Load(); x != nil {
		return *x, nil
	}
	r.scan.Lock()
	defer r.scan.Unlock()
	if x := r.rowIdx.Load(); x != nil {
		return *x, nil
	}
	var rb rowIndexBuilder
	for s := (scanner{v: v}); ; {
		ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		rb.row(uint32(s.row.off), s.full)
	}
	r.rowIdx.Store(&rb.rowIndex)
	return rb.rowIndex, nil
}

// VerifyChecksums checks every checksum that the file has, then that the rows
// decode, are in order and as many as the properties say. In a file without
// checksums it also checks that each index record leads to a row of its bucket, and
// that the filter rules out no row. It reads the whole file, and asks the context now and then.
func (r *Reader) VerifyChecksums(ctx context.Context) (err error) {
	v := r.view.Load()
	if v.rowsFault {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	summed, err := r.verifySums(ctx, v)
	if err != nil {
		return err
	}
	if err := r.verifyRows(ctx, v, !summed && !v.noSeek); err != nil {
		return err
	}
	if summed || v.noSeek {
		return nil
	}
	return r.verifyIndex(ctx, v)
}

// askEvery is after how many rows or buckets a check asks whether it is still wanted.
const askEvery = 1024

// verifySums checks the checksums; summed tells whether there are any.
func (r *Reader) verifySums(ctx context.Context, v *view) (summed bool, err error) {
	h, ok := block.FindMeta(r.layout.meta, metaChecksums)
	if !ok {
		return false, nil
	}
	b, err := r.section(v.whole, metaChecksums, h)
	if err != nil {
		return true, err
	}
	c, err := decodeChecksums(r.file, int64(h.Offset), b, int64(len(v.whole)))
	if err != nil {
		return true, err
	}
	return true, c.verify(ctx, r.file, v.whole, len(v.rows), h.Offset, h.Size)
}

func (r *Reader) verifyRows(ctx context.Context, v *view, filter bool) error {
	var last []byte
	var lastTrailer, rows, rawKeys, rawValues uint64
	for s := (scanner{v: v}); ; rows++ {
		if rows%askEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		ok, err := s.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if rows > 0 && v.order.CompareInternal(last, lastTrailer, s.key, s.row.trailer) >= 0 {
			return keys.Corruptf(r.file, int64(s.row.off), "expected rows in order, found %q seq %d after %q seq %d", s.key, keys.Seq(s.row.trailer), last, keys.Seq(lastTrailer))
		}
		if _, h := v.targetOf(s.key); filter && !v.bloom.mayContain(h) {
			return keys.Corruptf(r.file, int64(s.row.off), "bloom: expected the bits of key %q, found one of them clear", s.key)
		}
		if v.series != nil {
			if off, ok := v.series.find(s.key); !ok || off != s.row.off {
				return keys.Corruptf(r.file, int64(s.row.off), "expected the key series to lead to key %q here, found offset %d, %v", s.key, off, ok)
			}
		}
		last, lastTrailer = append(last[:0], s.key...), s.row.trailer
		rawKeys += uint64(len(s.key)) + keys.TrailerLen
		rawValues += uint64(len(s.row.value))
	}
	for _, c := range [...]struct {
		name      string
		want, got uint64
	}{
		{"rocksdb.num.entries", r.props.NumEntries, rows},
		{"rocksdb.raw.key.size", r.props.RawKeySize, rawKeys},
		{"rocksdb.raw.value.size", r.props.RawValueSize, rawValues},
	} {
		if r.props.Present[c.name] && c.want != c.got {
			return keys.Corruptf(r.file, -1, "expected %s %d, found rows for %d", c.name, c.want, c.got)
		}
	}
	return nil
}

func (r *Reader) verifyIndex(ctx context.Context, v *view) error {
	for i := range v.index.bucket.Count() {
		if i%askEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		b := v.index.slots.At(i)
		if b == emptyBucket {
			continue
		}
		if b&subIndexBit == 0 {
			if err := r.verifyRecord(v, i, int(b), -1); err != nil {
				return err
			}
			continue
		}
		offsets, ok := v.index.record(int(b &^ subIndexBit))
		if !ok {
			return v.index.recordError(r.file, int(b&^subIndexBit))
		}
		for x, last := rowIndex(offsets), -1; len(x) > 0; x = x[4:] {
			if err := r.verifyRecord(v, i, x.at(0), last); err != nil {
				return err
			}
			last = x.at(0)
		}
	}
	return nil
}

func (r *Reader) verifyRecord(v *view, bucket uint32, off, last int) error {
	var st run
	var row row
	if d := v.rowAt(off, &st, &row); d != intact {
		return v.damaged(off, d)
	}
	if off <= last {
		return keys.Corruptf(r.file, v.index.off, "index: expected row offsets in order in bucket %d, found %d after %d", bucket, off, last)
	}
	if v.extractor == nil {
		return nil
	}
	_, h := v.targetOf(row.key)
	if got := v.index.bucket.Of(h); got != bucket {
		return keys.Corruptf(r.file, v.index.off, "index: expected key %q at offset %d in bucket %d, found it in %d", row.key, off, got, bucket)
	}
	return nil
}
