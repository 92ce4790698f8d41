// Package entity codes wide-column entities: the values of entries of kind 0x16.
//
// All numbers are varint32. Version 1:
//
//	1            version
//	n            number of columns
//	n times:     name length, name, value length
//	values       one after another, in column order
//
// Version 2 (newer RocksDB; a column may refer to a blob file):
//
//	2            version
//	n            number of columns
//	3 sizes      bytes taken by: name sizes, value sizes, names
//	n bytes      a kind per column: 1 value, 0x11 blob index
//	name sizes, value sizes, names, values
//
// Columns are in byte order of their names, each name once. The default column
// has the empty name, and so comes first if it is there.
//
// Fact sheet: wal, section 4 ("Entity"); block-table, section 6. Version 1 is
// proved by the golden database d18_wide_columns; version 2 is from RocksDB's
// description of it alone. Only version 1 is written.
package entity

import (
	"bytes"
	"fmt"
	"math"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// Column is one named value of an entity.
type Column struct{ Name, Value []byte }

const (
	version1 = 1
	version2 = 2
)

// corrupt reports damage at off bytes into an entity; the caller that knows the
// file adds it by wrapping.
func corrupt(off int, format string, args ...any) error {
	return keys.Corruptf("wide-column entity", int64(off), format, args...)
}

// Default returns the value of the default column of entity, borrowed from it.
// An entity without a default column gives an empty value, as RocksDB's Get
// does. No allocation.
func Default(entity []byte) (value []byte, err error) {
	var w walker
	if err := w.init(entity); err != nil {
		return nil, err
	}
	if w.left == 0 {
		return nil, nil
	}
	// The default column is first or absent, but the whole index is read: the
	// values begin after it, and damage anywhere must not go unseen.
	first, err := w.next()
	if err != nil {
		return nil, err
	}
	for w.left > 0 {
		if _, err := w.next(); err != nil {
			return nil, err
		}
	}
	if err := w.finish(); err != nil || len(first.name) > 0 {
		return nil, err
	}
	if first.kind != keys.KindValue {
		return nil, fmt.Errorf("%w: %v", ErrColumnKind, first.kind)
	}
	values := w.values()
	return values[:first.size:first.size], nil
}

// Decode appends the columns of entity to dst, borrowed from entity.
func Decode(dst []Column, entity []byte) ([]Column, error) {
	var w walker
	if err := w.init(entity); err != nil {
		return dst, err
	}
	start := len(dst)
	for w.left > 0 {
		c, err := w.next()
		if err != nil {
			return dst[:start], err
		}
		if c.kind != keys.KindValue {
			return dst[:start], fmt.Errorf("%w: column %.64q: %v", ErrColumnKind, c.name, c.kind)
		}
		// The value's place is known only once the index has been read: until
		// then the slice carries nothing but its length.
		dst = append(dst, Column{Name: c.name, Value: entity[:c.size:c.size]})
	}
	if err := w.finish(); err != nil {
		return dst[:start], err
	}
	values := w.values()
	for i := start; i < len(dst); i++ {
		n := len(dst[i].Value)
		dst[i].Value, values = values[:n:n], values[n:]
	}
	return dst, nil
}

// Append appends the version 1 encoding of columns to dst. The columns must be
// sorted by name, without duplicates.
func Append(dst []byte, columns []Column) ([]byte, error) {
	n := len(dst)
	dst = coding.AppendUvarint(dst, version1)
	dst = coding.AppendUvarint(dst, uint64(len(columns)))
	for i, c := range columns {
		if i > 0 && bytes.Compare(columns[i-1].Name, c.Name) >= 0 {
			return dst[:n], fmt.Errorf("columns out of order: %q is not after %q", c.Name, columns[i-1].Name)
		}
		if uint64(len(c.Name)) > math.MaxUint32 || uint64(len(c.Value)) > math.MaxUint32 {
			return dst[:n], fmt.Errorf("column %.64q: name or value over 4 GiB", c.Name)
		}
		dst = coding.AppendSlice(dst, c.Name)
		dst = coding.AppendUvarint(dst, uint64(len(c.Value)))
	}
	for _, c := range columns {
		dst = append(dst, c.Value...)
	}
	return dst, nil
}

// ReplaceDefault appends entity to dst with its default column set to value:
// what a merge onto an entity gives. The other columns stay as they are.
func ReplaceDefault(dst, entity, value []byte) ([]byte, error) {
	var room [16]Column
	columns, err := Decode(append(room[:0], Column{}), entity)
	if err != nil {
		return dst, err
	}
	columns[0].Value = value
	if len(columns) > 1 && len(columns[1].Name) == 0 {
		columns = columns[1:]
		columns[0].Value = value
	}
	return Append(dst, columns)
}

// walker reads the index of an entity of either version, a column at a time.
type walker struct {
	entity []byte
	left   int // columns not read yet
	prev   []byte
	first  bool
	total  uint64 // sum of the value sizes so far

	rest []byte // version 1: the index from here on; version 2: unread name sizes

	v2         bool
	kinds      []byte
	valueSizes []byte
	names      []byte
	body       []byte // version 2: the values
}

type indexEntry struct {
	name []byte
	size int // of the value
	kind keys.Kind
}

func (w *walker) init(entity []byte) error {
	version, rest, ok := coding.Uvarint32(entity)
	if !ok {
		return corrupt(0, "expected a version, found %d bytes", len(entity))
	}
	if version != version1 && version != version2 {
		return corrupt(0, "expected version 1 or 2, found %d", version)
	}
	n, rest, ok := coding.Uvarint32(rest)
	// A column takes two bytes at least, which bounds n by what is there.
	if !ok || uint64(n) > uint64(len(rest))/2 {
		return corrupt(len(entity)-len(rest), "expected a number of columns that fits %d bytes", len(rest))
	}
	w.entity, w.left, w.first, w.rest = entity, int(n), true, rest
	if version == version2 {
		return w.initV2(int(n))
	}
	return nil
}

func (w *walker) initV2(n int) error {
	w.v2 = true
	var sizes [3]uint32
	rest := w.rest
	for i := range sizes {
		var ok bool
		if sizes[i], rest, ok = coding.Uvarint32(rest); !ok {
			return corrupt(w.offset(rest), "expected three section sizes")
		}
	}
	need := uint64(n) + uint64(sizes[0]) + uint64(sizes[1]) + uint64(sizes[2])
	if need > uint64(len(rest)) {
		return corrupt(w.offset(rest), "expected sections of %d bytes, found %d", need, len(rest))
	}
	w.kinds, rest = rest[:n], rest[n:]
	w.rest, rest = rest[:sizes[0]], rest[sizes[0]:]
	w.valueSizes, rest = rest[:sizes[1]], rest[sizes[1]:]
	w.names, w.body = rest[:sizes[2]], rest[sizes[2]:]
	return nil
}

// offset is where rest, a tail of the entity, begins.
func (w *walker) offset(rest []byte) int { return len(w.entity) - len(rest) }

func (w *walker) next() (e indexEntry, err error) {
	var size uint32
	e.kind = keys.KindValue
	if w.v2 {
		e.kind = keys.Kind(w.kinds[0])
		w.kinds = w.kinds[1:]
		e.name, size, err = w.nextV2()
	} else {
		e.name, size, err = w.nextV1()
	}
	if err != nil {
		return e, err
	}
	if !w.first && bytes.Compare(w.prev, e.name) >= 0 {
		return e, corrupt(-1, "expected column names in order, found %.64q after %.64q", e.name, w.prev)
	}
	w.first, w.prev = false, e.name
	w.total += uint64(size)
	if w.total > uint64(len(w.entity)) {
		return e, corrupt(-1, "expected values within %d bytes, found sizes adding up to %d", len(w.entity), w.total)
	}
	w.left--
	e.size = int(size)
	return e, nil
}

func (w *walker) nextV1() (name []byte, size uint32, err error) {
	name, rest, ok := coding.Slice(w.rest)
	if !ok {
		return nil, 0, corrupt(w.offset(w.rest), "expected a column name")
	}
	size, rest, ok = coding.Uvarint32(rest)
	if !ok {
		return nil, 0, corrupt(w.offset(rest), "expected a value size")
	}
	w.rest = rest
	return name, size, nil
}

func (w *walker) nextV2() (name []byte, size uint32, err error) {
	var ok bool
	var nameSize uint32
	if nameSize, w.rest, ok = coding.Uvarint32(w.rest); !ok || uint64(nameSize) > uint64(len(w.names)) {
		return nil, 0, corrupt(-1, "expected a name size within %d bytes", len(w.names))
	}
	if size, w.valueSizes, ok = coding.Uvarint32(w.valueSizes); !ok {
		return nil, 0, corrupt(-1, "expected a value size")
	}
	name, w.names = w.names[:nameSize:nameSize], w.names[nameSize:]
	return name, size, nil
}

// finish checks that the sections hold exactly what the index promised.
func (w *walker) finish() error {
	if w.v2 && len(w.rest)+len(w.valueSizes)+len(w.names) > 0 {
		return corrupt(-1, "expected sections that end with the last column")
	}
	if have := uint64(len(w.values())); have != w.total {
		return corrupt(len(w.entity)-int(have), "expected %d bytes of values, found %d", w.total, have)
	}
	return nil
}

func (w *walker) values() []byte {
	if w.v2 {
		return w.body
	}
	return w.rest
}
