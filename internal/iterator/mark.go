package iterator

import "github.com/flatrock-db/flatrock/internal/keys"

// mark is the entry that a walk stood on when it last seeked instead of stepping. In a damaged
// file whose entries are not in order a seek may lead back to where the walk came from,
// and from there on again, for good. Steps alone cannot: they come to the end of every file.
type mark struct {
	dir     direction // of the walk; unpositioned before its first seek
	key     []byte
	trailer uint64
}

// passed moves the mark to the current entry, which must lie beyond it in a walk in direction d. If it does
// not, u.err is set and it reports false.
func (u *User) passed(d direction) bool {
	key, trailer := u.m.UserKey(), u.m.Trailer()
	if u.mark.dir == d {
		c := u.o.Order.CompareInternal(key, trailer, u.mark.key, u.mark.trailer)
		if d == forward && c <= 0 || d == backward && c >= 0 {
			u.err = keys.Corruptf("table files", -1, "expected keys in their order, found key %q after key %q", key, u.mark.key)
			return false
		}
	}
	u.mark.dir, u.mark.trailer = d, trailer
	u.mark.key = append(u.mark.key[:0], key...)
	return true
}
