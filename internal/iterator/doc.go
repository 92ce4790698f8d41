// Package iterator merges sorted runs and hides what a snapshot may not see, for
// both the root and compaction.
//
//   - Merging walks several sources in internal key order.
//   - Level walks the files of one sorted level, opening each when needed.
//   - User walks the user keys that a snapshot sees, with their values.
//
// All of them reuse their buffers: once warm, a step allocates nothing, and a
// User or Level kept in a pool and Reset costs no allocation either.
package iterator

import "github.com/flatrock-db/flatrock/internal/keys"

// Prefixer finds prefixes: a *prefixhash.Extractor. Keys of one prefix must be
// neighbours in the key order. A field of this type must be nil, not a nil
// pointer, when there is no extractor.
type Prefixer interface {
	// PrefixLen is the length of key's prefix, -1 if it has none.
	PrefixLen(key []byte) int
	// TooShort reports whether key ends before the prefix that longer keys have.
	TooShort(key []byte) bool
	// Prepare fills PrefixLen and Hash of look from its UserKey.
	Prepare(look *keys.Lookup)
}

// firstTrailer sorts before every entry of a user key, lastTrailer after every
// entry but a delete of sequence number zero, which hides nothing.
const (
	firstTrailer = keys.MaxSeq<<8 | uint64(keys.KindSeek)
	lastTrailer  = uint64(0)
)
