package plaintable

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// Size flags of Prefix encoding: kind<<6 | size, where size 63 stands for 63 plus
// a varint32 that follows.
const (
	flagFull   = 0 << 6 // size: the whole user key, which follows
	flagPrefix = 1 << 6 // size: bytes that this and later rows keep of the run's full key; a flagSuffix follows
	flagSuffix = 2 << 6 // size: the rest of the user key, which follows
	flagMask   = 3 << 6
	flagInline = 0x3f
)

// shortTrailer stands for trailer valueAtZero, in place of eight bytes.
const (
	shortTrailer = 0xff
	valueAtZero  = uint64(keys.KindValue) // sequence number 0
)

// pointKinds has a bit for each kind that a row may have (keys.Kind.ValidInTable).
const pointKinds = 1<<keys.KindDelete | 1<<keys.KindValue | 1<<keys.KindMerge | 1<<keys.KindSingleDelete |
	1<<keys.KindBlobIndex | 1<<keys.KindDeleteWithTimestamp | 1<<keys.KindEntity | 1<<keys.KindValuePreferredSeqno

// rowFormat is how the rows of one file are encoded.
type rowFormat struct {
	keyLen int  // length of every user key; 0 if rows store it
	prefix bool // Prefix encoding
}

// run is what rows of Prefix encoding need from the rows before them: the last
// full key, borrowed, and how much of it the suffix rows keep, -1 until told.
type run struct {
	base   []byte
	shared int
}

// row is a decoded row. Its slices are borrowed from the rows area.
type row struct {
	key     []byte // the user key; of a suffix row, what follows run.base[:shared]
	value   []byte
	trailer uint64
	off     int // of the row
	next    int // of the row after it
	shared  int // bytes of key that run.base holds; -1: none, the row is seekable
}

// damage says what is wrong with a row; zero is nothing.
type damage uint8

const (
	intact damage = iota
	badOffset
	badKeyLen
	badKey
	badTrailer
	badKind
	badValueLen
	badValue
	badFlag
	badPrefixLen
	noPrefixLen
	noFullKey
	notFullKey
)

var damageText = [...]string{
	badOffset:    "expected an offset inside the rows",
	badKeyLen:    "expected a key length",
	badKey:       "expected a user key that ends inside the rows",
	badTrailer:   "expected a sequence number and kind, eight bytes or ff",
	badKind:      "expected the kind of a point entry",
	badValueLen:  "expected a value length",
	badValue:     "expected a value that ends inside the rows",
	badFlag:      "expected a size flag of kind full, prefix or suffix",
	badPrefixLen: "expected a prefix no longer than the run's full key",
	noPrefixLen:  "expected a prefix length before the first suffix of a run",
	noFullKey:    "expected a full key before a prefix or suffix",
	notFullKey:   "expected a row that starts with a full key where the index points",
}

// damageError describes damage d at offset off of the rows of file.
func damageError(file string, rows []byte, off int, d damage) error {
	if off < 0 || off > len(rows) {
		return keys.Corruptf(file, int64(off), "%s of %d bytes, found offset %d", damageText[d], len(rows), off)
	}
	return keys.Corruptf(file, int64(off), "row: %s; found % x (%d bytes to the end of the rows)",
		damageText[d], rows[off:min(len(rows), off+24)], len(rows)-off)
}

// uvarint32 reads a varint32 at p and returns the offset after it, -1 if there is none.
func uvarint32(b []byte, p int) (v uint32, next int) {
	if uint(p) < uint(len(b)) && b[p] < 0x80 {
		return uint32(b[p]), p + 1
	}
	return uvarint32Slow(b, p)
}

func uvarint32Slow(b []byte, p int) (uint32, int) {
	if uint(p) > uint(len(b)) {
		return 0, -1
	}
	v, rest, ok := coding.Uvarint32(b[p:])
	if !ok {
		return 0, -1
	}
	return v, len(b) - len(rest)
}

// decode decodes the row at offset off of rows into r. st carries the run of
// Prefix encoding from row to row; a zero run accepts a full key only.
func (f *rowFormat) decode(rows []byte, off int, st *run, r *row) damage {
	if uint(off) >= uint(len(rows)) {
		return badOffset
	}
	r.off = off
	r.shared = -1
	if f.prefix {
		p, d := decodePrefixKey(rows, off, st, r)
		if d != intact {
			return d
		}
		return decodeTail(rows, p, r)
	}
	n, p := f.keyLen, off
	if n == 0 {
		var v uint32
		if v, p = uvarint32(rows, p); p < 0 {
			return badKeyLen
		}
		n = int(v)
	}
	if uint(n) >= uint(len(rows)-p) {
		return badKey
	}
	r.key = rows[p : p+n : p+n]
	return decodeTail(rows, p+n, r)
}

