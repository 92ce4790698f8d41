package merge

import (
	"bytes"
	"fmt"
	"strconv"
)

// SortListName is the name under which RocksDB registers sortlist.
const SortListName = "MergeSortOperator"

// SortList returns the operator that merges lists of numbers in decimal, separated by commas, each of
// them in ascending order. As in RocksDB the existing value is left out: the result is
// that of the operands above it, so it depends on when compactions make a value of them. It never
// combines operands by itself, where RocksDB's makes an empty one of them. What is no
// number, at which RocksDB's process ends, is an error.
func SortList() Operator { return sortList{} }

type sortList struct{}

func (sortList) Name() string { return SortListName }

func (o sortList) FullMerge(key, existing []byte, has bool, operands [][]byte) ([]byte, error) {
	return o.AppendMerge(nil, key, existing, has, operands)
}

func (sortList) AppendMerge(dst, _, _ []byte, _ bool, operands [][]byte) ([]byte, error) {
	var all []int32
	for _, op := range operands {
		more, err := numbers(op)
		if err != nil {
			return dst, err
		}
		all = mergeSorted(all, more)
	}
	for i, n := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	return dst, nil
}

// mergeSorted merges as if both were sorted; of equal numbers either may come first.
func mergeSorted(a, b []int32) []int32 {
	out := make([]int32, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] < b[0] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// numbers reads a list as C's strtol reads each of its parts: white space before, a sign,
// digits, and anything after them. A zero byte ends the list.
func numbers(list []byte) (out []int32, err error) {
	list, _, _ = bytes.Cut(list, []byte{0}) // where RocksDB's ends too
	for at, begin := 0, 0; at <= len(list); at++ {
		if at < len(list) && list[at] != ',' {
			continue
		}
		n, ok := number(list[begin:at])
		if !ok {
			return nil, fmt.Errorf("operand %.40q: %.40q at %d is not a number of 32 bits", list, list[begin:at], begin)
		}
		out, begin = append(out, n), at+1
	}
	return out, nil
}

func number(part []byte) (int32, bool) {
	i := 0
	for i < len(part) && (part[i] == ' ' || part[i] >= '\t' && part[i] <= '\r') {
		i++
	}
	negative := false
	if i < len(part) && (part[i] == '-' || part[i] == '+') {
		negative = part[i] == '-'
		i++
	}
	first, n := i, int64(0)
	for ; i < len(part) && part[i] >= '0' && part[i] <= '9'; i++ {
		if n = 10*n + int64(part[i]-'0'); n > 1<<31 {
			return 0, false
		}
	}
	if negative {
		n = -n
	}
	return int32(n), i > first && n == int64(int32(n))
}
