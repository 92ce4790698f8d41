package blocktable

import (
	"bytes"
	"encoding/binary"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/hash"
)

// Protection of the index that a Reader holds decoded. Entry i has two sums: one of its
// head and of where its block lies, which a search loads anyway, and one of its
// separator, which it seldom does. A search is right if the entry that it ends at is at
// or after the target, the one before is before it, and both are what they were.

// seal makes the sums; f.sums has room for them.
func (f *flatIndex) seal() {
	f.commonSum = f.sumOfCommon()
	for i := range f.n {
		at := f.sums[2*f.sumLen*i:]
		s := f.placeSum(i)
		s.Put(at[:f.sumLen])
		s = f.sepSum(i)
		s.Put(at[f.sumLen : 2*f.sumLen])
	}
}

func (f *flatIndex) sumOfCommon() uint64 {
	s := hash.NewEntrySum(0)
	s.Bytes(f.common)
	return s.Full()
}

func (f *flatIndex) placeSum(i int) hash.EntrySum {
	ref := f.refs[16*i:]
	s := hash.NewEntrySum(uint64(i))
	s.Word(binary.LittleEndian.Uint64(f.heads[8*i:]))
	s.Word(binary.LittleEndian.Uint64(ref))
	s.Word(binary.LittleEndian.Uint64(ref[8:]))
	return s
}

func (f *flatIndex) sepSum(i int) hash.EntrySum {
	s := hash.NewEntrySum(uint64(i))
	s.Bytes(f.sep(i))
	return s
}

// placed reports whether head and handle of entry i are what they were, and
// sepMatches whether its separator is.
func (f *flatIndex) placed(i int) bool {
	s := f.placeSum(i)
	return s.Matches(f.sums[2*f.sumLen*i:][:f.sumLen])
}

func (f *flatIndex) sepMatches(i int) bool {
	s := f.sepSum(i)
	return s.Matches(f.sums[2*f.sumLen*i+f.sumLen:][:f.sumLen])
}

// intact checks all of entry i, which a walk has come to; damaged is -1 or i.
func (f *flatIndex) intact(i int) (damaged int) {
	if f.sums != nil && (!f.placed(i) || !f.sepMatches(i)) {
		return i
	}
	return -1
}

// proves checks that i is what seek has to return for the target; damaged is -1, or
// the entry that is not what it was.
func (f *flatIndex) proves(i int, userKey []byte, trailer uint64) (damaged int) {
	if f.n == 0 {
		return -1
	}
	if i > 0 && !f.placed(i-1) {
		return i - 1
	}
	if i < f.n && !f.placed(i) {
		return i
	}
	before, after := false, false // known by the heads
	if f.order.Bytewise() {
		if f.sumOfCommon() != f.commonSum {
			return min(i, f.n-1)
		}
		if rest, ok := bytes.CutPrefix(userKey, f.common); ok {
			h := head(rest)
			before = i > 0 && binary.LittleEndian.Uint64(f.heads[8*(i-1):]) < h
			after = i < f.n && h < binary.LittleEndian.Uint64(f.heads[8*i:])
		}
	}
	if i > 0 && !before && (!f.sepMatches(i-1) || compareSeparator(f.order, f.bare, f.sep(i-1), userKey, trailer) >= 0) {
		return i - 1
	}
	if i < f.n && !after && (!f.sepMatches(i) || compareSeparator(f.order, f.bare, f.sep(i), userKey, trailer) < 0) {
		return i
	}
	return -1
}

// damagedIndex is the error for entry i of the index that the Reader holds.
func (r *Reader) damagedIndex(i int) error {
	err := &DamageError{File: r.name, Offset: r.index.handle(i).Offset, Entry: i, Kind: blockcache.Index, Held: true}
	if r.opts.OnDamage != nil && r.indexDamaged.CompareAndSwap(false, true) {
		r.opts.OnDamage(err)
	}
	return err
}
