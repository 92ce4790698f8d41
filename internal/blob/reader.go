package blob

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"

	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Version is that of the format, and RecordHeader is how many bytes a record has before its key.
const (
	Version      = 1
	RecordHeader = 32
)

const (
	magic        = 0x00248f37
	version      = Version
	headerLen    = 30
	recordLen    = RecordHeader
	footerLen    = 32
	flagExpiring = 1
	maxKeyLen    = 1<<32 - 1
)

// Reader reads a blob file. Safe for concurrent use, apart from Close.
type Reader struct {
	file        mmapfs.File
	name        string // base name
	size        int64
	family      uint32
	expiring    bool
	expirations Expirations // by the header
	compression compress.Type
	decoder     *compress.Decoder
}

// Open checks the header of a blob file, and takes f over. Damage matches
// keys.ErrCorruption.
func Open(f mmapfs.File) (*Reader, error) {
	r := &Reader{file: f, name: filepath.Base(f.Name()), decoder: compress.NewDecoder(true, nil)}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *Reader) open() (err error) {
	if r.size, err = r.file.Size(); err != nil {
		return err
	}
	var h [headerLen]byte
	if r.size < headerLen {
		return keys.Corruptf(r.name, r.size, "expected a blob file with a header of %d bytes, found %d bytes", headerLen, r.size)
	}
	if _, err := r.file.ReadAt(h[:], 0); err != nil {
		return err
	}
	if m := binary.LittleEndian.Uint32(h[:]); m != magic {
		return keys.Corruptf(r.name, 0, "expected the magic number %#08x of a blob file, found %#08x", magic, m)
	}
	if v := binary.LittleEndian.Uint32(h[4:]); v != version {
		return keys.Corruptf(r.name, 4, "expected blob file version %d, found %d", version, v)
	}
	r.family = binary.LittleEndian.Uint32(h[8:])
	r.expiring = h[12]&flagExpiring != 0
	r.compression = compress.Type(h[13])
	r.expirations = decodeExpirations(h[14:])
	return nil
}

// Limit makes the Reader refuse values of more than n bytes decompressed; zero means the
// format's 2 GiB. It is set before the first read.
func (r *Reader) Limit(n int64) { r.decoder.Limit(n) }

// Family is the id of the column family that the file was written for.
func (r *Reader) Family() uint32 { return r.family }

// Compression is that of the values.
func (r *Reader) Compression() compress.Type { return r.compression }

// Expiring reports whether records have expiration times.
func (r *Reader) Expiring() bool { return r.expiring }

// Expirations is a range of expiration times, zero if nothing expires.
type Expirations struct{ From, To uint64 }

