package dbbench

import (
	"bytes"
	"errors"
	"fmt"

	flatrock "github.com/flatrock-db/flatrock"
)

// readOptions is nil unless a flag asks for something.
func (b *bench) readOptions() *flatrock.ReadOptions {
	c := b.c
	ro := flatrock.ReadOptions{
		AutoPrefixMode: c.autoPrefixMode, Tailing: c.useTailingIterator,
		TotalOrderSeek: c.totalOrderSeek, PrefixSameAsStart: c.prefixSameAsStart, ReadaheadSize: int(c.readaheadSize),
		AutoReadaheadSize: toggle(c.autoReadahead), AdaptiveReadahead: c.adaptiveReadahead, AsyncIO: c.asyncIO,
	}
	if !c.verifyChecksum {
		ro.VerifyChecksums = flatrock.Off
	}
	return &ro
}

// setKey makes t.key the key of number v, or one that does not exist, and t.cf its family.
func (t *thread) setKey(v uint64) {
	t.key = t.maker.put(t.key, v)
	if len(t.families) > 1 {
		t.cf = t.families[t.c.families.of(v)]
	}
	if t.p.missing && t.maker.existing != nil {
		t.key = append(t.key, '0')
	}
}

// keyCount is how many keys random reads choose from.
func (t *thread) keyCount() uint64 { return uint64(t.p.num) }

func readRandom(t *thread) error {
	var found, read, size int64
	value := make([]byte, 0, 1<<10)
	num, expRange := t.keyCount(), t.c.readRandomExpRange
	loop := t.count(true, t.p.reads)
	for !loop.done(1) {
		t.setKey(skewed(t.rng, num, expRange))
		t.readPace.take(1)
		v, err := t.cf.Get(t.ro, t.key, value[:0])
		read++
		if err == nil {
			found++
			size += int64(len(t.key) + len(v))
			value = v
		} else if err != flatrock.ErrNotFound {
			return err
		}
		t.stats.finished(1, opRead)
	}
	t.stats.found, t.stats.read, t.stats.bytes = found, read, size
	return nil
}

func multiReadRandom(t *thread) error {
	batch := int(t.c.batchSize)
	keys := make([][]byte, batch)
	for i := range keys {
		keys[i] = t.maker.buffer()
	}
	var results []flatrock.GetResult
	var found, read, size int64
	num, expRange := t.keyCount(), t.c.readRandomExpRange
	stride := uint64(t.c.multireadStride)
	loop := t.count(true, t.p.reads)
	for !loop.done(int64(batch)) {
		if len(t.families) > 1 {
			// The keys of a MultiGet are of one family: that of the first.
			t.setKey(skewed(t.rng, num, expRange))
			for i := range keys {
				at := skewed(t.rng, num, expRange)
				for t.families[t.c.families.of(at)] != t.cf {
					at = (at + 1) % num
				}
				keys[i] = t.maker.put(keys[i], at)
			}
		} else if stride == 0 {
			for i := range keys {
				keys[i] = t.maker.put(keys[i], skewed(t.rng, num, expRange))
			}
		} else {
			at := skewed(t.rng, num, expRange)
			for i := range keys {
				keys[i] = t.maker.put(keys[i], at%num)
				at += stride
			}
		}
		t.readPace.take(int64(batch))
		var err error
		if results, err = t.cf.MultiGet(t.ro, keys, results); err != nil {
			return err
		}
		for i := range results {
			if results[i].Err == nil {
				found++
				size += int64(len(keys[i]) + len(results[i].Value))
			} else if results[i].Err != flatrock.ErrNotFound {
				return results[i].Err
			}
		}
		read += int64(batch)
		t.stats.finished(int64(batch), opRead)
	}
	t.stats.found, t.stats.read, t.stats.bytes = found, read, size
	return nil
}

func readSequential(t *thread) error {
	return t.walk((*flatrock.Iterator).First, (*flatrock.Iterator).Next)
}

func readReverse(t *thread) error {
	return t.walk((*flatrock.Iterator).Last, (*flatrock.Iterator).Prev)
}

// walk reads the keys in order with one iterator, or with one for each family.
func (t *thread) walk(first, step func(*flatrock.Iterator) bool) error {
	loop := t.count(false, t.p.reads)
	return t.each(func(cf *flatrock.ColumnFamily) error { return t.walkFamily(cf, &loop, first, step) })
}

