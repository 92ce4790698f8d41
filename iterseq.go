package flatrock

import (
	"bytes"
	"iter"

	"github.com/flatrock-db/flatrock/internal/iterator"
)

// The sequences of an Iterator: for loops over keys and values. Both are valid until
// the next step, or with ReadOptions.PinData until Close. An error ends the loop:
// ask Err afterwards.

// All walks forward from the first key.
func (it *Iterator) All() iter.Seq2[[]byte, []byte] { return it.forward(it.First) }

// Range walks forward from the first key at or after start.
func (it *Iterator) Range(start []byte) iter.Seq2[[]byte, []byte] {
	return it.forward(func() bool { return it.SeekGE(start) })
}

// Backward walks back from the last key.
func (it *Iterator) Backward() iter.Seq2[[]byte, []byte] { return it.backward(it.Last) }

// BackwardFrom walks back from the last key at or before start.
func (it *Iterator) BackwardFrom(start []byte) iter.Seq2[[]byte, []byte] {
	return it.backward(func() bool { return it.SeekLE(start) })
}

// Prefix walks forward over the keys that begin with prefix, which may be shorter or
// longer than what the family's PrefixExtractor takes. With a custom comparator
// such keys must be neighbours.
func (it *Iterator) Prefix(prefix []byte) iter.Seq2[[]byte, []byte] {
	walk := it.Range(prefix)
	if it.in != nil && (it.in.ro.PrefixSameAsStart || !it.in.order.Bytewise()) {
		// The walk would stay within another prefix than this one, or the prefix itself
		// need not come first among the keys that begin with it.
		walk = it.forward(func() bool { return it.firstWith(prefix) })
	}
	return func(yield func(key, value []byte) bool) {
		for k, v := range walk {
			if !bytes.HasPrefix(k, prefix) || !yield(k, v) {
				return
			}
		}
	}
}

// firstWith moves to the first key that begins with prefix, in any order and whatever
// the prefix extractor says. In the reverse order those lie before the prefix itself.
func (it *Iterator) firstWith(prefix []byte) bool {
	order := it.in.order
	return it.seek(func(u *iterator.User) bool {
		return u.InTotalOrder(func(u *iterator.User) bool {
			if order.Bytewise() {
				return u.SeekGE(prefix)
			}
			if order.Custom() {
				for ok := u.First(); ok; ok = u.Next() {
					if bytes.HasPrefix(u.Key(), prefix) {
						return true
					}
				}
				return false
			}
			end := bytes.Clone(prefix) // becomes what sorts right before those keys
			for n := len(end); n > 0; n-- {
				if end[n-1] == 0xff {
					continue
				}
				end[n-1]++
				ok := u.SeekGE(end[:n])
				if ok && bytes.Equal(u.Key(), end[:n]) {
					ok = u.Next()
				}
				return ok
			}
			return u.First()
		})
	})
}

func (it *Iterator) forward(begin func() bool) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := begin(); ok && yield(it.Key(), it.Value()); ok = it.Next() {
		}
	}
}

func (it *Iterator) backward(begin func() bool) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := begin(); ok && yield(it.Key(), it.Value()); ok = it.Prev() {
		}
	}
}
