package flatrock

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// Merge operators and comparators of the families of TestModel.

// modelMerge is a merge operator, and what it does to one value of the model.
type modelMerge struct {
	operator MergeOperator
	model    func(old string, exists bool, operand string) string
	counts   bool // operands are numbers of 8 bytes
}

var modelMerges = map[string]modelMerge{
	"default":     {builtinMerge("stringappend"), appended(","), false},
	"resident":    {builtinMerge("uint64add"), added, true},
	"total":       {builtinMerge("max"), func(old string, exists bool, operand string) string { return max(old, operand) }, false},
	"reverse":     {builtinMerge("put"), func(_ string, _ bool, operand string) string { return operand }, false},
	"block":       {builtinMerge("bytesxor"), xored, false},
	"blockprefix": {digest{}, digested, false},
	"blocklink":   {builtinMerge("uint64add"), added, true},
	"blockvector": {builtinMerge("{id=StringAppendOperator;delimiter=--;}"), appended("--"), false},
	"noop":        {partialDigest{}, concatenated, false},
}

func builtinMerge(name string) MergeOperator {
	o, err := ParseMergeOperator(name)
	if err != nil {
		panic(err)
	}
	return o
}

func appended(delimiter string) func(string, bool, string) string {
	return func(old string, exists bool, operand string) string {
		if !exists {
			return operand
		}
		return old + delimiter + operand
	}
}

// added is uint64add: what has not 8 bytes counts as zero.
func added(old string, _ bool, operand string) string {
	number := func(s string) uint64 {
		if len(s) != 8 {
			return 0
		}
		return binary.LittleEndian.Uint64([]byte(s))
	}
	return string(binary.LittleEndian.AppendUint64(nil, number(old)+number(operand)))
}

// xored is bytesxor: the shorter one is continued with zeros.
func xored(old string, exists bool, operand string) string {
	if !exists {
		return operand
	}
	out := make([]byte, max(len(old), len(operand)))
	copy(out, old)
	for i := range len(operand) {
		out[i] ^= operand[i]
	}
	return string(out)
}

// digest is an operator that notices each operand, its place, and whether there was a value. It
// combines nothing before it has all.
type digest struct{}

func (digest) Name() string { return "test.Digest" }

func (digest) FullMerge(_, existing []byte, hasExisting bool, operands [][]byte) ([]byte, error) {
	v := string(existing)
	for _, o := range operands {
		v = digested(v, hasExisting, string(o))
		hasExisting = true
	}
	return []byte(v), nil
}

func digested(old string, exists bool, operand string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %v %s %s", len(old), exists, old, operand)
	return fmt.Sprintf("%016x", h.Sum64())
}

// partialDigest concatenates, and combines some operands early and others not.
type partialDigest struct{}

func (partialDigest) Name() string { return "test.PartialDigest" }

func (partialDigest) FullMerge(_, existing []byte, _ bool, operands [][]byte) ([]byte, error) {
	return append(bytes.Clone(existing), bytes.Join(operands, nil)...), nil
}

func (partialDigest) PartialMerge(_ []byte, operands [][]byte) ([]byte, bool) {
	all := bytes.Join(operands, nil)
	return all, len(all)%3 != 0
}

func concatenated(old string, _ bool, operand string) string { return old + operand }

// shortFirst is an order of a program's own: shorter keys before longer ones.
type shortFirst struct{}

func (shortFirst) Name() string { return "test.ShortFirst" }

func (shortFirst) Compare(a, b []byte) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b))
}

func (shortFirst) AppendSeparator(dst, a, _ []byte) []byte { return append(dst, a...) }
func (shortFirst) AppendSuccessor(dst, a []byte) []byte    { return append(dst, a...) }