func (t *thread) walkFamily(cf *flatrock.ColumnFamily, loop *count, first, step func(*flatrock.Iterator) bool) (err error) {
	it, err := cf.NewIterator(t.ro)
	if err != nil {
		return err
	}
	defer func() {
		if e := it.Close(); err == nil {
			err = e
		}
	}()
	var size int64
	for ok := first(it); ok && !loop.done(1); ok = step(it) {
		size += int64(len(it.Key()) + len(it.Value()))
		t.stats.finished(1, opRead)
	}
	t.stats.bytes += size
	return it.Err()
}

func seekRandom(t *thread) (err error) {
	var it *flatrock.Iterator
	defer func() {
		if it != nil {
			err = errors.Join(err, it.Close())
		}
	}()
	var found, read, size int64
	value := make([]byte, 0, 1<<10)
	num, nexts, distance := t.keyCount(), t.c.seekNexts, uint64(t.c.maxScanDistance)
	step := (*flatrock.Iterator).Next
	if t.c.reverseIterator {
		step = (*flatrock.Iterator).Prev
	}
	ro := *t.ro
	var bound []byte
	if distance > 0 {
		bound = t.maker.buffer()
	}
	loop := t.count(true, t.p.reads)
	for !loop.done(1) {
		at := t.rng.Uint64N(num)
		t.setKey(at)
		if t.c.seekMissingPrefix {
			t.key[8] = '1' // where keys are filled up with '0'
		}
		if distance > 0 {
			if t.c.reverseIterator {
				bound = t.maker.put(bound, at-min(at, distance))
				ro.LowerBound = bound
			} else {
				bound = t.maker.put(bound, min(num-1, at+distance))
				ro.UpperBound = bound
			}
		}
		t.readPace.take(1)
		if it == nil {
			if it, err = t.cf.NewIterator(&ro); err != nil {
				return err
			}
		}
		read++
		if it.SeekGE(t.key) && bytes.Equal(it.Key(), t.key) {
			found++
		}
		for j := int64(0); j < nexts && it.Valid(); j++ {
			value = append(value[:0], it.Value()...)
			size += int64(len(it.Key()) + len(value))
			step(it)
		}
		if err := it.Err(); err != nil {
			return err
		}
		if !t.c.useTailingIterator || distance > 0 { // a tailing one goes on, unless its bounds change
			if err := it.Close(); err != nil {
				return err
			}
			it = nil
		}
		t.stats.finished(1, opSeek)
	}
	t.stats.found, t.stats.read, t.stats.bytes = found, read, size
	return nil
}

func newIterators(t *thread) error {
	loop := t.count(true, t.p.reads)
	for !loop.done(1) {
		it, err := t.cf.NewIterator(t.ro)
		if err != nil {
			return err
		}
		if err := it.Close(); err != nil {
			return err
		}
		t.stats.finished(1, opOther)
	}
	return nil
}

// readRandomFast draws from a power of two of numbers, so that drawing costs little.
func readRandomFast(t *thread) error {
	num := t.keyCount()
	pot := uint64(1)
	for pot < num {
		pot <<= 1
	}
	const burst = 100
	var found, read, missing int64
	value := make([]byte, 0, 1<<10)
	loop := t.count(true, t.p.reads)
	for {
		for range burst {
			k := t.rng.Uint64() & (pot - 1)
			if k >= num {
				missing++
				if t.maker.existing != nil {
					k = num - 1
				}
			}
			t.setKey(k)
			v, err := t.cf.Get(t.ro, t.key, value[:0])
			read++
			if err == nil {
				found++
				value = v
			} else if err != flatrock.ErrNotFound {
				return err
			}
			t.stats.finished(1, opRead)
		}
		if loop.done(burst) {
			break
		}
	}
	t.stats.message = fmt.Sprintf("(%d of %d found, issued %d non-exist keys)\n", found, read, missing)
	return nil
}

// seekWithPrefix is seekRandom whose iterators end with the prefix.
func seekWithPrefix(t *thread) error {
	if t.c.prefixSize <= 0 {
		return errors.New("needs --prefix_size")
	}
	t.ro.PrefixSameAsStart = true
	return seekRandom(t)
}
