// Package itertest holds an in-memory table.Iterator that is as unkind as its
// contract allows: borrowed memory changes at the next move, a source without
// the prefix is left where no step works, and steps on an invalid iterator panic.
package itertest

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Entry is one internal entry.
type Entry struct {
	Key     []byte
	Trailer uint64
	Value   []byte
}

// Kinds by the short names that scripts use.
var Kinds = map[string]keys.Kind{
	"DEL": keys.KindDelete, "SET": keys.KindValue, "MERGE": keys.KindMerge, "SINGLEDEL": keys.KindSingleDelete,
	"ENTITY": keys.KindEntity, "BLOB": keys.KindBlobIndex, "TIMED": keys.KindValuePreferredSeqno, "RANGEDEL": keys.KindRangeDelete,
}

// KindName is the short name of k.
func KindName(k keys.Kind) string {
	for name, kind := range Kinds {
		if kind == k {
			return name
		}
	}
	return k.String()
}

// String prints the form that ParseEntry reads.
func (e Entry) String() string {
	return fmt.Sprintf("%s#%d,%s=%s", e.Key, keys.Seq(e.Trailer), KindName(keys.KindOf(e.Trailer)), e.Value)
}

// ParseEntry reads key#seq,KIND=value.
func ParseEntry(s string) Entry {
	head, value, _ := strings.Cut(s, "=")
	i := strings.LastIndexByte(head, '#')
	num, kind, _ := strings.Cut(head[i+1:], ",")
	seq, err := strconv.ParseUint(num, 10, 56)
	k, ok := Kinds[kind]
	if i < 0 || err != nil || !ok {
		panic("bad entry " + s)
	}
	return Entry{[]byte(head[:i]), keys.Pack(seq, k), []byte(value)}
}

// Sort puts entries into internal key order.
func Sort(order keys.Order, entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return order.CompareInternal(a.Key, a.Trailer, b.Key, b.Trailer) })
}

// Iter walks entries, which must be in order.
type Iter struct {
	Order   keys.Order
	Entries []Entry
	// PrefixLen is the extractor; nil makes SeekPrefixGE go by raw bytes.
	PrefixLen func(key []byte) int
	// FailAt makes the positioning call with this number (from 1) fail; 0 for none.
	FailAt int
	Failed error

	Calls  int // positioning calls
	Seeks  int // of them, seeks in total order
	Closed bool

	at       int // -1: not positioned
	key, val []byte
	err      error
	Kind     bool // do not change borrowed memory: for benchmarks
	Reusable bool // go on working after Close
}

// New returns an iterator over entries.
func New(order keys.Order, entries []Entry) *Iter {
	return &Iter{Order: order, Entries: entries, at: -1}
}

func (it *Iter) search(userKey []byte, trailer uint64) int {
	return sort.Search(len(it.Entries), func(i int) bool {
		e := &it.Entries[i]
		return it.Order.CompareInternal(e.Key, e.Trailer, userKey, trailer) >= 0
	})
}

func (it *Iter) set(i int) bool {
	if it.Closed {
		panic("positioned after Close")
	}
	it.Calls++
	it.at, it.err = -1, nil
	if !it.Kind {
		for j := range it.key {
			it.key[j] = 0xee
		}
		for j := range it.val {
			it.val[j] = 0xee
		}
	}
	if it.FailAt != 0 && it.Calls >= it.FailAt {
		it.err = it.Failed
		return false
	}
	if i < 0 || i >= len(it.Entries) {
		return false
	}
	it.at = i
	if it.Kind {
		it.key, it.val = it.Entries[i].Key, it.Entries[i].Value
		return true
	}
	it.key = append(it.key[:0], it.Entries[i].Key...)
	it.val = append(it.val[:0], it.Entries[i].Value...)
	return true
}

// SeekGE is table.Iterator's, as are the others.
func (it *Iter) SeekGE(userKey []byte, trailer uint64) bool {
	it.Seeks++
	return it.set(it.search(userKey, trailer))
}

func (it *Iter) SeekPrefixGE(look *keys.Lookup, trailer uint64) bool {
	if look.PrefixLen < 0 {
		panic("SeekPrefixGE without a prefix")
	}
	prefix := look.UserKey[:look.PrefixLen]
	i := it.search(look.UserKey, trailer)
	if i < len(it.Entries) && it.hasPrefix(it.Entries[i].Key, prefix) {
		return it.set(i)
	}
	it.set(-1)
	return false
}

func (it *Iter) hasPrefix(key, prefix []byte) bool {
	if !bytes.HasPrefix(key, prefix) {
		return false
	}
	return it.PrefixLen == nil || it.PrefixLen(key) == len(prefix)
}

func (it *Iter) SeekLT(userKey []byte, trailer uint64) bool {
	it.Seeks++
	return it.set(it.search(userKey, trailer) - 1)
}

func (it *Iter) First() bool { return it.set(0) }
func (it *Iter) Last() bool  { return it.set(len(it.Entries) - 1) }

func (it *Iter) Next() bool { return it.step(1) }
func (it *Iter) Prev() bool { return it.step(-1) }

func (it *Iter) step(by int) bool {
	if it.at < 0 {
		panic("step on an invalid iterator")
	}
	return it.set(it.at + by)
}

func (it *Iter) Valid() bool { return it.at >= 0 }

func (it *Iter) UserKey() []byte {
	it.mustBeValid()
	return it.key
}

func (it *Iter) Trailer() uint64 {
	it.mustBeValid()
	return it.Entries[it.at].Trailer
}

func (it *Iter) Value() []byte {
	it.mustBeValid()
	return it.val
}

func (it *Iter) mustBeValid() {
	if it.at < 0 {
		panic("read of an invalid iterator")
	}
}

func (it *Iter) Err() error { return it.err }

func (it *Iter) Close() error {
	it.Closed, it.at = !it.Reusable, -1
	return nil
}

var _ table.Iterator = (*Iter)(nil)
