package iterator

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/flatrock-db/flatrock/internal/entity"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
)

// ErrTooManySkipped is why an iterator stopped that stepped over more hidden
// entries than Options.MaxSkipped (RocksDB: Status::Incomplete).
var ErrTooManySkipped = errors.New("iterator skipped too many hidden entries")

// ErrUnsupportedKind matches the error of an entry whose kind needs
// Options.Resolve, when there is none.
var ErrUnsupportedKind = errors.New("unsupported kind of entry")

// ErrNoOperator is why a merge entry cannot be read without a merge operator.
var ErrNoOperator = errors.New("merge entry found, but no merge operator is set")

// SourceTombstones are the range tombstones that came with a source.
type SourceTombstones struct {
	// Source is the index of the source. In the span of a tombstone, every source
	// after it holds only older entries, so that a walk may seek past the span in
	// them. Use a number of at least the number of sources where that is not sure.
	Source int
	List   *rangedel.List
	// Seq is the newest sequence number of a tombstone that counts; zero for Options.Seq.
	Seq  uint64
	Live *rangedel.Mutable // of a memtable, instead of List
	Run  []*rangedel.List  // of the files of a level in key order, instead of List
}

// Options is what a User walks by. All of it is fixed until the next Reset.
type Options struct {
	Order keys.Order
	// Seq is the newest sequence number that the iterator may see.
	Seq uint64
	// Overlay, if not zero, is above Seq: sequence numbers from there on are visible too.
	// A batch that was not committed lies over the sources with them.
	Overlay uint64
	// Lower (inclusive) and Upper (exclusive) bound the walk; nil for none. They
	// are copied.
	Lower, Upper []byte
	// Operator resolves merge entries; nil if the family has none.
	Operator merge.Operator
	// Resolve gives the value of an entry of a kind that takes knowledge from
	// elsewhere: blob index, or any kind not listed in package keys. live false
	// hides the key. The value may be borrowed until the next call. nil makes
	// such entries an error.
	Resolve func(userKey []byte, kind keys.Kind, stored []byte) (value []byte, live bool, err error)
	// Prefixer turns on prefix mode: SeekGE goes through SeekPrefixGE of the
	// sources. nil for seeks in total order.
	Prefixer Prefixer
	// AutoPrefix leaves the prefix mode to seeks whose prefix Upper keeps within.
	AutoPrefix bool
	// PrefixSameAsStart ends a walk when it leaves the prefix that it began with
	// (RocksDB: prefix_same_as_start). It needs Prefixer.
	PrefixSameAsStart bool
	// Tombstones are the range tombstones of the sources. The slice is not kept.
	Tombstones []SourceTombstones
	// MaxSkipped is how many hidden entries one call may step over before it
	// fails with ErrTooManySkipped (RocksDB: max_skippable_internal_keys); zero
	// for no limit.
	MaxSkipped uint64
}

// Stats counts what a User did since Reset.
type Stats struct {
	Skipped  uint64 // entries stepped over: hidden, older or newer versions
	Deletes  uint64 // keys hidden by a delete, a single delete or a range tombstone
	Reseeks  uint64 // seeks that replaced many steps
	Upgrades uint64 // prefix seeks that found nothing and went on in total order
}

// maxSteps is after how many steps over versions of one user key a seek takes
// over, as RocksDB's max_sequential_skip_in_iterations.
const maxSteps = 8

// maxCovered is how many keys in a row one range tombstone may hide before the
// sources beneath it are seeked past its end.
const maxCovered = 4

// place says where the sources stand relative to the current key.
type place int8

const (
	nowhere  place = iota
	onKey          // forward, on the entry that gave the current key and value
	inKey          // forward, on some older entry of the current key or past it
	belowKey       // backward, on the last entry before the current key
)

