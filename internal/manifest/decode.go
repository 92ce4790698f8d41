package manifest

import (
	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// decoder walks the bytes of one edit. The first error sticks, after which every
// read gives zero.
type decoder struct {
	file  string
	off   int64 // of the record in file
	whole int   // length of the edit
	b     []byte
	err   error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		at := d.whole - len(d.b)
		d.err = keys.Corruptf(d.file, d.off, format+", near byte %d of a version edit of %d bytes", append(args, at, d.whole)...)
		d.b = nil
	}
}

func (d *decoder) uvarint64(what string) uint64 {
	v, rest, ok := coding.Uvarint64(d.b)
	if !ok {
		d.fail("expected %s as a varint64, found %x", what, head(d.b))
		return 0
	}
	d.b = rest
	return v
}

func (d *decoder) uvarint32(what string) uint32 {
	v, rest, ok := coding.Uvarint32(d.b)
	if !ok {
		d.fail("expected %s as a varint32, found %x", what, head(d.b))
		return 0
	}
	d.b = rest
	return v
}

// maxFileNumber is what RocksDB can hold beside a path id.
const maxFileNumber = 1<<62 - 1

func (d *decoder) fileNumber(what string) uint64 {
	v := d.uvarint64(what)
	if v > maxFileNumber {
		d.fail("expected %s of at most %d, found %d", what, uint64(maxFileNumber), v)
		return 0
	}
	return v
}

func (d *decoder) seq(what string) uint64 {
	v := d.uvarint64(what)
	if v > keys.MaxSeq {
		d.fail("expected %s of at most %d, found %d", what, keys.MaxSeq, v)
		return 0
	}
	return v
}

// str returns bytes borrowed from the edit.
func (d *decoder) str(what string) []byte {
	s, rest, ok := coding.Slice(d.b)
	if !ok {
		d.fail("expected %s with its length in front, found %x", what, head(d.b))
		return nil
	}
	d.b = rest
	return s
}

func (d *decoder) level() int {
	v := d.uvarint32("level")
	if v >= MaxLevels {
		d.fail("expected a level below %d, found %d", MaxLevels, v)
		return 0
	}
	return int(v)
}

// internalKey returns an owned user key.
func (d *decoder) internalKey(what string) (userKey []byte, trailer uint64) {
	s := d.str(what)
	u, trailer, ok := keys.Split(s)
	if !ok {
		d.fail("expected %s as an internal key of 8 bytes or more, found %d bytes", what, len(s))
		return nil, 0
	}
	return clone(u), trailer
}

func (d *decoder) wholeUvarint(v []byte, what string) uint64 {
	n, rest, ok := coding.Uvarint64(v)
	if !ok || len(rest) != 0 {
		d.fail("expected %s as a varint64 that fills its field, found %x", what, head(v))
		return 0
	}
	return n
}

func (d *decoder) oneByte(v []byte, what string) byte {
	if len(v) != 1 {
		d.fail("expected %s in 1 byte, found %d", what, len(v))
		return 0
	}
	return v[0]
}

// inner decodes a value that is a sequence of fields itself; leave takes its
// outcome back.
func (d *decoder) inner(v []byte) *decoder {
	return &decoder{file: d.file, off: d.off, whole: len(v), b: v}
}

func (d *decoder) leave(in *decoder, what string) {
	if d.err == nil && in.err != nil {
		d.err, d.b = in.err, nil
	}
	if len(in.b) > 0 {
		d.fail("expected the end of %s, found %x", what, head(in.b))
	}
}

// head returns the first few bytes of b, for a message.
func head(b []byte) []byte { return b[:min(len(b), 16)] }

// clone copies b; unlike bytes.Clone it never gives nil, which stands for "not set".
func clone(b []byte) []byte { return append(make([]byte, 0, len(b)), b...) }

func appendOptional[T uint32 | uint64](dst []byte, tag uint64, v Optional[T]) []byte {
	if !v.Set {
		return dst
	}
	return coding.AppendUvarint(coding.AppendUvarint(dst, tag), uint64(v.Value))
}

func appendField(dst []byte, tag uint32, value []byte) []byte {
	return coding.AppendSlice(coding.AppendUvarint(dst, uint64(tag)), value)
}

// appendUvarintField appends a field whose value is a varint64 with its length in front.
func appendUvarintField(dst []byte, tag uint32, v uint64) []byte {
	dst = coding.AppendUvarint(dst, uint64(tag))
	dst = append(dst, byte(coding.UvarintLen(v)))
	return coding.AppendUvarint(dst, v)
}

func appendInternalKey(dst, userKey []byte, trailer uint64) []byte {
	dst = coding.AppendUvarint(dst, uint64(len(userKey)+keys.TrailerLen))
	return keys.AppendInternal(dst, userKey, trailer)
}
