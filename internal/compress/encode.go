package compress

import (
	"bytes"
	"fmt"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// zlibWindow is the window of RocksDB's default window bits, -14: with it, no
// more of a dictionary is kept.
const zlibWindow = 1 << 14

// Encoder compresses blocks of one file. Not safe for concurrent use: parallel
// compression takes one each.
type Encoder struct {
	t     Type
	level int
	dict  []byte
	zstd  *zstd.Encoder
	flate *flate.Writer
	out   bytes.Buffer
	fast  lz4.CompressorCCompat
	hc    lz4.CompressorHC
	dict4 lz4DictEncoder
}

// NewEncoder makes an Encoder of type t with a size prefix, the form of
// format_version 2 and later. level is the algorithm's own scale, or
// DefaultLevel. dict, nil for none, is kept, not copied; Snappy has no use for one.
func NewEncoder(t Type, level int, dict []byte) (*Encoder, error) {
	e := &Encoder{t: t, level: level, dict: dict}
	switch t {
	case None, Snappy:
	case LZ4:
		if level != DefaultLevel && level < 0 {
			e.fast.Acceleration = -level
		}
		e.dict4.init(dict)
	case LZ4HC:
		e.hc.Level = hcLevel(level)
		e.dict4.init(dict)
	case ZSTD, ZSTDNotFinal:
		if level == DefaultLevel {
			level = 3
		}
		o := []zstd.EOption{zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithEncoderCRC(false),
			zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(true), zstd.WithZeroFrames(true)}
		switch {
		case bytes.HasPrefix(dict, []byte(zstdDictMagic)):
			o = append(o, zstd.WithEncoderDict(dict))
		case len(dict) > 0:
			o = append(o, zstd.WithEncoderDictRaw(0, dict))
		}
		var err error
		if e.zstd, err = zstd.NewWriter(nil, o...); err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
	case Zlib:
		if level == DefaultLevel {
			level = flate.DefaultCompression
		}
		e.dict = dict[max(0, len(dict)-zlibWindow):]
		var err error
		if e.flate, err = flate.NewWriterDict(&e.out, min(max(level, flate.HuffmanOnly), flate.BestCompression), e.dict); err != nil {
			return nil, fmt.Errorf("zlib: %w", err)
		}
	default:
		return nil, fmt.Errorf("%v can be read, but not written", t)
	}
	return e, nil
}

// hcLevel maps LZ4HC's levels 1 to 12 (default 9) to search depths.
func hcLevel(level int) lz4.CompressionLevel {
	if level == DefaultLevel || level <= 0 {
		level = 9
	}
	return lz4.CompressionLevel(1 << (8 + min(level, 9)))
}

// Type is the type byte to store.
func (e *Encoder) Type() Type { return e.t }

// Encode appends the stored form of src to dst. src must be smaller than
// MaxSize. ok is false, and dst unchanged, when src does not compress.
func (e *Encoder) Encode(dst, src []byte) (out []byte, ok bool) {
	if len(src) >= MaxSize || e.t == None {
		return dst, false
	}
	if e.t == Snappy {
		n := len(dst)
		if need := s2.MaxEncodedLen(len(src)); cap(dst)-n < need {
			dst = append(make([]byte, 0, n+need), dst...)
		}
		return dst[:n+len(s2.EncodeSnappy(dst[n:cap(dst)], src))], true
	}
	start := len(dst)
	body := coding.AppendUvarint(dst, uint64(len(src)))
	switch e.t {
	case LZ4, LZ4HC:
		n := len(body)
		if need := lz4.CompressBlockBound(len(src)); cap(body)-n < need {
			body = append(make([]byte, 0, n+need), body...)
		}
		k, err := e.lz4(body[n:cap(body)], src)
		if err != nil || k == 0 {
			return body[:start], false
		}
		return body[:n+k], true
	case ZSTD, ZSTDNotFinal:
		return e.zstd.EncodeAll(src, body), true
	case Zlib:
		e.out.Reset()
		e.flate.ResetDict(&e.out, e.dict)
		if _, err := e.flate.Write(src); err != nil {
			return body[:start], false
		}
		if err := e.flate.Close(); err != nil {
			return body[:start], false
		}
		return append(body, e.out.Bytes()...), true
	}
	return body[:start], false
}

func (e *Encoder) lz4(dst, src []byte) (int, error) {
	switch {
	case len(e.dict) > 0:
		return e.dict4.encode(dst, src), nil
	case e.t == LZ4HC:
		return e.hc.CompressBlock(src, dst)
	}
	return e.fast.CompressBlock(src, dst)
}

// Close frees what the Encoder holds.
func (e *Encoder) Close() {
	if e.zstd != nil {
		e.zstd.Close()
	}
}
