package keys

import "bytes"

// Comparator orders user keys. Its name is stored in the MANIFEST; a database
// opens only with comparators of the names that wrote it. Implementations must
// be safe for concurrent use and consistent: equal only for identical bytes.
type Comparator interface {
	// Name identifies the order on disk, such as "leveldb.BytewiseComparator".
	Name() string
	// Compare returns a negative number, zero or a positive number as a sorts
	// before, with or after b.
	Compare(a, b []byte) int
	// AppendSeparator appends a short key s with a <= s < b to dst, given a < b.
	// Appending a itself is always right.
	AppendSeparator(dst, a, b []byte) []byte
	// AppendSuccessor appends a short key s with a <= s to dst. Appending a
	// itself is always right.
	AppendSuccessor(dst, a []byte) []byte
}

// Bytewise is RocksDB's default order, "leveldb.BytewiseComparator".
var Bytewise Comparator = bytewise{}

// ReverseBytewise is the opposite order, "rocksdb.ReverseBytewiseComparator".
var ReverseBytewise Comparator = reverseBytewise{}

type bytewise struct{}

func (bytewise) Name() string            { return "leveldb.BytewiseComparator" }
func (bytewise) Compare(a, b []byte) int { return bytes.Compare(a, b) }

func (bytewise) AppendSeparator(dst, a, b []byte) []byte {
	d := commonPrefixLen(a, b)
	if d == len(a) || d == len(b) || a[d] >= b[d] {
		return append(dst, a...)
	}
	if d < len(b)-1 || a[d]+1 < b[d] {
		dst = append(dst, a[:d+1]...)
		dst[len(dst)-1]++
		return dst
	}
	// a[d]+1 == b[d] and b ends there: only a byte after d may grow.
	for i := d + 1; i < len(a); i++ {
		if a[i] != 0xff {
			dst = append(dst, a[:i+1]...)
			dst[len(dst)-1]++
			return dst
		}
	}
	return append(dst, a...)
}

func (bytewise) AppendSuccessor(dst, a []byte) []byte {
	for i, c := range a {
		if c != 0xff {
			dst = append(dst, a[:i+1]...)
			dst[len(dst)-1]++
			return dst
		}
	}
	return append(dst, a...)
}

type reverseBytewise struct{}

func (reverseBytewise) Name() string            { return "rocksdb.ReverseBytewiseComparator" }
func (reverseBytewise) Compare(a, b []byte) int { return bytes.Compare(b, a) }

func (reverseBytewise) AppendSeparator(dst, a, b []byte) []byte {
	d := commonPrefixLen(a, b)
	if d < len(a) && d < len(b) && a[d] > b[d] && d < len(a)-1 {
		return append(dst, a[:d+1]...)
	}
	return append(dst, a...)
}

func (reverseBytewise) AppendSuccessor(dst, a []byte) []byte { return append(dst, a...) }

func commonPrefixLen(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Order compares through a Comparator, with the two built-in orders called
// directly: an interface call per comparison costs more than the comparison.
// The zero Order is bytewise.
type Order struct {
	custom Comparator // nil for the two built-in orders
	rev    bool
}

// NewOrder wraps c; nil means Bytewise.
func NewOrder(c Comparator) Order {
	switch c.(type) {
	case nil, bytewise:
		return Order{}
	case reverseBytewise:
		return Order{rev: true}
	}
	return Order{custom: c}
}

// Comparator returns the wrapped comparator.
func (o Order) Comparator() Comparator {
	switch {
	case o.custom != nil:
		return o.custom
	case o.rev:
		return ReverseBytewise
	}
	return Bytewise
}

// Bytewise reports whether o is the plain byte order.
func (o Order) Bytewise() bool { return o.custom == nil && !o.rev }

// Custom reports whether o is neither of the two built-in orders.
func (o Order) Custom() bool { return o.custom != nil }

// Compare orders two user keys.
func (o Order) Compare(a, b []byte) int {
	if o.custom != nil {
		return o.custom.Compare(a, b)
	}
	if o.rev {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}

// CompareInternal orders two internal keys given as pairs: by user key, then by
// trailer descending.
func (o Order) CompareInternal(aKey []byte, aTrailer uint64, bKey []byte, bTrailer uint64) int {
	if c := o.Compare(aKey, bKey); c != 0 {
		return c
	}
	switch {
	case aTrailer > bTrailer:
		return -1
	case aTrailer < bTrailer:
		return 1
	}
	return 0
}
