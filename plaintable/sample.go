package plaintable

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Checks of parts of a file while it is in use: the chunks of rows that a read has
// touched, and chunk after chunk for a scrub. They read what readers read, a resident copy
// included, so that they see what became of it in memory.

// rowSums are the checksums of the chunks of rows, copied out of the file.
type rowSums struct {
	chunk int
	sums  []byte // fixed64 each
}

// chunkSums are the checksums of the rows; nil if the file has none. They are read
// and checked once.
func (r *Reader) chunkSums(v *view) (*rowSums, error) {
	if s := r.sums.Load(); s != nil {
		return s, nil
	}
	h, ok := block.FindMeta(r.layout.meta, metaChecksums)
	if !ok {
		return nil, nil
	}
	b, err := r.section(v.whole, metaChecksums, h)
	if err != nil {
		return nil, err
	}
	c, err := decodeChecksums(r.file, int64(h.Offset), b, int64(len(v.whole)))
	if err != nil {
		return nil, err
	}
	if int64(c.rows) != int64(len(v.rows)) {
		return nil, keys.Corruptf(r.file, int64(h.Offset)+8, "checksums: expected rows of %d bytes, found %d", len(v.rows), c.rows)
	}
	s := &rowSums{int(c.chunk), append([]byte(nil), c.chunks...)}
	r.sums.Store(s)
	return s, nil
}

// checkChunk compares chunk i of the rows with its checksum.
func (s *rowSums) checkChunk(file string, rows []byte, i int) error {
	start := i * s.chunk
	part := rows[start:min(start+s.chunk, len(rows))]
	if want, got := binary.LittleEndian.Uint64(s.sums[8*i:]), xxh3.Hash(part); got != want {
		return keys.Corruptf(file, int64(start), "rows: expected checksum %#016x of %d bytes, found %#016x", want, len(part), got)
	}
	return nil
}

// rowHead is at least what a row has before its value besides the key.
const rowHead = 64

// CheckRow compares the chunks of the file in which the row of a value lies, which Get or
// Finish has returned for a key of keyLen bytes, with their checksums. A file without
// checksums passes. It costs some microseconds.
func (r *Reader) CheckRow(value []byte, keyLen int) (err error) {
	v := r.view.Load()
	if v.rowsFault {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	s, err := r.chunkSums(v)
	if s == nil || err != nil {
		return err
	}
	end := endWithin(v.rows, value)
	if end < 0 {
		// The value lies in another view's memory, a replica or one from before loading: look at
		// no part rather than at the wrong one.
		return nil
	}
	start := max(end-len(value)-keyLen-rowHead, 0)
	for i := start / s.chunk; i*s.chunk < end; i++ {
		if err := s.checkChunk(r.file, v.rows, i); err != nil {
			return fmt.Errorf("the row that ends at %d: %w", end, err)
		}
	}
	return nil
}

// Chunks is the number of parts for CheckChunk; 0 if the file has no checksums.
func (r *Reader) Chunks() (n int, err error) {
	v := r.view.Load()
	if v.rowsFault {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	s, err := r.chunkSums(v)
	if s == nil || err != nil {
		return 0, err
	}
	return len(s.sums) / 8, nil
}

// CheckChunk compares part i of the rows with its checksum, and says how many bytes it read.
func (r *Reader) CheckChunk(i int) (n int, err error) {
	v := r.view.Load()
	if v.rowsFault {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	s, err := r.chunkSums(v)
	if s == nil || err != nil {
		return 0, err
	}
	return min(s.chunk, len(v.rows)-i*s.chunk), s.checkChunk(r.file, v.rows, i)
}
