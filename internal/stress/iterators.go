package stress

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/flatrock-db/flatrock"
)

// heldIterator is an iterator over a whole family that a worker keeps.
type heldIterator struct {
	it      *flatrock.Iterator
	family  int
	tailing bool
	uses    int
}

// checkIterator uses an iterator that it keeps: it is refreshed, or its kind sees at each seek what is there
// by then.
func (w *worker) checkIterator() error {
	if w.rng.IntN(4) == 0 {
		return w.checkIterators()
	}
	h := w.iterator
	var b bounds
	var err error
	switch {
	case h == nil:
		h = &heldIterator{family: w.rng.IntN(len(w.specs)), tailing: w.rng.IntN(3) == 0}
		b, err = w.moment(func() error {
			ro := unverified(w.rng, w.harness, readOptions(w.rng, nil))
			ro.Tailing = h.tailing
			h.it, err = w.families[h.family].NewIterator(ro)
			return err
		})
		if err != nil {
			return err
		}
		w.iterator = h
	case len(w.held) > 0 && w.rng.IntN(4) == 0:
		s := w.held[w.rng.IntN(len(w.held))]
		if err := h.it.Refresh(s.snap); err != nil {
			return err
		}
		b = s.b
	default:
		if b, err = w.moment(func() error { return h.it.Refresh(nil) }); err != nil {
			return err
		}
	}
	b.only = h.family + 1
	var found *walked
	if h.tailing {
		m, werr := w.moment(func() error { found, err = w.walkAll(h); return err })
		if b.may = m.may; werr != nil {
			return werr
		}
	} else if found, err = w.walkAll(h); err != nil {
		return err
	}
	err = w.compareWalked(map[int]*walked{h.family: found}, b)
	if err == nil && !h.tailing {
		err = w.seekAround(h, found)
	}
	if err == nil {
		err = h.it.Err()
	}
	if h.uses++; err == nil && (h.uses > 4 || w.rng.IntN(4) == 0) {
		w.iterator = nil
		err = h.it.Close()
	}
	if err != nil {
		return fmt.Errorf("an iterator kept over family %d, tailing %v, used %d times: %w", h.family, h.tailing, h.uses, err)
	}
	return nil
}

// checkIterators walks all families at one moment.
func (w *worker) checkIterators() error {
	var its []*flatrock.Iterator
	b, err := w.moment(func() (err error) {
		its, err = w.db.NewIterators(readOptions(w.rng, nil), w.families)
		return err
	})
	if err != nil {
		return err
	}
	all := map[int]*walked{}
	for f, it := range its {
		if err == nil {
			all[f], err = w.walkAll(&heldIterator{it: it, family: f})
		}
	}
	if err == nil {
		err = w.compareWalked(all, b)
	}
	for _, it := range its {
		err = errors.Join(err, it.Close())
	}
	if err != nil {
		return fmt.Errorf("NewIterators: %w", err)
	}
	return nil
}

// walked is what an iterator showed of a family.
type walked struct {
	names  []string // in the family's order
	values map[string][]byte
}

// walkAll collects all that an iterator shows, from one of its ends.
func (w *worker) walkAll(h *heldIterator) (*walked, error) {
	it, s := h.it, &w.specs[h.family]
	out := &walked{values: map[string][]byte{}}
	backward := w.rng.IntN(2) == 0
	ok, step := it.First(), it.Next
	if backward {
		ok, step = it.Last(), it.Prev
	}
	var columns []flatrock.Column
	for ; ok; ok = step() {
		name := string(it.Key())
		if n := len(out.names); n > 0 && (name > out.names[n-1]) == (backward != s.reverse) {
			return nil, fmt.Errorf("family %d: after %q it comes to %q (backward %v, reverse %v)", h.family, out.names[n-1], name, backward, s.reverse)
		}
		if len(name) == 0 || name[0] != '~' && s.keys.index([]byte(name)) < 0 {
			return nil, fmt.Errorf("family %d: it comes to %q, which nobody wrote", h.family, name)
		}
		out.names = append(out.names, name)
		value := slices.Clone(it.Value())
		out.values[name] = value
		if name[0] != '~' && w.rng.IntN(4) == 0 {
			var err error
			if columns, err = it.Columns(columns[:0]); err != nil {
				return nil, err
			}
			if err := sameColumns(idOf(value), columns); err != nil {
				return nil, fmt.Errorf("family %d, key %q: %w", h.family, name, err)
			}
		}
	}
	if backward {
		slices.Reverse(out.names)
	}
	return out, it.Err()
}

