package dbbench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// fillSeekSequential writes keys in order, and then seeks to each of them twice. The writes do not count.
func fillSeekSequential(t *thread) (err error) {
	if err := fill(sequential)(t); err != nil {
		return err
	}
	t.stats.restart(t.c, t.log)
	it, err := t.cf.NewIterator(t.ro)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	ops := min(t.c.writesEach(), t.p.num)
	for i := int64(0); i < ops && !t.halt.Load(); i++ {
		t.setKey(uint64(i))
		for range 2 {
			if !it.SeekGE(t.key) || !bytes.Equal(it.Key(), t.key) {
				return errors.Join(fmt.Errorf("key %d of %d is not there", i, ops), it.Err())
			}
			for j := int64(0); j < t.c.seekNexts && it.Valid(); j++ {
				it.Next()
			}
			t.stats.finished(1, opSeek)
		}
	}
	return it.Err()
}

// replaceVersions is after how many versions the names of a key come round.
const replaceVersions = 50

// replaceKeys writes --numdistinct keys, and then --num times deletes one of them and writes its next
// version, which has a name of its own. Keys near the middle are replaced most often.
func replaceKeys(t *thread) error {
	versions := make([]uint8, t.c.numDistinct)
	values := t.values()
	put := func(id int64) error {
		t.setKey(uint64(id)*replaceVersions + uint64(versions[id]))
		return t.cf.Put(t.wo, t.key, values.next())
	}
	for id := range versions {
		if err := put(int64(id)); err != nil {
			return err
		}
	}
	t.stats.resetClock()
	remove := t.cf.Delete
	if t.c.useSingleDeletes {
		remove = t.cf.SingleDelete
	}
	count := float64(len(versions))
	loop := t.count(true, t.p.num)
	for !loop.done(1) {
		id := int64(math.Min(math.Max(count/2+t.rng.NormFloat64()*t.c.stddev, 0), count-1))
		t.setKey(uint64(id)*replaceVersions + uint64(versions[id]))
		if err := remove(t.wo, t.key); err != nil {
			return err
		}
		versions[id] = (versions[id] + 1) % replaceVersions
		if err := put(id); err != nil {
			return err
		}
		t.stats.finished(1, opWrite)
	}
	t.stats.message = fmt.Sprintf("use single deletes: %d, standard deviation: %f\n", map[bool]int{true: 1}[t.c.useSingleDeletes], t.c.stddev)
	return nil
}
