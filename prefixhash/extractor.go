// Package prefixhash turns a user key into a prefix, a prefix into a hash, and a
// hash into a bucket. It does not know whether a memtable or a file holds the
// bucket, so that one hash per read serves both.
//
// A prefix extractor is one of, by the id that OPTIONS files and table
// properties store:
//
//	rocksdb.FixedPrefix.N    first N bytes            keys of at least N bytes
//	rocksdb.CappedPrefix.N   first min(N, len) bytes  every key
//	rocksdb.Noop             the whole key            every key
//	any other name           a Go function            where it says so
//
// The hash of a prefix is RocksDB's GetSliceHash (package hash); plain tables
// store what depends on it.
//
// Fact sheet: plain-table, sections 3, 11 and 12; options-file, section 4.
package prefixhash

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// ErrUnknownExtractor matches the error of Parse for a name that no built-in
// extractor has; the caller may know a custom extractor of that name.
var ErrUnknownExtractor = errors.New("unknown prefix extractor")

const (
	fixedName  = "rocksdb.FixedPrefix"
	cappedName = "rocksdb.CappedPrefix"
	noopName   = "rocksdb.Noop"
)

// Extractor finds the prefix of a user key. It is immutable and safe for
// concurrent use. A nil *Extractor means that there is none: no key is in its
// domain.
//
// Keys that share a prefix must lie next to each other in the family's order.
// The built-in extractors do so under both byte orders; with a custom
// comparator or extractor it is the caller's promise, as it is in RocksDB.
type Extractor struct {
	// The three built-in extractors are one: keys shorter than least are outside
	// the domain, others have a prefix of at most most bytes. A key of most bytes
	// or more needs no other test; a custom extractor's most is beyond every key.
	least, most int
	custom      func(key []byte) int
	name        string
}

// Fixed takes the first n bytes; shorter keys are outside its domain. A negative
// n counts as zero.
func Fixed(n int) *Extractor {
	n = max(n, 0)
	return &Extractor{least: n, most: n, name: fixedName + "." + strconv.Itoa(n)}
}

// Capped takes the first n bytes, or the whole key if that is shorter. A
// negative n counts as zero.
func Capped(n int) *Extractor {
	n = max(n, 0)
	return &Extractor{most: n, name: cappedName + "." + strconv.Itoa(n)}
}

// Noop takes the whole key.
func Noop() *Extractor { return &Extractor{most: math.MaxInt, name: noopName} }

// Custom takes what prefixLen says: the length of the prefix, or -1 for a key
// outside the domain. prefixLen must be a pure function, safe for concurrent
// use. The name is stored in OPTIONS files and table properties. A length
// beyond the key's counts as the whole key, any negative one as -1.
func Custom(name string, prefixLen func(key []byte) int) *Extractor {
	return &Extractor{most: math.MaxInt, custom: prefixLen, name: name}
}

// Parse builds an extractor from its text in an OPTIONS file, a table property
// or an option string: an id of the package comment, "fixed:N", "capped:N", the
// object form "{id=…;}", and "nullptr" or nothing for none (nil, nil). The error
// for any other name matches ErrUnknownExtractor.
func Parse(s string) (*Extractor, error) {
	id := strings.TrimSpace(s)
	if inner, ok := strings.CutPrefix(id, "{"); ok {
		inner, ok = strings.CutSuffix(inner, "}")
		if !ok {
			return nil, fmt.Errorf("prefix extractor %q: no closing brace", s)
		}
		id = ""
		for _, field := range strings.Split(inner, ";") {
			name, value, _ := strings.Cut(field, "=")
			switch strings.TrimSpace(name) {
			case "":
			case "id":
				id = strings.TrimSpace(value)
			default:
				return nil, fmt.Errorf("prefix extractor %q: unexpected field %q", s, name)
			}
		}
	}
	switch id {
	case "", "nullptr":
		return nil, nil
	case noopName:
		return Noop(), nil
	}
	for _, form := range [...]struct {
		start string
		build func(int) *Extractor
	}{{fixedName + ".", Fixed}, {"fixed:", Fixed}, {cappedName + ".", Capped}, {"capped:", Capped}} {
		digits, ok := strings.CutPrefix(id, form.start)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("prefix extractor %q: %q is not a length in bytes", s, digits)
		}
		return form.build(int(n)), nil
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownExtractor, s)
}

// Name is the id that OPTIONS files and table properties store; "nullptr" for a
// nil Extractor.
func (e *Extractor) Name() string {
	if e == nil {
		return "nullptr"
	}
	return e.name
}

// String is Name.
func (e *Extractor) String() string { return e.Name() }

// PrefixLen is the length of key's prefix in bytes, or -1 when key is outside
// the domain or e is nil. Fixed and Capped are inlined into the caller for keys
// that are not shorter than the prefix.
func (e *Extractor) PrefixLen(key []byte) int {
	if e != nil && len(key) >= e.most {
		return e.most
	}
	return e.slowPrefixLen(key)
}

func (e *Extractor) slowPrefixLen(key []byte) int {
	switch {
	case e == nil:
		return -1
	case e.custom != nil:
		return max(-1, min(e.custom(key), len(key)))
	case len(key) < e.least:
		return -1
	}
	return min(len(key), e.most)
}

// TooShort reports whether key ends before the prefix that longer keys beginning
// with it have, as a key of two bytes does under Capped(4) or Fixed(4). Noop has no
// such keys, and of a custom extractor none are known.
func (e *Extractor) TooShort(key []byte) bool {
	return e != nil && e.most != math.MaxInt && len(key) < e.most
}

// Prefix is key's prefix, borrowed from key; ok is false outside the domain.
func (e *Extractor) Prefix(key []byte) (prefix []byte, ok bool) {
	n := e.PrefixLen(key)
	if n < 0 {
		return nil, false
	}
	return key[:n:n], true
}

// Prepare fills look.PrefixLen and look.Hash from look.UserKey. It is the one
// place where a read hashes its key.
func (e *Extractor) Prepare(look *keys.Lookup) {
	n := e.PrefixLen(look.UserKey)
	look.PrefixLen = n
	if n < 0 {
		look.Hash = 0
		return
	}
	look.Hash = hash.Slice(look.UserKey[:n])
}

// Hash is what Prepare computes, for writers: the prefix length and the hash of
// the prefix (zero outside the domain).
func (e *Extractor) Hash(key []byte) (prefixLen int, h uint32) {
	n := e.PrefixLen(key)
	if n < 0 {
		return n, 0
	}
	return n, hash.Slice(key[:n])
}
