package iterator

import (
	"bytes"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// forward finds the first visible key from where the sources stand. With
// skipSaved, entries of the user key u.saved are passed over: it is done with.
//
// The entries of a user key come newest first. So the first one that is not too
// new decides, unless it is a merge operand.
func (u *User) forward(skipSaved bool) bool {
	m := &u.m
	steps := 0
	for m.Valid() {
		key, trailer := m.UserKey(), m.Trailer()
		if skipSaved && bytes.Equal(key, u.saved) {
			if !u.countSkip() {
				return u.fail(ErrTooManySkipped)
			}
			if steps++; steps > maxSteps {
				if !u.passed(forward) {
					return u.fail(u.err)
				}
				u.stats.Reseeks++
				steps = 0
				m.SeekGE(u.saved, lastTrailer)
				// What may be left of the key is one entry with trailer 0.
				for m.Valid() && bytes.Equal(m.UserKey(), u.saved) {
					m.Next()
				}
				continue
			}
			m.Next()
			continue
		}
		if u.hasUpper && u.o.Order.Compare(key, u.upper) >= 0 || u.confined && !u.inPrefix(key) {
			return u.end()
		}
		seq := keys.Seq(trailer)
		if u.tooNew(seq) {
			if !u.countSkip() {
				return u.fail(ErrTooManySkipped)
			}
			if steps++; steps > maxSteps {
				if !u.passed(forward) {
					return u.fail(u.err)
				}
				steps = 0
				u.reseek(key)
				continue
			}
			m.Next()
			continue
		}
		steps = 0
		if len(u.cursors) > 0 && u.hidden(key, seq) {
			if u.err != nil {
				return u.fail(u.err)
			}
			skipSaved = true
			if !u.countSkip() {
				return u.fail(ErrTooManySkipped)
			}
			continue
		}
		kind := keys.KindOf(trailer)
		if kind == keys.KindValue { // the common case, straight through
			u.at, u.valid, u.raw = onKey, true, nil
			u.key, u.value = key, m.Value()
			return true
		}
		live, err := u.resolve(key, kind, onKey)
		if err != nil {
			return u.fail(err)
		}
		if live {
			u.valid = true
			return true
		}
		u.stats.Deletes++
		if !u.countSkip() {
			return u.fail(ErrTooManySkipped)
		}
		if u.at == onKey { // resolve did not move
			u.saved = append(u.saved[:0], key...)
			m.Next()
		}
		skipSaved = true
	}
	return u.end()
}

// reseek jumps to the newest visible entry of key, which is borrowed from the
// sources.
func (u *User) reseek(key []byte) {
	u.stats.Reseeks++
	u.seekSaved = append(u.seekSaved[:0], key...)
	u.m.SeekGE(u.seekSaved, keys.Pack(u.o.Seq, keys.KindSeek))
}

// hidden reports whether a range tombstone covers the current entry, and if so
// moves past the key. When one tombstone goes on hiding keys, the sources beneath
// it jump to its end.
func (u *User) hidden(key []byte, seq uint64) bool {
	if u.cover(key) <= seq {
		u.covered = 0
		return false
	}
	if u.err != nil {
		return true
	}
	u.stats.Deletes++
	u.saved = append(u.saved[:0], key...)
	if u.covered++; u.covered > maxCovered {
		if _, end, ok := u.cursors[u.coverer].Span(); ok && end != nil {
			beneath := u.tombstones[u.coverer].Source + 1
			if u.m.SourceIndex() >= beneath {
				if !u.passed(forward) {
					return true
				}
				u.stats.Reseeks++
				u.m.SkipForward(beneath, end)
				return true
			}
		}
	}
	u.m.Next()
	return true
}

// resolve turns the current entry, the newest visible one of its user key and
// not covered, into key, value and place. live is false when it hides the key.
func (u *User) resolve(key []byte, kind keys.Kind, at place) (live bool, err error) {
	u.at, u.raw = at, nil
	switch kind {
	case keys.KindDelete, keys.KindSingleDelete:
		return false, nil
	case keys.KindMerge:
		return true, u.mergeForward()
	}
	u.key = key
	u.value, u.raw, live, err = u.plain(key, kind, u.m.Value())
	return live, err
}

// mergeForward collects the operands of the current user key down to its value
// or to whatever hides it, and merges them. The sources end up in or past the
// key, whose copy u.saved is.
func (u *User) mergeForward() error {
	m := &u.m
	u.saved = append(u.saved[:0], m.UserKey()...)
	u.operands.reset()
	var cover uint64
	if len(u.cursors) > 0 {
		if cover = u.cover(u.saved); u.err != nil {
			return u.err
		}
	}
	u.at = inKey
	for m.Valid() && bytes.Equal(m.UserKey(), u.saved) {
		trailer := m.Trailer()
		if keys.Seq(trailer) < cover {
			break
		}
		if u.tooNew(keys.Seq(trailer)) { // between what lies over the sources and what they show
			m.Next()
			continue
		}
		kind := keys.KindOf(trailer)
		if kind == keys.KindMerge {
			u.operands.push(m.Value())
			m.Next()
			continue
		}
		if kind == keys.KindDelete || kind == keys.KindSingleDelete {
			break
		}
		base, raw, live, err := u.plain(u.saved, kind, m.Value())
		if err != nil {
			return err
		}
		return u.finishMerge(base, raw, live, newestFirst)
	}
	if err := m.Err(); err != nil {
		return err
	}
	return u.finishMerge(nil, nil, false, newestFirst)
}
