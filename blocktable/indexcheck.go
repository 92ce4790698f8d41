package blocktable

import "github.com/flatrock-db/flatrock/blockcache"

// The moves of an indexIter over a block whose entries have sums; see datacheck.go. Entries
// of an index are short: each that is walked is checked.

func (x *indexIter) damagedEntry(i int) bool {
	x.valid = false
	x.err = &DamageError{File: x.file, Offset: uint64(x.base), Entry: i, Kind: blockcache.Index}
	return false
}

// checked ends a move at the current entry, which must be entry i.
func (x *indexIter) checked(i int) bool {
	stored := x.sums.at(i)
	if x.ord != i || stored == nil {
		return x.damagedEntry(i)
	}
	if s := indexSum(i, x.key, x.handle); !s.Matches(stored) {
		return x.damagedEntry(i)
	}
	x.from = i
	return true
}

func (x *indexIter) nextChecked() bool {
	i := x.from + 1
	if !x.toNext() {
		if x.err == nil && i != x.sums.count {
			return x.damagedEntry(i)
		}
		return false
	}
	return x.checked(i)
}

// toEntry moves to entry i by its number; past either end there is none.
func (x *indexIter) toEntry(i int) bool {
	if i < 0 || i >= x.sums.count {
		x.valid = false
		return false
	}
	restart := i / x.sums.interval
	x.from = restart*x.sums.interval - 1
	if restart >= x.n || !x.atRestart(restart) {
		if x.err == nil {
			x.damagedEntry(i)
		}
		return false
	}
	if !x.checked(x.from + 1) {
		return false
	}
	for x.from < i {
		if !x.nextChecked() {
			if x.err == nil {
				x.damagedEntry(i)
			}
			return false
		}
	}
	return true
}

// scanChecked goes on from the entry at a restart point to the first at or after the
// target, and proves that the entry before is before it.
func (x *indexIter) scanChecked(userKey []byte, trailer uint64) bool {
	start := x.ord
	if !x.checked(start) {
		return false
	}
	for x.compare(userKey, trailer) < 0 {
		if !x.nextChecked() {
			return false
		}
	}
	if x.from == start && start > 0 { // only the first restart point may be at or after the target
		return x.damagedEntry(start)
	}
	return true
}
