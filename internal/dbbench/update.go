package dbbench

import (
	"errors"
	"fmt"

	flatrock "github.com/flatrock-db/flatrock"
)

// updateWith returns the body of a benchmark that reads a random key, if it is there,
// and writes what change makes of the old value and a new one. counted tells
// whether the bytes count, which they do not in all of db_bench's.
func updateWith(counted bool, change func(dst, old, value []byte) []byte) func(*thread) error {
	return func(t *thread) error {
		values := t.values()
		num := t.keyCount()
		var old, changed []byte
		var found, size int64
		loop := t.count(true, t.c.readWritesEach())
		for !loop.done(1) {
			t.setKey(t.rng.Uint64N(num))
			v, err := t.cf.Get(t.ro, t.key, old[:0])
			switch {
			case err == nil:
				old = v
				found++
				size += int64(len(t.key) + len(v))
			case errors.Is(err, flatrock.ErrNotFound):
				old = old[:0]
			default:
				return err
			}
			changed = change(changed[:0], old, values.next())
			if err := t.cf.Put(t.wo, t.key, changed); err != nil {
				return err
			}
			size += int64(len(t.key) + len(changed))
			t.stats.finished(1, opUpdate)
		}
		if counted {
			t.stats.bytes = size
		}
		t.stats.message = fmt.Sprintf("( updates:%d found:%d)", t.stats.done, found)
		return nil
	}
}

// replaced is updaterandom's new value.
func replaced(dst, _, value []byte) []byte { return append(dst, value...) }

// appended is appendrandom's: the values of a key separated by commas.
func appended(dst, old, value []byte) []byte {
	if len(old) > 0 {
		dst = append(append(dst, old...), ',')
	}
	return append(dst, value...)
}

// xored is xorupdaterandom's: the bytes of both, zeros standing for those that one lacks.
func xored(dst, old, value []byte) []byte {
	if len(old) < len(value) {
		old, value = value, old
	}
	dst = append(dst, old...)
	for i, b := range value {
		dst[i] ^= b
	}
	return dst
}

// mergeKeyCount is how many keys merges choose from.
func (t *thread) mergeKeyCount() uint64 {
	if t.c.mergeKeys < 0 {
		return t.keyCount()
	}
	return uint64(max(t.c.mergeKeys, 1))
}

func mergeRandom(t *thread) error {
	values, num := t.values(), t.mergeKeyCount()
	var size int64
	loop := t.count(true, t.c.readWritesEach())
	for !loop.done(1) {
		t.setKey(t.rng.Uint64N(num))
		v := values.next()
		if err := t.cf.Merge(t.wo, t.key, v); err != nil {
			return err
		}
		size += int64(len(t.key) + len(v))
		t.stats.finished(1, opMerge)
	}
	t.stats.bytes = size
	t.stats.message = fmt.Sprintf("( updates:%d)", t.stats.done)
	return nil
}

// readRandomWriteRandom reads --readwritepercent of a hundred operations, and then
// writes the others.
func readRandomWriteRandom(t *thread) error {
	values, num := t.values(), t.keyCount()
	var value []byte
	var reads, writes, found int64
	loop := t.count(true, t.c.readWritesEach())
	for !loop.done(1) {
		t.setKey(t.rng.Uint64N(num))
		if (reads+writes)%100 >= t.c.readWritePercent {
			if err := t.cf.Put(t.wo, t.key, values.next()); err != nil {
				return err
			}
			writes++
			t.stats.finished(1, opWrite)
			continue
		}
		v, err := t.cf.Get(t.ro, t.key, value[:0])
		if err == nil {
			value = v
			found++
		} else if !errors.Is(err, flatrock.ErrNotFound) {
			return err
		}
		reads++
		t.stats.finished(1, opRead)
	}
	t.stats.message = fmt.Sprintf("( reads:%d writes:%d total:%d found:%d)", reads, writes, t.c.readWritesEach(), found)
	return nil
}

// readRandomMergeRandom merges in --mergereadpercent of the operations, by lot, and reads in
// the others.
func readRandomMergeRandom(t *thread) error {
	values, num := t.values(), t.mergeKeyCount()
	var value []byte
	var reads, merges, hits int64
	longest := 0
	loop := t.count(true, t.c.readWritesEach())
	for !loop.done(1) {
		t.setKey(t.rng.Uint64N(num))
		if t.rng.Int64N(100) < t.c.mergeReadPercent {
			if err := t.cf.Merge(t.wo, t.key, values.next()); err != nil {
				return err
			}
			merges++
			t.stats.finished(1, opMerge)
			continue
		}
		v, err := t.cf.Get(t.ro, t.key, value[:0])
		if err == nil {
			value = v
			hits++
			longest = max(longest, len(v))
		} else if !errors.Is(err, flatrock.ErrNotFound) {
			return err
		}
		reads++
		t.stats.finished(1, opRead)
	}
	t.stats.message = fmt.Sprintf("(reads:%d merges:%d total:%d hits:%d maxlength:%d)", reads, merges, t.c.readWritesEach(), hits, longest)
	return nil
}

// randomWithVerify puts, gets and deletes triples of keys that belong together, and
// fails if a get, at one snapshot, does not find the three alike.
func randomWithVerify(t *thread) error {
	values := t.values()
	num := uint64(t.c.numDistinct)
	deletes, gets := t.c.deletePercent, t.c.readWritePercent
	const copies = 3
	var keys [copies][]byte
	var found [copies][]byte
	var got, put, deleted, hits int64
	loop := t.count(true, t.c.readWritesEach())
	for !loop.done(1) {
		t.setKey(t.rng.Uint64N(num))
		for i := range keys {
			keys[i] = append(append(keys[i][:0], t.key...), byte('0'+i))
		}
		switch at := (got + put + deleted) % 100; {
		case at < gets:
			snapshot, err := t.db.NewSnapshot()
			if err != nil {
				return err
			}
			ro := *t.ro
			ro.Snapshot = snapshot
			there := 0
			for i := range keys {
				v, err := t.cf.Get(&ro, keys[i], found[i][:0])
				if err == nil {
					there++
					found[i] = v
				} else if found[i] = found[i][:0]; !errors.Is(err, flatrock.ErrNotFound) {
					snapshot.Release()
					return err
				}
			}
			snapshot.Release()
			if there != 0 && there != copies || string(found[0]) != string(found[1]) || string(found[0]) != string(found[2]) {
				return fmt.Errorf("key %q: its %d copies differ: %q %q %q", t.key, copies, found[0], found[1], found[2])
			}
			got++
			hits += int64(min(there, 1))
			t.stats.finished(1, opRead)
		case at < gets+deletes:
			t.batch.Reset()
			for i := range keys {
				t.batch.Delete(t.cf, keys[i])
			}
			if err := t.db.Write(t.wo, &t.batch); err != nil {
				return err
			}
			deleted++
			t.stats.finished(1, opDelete)
		default:
			t.batch.Reset()
			v := values.next()
			for i := range keys {
				t.batch.Put(t.cf, keys[i], v)
			}
			if err := t.db.Write(t.wo, &t.batch); err != nil {
				return err
			}
			put++
			t.stats.finished(1, opWrite)
		}
	}
	t.stats.message = fmt.Sprintf("( get:%d put:%d del:%d total:%d found:%d)", got, put, deleted, t.c.readWritesEach(), hits)
	return nil
}
