package stress

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/flatrock-db/flatrock"
)

// A value is a function of its id, which is never zero; zero stands for no value. The
// top byte of an id is its tag: 0 for a plain value, else the value is the default column of an
// entity, whose other columns the tag says. Merging changes the id below the tag.
const (
	tagShift = 56
	idMask   = 1<<tagShift - 1
)

// mix is the finaliser of splitmix64: a bijection that spreads.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// minValue is how many bytes every value has: its id.
const minValue = 8

// valueLen is mostly small, now and then several blocks.
func valueLen(id uint64) int {
	h := mix(id ^ 0x76616c75656c656e)
	switch n := int(h >> 40); {
	case h%128 == 0:
		return minValue + n%9000
	case h%4 == 0:
		return minValue + n%300
	default:
		return minValue + n%40
	}
}

// appendValue appends the value of id: the id, then bytes that compress a little.
func appendValue(dst []byte, id uint64) []byte {
	n := valueLen(id)
	dst = binary.LittleEndian.AppendUint64(dst, id)
	n -= 8
	for word := uint64(0); n > 0; word++ {
		w := mix(id + word/3)
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], w)
		dst = append(dst, b[:min(n, 8)]...)
		n -= 8
	}
	return dst
}

// appendColumns appends the columns of an entity of id.
func appendColumns(dst []flatrock.Column, id uint64) []flatrock.Column {
	dst = append(dst, flatrock.Column{Value: appendValue(nil, id)})
	tag := id >> tagShift
	if tag == 0 {
		return dst
	}
	for i := range tag % 4 {
		n := mix(tag<<8 | i)
		dst = append(dst, flatrock.Column{Name: fmt.Appendf(nil, "column%d", i), Value: bytes.Repeat([]byte{byte(n)}, int(n>>8%60))})
	}
	return dst
}

// sameColumns compares what was read as an entity with that of an id.
func sameColumns(id uint64, columns []flatrock.Column) error {
	if len(columns) == 0 || len(columns[0].Name) > 0 {
		return fmt.Errorf("it has no default column but %q", columns)
	}
	if err := sameValue(id, columns[0].Value, true); err != nil {
		return err
	}
	want := appendColumns(nil, id)
	same := func(a, b flatrock.Column) bool { return bytes.Equal(a.Name, b.Name) && bytes.Equal(a.Value, b.Value) }
	if !slices.EqualFunc(columns[1:], want[1:], same) {
		return fmt.Errorf("beside the value of id %#x it has the columns %q; want %q", id, columns[1:], want[1:])
	}
	return nil
}

// idOf is what a value says of itself; whether that is true, checkValue says.
func idOf(value []byte) uint64 {
	if len(value) < minValue {
		return 0
	}
	return binary.LittleEndian.Uint64(value)
}

// describe says what a value is, for messages.
func describe(value []byte, exists bool) string {
	if !exists {
		return "no value"
	}
	id := idOf(value)
	if string(appendValue(nil, id)) != string(value) {
		return fmt.Sprintf("%d bytes that nobody wrote: %.32x", len(value), value)
	}
	return fmt.Sprintf("the value of id %#x, %d bytes", id, len(value))
}

// merged is the id of a value onto which an operand was merged.
func merged(id, operand uint64) uint64 {
	m := mix(id*3^mix(operand)) & idMask
	if m == 0 {
		m = 1
	}
	return m | id&^idMask
}

// chain is the merge operator: operands are ids, and the value that comes of them
// depends on all of them and on their order.
type chain struct{}

func (chain) Name() string { return "flatrock.stress.Chain" }

func (chain) FullMerge(key, existing []byte, has bool, operands [][]byte) ([]byte, error) {
	var id uint64
	if has {
		if id = idOf(existing); id == 0 || string(appendValue(nil, id)) != string(existing) {
			return nil, fmt.Errorf("key %q: merging onto %s", key, describe(existing, true))
		}
	}
	for _, op := range operands {
		if len(op) == 0 || len(op)%8 != 0 {
			return nil, fmt.Errorf("key %q: an operand of %d bytes", key, len(op))
		}
		for ; len(op) > 0; op = op[8:] {
			id = merged(id, binary.LittleEndian.Uint64(op))
		}
	}
	return appendValue(nil, id), nil
}

// PartialMerge joins operands: FullMerge takes them apart again.
func (chain) PartialMerge(_ []byte, operands [][]byte) ([]byte, bool) {
	var all []byte
	for _, op := range operands {
		all = append(all, op...)
	}
	return all, true
}
