package stress

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/flatrock-db/flatrock"
)

// snapshotView reads a database at a snapshot, or at its newest state while nobody
// writes (nil).
type snapshotView struct {
	families []*flatrock.ColumnFamily
	snap     *flatrock.Snapshot
}

func (v snapshotView) options() *flatrock.ReadOptions { return &flatrock.ReadOptions{Snapshot: v.snap} }

func (v snapshotView) get(family int, key []byte) ([]byte, error) {
	return v.families[family].Get(v.options(), key, nil)
}

// held is a snapshot with what must be there.
type held struct {
	snapshotView
	b bounds
}

// checkAll compares every key of every family with the cut, in both directions.
func (c *cut) checkAll(v snapshotView, specs []familySpec) error {
	for f := range specs {
		if err := c.walk(v, f, specs[f].reverse, 0, specs[f].keys.n, false); err != nil {
			return err
		}
		if err := c.walk(v, f, specs[f].reverse, 0, specs[f].keys.n, true); err != nil {
			return err
		}
	}
	return nil
}

// rangeOf are the bounds of an iterator or a range over the keys with indices in
// [from, to), by the family's order.
func rangeOf(s keyspace, reverse bool, from, to int) (start, end []byte) {
	if !reverse {
		return s.key(from), s.key(to)
	}
	if from == 0 {
		return s.key(to - 1), []byte("0") // before all keys
	}
	return s.key(to - 1), s.key(from - 1)
}

// walk compares the keys with indices in [from, to) with the cut by an iterator,
// from its first key to its last or the other way round.
func (c *cut) walk(v snapshotView, family int, reverse bool, from, to int, backward bool) error {
	if from >= to {
		return nil
	}
	ro := v.options()
	s := c.h.Families[family]
	ro.LowerBound, ro.UpperBound = rangeOf(s, reverse, from, to)
	it, err := v.families[family].NewIterator(ro)
	if err != nil {
		return err
	}
	ok, step, up := it.First(), it.Next, !reverse
	if backward {
		ok, step, up = it.Last(), it.Prev, reverse
	}
	i := from - 1 // the index before the next one that is expected
	if !up {
		i = to
	}
	// skipped proves that the keys up to the one at j have no value.
	skipped := func(j int) error {
		for {
			if up {
				i++
			} else {
				i--
			}
			if i == j {
				return nil
			}
			if err := c.checkKey(family, i, nil, false); err != nil {
				return fmt.Errorf("iterator (backward %v, [%d, %d)): %w", backward, from, to, err)
			}
		}
	}
	for ; ok && err == nil; ok = step() {
		j := s.index(it.Key())
		if j < from || j >= to || up && j <= i || !up && j >= i {
			err = fmt.Errorf("family %d: the iterator (backward %v, [%d, %d)) comes to key %q after index %d", family, backward, from, to, it.Key(), i)
			break
		}
		if err = skipped(j); err == nil {
			err = c.checkKey(family, j, it.Value(), true)
		}
	}
	if err == nil {
		err = it.Err()
	}
	if err == nil {
		last := to
		if !up {
			last = from - 1
		}
		err = skipped(last)
	}
	return errors.Join(err, it.Close())
}

// index is the index of a key, -1 for what is none.
func (s keyspace) index(key []byte) int {
	if len(key) < 8 || key[0] == '~' {
		return -1
	}
	i := 0
	for _, b := range key[2:8] {
		if b < '0' || b > '9' {
			return -1
		}
		i = 10*i + int(b-'0')
	}
	if i >= s.n || string(s.key(i)) != string(key) {
		return -1
	}
	return i
}

// checkSome compares some keys of a view by one of the ways to read.
func (c *cut) checkSome(v snapshotView, specs []familySpec, rng *rand.Rand) error {
	f := rng.IntN(len(specs))
	s := &specs[f]
	switch rng.IntN(8) {
	case 0:
		return c.walk(v, f, s.reverse, 0, s.keys.n, rng.IntN(2) == 0)
	case 1, 2:
		from := rng.IntN(s.keys.n)
		return c.walk(v, f, s.reverse, from, min(s.keys.n, from+1+rng.IntN(60)), rng.IntN(2) == 0)
	case 3:
		var keys [][]byte
		var indices []int
		for range 1 + rng.IntN(50) {
			i := rng.IntN(s.keys.n)
			indices = append(indices, i)
			keys = append(keys, s.keys.key(i))
		}
		results, err := v.families[f].MultiGet(v.options(), keys, nil)
		if err != nil {
			return err
		}
		for j, r := range results {
			if err := c.checkResult(f, indices[j], r.Value, r.Err); err != nil {
				return fmt.Errorf("MultiGet: %w", err)
			}
		}
		return nil
	case 4:
		return c.checkPrefix(v, f, s, rng)
	case 5:
		return c.checkEntities(v, f, s, rng)
	default:
		for range 10 {
			i := rng.IntN(s.keys.n)
			value, err := v.get(f, s.keys.key(i))
			if err := c.checkResult(f, i, value, err); err != nil {
				return fmt.Errorf("Get: %w", err)
			}
		}
		return nil
	}
}

