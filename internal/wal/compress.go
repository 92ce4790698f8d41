package wal

import (
	"fmt"

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
	whole []byte
}

func newDecompressor() (*decompressor, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxRecord), zstd.WithDecoderMaxWindow(128<<20))
	if err != nil {
		return nil, err
	}
	return &decompressor{dec: d}, nil
}

// decompress returns the record in frame, borrowed until the next call.
func (d *decompressor) decompress(frame []byte) ([]byte, error) {
	if len(frame) == 0 {
		return nil, nil
	}
	buf := d.whole[:0]
	if cap(buf) > 16*keepBuffer {
		buf = nil
	}
	whole, err := d.dec.DecodeAll(frame, buf)
	if err != nil {
		return nil, err
	}
	d.whole = whole
	return whole, nil
}

func (d *decompressor) close() { d.dec.Close() }