// decodeTail decodes what follows the user key: trailer, value length, value.
func decodeTail(rows []byte, p int, r *row) damage {
	if uint(p) >= uint(len(rows)) {
		return badTrailer
	}
	if rows[p] == shortTrailer {
		r.trailer = valueAtZero
		p++
	} else {
		if len(rows)-p < keys.TrailerLen {
			return badTrailer
		}
		r.trailer = binary.LittleEndian.Uint64(rows[p:])
		if k := uint8(r.trailer); k > 63 || uint64(pointKinds)>>k&1 == 0 {
			return badKind
		}
		p += keys.TrailerLen
	}
	v, p := uvarint32(rows, p)
	if p < 0 {
		return badValueLen
	}
	n := int(v)
	if uint(n) > uint(len(rows)-p) {
		return badValue
	}
	r.value = rows[p : p+n : p+n]
	r.next = p + n
	return intact
}

func decodePrefixKey(rows []byte, p int, st *run, r *row) (int, damage) {
	kind, size, p := decodeFlag(rows, p)
	if p < 0 {
		return 0, badFlag
	}
	if kind == flagFull {
		if uint(size) >= uint(len(rows)-p) {
			return 0, badKey
		}
		r.key = rows[p : p+size : p+size]
		st.base, st.shared = r.key, -1
		return p + size, intact
	}
	if st.base == nil {
		return 0, noFullKey
	}
	if kind == flagPrefix {
		if uint(size) > uint(len(st.base)) {
			return 0, badPrefixLen
		}
		st.shared = size
		if kind, size, p = decodeFlag(rows, p); p < 0 {
			return 0, badFlag
		}
	}
	switch {
	case kind != flagSuffix:
		return 0, badFlag
	case st.shared < 0:
		return 0, noPrefixLen
	case uint(size) >= uint(len(rows)-p):
		return 0, badKey
	}
	r.key = rows[p : p+size : p+size]
	r.shared = st.shared
	return p + size, intact
}

func decodeFlag(rows []byte, p int) (kind byte, size, next int) {
	if uint(p) >= uint(len(rows)) {
		return 0, 0, -1
	}
	c := rows[p]
	kind, size = c&flagMask, int(c&flagInline)
	if size < flagInline {
		return kind, size, p + 1
	}
	v, next := uvarint32(rows, p+1)
	return kind, flagInline + int(v), next
}

func appendFlag(dst []byte, kind byte, size int) []byte {
	if size < flagInline {
		return append(dst, kind|byte(size))
	}
	return coding.AppendUvarint(append(dst, kind|flagInline), uint64(size-flagInline))
}

// rowEncoder appends rows.
type rowEncoder struct {
	rowFormat
	fullEvery int // rows from full key to full key; at least 1
	count     int // rows since the last full key, that one included; 0 before the first row
}

// append appends a row to dst. prefixLen and newPrefix describe the key's
// prefix, for Prefix encoding. seekable tells whether the row starts with a full key.
func (e *rowEncoder) append(dst, userKey []byte, trailer uint64, value []byte, prefixLen int, newPrefix bool) (out []byte, seekable bool) {
	seekable = true
	switch {
	case !e.prefix:
		if e.keyLen == 0 {
			dst = coding.AppendUvarint(dst, uint64(len(userKey)))
		}
		dst = append(dst, userKey...)
	case e.count == 0 || newPrefix || e.count%e.fullEvery == 0:
		e.count = 1
		dst = append(appendFlag(dst, flagFull, len(userKey)), userKey...)
	default:
		seekable = false
		if e.count++; e.count == 2 {
			dst = appendFlag(dst, flagPrefix, prefixLen)
		}
		dst = append(appendFlag(dst, flagSuffix, len(userKey)-prefixLen), userKey[prefixLen:]...)
	}
	if trailer == valueAtZero {
		dst = append(dst, shortTrailer)
	} else {
		dst = binary.LittleEndian.AppendUint64(dst, trailer)
	}
	return coding.AppendSlice(dst, value), seekable
}

// rowBound bounds the encoded size of a row.
func rowBound(userKey, value []byte) int64 {
	const flags = 2 * (1 + coding.MaxVarint32Len)
	return flags + int64(len(userKey)) + keys.TrailerLen + coding.MaxVarint32Len + int64(len(value))
}
