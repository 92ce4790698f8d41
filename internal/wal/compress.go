package wal

import (
	"errors"
	"fmt"

	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/klauspost/compress/zstd"
)

// maxRecord bounds a decompressed record: a batch counts its operations in 32
// bits, and RocksDB refuses batches of more than 4 GiB.
const maxRecord = 1 << 32

// newCompressor returns nil for NoCompression.
func newCompressor(c Compression) (*zstdCompressor, error) {
	switch c {
	case NoCompression:
		return nil, nil
	case ZSTD:
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithEncoderCRC(true), zstd.WithWindowSize(1<<20))
		if err != nil {
			return nil, err
		}
		return &zstdCompressor{enc: e}, nil
	}
	return nil, fmt.Errorf("%w: a log can be uncompressed or zstd, not %v", ErrUnsupported, c)
}

// RecordTooLargeError refuses a compressed record that holds more than the limit of the Reader. It is
// not damage, which a recovery mode may pass over, where the limit is the caller's.
type RecordTooLargeError struct {
	File   string // base name
	Offset int64  // of the record
	Stored int    // bytes of the compressed record
	Limit  int64  // bytes that it may hold
}

func (e *RecordTooLargeError) Error() string {
	return fmt.Sprintf("%s+%d: expected a log record within the limit of %d bytes, found %d compressed bytes that hold more", e.File, e.Offset, e.Limit, e.Stored)
}

// zstdCompressor turns a record into one frame.
type zstdCompressor struct {
	enc   *zstd.Encoder
	whole []byte
	frame []byte
}

// compress returns the frame of the parts joined, borrowed until the next call.
func (z *zstdCompressor) compress(parts [][]byte) []byte {
	whole := z.whole[:0]
	for _, p := range parts {
		whole = append(whole, p...)
	}
	if len(whole) == 0 {
		return nil // an empty record has an empty payload
	}
	z.frame = z.enc.EncodeAll(whole, z.frame[:0])
	if z.whole = whole; cap(whole) > keepBuffer {
		z.whole = nil
	}
	frame := z.frame
	if cap(frame) > keepBuffer {
		z.frame = nil
	}
	return frame
}

func (z *zstdCompressor) close() { z.enc.Close() }

// decompressor turns frames back into records.
type decompressor struct {
	dec   *zstd.Decoder
	limit uint64
	whole []byte
}

// newDecompressor makes one that refuses records of more than limit bytes; zero means maxRecord.
func newDecompressor(limit int64) (*decompressor, error) {
	most := uint64(maxRecord)
	if limit > 0 {
		most = min(most, uint64(limit))
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(most), zstd.WithDecoderMaxWindow(128<<20))
	if err != nil {
		return nil, err
	}
	return &decompressor{dec: d, limit: most}, nil
}

// decompress returns the record in frame, borrowed until the next call.
func (d *decompressor) decompress(frame []byte) ([]byte, error) {
	if len(frame) == 0 {
		return nil, nil
	}
	// What the frame holds at most, by its blocks, is all that memory is taken for: the size
	// that it claims may be anything.
	var h zstd.Header
	if err := h.Decode(frame); err == nil && h.HasFCS && h.FrameContentSize > compress.ZSTDBound(frame) {
		return nil, fmt.Errorf("a frame of %d bytes that claims to hold %d", len(frame), h.FrameContentSize)
	}
	buf := d.whole[:0]
	if cap(buf) > 16*keepBuffer {
		buf = nil
	}
	whole, err := d.dec.DecodeAll(frame, buf)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return nil, &RecordTooLargeError{Stored: len(frame), Limit: int64(d.limit)}
	}
	if err != nil {
		return nil, err
	}
	d.whole = whole
	return whole, nil
}

func (d *decompressor) close() { d.dec.Close() }
