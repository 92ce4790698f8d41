package keys

import "encoding/binary"

// Head is the first eight bytes of a user key as a number: less than that of another key only if the key comes before it
// bytewise.
func Head(userKey []byte) uint64 {
	if len(userKey) >= 8 {
		return binary.BigEndian.Uint64(userKey)
	}
	var b [8]byte
	copy(b[:], userKey)
	return binary.BigEndian.Uint64(b[:])
}
