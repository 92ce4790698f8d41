package iterator

import (
	"bytes"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Files is one sorted level: files in key order that share no user key. It must
// not change while an iterator uses it.
type Files interface {
	Len() int
	// Smallest and Largest are the internal key bounds of file i; the keys are
	// borrowed. Largest may be the end of a range tombstone, which no entry has.
	Smallest(i int) (userKey []byte, trailer uint64)
	Largest(i int) (userKey []byte, trailer uint64)
	// Open returns an iterator over file i, which the Level closes.
	Open(i int) (table.Iterator, error)
}

// Bounds are the internal key bounds of a file.
type Bounds struct {
	Smallest, Largest               []byte
	SmallestTrailer, LargestTrailer uint64
}

// FileList is a Files made of a slice and a function.
type FileList struct {
	Bounds   []Bounds
	OpenFile func(i int) (table.Iterator, error)
}

// Len is the number of files.
func (l *FileList) Len() int { return len(l.Bounds) }

// Smallest is the lower bound of file i.
func (l *FileList) Smallest(i int) ([]byte, uint64) {
	return l.Bounds[i].Smallest, l.Bounds[i].SmallestTrailer
}

// Largest is the upper bound of file i.
func (l *FileList) Largest(i int) ([]byte, uint64) {
	return l.Bounds[i].Largest, l.Bounds[i].LargestTrailer
}

// Open opens file i.
func (l *FileList) Open(i int) (table.Iterator, error) { return l.OpenFile(i) }

// Level walks the files of one sorted level as one run. It holds one file open
// at a time and opens a file only when a seek or step lands in its bounds. It
// implements table.Iterator; the zero Level is ready for Init.
type Level struct {
	order keys.Order
	files Files
	index int            // of the open file
	it    table.Iterator // iterator over file index; nil when none is open
	valid bool
	err   error
}

// NewLevel returns a Level over files.
func NewLevel(order keys.Order, files Files) *Level {
	l := new(Level)
	l.Init(order, files)
	return l
}

// Init makes l walk files. It must be closed, or new.
func (l *Level) Init(order keys.Order, files Files) {
	*l = Level{order: order, files: files, index: -1}
}

// open makes file i the open one. It reports false when i is outside the level,
// or when opening failed.
func (l *Level) open(i int) bool {
	l.valid = false
	if i < 0 || i >= l.files.Len() {
		return false
	}
	if l.it != nil && l.index == i {
		return true
	}
	if !l.closeFile() {
		return false
	}
	it, err := l.files.Open(i)
	if err != nil {
		l.err = err
		return false
	}
	l.it, l.index = it, i
	return true
}

func (l *Level) closeFile() bool {
	if l.it == nil {
		return true
	}
	err := l.it.Close()
	l.it, l.index = nil, -1
	if err != nil && l.err == nil {
		l.err = err
	}
	return l.err == nil
}

// land notes the answer of a positioning call on the open file: true if it ends
// the search, because it found an entry or failed.
func (l *Level) land(ok bool) bool {
	if ok {
		l.valid = true
		return true
	}
	l.err = l.it.Err()
	return l.err != nil
}

// forwardFrom finds the first entry of file i or, if it has none, of a later one.
func (l *Level) forwardFrom(i int) bool {
	for l.open(i) && !l.land(l.it.First()) {
		i++
	}
	return l.valid
}

func (l *Level) backwardFrom(i int) bool {
	for l.open(i) && !l.land(l.it.Last()) {
		i--
	}
	return l.valid
}

// sentinelTrailer marks a largest bound that is the end of a range tombstone: no
// entry of that user key is in the file.
const sentinelTrailer = keys.MaxSeq<<8 | uint64(keys.KindRangeDelete)

// find returns the first file whose largest bound is at or after the key.
func (l *Level) find(userKey []byte, trailer uint64) int {
	lo, hi := 0, l.files.Len()
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		k, t := l.files.Largest(mid)
		c := l.order.CompareInternal(k, t, userKey, trailer)
		if c < 0 || t == sentinelTrailer && l.order.Compare(k, userKey) == 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// SeekGE opens the one file that may hold the key, and its successor only if the
// file turns out to have nothing at or after it.
func (l *Level) SeekGE(userKey []byte, trailer uint64) bool {
	l.err, l.valid = nil, false
	i := l.find(userKey, trailer)
	if !l.open(i) {
		return false
	}
	if l.land(l.it.SeekGE(userKey, trailer)) {
		return l.valid
	}
	return l.forwardFrom(i + 1)
}

// SeekPrefixGE opens a file only if its bounds allow the prefix in it.
func (l *Level) SeekPrefixGE(look *keys.Lookup, trailer uint64) bool {
	l.err, l.valid = nil, false
	prefix := look.UserKey[:look.PrefixLen]
	for i := l.find(look.UserKey, trailer); i < l.files.Len(); i++ {
		small, smallTr := l.files.Smallest(i)
		if l.order.CompareInternal(small, smallTr, look.UserKey, trailer) > 0 && !bytes.HasPrefix(small, prefix) {
			return false // everything from here on is past the prefix
		}
		if !l.open(i) || l.land(l.it.SeekPrefixGE(look, trailer)) {
			return l.valid
		}
		// The keys of the prefix may go on in the next file only if they reach
		// the end of this one.
		if large, _ := l.files.Largest(i); !bytes.HasPrefix(large, prefix) {
			return false
		}
	}
	return false
}

// SeekLT opens the file that may hold entries before the key.
func (l *Level) SeekLT(userKey []byte, trailer uint64) bool {
	l.err, l.valid = nil, false
	i := l.find(userKey, trailer)
	if i == l.files.Len() {
		return l.backwardFrom(i - 1)
	}
	small, smallTr := l.files.Smallest(i)
	if l.order.CompareInternal(small, smallTr, userKey, trailer) >= 0 {
		return l.backwardFrom(i - 1)
	}
	if !l.open(i) {
		return false
	}
	if l.land(l.it.SeekLT(userKey, trailer)) {
		return l.valid
	}
	return l.backwardFrom(i - 1)
}

// First opens the first file.
func (l *Level) First() bool {
	l.err = nil
	return l.forwardFrom(0)
}

// Last opens the last file.
func (l *Level) Last() bool {
	l.err = nil
	return l.backwardFrom(l.files.Len() - 1)
}

// Next moves on, into the next file if need be.
func (l *Level) Next() bool {
	if l.it.Next() {
		return true
	}
	l.valid = false
	if l.land(false) {
		return false
	}
	return l.forwardFrom(l.index + 1)
}

// Prev moves back, into the previous file if need be.
func (l *Level) Prev() bool {
	if l.it.Prev() {
		return true
	}
	l.valid = false
	if l.land(false) {
		return false
	}
	return l.backwardFrom(l.index - 1)
}

// Valid reports whether l stands on an entry.
func (l *Level) Valid() bool { return l.valid }

// UserKey is the user key of the current entry, borrowed until the next move.
func (l *Level) UserKey() []byte { return l.it.UserKey() }

// Trailer is the trailer of the current entry.
func (l *Level) Trailer() uint64 { return l.it.Trailer() }

// Value is the value of the current entry, borrowed until the next move.
func (l *Level) Value() []byte { return l.it.Value() }

// FileIndex is the open file's index, -1 if none is open: where a current entry
// or an error comes from.
func (l *Level) FileIndex() int { return l.index }

// Err is the error that made l invalid, nil at an end.
func (l *Level) Err() error { return l.err }

// Close closes the open file, if any. l may be used again after Init.
func (l *Level) Close() error {
	err := error(nil)
	if l.it != nil {
		err = l.it.Close()
	}
	l.it, l.files, l.valid, l.index = nil, nil, false, -1
	return err
}

var _ table.Iterator = (*Level)(nil)
