package iterator

import (
	"bytes"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// backward finds the last visible key from where the sources stand, at the
// oldest entry of a user key or past its start.
//
// The entries of a user key come oldest first, so all of them must be seen before
// the answer is known, and what is kept of them must be copied.
func (u *User) backward() bool {
	m := &u.m
	for m.Valid() {
		key := m.UserKey()
		if u.hasLower && u.o.Order.Compare(key, u.lower) < 0 || u.confined && !u.inPrefix(key) {
			return u.end()
		}
		u.saved = append(u.saved[:0], key...)
		live, err := u.collect()
		if err != nil {
			return u.fail(err)
		}
		if err := m.Err(); err != nil {
			return u.fail(err)
		}
		if live {
			u.key, u.at, u.valid = u.saved, belowKey, true
			return true
		}
		if u.covered > maxCovered && !u.skipCoveredBackward() {
			break
		}
	}
	return u.end()
}

// skipCoveredBackward moves the sources beneath a range tombstone that goes on
// hiding keys to before its start.
func (u *User) skipCoveredBackward() bool {
	start, _, ok := u.cursors[u.coverer].Span()
	if !ok || !u.m.Valid() || u.o.Order.Compare(u.m.UserKey(), start) < 0 {
		return u.m.Valid()
	}
	if !u.passed(backward) {
		return false
	}
	u.stats.Reseeks++
	u.covered = 0
	return u.m.SkipBackward(u.tombstones[u.coverer].Source+1, start)
}

// collect walks the entries of u.saved towards newer ones until the key ends,
// and leaves its value in u.value. live is false when it is hidden. The sources
// end up before the key.
func (u *User) collect() (live bool, err error) {
	m := &u.m
	var cover uint64
	if len(u.cursors) > 0 {
		if cover = u.cover(u.saved); u.err != nil {
			return false, u.err
		}
	}
	u.operands.reset()
	u.value, u.raw = nil, nil
	hasBase, coveredAll, steps := false, true, 0
	for m.Valid() && bytes.Equal(m.UserKey(), u.saved) {
		seq, kind := keys.Seq(m.Trailer()), keys.KindOf(m.Trailer())
		if steps++; steps > maxSteps {
			return u.collectBySeek()
		}
		switch {
		case u.tooNew(seq):
			coveredAll = false
		case seq < cover:
		case kind == keys.KindMerge:
			coveredAll = false
			u.operands.push(m.Value())
		default:
			coveredAll = false
			u.operands.reset()
			u.value, u.raw, hasBase = nil, nil, false
			if kind != keys.KindDelete && kind != keys.KindSingleDelete {
				if hasBase, err = u.keep(kind); err != nil {
					return false, err
				}
			}
		}
		if !u.countSkip() {
			return false, ErrTooManySkipped
		}
		m.Prev()
	}
	u.noteCovered(cover > 0 && coveredAll)
	if u.operands.len() > 0 {
		return true, u.finishMerge(u.value, u.raw, hasBase, oldestFirst)
	}
	if !hasBase {
		u.stats.Deletes++
	} else if u.skipped > 0 {
		u.skipped-- // the entry shown is not a hidden one
	}
	return hasBase, nil
}

func (u *User) noteCovered(covered bool) {
	if covered {
		u.covered++
	} else {
		u.covered = 0
	}
}

// keep copies the current entry's value, for the sources are about to move.
func (u *User) keep(kind keys.Kind) (live bool, err error) {
	value, raw, live, err := u.plain(u.saved, kind, u.m.Value())
	if err != nil || !live {
		return false, err
	}
	u.valueBuf = append(u.valueBuf[:0], value...)
	u.value = u.valueBuf
	if raw != nil {
		u.rawBuf = append(u.rawBuf[:0], raw...)
		u.raw = u.rawBuf
	}
	return true, nil
}

// seekNewest moves to the newest visible entry of u.saved, or past it.
func (u *User) seekNewest() bool {
	m := &u.m
	ok := m.SeekGE(u.saved, keys.Pack(u.seekSeq, keys.KindSeek))
	if ok && u.tooNew(keys.Seq(m.Trailer())) && bytes.Equal(m.UserKey(), u.saved) {
		ok = m.SeekGE(u.saved, keys.Pack(u.o.Seq, keys.KindSeek))
	}
	return ok
}

// collectBySeek is collect for a key with many versions: it seeks the newest
// visible one from the front.
func (u *User) collectBySeek() (live bool, err error) {
	m := &u.m
	if !u.passed(backward) {
		return false, u.err
	}
	u.stats.Reseeks++
	u.operands.reset()
	u.value, u.raw = nil, nil
	u.covered = 0
	if u.seekNewest() && bytes.Equal(m.UserKey(), u.saved) {
		trailer := m.Trailer()
		hidden := len(u.cursors) > 0 && u.cover(u.saved) > keys.Seq(trailer)
		if u.err != nil {
			return false, u.err
		}
		if !hidden {
			switch kind := keys.KindOf(trailer); kind {
			case keys.KindDelete, keys.KindSingleDelete:
			case keys.KindMerge:
				live, err = true, u.mergeForward()
			default:
				live, err = u.keep(kind)
			}
		}
	}
	if err == nil {
		err = m.Err()
	}
	if err != nil {
		return false, err
	}
	if !live {
		u.stats.Deletes++
	}
	m.SeekLT(u.saved, firstTrailer)
	return live, nil
}
