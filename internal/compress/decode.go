package compress

import (
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// MaxSize is the largest uncompressed block in bytes: RocksDB compresses none
// that is larger.
const MaxSize = 1<<31 - 1

// growth bounds how many bytes one compressed byte can become, by type; a
// larger claim is damage, and is refused before memory is taken for it. What
// zstd frames can become ZSTDBound says more exactly.
func growth(t Type) uint64 {
	switch t {
	case Snappy:
		return 64
	case LZ4, LZ4HC:
		return 256
	case Zlib:
		return 1040
	}
	return 1 << 16 // zstd and bzip2 encode long runs in a few bytes
}

// Decoder decompresses the blocks of one file. It is safe for concurrent use.
// Its errors say what was expected and found; the caller adds file and offset.
type Decoder struct {
	// sizePrefix is set by format_version 2 and later.
	sizePrefix bool
	limit      uint64
	dict       []byte
	zstdOnce   sync.Once
	zstd       *zstd.Decoder
	zstdErr    error
}

// NewDecoder makes a Decoder for a file whose blocks carry a size prefix (true
// from format_version 2 on) and were compressed with dict, nil for none. dict
// is kept, not copied.
func NewDecoder(sizePrefix bool, dict []byte) *Decoder {
	return &Decoder{sizePrefix: sizePrefix, limit: MaxSize, dict: dict}
}

// Limit makes the Decoder refuse blocks of more than n bytes uncompressed; zero, or more than
// MaxSize, means MaxSize. It is set before the first use.
func (d *Decoder) Limit(n int64) {
	if d.limit = MaxSize; n > 0 {
		d.limit = min(uint64(n), MaxSize)
	}
}

// Size returns how long the uncompressed form of src will be, and the part of
// src to give to Decode. size is -1 when the format does not say (Zlib and
// BZip2 before format_version 2). Refused are types that cannot be read, and
// sizes that src cannot contain.
func (d *Decoder) Size(t Type, src []byte) (size int, body []byte, err error) {
	var n uint64
	body = src
	switch t {
	case None:
		return len(src), src, nil
	case Snappy:
		v, k := binary.Uvarint(src)
		if k <= 0 {
			return 0, nil, errors.New("expected a Snappy length, found none")
		}
		n = v
	case Zlib, BZip2:
		if !d.sizePrefix {
			return -1, src, nil
		}
		fallthrough
	case ZSTD, ZSTDNotFinal:
		v, rest, ok := coding.Uvarint64(src)
		if !ok {
			return 0, nil, fmt.Errorf("expected the size before %v data, found none", t)
		}
		n, body = v, rest
	case LZ4, LZ4HC:
		if d.sizePrefix {
			v, rest, ok := coding.Uvarint64(src)
			if !ok {
				return 0, nil, fmt.Errorf("expected the size before %v data, found none", t)
			}
			n, body = v, rest
		} else {
			if len(src) < 8 {
				return 0, nil, fmt.Errorf("expected 8 bytes of size before %v data, found %d", t, len(src))
			}
			n, body = binary.LittleEndian.Uint64(src), src[8:]
		}
	default:
		return 0, nil, fmt.Errorf("expected a supported compression type, found %v", t)
	}
	if n > MaxSize || n > growth(t)*uint64(len(src)+8) || n > modest*uint64(len(src)) && (t == ZSTD || t == ZSTDNotFinal) && n > ZSTDBound(body) {
		return 0, nil, fmt.Errorf("expected an uncompressed size that %d bytes of %v can hold, found %d", len(src), t, n)
	}
	if n > d.limit {
		return 0, nil, fmt.Errorf("expected an uncompressed size within the limit of %d bytes, found %d bytes of %v that say %d", d.limit, len(src), t, n)
	}
	return int(n), body, nil
}

// Decode fills dst, of the length that Size gave, with the uncompressed form
// of body. Anything but exactly that many bytes is an error. dst may be memory
// off the Go heap: nothing outside of it is written.
func (d *Decoder) Decode(dst []byte, t Type, body []byte) error {
	dst = dst[:len(dst):len(dst)]
	n := 0
	var err error
	switch t {
	case None:
		n = copy(dst, body)
		if len(body) > n {
			n = len(body)
		}
	case Snappy:
		var out []byte
		out, err = s2.Decode(dst, body)
		if n = len(out); n > 0 && n == len(dst) && &out[0] != &dst[0] {
			copy(dst, out)
		}
	case LZ4, LZ4HC:
		if len(dst) == 0 {
			return decodeEmptyLZ4(body)
		}
		n, err = lz4.UncompressBlockWithDict(body, dst, d.lz4Dict())
	case ZSTD, ZSTDNotFinal:
		var dec *zstd.Decoder
		if dec, err = d.zstdDecoder(); err == nil {
			var out []byte
			out, err = dec.DecodeAll(body, dst[:0])
			if n = len(out); n > 0 && n == len(dst) && &out[0] != &dst[0] {
				copy(dst, out)
			}
		}
	case Zlib:
		n, err = d.inflate(dst, body)
	case BZip2:
		n, err = readExactly(bzip2.NewReader(bytes.NewReader(body)), dst)
	default:
		err = errors.New("unsupported type")
	}
	if err != nil {
		return fmt.Errorf("expected %d bytes from %d bytes of %v: %w", len(dst), len(body), t, err)
	}
	if n != len(dst) {
		return fmt.Errorf("expected %d bytes from %d bytes of %v, found %d", len(dst), len(body), t, n)
	}
	return nil
}

// modest is a growth that no zstd block is looked at for.
const modest = 32

// DecodeUnsized decompresses body when Size said -1, to at most MaxSize bytes,
// or what Limit says. The result is owned by the caller.
func (d *Decoder) DecodeUnsized(t Type, body []byte) ([]byte, error) {
	limit := min(growth(t)*uint64(len(body)+8), d.limit)
	var r io.Reader
	switch t {
	case Zlib:
		r = flate.NewReaderDict(bytes.NewReader(body), d.dict)
	case BZip2:
		r = bzip2.NewReader(bytes.NewReader(body))
	default:
		return nil, fmt.Errorf("expected a type without a size, found %v", t)
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("expected %v data, found %d bytes that are not: %w", t, len(body), err)
	}
	if uint64(len(out)) > limit {
		return nil, fmt.Errorf("expected at most %d bytes from %d bytes of %v, found more", limit, len(body), t)
	}
	return out, nil
}

// decodeEmptyLZ4 accepts the LZ4 form of no bytes, a single zero token.
func decodeEmptyLZ4(body []byte) error {
	if len(body) == 0 || len(body) == 1 && body[0] == 0 {
		return nil
	}
	return fmt.Errorf("expected no bytes from LZ4 data, found %d bytes of it", len(body))
}

// lz4Dict is the part of the dictionary that LZ4 can reach.
func (d *Decoder) lz4Dict() []byte {
	if len(d.dict) > lz4Window {
		return d.dict[len(d.dict)-lz4Window:]
	}
	return d.dict
}

// inflaters keeps the 40 KiB that inflating a block needs.
var inflaters = sync.Pool{New: func() any { return &inflater{r: flate.NewReader(bytes.NewReader(nil))} }}

type inflater struct {
	in bytes.Reader
	r  io.ReadCloser
}

func (d *Decoder) inflate(dst, body []byte) (int, error) {
	f := inflaters.Get().(*inflater)
	defer inflaters.Put(f)
	f.in.Reset(body)
	if err := f.r.(flate.Resetter).Reset(&f.in, d.dict); err != nil {
		return 0, err
	}
	n, err := readExactly(f.r, dst)
	f.in.Reset(nil)
	return n, err
}

// readExactly fills dst and checks that r ends there; it reports one byte more
// than dst has when r goes on.
func readExactly(r io.Reader, dst []byte) (int, error) {
	n, err := io.ReadFull(r, dst)
	if err != nil && !(len(dst) == 0 && err == io.EOF) {
		return n, err
	}
	var one [1]byte
	for {
		k, err := r.Read(one[:])
		if k > 0 {
			return n + 1, nil
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// plainZstd decodes frames without a dictionary, for all files: it has no
// state between calls.
var plainZstd = sync.OnceValues(func() (*zstd.Decoder, error) { return newZstd() })

func newZstd(o ...zstd.DOption) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, append(o, zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderMaxMemory(MaxSize), zstd.WithDecodeAllCapLimit(true), zstd.IgnoreChecksum(false))...)
}

const zstdDictMagic = "\x37\xa4\x30\xec"

func (d *Decoder) zstdDecoder() (*zstd.Decoder, error) {
	if len(d.dict) == 0 {
		return plainZstd()
	}
	d.zstdOnce.Do(func() {
		if bytes.HasPrefix(d.dict, []byte(zstdDictMagic)) {
			d.zstd, d.zstdErr = newZstd(zstd.WithDecoderDicts(d.dict))
		} else {
			d.zstd, d.zstdErr = newZstd(zstd.WithDecoderDictRaw(0, d.dict))
		}
	})
	return d.zstd, d.zstdErr
}

// Close frees what the Decoder holds. No Decode may be under way.
func (d *Decoder) Close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}