func decodeExpirations(b []byte) Expirations {
	return Expirations{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}

// Expirations are what the header says.
func (r *Reader) Expirations() Expirations { return r.expirations }

// Footer is what the footer says; there is none in a file that was not finished.
func (r *Reader) Footer() (records uint64, e Expirations, ok bool) {
	b, ok := r.footerAt(r.size - footerLen)
	if !ok {
		return 0, e, false
	}
	return binary.LittleEndian.Uint64(b[4:]), decodeExpirations(b[12:]), true
}

// Get appends the value that i points at to dst. The record must be that of
// userKey, whole and with the right checksums.
func (r *Reader) Get(i *Index, userKey, dst []byte) ([]byte, error) {
	at := int64(i.Offset) - int64(len(userKey)) - recordLen
	if i.Offset > uint64(r.size) || i.Size > uint64(r.size)-i.Offset || at < headerLen {
		return dst, keys.Corruptf(r.name, int64(min(i.Offset, 1<<62)), "expected a blob of %d bytes inside of a file of %d bytes, as the index of key %q says", i.Size, r.size, userKey)
	}
	if i.Compression != r.compression {
		return dst, keys.Corruptf(r.name, 13, "expected compression %v, as the index of key %q says, found %v", i.Compression, userKey, r.compression)
	}
	rec := make([]byte, recordLen+len(userKey)+int(i.Size))
	if _, err := r.file.ReadAt(rec, at); err != nil {
		return dst, err
	}
	stored, err := r.check(rec, at)
	if err != nil {
		return dst, err
	}
	key := rec[recordLen : len(rec)-len(stored)]
	if uint64(len(stored)) != i.Size || !bytes.Equal(key, userKey) {
		return dst, keys.Corruptf(r.name, at, "expected the blob of key %q with %d bytes, found that of key %q with %d", userKey, i.Size, key, len(stored))
	}
	return r.decompress(dst, stored, at)
}

// check checks a record with all its bytes, and returns the value as stored.
func (r *Reader) check(rec []byte, at int64) (stored []byte, err error) {
	keyLen, valueLen, err := r.checkHeader(rec, at)
	if err != nil {
		return nil, err
	}
	if uint64(len(rec)-recordLen) != keyLen+valueLen {
		return nil, keys.Corruptf(r.name, at, "expected a record of %d bytes, found key and value of %d", len(rec)-recordLen, keyLen+valueLen)
	}
	if want, got := binary.LittleEndian.Uint32(rec[28:]), hash.Mask(hash.CRC32C(rec[recordLen:])); want != got {
		return nil, keys.Corruptf(r.name, at, "blob checksum mismatch: expected %#08x, found %#08x", want, got)
	}
	return rec[recordLen+keyLen:], nil
}

func (r *Reader) checkHeader(rec []byte, at int64) (keyLen, valueLen uint64, err error) {
	if want, got := binary.LittleEndian.Uint32(rec[24:]), hash.Mask(hash.CRC32C(rec[:24])); want != got {
		return 0, 0, keys.Corruptf(r.name, at, "checksum mismatch in the header of a blob record: expected %#08x, found %#08x", want, got)
	}
	keyLen, valueLen = binary.LittleEndian.Uint64(rec), binary.LittleEndian.Uint64(rec[8:])
	if rest := uint64(r.size - at - recordLen); keyLen > maxKeyLen || keyLen > rest || valueLen > rest-keyLen {
		return 0, 0, keys.Corruptf(r.name, at, "expected key and value within the %d bytes that follow, found lengths %d and %d", rest, keyLen, valueLen)
	}
	return keyLen, valueLen, nil
}

func (r *Reader) decompress(dst, stored []byte, at int64) ([]byte, error) {
	if r.compression == compress.None {
		return append(dst, stored...), nil
	}
	n, body, err := r.decoder.Size(r.compression, stored)
	if err != nil || n < 0 {
		return dst, keys.Corruptf(r.name, at, "a compressed blob: %v", err)
	}
	start := len(dst)
	dst = append(dst, make([]byte, n)...)
	if err := r.decoder.Decode(dst[start:], r.compression, body); err != nil {
		return dst[:start], keys.Corruptf(r.name, at, "a compressed blob: %v", err)
	}
	return dst, nil
}

// Record is a record of a blob file.
type Record struct {
	Index      // with the compression of the file
	Key, Value []byte
	Stored     []byte // the value as it is in the file, compressed
}

// Each calls f with the records in order, checked and decompressed, borrowed for the
// call. An error of f ends the walk and is returned.
func (r *Reader) Each(f func(Record) error) error {
	var buf, value []byte
	var h [recordLen]byte
	for at := int64(headerLen); at < r.size; {
		if _, ok := r.footerAt(at); ok {
			return nil
		}
		if r.size-at < recordLen {
			return keys.Corruptf(r.name, at, "expected a record or a footer, found %d bytes", r.size-at)
		}
		if _, err := r.file.ReadAt(h[:], at); err != nil {
			return err
		}
		keyLen, valueLen, err := r.checkHeader(h[:], at)
		if err != nil {
			return err
		}
		n := recordLen + int(keyLen+valueLen)
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		if _, err := r.file.ReadAt(buf[:n], at); err != nil {
			return err
		}
		stored, err := r.check(buf[:n], at)
		if err != nil {
			return err
		}
		if value, err = r.decompress(value[:0], stored, at); err != nil {
			return err
		}
		rec := Record{Key: buf[recordLen : recordLen+keyLen], Value: value, Stored: stored}
		rec.Index = Index{Kind: Plain, Offset: uint64(at) + recordLen + keyLen, Size: valueLen, Compression: r.compression}
		if rec.Expiration = binary.LittleEndian.Uint64(h[16:]); rec.Expiration != 0 {
			rec.Kind = Expiring
		}
		if err := f(rec); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// footerAt reports whether the rest of the file is a footer.
func (r *Reader) footerAt(at int64) (b [footerLen]byte, ok bool) {
	if r.size-at != footerLen || at < headerLen {
		return b, false
	}
	if _, err := r.file.ReadAt(b[:], at); err != nil && !errors.Is(err, io.EOF) {
		return b, false
	}
	return b, binary.LittleEndian.Uint32(b[:]) == magic && binary.LittleEndian.Uint32(b[28:]) == hash.Mask(hash.CRC32C(b[:28]))
}

// Close closes the file.
func (r *Reader) Close() error {
	r.decoder.Close()
	return r.file.Close()
}