// User walks the user keys that a snapshot sees, each with its newest visible
// value: deletes, single deletes and range tombstones hide keys, merge operands
// are combined, and a wide-column entity shows its default column.
//
// Every positioning method reports whether it landed on a key; if not, Err tells
// an end (nil) from a failure. Key and Value are borrowed until the next move. A
// User is used by one goroutine at a time. The zero User is ready for Reset.
//
// In prefix mode a walk is right in total order, whatever prefix it began with:
// when it leaves the prefix, sources that were passed over are positioned.
type User struct {
	m    Merging
	o    Options
	look keys.Lookup
	// seekSeq is what seeks start from: the newest sequence number of all that are visible.
	seekSeq uint64

	at    place
	valid bool
	key   []byte
	value []byte
	raw   []byte // the entity that value is the default column of; nil if none
	err   error

	saved    []byte // user key that is being skipped or collected
	lower    []byte // copies of the bounds
	upper    []byte
	hasLower bool
	hasUpper bool
	prefix   []byte // prefix that the walk may not leave
	confined bool   // prefix is set
	short    bool   // it is a whole key that was too short for the extractor's prefix

	tombstones []SourceTombstones
	cursors    []rangedel.Cursor // one for each of tombstones
	coverer    int               // index of the cursor that gave the last cover
	covered    int               // keys in a row hidden by it
	same       coverSpan

	valueBuf  []byte // a value that is not borrowed from a source
	rawBuf    []byte
	operands  operandStack
	skipped   uint64 // in this call
	stats     Stats
	seekSaved []byte
	mark      mark
}

// Reset makes u walk sources, newest first, which it closes when it is closed.
// Neither o nor sources is kept. Buffers are reused: no allocation once warm.
func (u *User) Reset(o *Options, sources []table.Iterator) {
	u.o = *o
	u.m.Init(o.Order, sources)
	u.m.SetPrefix(o.Prefixer, o.PrefixSameAsStart)
	u.SetBounds(o.Lower, o.Upper)
	u.o.Lower, u.o.Upper = nil, nil
	u.seekSeq = o.Seq
	if o.Overlay == 0 {
		u.o.Overlay = math.MaxUint64
	} else {
		u.seekSeq = keys.MaxSeq
	}
	u.tombstones, u.cursors = u.tombstones[:0], u.cursors[:0]
	for _, t := range o.Tombstones {
		if t.Live == nil && t.List.Len() == 0 && len(t.Run) == 0 {
			continue
		}
		if t.Seq == 0 {
			t.Seq = o.Seq
		}
		u.tombstones = append(u.tombstones, t)
		u.cursors = append(u.cursors, rangedel.Cursor{})
		if c := &u.cursors[len(u.cursors)-1]; t.Live != nil {
			c.ResetLive(t.Live)
		} else if len(t.Run) > 0 {
			c.ResetRun(t.Run)
		} else {
			c.Reset(t.List)
		}
	}
	u.o.Tombstones, u.same = nil, coverSpan{}
	u.stats = Stats{}
	u.clearPosition()
}

// SetBounds replaces the bounds; nil for none. The keys are copied. The iterator
// is not positioned afterwards.
func (u *User) SetBounds(lower, upper []byte) {
	u.lower, u.hasLower = append(u.lower[:0], lower...), lower != nil
	u.upper, u.hasUpper = append(u.upper[:0], upper...), upper != nil
	u.clearPosition()
}

func (u *User) clearPosition() {
	u.at, u.valid, u.err = nowhere, false, nil
	u.key, u.value, u.raw = nil, nil, nil
	u.confined, u.short = false, false
	u.skipped, u.covered = 0, 0
	u.mark.dir = unpositioned
}

// Close closes the sources and drops what was borrowed. u may be Reset again.
func (u *User) Close() error {
	err := u.m.Close()
	u.clearPosition()
	clear(u.cursors)
	clear(u.tombstones)
	u.same = coverSpan{}
	u.o, u.look = Options{}, keys.Lookup{}
	return err
}

// Valid reports whether u stands on a key.
func (u *User) Valid() bool { return u.valid }

// Key is the current user key, borrowed until the next move.
func (u *User) Key() []byte { return u.key }

// Value is the current value, borrowed until the next move. Of a wide-column
// entity it is the default column, empty if there is none.
func (u *User) Value() []byte { return u.value }

// Entity returns the stored form of the current wide-column entity; ok is false
// for a plain value. Borrowed until the next move.
func (u *User) Entity() (stored []byte, ok bool) { return u.raw, u.raw != nil }

// Columns appends the current columns to dst: those of an entity, or a single
// default column. Borrowed until the next move.
func (u *User) Columns(dst []entity.Column) ([]entity.Column, error) {
	if u.raw == nil {
		return append(dst, entity.Column{Value: u.value}), nil
	}
	return entity.Decode(dst, u.raw)
}

// Err is the error that made u invalid, nil at an end.
func (u *User) Err() error { return u.err }

// Stats returns the counts since Reset.
func (u *User) Stats() Stats { return u.stats }

// TakeStats is Stats since the last call of it.
func (u *User) TakeStats() Stats {
	s := u.stats
	u.stats = Stats{}
	return s
}

