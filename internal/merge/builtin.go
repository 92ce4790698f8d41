package merge

import (
	"bytes"
	"encoding/binary"
)

// The names under which RocksDB registers its built-in operators.
const (
	UInt64AddName        = "UInt64AddOperator"
	StringAppendName     = "StringAppendOperator"
	StringAppendTestName = "StringAppendTESTOperator"
	MaxName              = "MaxOperator"
	PutName              = "PutOperator"
	BytesXORName         = "BytesXOR"
)

// UInt64Add returns the operator that adds 64-bit little-endian numbers, modulo
// 2^64. A missing value, or a value or operand that is not eight bytes long,
// counts as zero.
func UInt64Add() PartialMerger { return uint64Add{} }

// StringAppend returns the operator that joins the value and the operands with
// delimiter in between.
func StringAppend(delimiter string) PartialMerger { return stringAppend{delimiter} }

// StringAppendTest returns StringAppend under RocksDB's second name for it. It
// never combines operands before the value is known.
func StringAppendTest(delimiter string) Operator { return stringAppendTest{delimiter} }

// Max returns the operator that keeps the greatest of the value and the operands
// by byte order. A missing value counts as the empty string.
func Max() PartialMerger { return maxOp{} }

// Put returns the operator whose newest operand is the value.
func Put() PartialMerger { return putOp{} }

// BytesXOR returns the operator that combines byte strings by exclusive or; the
// shorter counts as if followed by zeros.
func BytesXOR() PartialMerger { return bytesXOR{} }

type uint64Add struct{}

func (uint64Add) Name() string { return UInt64AddName }

func (o uint64Add) FullMerge(key, existing []byte, has bool, operands [][]byte) ([]byte, error) {
	return o.AppendMerge(nil, key, existing, has, operands)
}

func (uint64Add) AppendMerge(dst, _, existing []byte, has bool, operands [][]byte) ([]byte, error) {
	var sum uint64
	if has {
		sum = fixed64OrZero(existing)
	}
	for _, op := range operands {
		sum += fixed64OrZero(op)
	}
	return binary.LittleEndian.AppendUint64(dst, sum), nil
}

func (o uint64Add) PartialMerge(key []byte, operands [][]byte) ([]byte, bool) {
	v, err := o.AppendMerge(nil, key, nil, false, operands)
	return v, err == nil
}

func fixed64OrZero(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

type stringAppend struct{ delimiter string }

func (stringAppend) Name() string { return StringAppendName }

// Delimiter is what stands between two operands.
func (o stringAppend) Delimiter() string { return o.delimiter }

func (o stringAppend) FullMerge(_, existing []byte, has bool, operands [][]byte) ([]byte, error) {
	return appendJoined(nil, o.delimiter, existing, has, operands), nil
}

func (o stringAppend) AppendMerge(dst, _, existing []byte, has bool, operands [][]byte) ([]byte, error) {
	return appendJoined(dst, o.delimiter, existing, has, operands), nil
}

func (o stringAppend) PartialMerge(_ []byte, operands [][]byte) ([]byte, bool) {
	return appendJoined(nil, o.delimiter, nil, false, operands), true
}

type stringAppendTest struct{ delimiter string }

func (stringAppendTest) Name() string { return StringAppendTestName }

// Delimiter is what stands between two operands.
func (o stringAppendTest) Delimiter() string { return o.delimiter }

func (o stringAppendTest) FullMerge(_, existing []byte, has bool, operands [][]byte) ([]byte, error) {
	return appendJoined(nil, o.delimiter, existing, has, operands), nil
}

func (o stringAppendTest) AppendMerge(dst, _, existing []byte, has bool, operands [][]byte) ([]byte, error) {
	return appendJoined(dst, o.delimiter, existing, has, operands), nil
}

// appendJoined is strings.Join over the value, if any, and the operands. An
// empty value still gets a delimiter after it, as in RocksDB.
func appendJoined(dst []byte, delimiter string, existing []byte, has bool, operands [][]byte) []byte {
	dst = append(dst, existing...)
	for i, op := range operands {
		if has || i > 0 {
			dst = append(dst, delimiter...)
		}
		dst = append(dst, op...)
	}
	return dst
}

type maxOp struct{}

func (maxOp) Name() string { return MaxName }

func (maxOp) FullMerge(_, existing []byte, _ bool, operands [][]byte) ([]byte, error) {
	return append([]byte(nil), greatest(existing, operands)...), nil
}

func (maxOp) AppendMerge(dst, _, existing []byte, _ bool, operands [][]byte) ([]byte, error) {
	return append(dst, greatest(existing, operands)...), nil
}

func (maxOp) PartialMerge(_ []byte, operands [][]byte) ([]byte, bool) {
	return append([]byte(nil), greatest(nil, operands)...), true
}

func greatest(existing []byte, operands [][]byte) []byte {
	best := existing
	for _, op := range operands {
		if bytes.Compare(op, best) > 0 {
			best = op
		}
	}
	return best
}

type putOp struct{}

func (putOp) Name() string { return PutName }

func (putOp) FullMerge(_, _ []byte, _ bool, operands [][]byte) ([]byte, error) {
	return append([]byte(nil), operands[len(operands)-1]...), nil
}

func (putOp) AppendMerge(dst, _, _ []byte, _ bool, operands [][]byte) ([]byte, error) {
	return append(dst, operands[len(operands)-1]...), nil
}

func (putOp) PartialMerge(_ []byte, operands [][]byte) ([]byte, bool) {
	return append([]byte(nil), operands[len(operands)-1]...), true
}

type bytesXOR struct{}

func (bytesXOR) Name() string { return BytesXORName }

func (bytesXOR) FullMerge(_, existing []byte, _ bool, operands [][]byte) ([]byte, error) {
	return appendXOR(nil, existing, operands), nil
}

func (bytesXOR) AppendMerge(dst, _, existing []byte, _ bool, operands [][]byte) ([]byte, error) {
	return appendXOR(dst, existing, operands), nil
}

func (bytesXOR) PartialMerge(_ []byte, operands [][]byte) ([]byte, bool) {
	return appendXOR(nil, nil, operands), true
}

func appendXOR(dst, existing []byte, operands [][]byte) []byte {
	start := len(dst)
	dst = append(dst, existing...)
	for _, op := range operands {
		sum := dst[start:]
		n := min(len(sum), len(op))
		for i, b := range op[:n] {
			sum[i] ^= b
		}
		dst = append(dst, op[n:]...)
	}
	return dst
}
