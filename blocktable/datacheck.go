package blocktable

import "github.com/flatrock-db/flatrock/blockcache"

// The moves of a dataIter over a block whose entries have sums. Each checks the entry
// that it ends at and, where it says that there is nothing in between or beyond, the
// neighbour or the number of entries that prove it.

// damagedEntry is the end of a move that found entry i changed.
func (d *dataIter) damagedEntry(i int) bool {
	d.valid = false
	d.err = &DamageError{File: d.file, Offset: uint64(d.base), Entry: i, Kind: blockcache.Data}
	return false
}

// matches reports whether entry i is what it was.
func (d *dataIter) matches(i int, key, value []byte) bool {
	stored := d.sums.at(i)
	if stored == nil {
		return false
	}
	s := dataSum(i, key, value)
	return s.Matches(stored)
}

// checked ends a move at the current entry, which must be entry i.
func (d *dataIter) checked(i int) bool {
	if d.ord != i || !d.matches(i, d.key, d.val) {
		return d.damagedEntry(i)
	}
	d.from = i
	return true
}

// emptyIsDamage ends a move that found no entry where there must be one.
func (d *dataIter) emptyIsDamage(i int) bool {
	if d.err == nil {
		return d.damagedEntry(i)
	}
	return false
}

func (d *dataIter) firstChecked() bool {
	d.from = -1
	return d.atRestart(0) && d.checked(0) || d.emptyIsDamage(0)
}

func (d *dataIter) lastChecked() bool {
	n := d.sums.count
	d.from = n
	return d.toLast() && d.checked(n-1) || d.emptyIsDamage(n-1)
}

func (d *dataIter) forwardChecked() bool {
	d.prevAt = -1
	if d.next >= d.end {
		d.valid = false
		if d.from+1 != d.sums.count {
			return d.damagedEntry(d.from + 1)
		}
		return false
	}
	i := d.from + 1
	return d.read(d.next, false) && d.checked(i)
}

func (d *dataIter) backwardChecked() bool {
	i := d.from - 1
	if i < 0 {
		d.valid, d.prevAt = false, -1
		return false
	}
	return d.toPrevious() && d.checked(i) || d.emptyIsDamage(i)
}

// toEntry moves to entry i by its number; past either end there is none.
func (d *dataIter) toEntry(i int) bool {
	if i < 0 || i >= d.sums.count {
		d.valid = false
		return false
	}
	d.from = i - 1
	restart := i / d.sums.interval
	if restart >= d.n || !d.atRestart(restart) {
		return d.emptyIsDamage(i)
	}
	for d.ord < i {
		if d.next >= d.end {
			return d.damagedEntry(i)
		}
		if !d.read(d.next, false) {
			return false
		}
	}
	return d.checked(i)
}

// seekGEChecked is seekGE that proves its answer: the entry before it, or the last
// one if there is none, is before the target.
func (d *dataIter) seekGEChecked(userKey []byte, trailer uint64) bool {
	d.from = -1
	i, ok := d.searchRestarts(userKey, trailer)
	if !ok || !d.atRestart(i) {
		return d.emptyIsDamage(i)
	}
	start, before := d.ord, d.val
	for d.compare(userKey, trailer) < 0 {
		if d.next >= d.end {
			n := d.sums.count
			if !d.checked(n - 1) {
				return false
			}
			d.valid, d.from = false, n
			return false
		}
		d.prevBuf, before = append(d.prevBuf[:0], d.key...), d.val
		if !d.read(d.next, false) {
			return false
		}
	}
	at := d.ord
	if !d.checked(at) {
		return false
	}
	switch {
	case at == 0:
		return true
	case at == start: // only the first restart point may be at or after the target
		return d.damagedEntry(at)
	case !d.matches(at-1, d.prevBuf, before):
		return d.damagedEntry(at - 1)
	}
	return true
}