// SeekGE moves to the first key at or after key.
func (u *User) SeekGE(key []byte) bool {
	u.clearPosition()
	target := key
	if u.hasLower && u.o.Order.Compare(key, u.lower) < 0 {
		target = u.lower
	}
	if u.o.Prefixer != nil && (!u.o.AutoPrefix || u.upperInPrefix(target)) && u.seekPrefix(key, target) {
		return u.forward(false)
	}
	if u.err != nil || u.confined && !u.short { // nothing has the prefix
		return false
	}
	u.m.SeekGE(target, keys.Pack(u.seekSeq, keys.KindSeek))
	return u.forward(false)
}

// InTotalOrder runs a positioning call without prefix mode, PrefixSameAsStart included.
func (u *User) InTotalOrder(move func(*User) bool) bool {
	p, same := u.o.Prefixer, u.o.PrefixSameAsStart
	u.o.Prefixer, u.o.PrefixSameAsStart = nil, false
	ok := move(u)
	u.o.Prefixer, u.o.PrefixSameAsStart = p, same
	return ok
}

// seekPrefix tries to position the sources by prefix. With PrefixSameAsStart it
// confines the walk to the prefix of key, as asked for, not of the bound that may
// stand in for it.
func (u *User) seekPrefix(key, target []byte) bool {
	u.look = keys.Lookup{UserKey: key, Seq: u.seekSeq}
	u.o.Prefixer.Prepare(&u.look)
	if u.look.PrefixLen < 0 && !u.o.PrefixSameAsStart {
		return false
	}
	if u.o.PrefixSameAsStart {
		u.confineTo(key, u.look.PrefixLen)
		if u.look.PrefixLen = u.o.Prefixer.PrefixLen(key); u.short {
			return false
		}
	}
	if len(target) != len(key) || !bytes.Equal(target, key) {
		u.look.UserKey = target
		u.o.Prefixer.Prepare(&u.look)
	}
	if u.look.PrefixLen < 0 || u.confined && !u.inPrefix(target) {
		return false
	}
	ok := u.m.SeekPrefixGE(&u.look, keys.Pack(u.seekSeq, keys.KindSeek))
	u.look.UserKey = nil
	if !ok {
		if u.err = u.m.Err(); u.err == nil && !u.confined {
			u.stats.Upgrades++
		}
	}
	return ok
}

// SeekLT moves to the last key before key.
func (u *User) SeekLT(key []byte) bool { return u.seekBackward(key, firstTrailer) }

// SeekLE moves to the last key at or before key (RocksDB: SeekForPrev).
func (u *User) SeekLE(key []byte) bool { return u.seekBackward(key, lastTrailer) }

func (u *User) seekBackward(key []byte, trailer uint64) bool {
	u.clearPosition()
	if u.o.PrefixSameAsStart && u.o.Prefixer != nil {
		u.confineTo(key, u.o.Prefixer.PrefixLen(key))
	}
	if u.hasUpper && u.o.Order.Compare(key, u.upper) >= 0 {
		key, trailer = u.upper, firstTrailer
	}
	u.m.SeekLT(key, trailer)
	return u.backward()
}

// First moves to the first key within the bounds.
func (u *User) First() bool {
	u.clearPosition()
	if u.hasLower {
		u.m.SeekGE(u.lower, firstTrailer)
	} else {
		u.m.First()
	}
	return u.forward(false) && u.confine()
}

// Last moves to the last key within the bounds.
func (u *User) Last() bool {
	u.clearPosition()
	if u.hasUpper {
		u.m.SeekLT(u.upper, firstTrailer)
	} else {
		u.m.Last()
	}
	return u.backward() && u.confine()
}

// confine makes the prefix of the current key the one that the walk may not
// leave, if that is asked for.
func (u *User) confine() bool {
	if u.o.PrefixSameAsStart && u.o.Prefixer != nil {
		if n := u.o.Prefixer.PrefixLen(u.key); n >= 0 {
			u.prefix = append(u.prefix[:0], u.key[:n]...)
			u.confined = true
		}
	}
	return true
}

// Next moves to the next key. On an iterator that is not valid it does nothing.
func (u *User) Next() bool {
	if !u.valid {
		return false
	}
	u.skipped = 0
	switch u.at {
	case onKey:
		u.saved = append(u.saved[:0], u.key...)
		u.m.Next()
	case belowKey:
		u.mark.dir = unpositioned
		u.m.SeekGE(u.saved, lastTrailer)
	}
	return u.forward(true)
}