// walkedView answers from what iterators showed.
type walkedView map[int]*walked

func (v walkedView) get(family int, key []byte) ([]byte, error) {
	if value, ok := v[family].values[string(key)]; ok {
		return value, nil
	}
	return nil, flatrock.ErrNotFound
}

// compareWalked compares what iterators showed with the cut that it must be.
func (w *worker) compareWalked(all walkedView, b bounds) error {
	c, err := w.h.readCut(all, b)
	if err != nil {
		return err
	}
	for f, found := range all {
		for i := range w.cfg.Keys {
			value, exists := found.values[string(w.specs[f].keys.key(i))]
			if err := c.checkKey(f, i, value, exists); err != nil {
				return err
			}
		}
	}
	return nil
}

// seekAround seeks to some keys, there or not, and compares where the iterator comes to
// with what it showed before.
func (w *worker) seekAround(h *heldIterator, all *walked) error {
	s := &w.specs[h.family]
	order := func(a, b string) int {
		if s.reverse {
			a, b = b, a
		}
		return strings.Compare(a, b)
	}
	for range 5 {
		w.stats.Checks.Add(1)
		name := s.keys.key(w.rng.IntN(s.keys.n))
		if w.rng.IntN(3) == 0 {
			name = append(name, 'x') // between two keys
		}
		at, there := slices.BinarySearchFunc(all.names, string(name), order)
		how := w.rng.IntN(3)
		var ok bool
		switch how {
		case 0:
			ok = h.it.SeekGE(name)
		case 1:
			ok = h.it.SeekLT(name)
			at--
		default:
			ok = h.it.SeekLE(name)
			if !there {
				at--
			}
		}
		for range 1 + w.rng.IntN(3) {
			if err := h.it.Err(); err != nil {
				return err
			}
			if want := at >= 0 && at < len(all.names); ok != want || want && string(h.it.Key()) != all.names[at] {
				key := "no key"
				if ok {
					key = fmt.Sprintf("%q", h.it.Key())
				}
				return fmt.Errorf("seek %d (of GE, LT, LE) from %q comes to %s; want number %d of %d", how, name, key, at, len(all.names))
			}
			if !ok {
				break
			}
			if w.rng.IntN(2) == 0 {
				ok = h.it.Next()
				at++
			} else {
				ok = h.it.Prev()
				at--
			}
		}
	}
	return nil
}

// checkPrefix walks the keys that begin as one of them does, by a prefix of any length or the family's own.
func (c *cut) checkPrefix(v snapshotView, f int, s *familySpec, rng *rand.Rand) error {
	from := rng.IntN(s.keys.n)
	name := s.keys.key(from)
	ro := readOptions(rng, v.snap)
	var has func(key []byte) bool
	own := s.extractor != nil && rng.IntN(2) == 0
	n := 1 + rng.IntN(len(name))
	if own {
		prefix, ok := s.extractor.Prefix(name)
		if !ok {
			return nil
		}
		n, ro.PrefixSameAsStart = len(prefix), true
		has = func(key []byte) bool {
			p, ok := s.extractor.Prefix(key)
			return ok && string(p) == string(prefix)
		}
	} else {
		has = func(key []byte) bool { return len(key) >= n && string(key[:n]) == string(name[:n]) }
	}
	it, err := v.families[f].NewIterator(ro)
	if err != nil {
		return err
	}
	found := map[int][]byte{}
	note := func(key, value []byte) error {
		i := s.keys.index(key)
		if i < 0 || !has(key) {
			return fmt.Errorf("it comes to %q", key)
		}
		found[i] = slices.Clone(value)
		return nil
	}
	if own {
		for ok := it.SeekGE(name); ok && err == nil; ok = it.Next() {
			err = note(it.Key(), it.Value())
		}
	} else {
		for key, value := range it.Prefix(name[:n]) {
			if err = note(key, value); err != nil {
				break
			}
		}
	}
	if err == nil {
		err = it.Err()
	}
	for i := 0; i < s.keys.n && err == nil; i++ {
		before := own && (!s.reverse && i < from || s.reverse && i > from)
		if value, exists := found[i]; exists || !before && has(s.keys.key(i)) {
			err = c.checkKey(f, i, value, exists)
		}
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return fmt.Errorf("keys with the prefix %q (of the family %v, from %q): %w", name[:n], own, name, err)
	}
	return nil
}
