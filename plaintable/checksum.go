package plaintable

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// checksumChunk is how many bytes of rows a checksum covers.
const checksumChunk = 64 << 10

const (
	checksumVersion = 1
	checksumHeader  = 16
	spanLen         = 16
)

// span is a checked part of the file after the rows. It begins where the one
// before it ends, so that padding is checked too.
type span struct {
	off, size uint32
	sum       uint64 // XXH3-64
}

// checksums is the meta block metaChecksums. It covers every byte of the file,
// itself included, since its own size is known before what it says:
//
//	fixed32 version (1) ‖ fixed32 chunk size ‖ fixed32 rows size ‖ fixed32 spans
//	fixed64 checksum of each chunk of rows; the last one may be shorter
//	spans: fixed32 offset ‖ fixed32 size ‖ fixed64 checksum
//	fixed64 checksum of all of this block before it
//
// Checksums are XXH3-64 with seed 0.
type checksums struct {
	chunk  uint32
	rows   uint32
	chunks []byte // fixed64 each
	spans  []span
}

func checksumBlockSize(chunks, spans int) int { return checksumHeader + 8*chunks + spanLen*spans + 8 }

func (c *checksums) append(dst []byte) []byte {
	start := len(dst)
	for _, v := range [...]uint32{checksumVersion, c.chunk, c.rows, uint32(len(c.spans))} {
		dst = binary.LittleEndian.AppendUint32(dst, v)
	}
	dst = append(dst, c.chunks...)
	for _, s := range c.spans {
		dst = binary.LittleEndian.AppendUint32(dst, s.off)
		dst = binary.LittleEndian.AppendUint32(dst, s.size)
		dst = binary.LittleEndian.AppendUint64(dst, s.sum)
	}
	return binary.LittleEndian.AppendUint64(dst, xxh3.Hash(dst[start:]))
}

// decodeChecksums decodes the block b, which starts at offset off of file.
// Spans are checked to lie inside fileSize; chunks is borrowed from b.
func decodeChecksums(file string, off int64, b []byte, fileSize int64) (checksums, error) {
	var c checksums
	if len(b) < checksumHeader+8 {
		return c, keys.Corruptf(file, off, "checksums: expected at least %d bytes, found %d", checksumHeader+8, len(b))
	}
	body := b[:len(b)-8]
	if want, got := binary.LittleEndian.Uint64(b[len(body):]), xxh3.Hash(body); want != got {
		return c, keys.Corruptf(file, off, "checksums: expected checksum %#016x of the block itself, found %#016x", want, got)
	}
	if v := binary.LittleEndian.Uint32(b); v != checksumVersion {
		return c, keys.Corruptf(file, off, "checksums: expected version %d, found %d", checksumVersion, v)
	}
	c.chunk, c.rows = binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	spans := uint64(binary.LittleEndian.Uint32(b[12:]))
	if c.chunk == 0 {
		return c, keys.Corruptf(file, off+4, "checksums: expected a chunk size, found 0")
	}
	chunks := (uint64(c.rows) + uint64(c.chunk) - 1) / uint64(c.chunk)
	if want := checksumHeader + 8*chunks + spanLen*spans; want != uint64(len(body)) {
		return c, keys.Corruptf(file, off, "checksums: expected %d bytes for %d chunks and %d spans, found %d", want+8, chunks, spans, len(b))
	}
	c.chunks = body[checksumHeader : checksumHeader+8*chunks]
	for p := checksumHeader + 8*int(chunks); p < len(body); p += spanLen {
		s := span{binary.LittleEndian.Uint32(body[p:]), binary.LittleEndian.Uint32(body[p+4:]), binary.LittleEndian.Uint64(body[p+8:])}
		if int64(s.off)+int64(s.size) > fileSize {
			return c, keys.Corruptf(file, off+int64(p), "checksums: expected a span inside the file's %d bytes, found offset %d, size %d", fileSize, s.off, s.size)
		}
		c.spans = append(c.spans, s)
	}
	return c, nil
}

// verify checks whole, the file's bytes, and that the spans leave nothing out
// but the block itself, which lies at [off, off+size).
func (c *checksums) verify(ctx context.Context, file string, whole []byte, rows int, off, size uint64) error {
	if int64(c.rows) != int64(rows) {
		return keys.Corruptf(file, int64(off)+8, "checksums: expected rows of %d bytes, found %d", rows, c.rows)
	}
	for i := 0; i*int(c.chunk) < rows; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := i * int(c.chunk)
		end := min(start+int(c.chunk), rows)
		want := binary.LittleEndian.Uint64(c.chunks[8*i:])
		if got := xxh3.Hash(whole[start:end]); got != want {
			return keys.Corruptf(file, int64(start), "rows: expected checksum %#016x of %d bytes, found %#016x", want, end-start, got)
		}
	}
	at := uint64(rows)
	for _, s := range c.spans {
		if err := ctx.Err(); err != nil {
			return err
		}
		if at == off {
			at += size
		}
		if uint64(s.off) != at {
			return keys.Corruptf(file, int64(off), "checksums: expected a span at %d, found one at %d", at, s.off)
		}
		at += uint64(s.size)
		if got := xxh3.Hash(whole[s.off:at]); got != s.sum {
			return keys.Corruptf(file, int64(s.off), "expected checksum %#016x of %d bytes, found %#016x", s.sum, s.size, got)
		}
	}
	if at != uint64(len(whole)) {
		return keys.Corruptf(file, int64(off), "checksums: expected spans to the file's end at %d, found the last to end at %d", len(whole), at)
	}
	return nil
}

// String is for tests and tools.
func (s span) String() string { return fmt.Sprintf("[%d+%d %016x]", s.off, s.size, s.sum) }