// Prev moves to the previous key. On an iterator that is not valid it does nothing.
func (u *User) Prev() bool {
	if !u.valid {
		return false
	}
	u.skipped = 0
	if u.at != belowKey {
		if u.at == onKey {
			u.saved = append(u.saved[:0], u.key...)
		}
		u.mark.dir = unpositioned
		u.m.SeekLT(u.saved, firstTrailer)
	}
	return u.backward()
}

func (u *User) inPrefix(key []byte) bool {
	n := len(u.prefix)
	return len(key) >= n && bytes.Equal(key[:n], u.prefix) && (u.short || u.o.Prefixer.PrefixLen(key) == n)
}

// confineTo keeps the walk to the prefix of key, whose length is n; of a key that is
// too short for the extractor, to all keys that begin with it.
func (u *User) confineTo(key []byte, n int) {
	u.short = u.o.Prefixer.TooShort(key)
	if u.short {
		n = len(key)
	}
	if n >= 0 {
		u.prefix = append(u.prefix[:0], key[:n]...)
		u.confined = true
	}
}

// upperInPrefix reports whether the upper bound keeps a walk from key within the
// prefix of key.
func (u *User) upperInPrefix(key []byte) bool {
	n := u.o.Prefixer.PrefixLen(key)
	if n < 0 || !u.hasUpper {
		return false
	}
	prefix := key[:n]
	if len(u.upper) >= n && bytes.Equal(u.upper[:n], prefix) {
		return u.o.Prefixer.PrefixLen(u.upper) == n
	}
	// The first key past the prefix will do too.
	if !u.o.Order.Bytewise() || len(u.upper) != n {
		return false
	}
	last := n
	for last > 0 && prefix[last-1] == 0xff && u.upper[last-1] == 0 {
		last--
	}
	return last > 0 && prefix[last-1] != 0xff && u.upper[last-1] == prefix[last-1]+1 && bytes.Equal(u.upper[:last-1], prefix[:last-1])
}

// end makes u invalid: no more keys, or the sources failed.
func (u *User) end() bool {
	u.valid, u.at = false, nowhere
	u.key, u.value, u.raw = nil, nil, nil
	if u.err == nil {
		u.err = u.m.Err()
	}
	return false
}

func (u *User) fail(err error) bool {
	u.err = err
	return u.end()
}

// tooNew reports whether an entry of that sequence number may not be seen.
func (u *User) tooNew(seq uint64) bool { return seq > u.o.Seq && seq < u.o.Overlay }

// countSkip counts a hidden entry; false if that was one too many.
func (u *User) countSkip() bool {
	u.skipped++
	u.stats.Skipped++
	return u.o.MaxSkipped == 0 || u.skipped <= u.o.MaxSkipped
}

// coverSpan is a span [lo, hi) of keys that all have the same cover, nil for no
// bound. It makes a step cost two comparisons, however many lists there are.
type coverSpan struct {
	lo, hi []byte
	newest uint64
	known  bool
}

func (s *coverSpan) holds(order *keys.Order, userKey []byte) bool {
	return s.known && (s.lo == nil || order.Compare(s.lo, userKey) <= 0) &&
		(s.hi == nil || order.Compare(userKey, s.hi) < 0)
}

// narrow cuts s to its part within the bounds of c.
func (s *coverSpan) narrow(order *keys.Order, c *rangedel.Cursor) {
	lo, hi, ok := c.Bounds()
	s.known = s.known && ok
	if lo != nil && (s.lo == nil || order.Compare(lo, s.lo) > 0) {
		s.lo = lo
	}
	if hi != nil && (s.hi == nil || order.Compare(hi, s.hi) < 0) {
		s.hi = hi
	}
}

// cover is the newest visible range tombstone over userKey, 0 for none. With err set it is
// not known, and nothing may be shown.
func (u *User) cover(userKey []byte) uint64 {
	if u.same.holds(&u.o.Order, userKey) {
		return u.same.newest
	}
	var newest uint64
	u.same = coverSpan{known: true}
	for i := range u.cursors {
		seq := u.cursors[i].Cover(userKey, u.tombstones[i].Seq)
		if err := u.cursors[i].Err(); err != nil {
			u.err, u.same = err, coverSpan{}
			return keys.MaxSeq
		}
		u.same.narrow(&u.o.Order, &u.cursors[i])
		if seq > newest {
			newest = seq
			if u.coverer != i {
				u.coverer, u.covered = i, 0
			}
		}
	}
	u.same.newest = newest
	return newest
}

func (u *User) unsupported(userKey []byte, kind keys.Kind) error {
	return fmt.Errorf("key %q: %w: %v", userKey, ErrUnsupportedKind, kind)
}