// checkEntities compares the columns of some keys.
func (c *cut) checkEntities(v snapshotView, f int, s *familySpec, rng *rand.Rand) error {
	var keys [][]byte
	var indices []int
	for range 1 + rng.IntN(20) {
		i := rng.IntN(s.keys.n)
		indices, keys = append(indices, i), append(keys, s.keys.key(i))
	}
	results := make([]flatrock.EntityResult, len(keys))
	if rng.IntN(2) == 0 {
		var err error
		if results, err = v.families[f].MultiGetEntity(v.options(), keys, results); err != nil {
			return err
		}
	} else {
		for j := range keys {
			results[j].Err = v.families[f].GetEntity(v.options(), keys[j], &results[j].Entity)
		}
	}
	for j, r := range results {
		value, _ := r.Column("")
		err := c.checkResult(f, indices[j], value, r.Err)
		if err == nil && r.Err == nil {
			id, _ := c.h.keys[f][indices[j]].at(c, f)
			err = sameColumns(id, r.Columns)
		}
		if err != nil {
			return fmt.Errorf("GetEntity of key %d: %w", indices[j], err)
		}
	}
	return nil
}

func (c *cut) checkResult(family, key int, value []byte, err error) error {
	if err != nil && !errors.Is(err, flatrock.ErrNotFound) {
		return err
	}
	return c.checkKey(family, key, value, err == nil)
}

// checkNow reads one key at the newest state. Alone: with the key's lock, so that
// one answer is right; otherwise it is one of those that it had meanwhile.
func (w *worker) checkNow(family, key int, alone bool) error {
	k := &w.h.keys[family][key]
	if alone {
		k.lock.RLock()
		defer k.lock.RUnlock()
	}
	from, _ := k.progress()
	name := w.specs[family].keys.key(key)
	var value []byte
	var err error
	how := w.rng.IntN(6)
	switch how {
	case 0:
		var p flatrock.PinnedValue
		if err = w.families[family].GetPinned(nil, name, &p); err == nil {
			value = slices.Clone(p.Value())
			p.Release()
		}
	case 1:
		var results []flatrock.GetResult
		if results, err = w.families[family].MultiGet(nil, [][]byte{name, name}, nil); err == nil {
			value, err = results[1].Value, results[1].Err
		}
	case 2:
		value, err = w.seek(family, name)
	case 3:
		var e flatrock.Entity
		if err = w.families[family].GetEntity(nil, name, &e); err == nil {
			value, _ = e.Column("")
			err = sameColumns(idOf(value), e.Columns)
		}
	case 4:
		var found, may bool
		if value, found, may, err = w.families[family].KeyMayExist(nil, name, nil); err == nil {
			if may && !found {
				value, err = w.families[family].Get(nil, name, nil)
			} else if !may {
				err = flatrock.ErrNotFound
			}
		}
	default:
		value, err = w.families[family].Get(nil, name, nil)
	}
	exists := err == nil
	if err != nil && !errors.Is(err, flatrock.ErrNotFound) {
		return err
	}
	_, to := k.progress()
	w.stats.Checks.Add(1)
	var first error
	ids := k.between(from, to)
	for _, id := range ids {
		err := sameValue(id, value, exists)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return fmt.Errorf("family %d, key %d %q (read %d, locked %v; ids %#x): %w", family, key, name, how, alone, ids, first)
}

// seek reads one key by an iterator with the prefix as its end.
func (w *worker) seek(family int, name []byte) ([]byte, error) {
	it, err := w.families[family].NewIterator(&flatrock.ReadOptions{PrefixSameAsStart: w.specs[family].extractor != nil && w.rng.IntN(2) == 0})
	if err != nil {
		return nil, err
	}
	var value []byte
	found := it.SeekGE(name) && string(it.Key()) == string(name)
	if found {
		value = slices.Clone(it.Value())
	}
	if err := it.Close(); err != nil {
		return nil, err
	}
	if !found {
		return nil, flatrock.ErrNotFound
	}
	return value, nil
}
