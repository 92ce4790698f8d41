package dbbench

import (
	"errors"
	"fmt"
	"time"
)

// mixedFill are flags of filluniquerandom and fillanddeleteuniquerandom: keys that are written
// again soon, and keys that are deleted soon.
type mixedFill struct {
	overwriteProbability float64
	overwriteWindow      uint64

	disposable, persistent         uint64 // keys of a sequence
	disposableSize, persistentSize int64  // bytes of their values
	deleteDelay                    uint64 // microseconds
}

var defaultMixedFill = mixedFill{overwriteWindow: 1, disposableSize: 64, persistentSize: 64}

func (f *mixedFill) bindings() []binding {
	return []binding{
		{"overwrite_probability", &f.overwriteProbability, "filluniquerandom: chance that a write goes to one of the last keys instead of a new one"},
		{"overwrite_window_size", &f.overwriteWindow, "how many keys these are"},
		{"disposable_entries_batch_size", &f.disposable, "fillanddeleteuniquerandom: keys that are written together and deleted later; zero means none"},
		{"disposable_entries_value_size", &f.disposableSize, "bytes of their values"},
		{"disposable_entries_delete_delay", &f.deleteDelay, "microseconds until they are deleted, at least"},
		{"persistent_entries_batch_size", &f.persistent, "fillanddeleteuniquerandom: keys that are written before these deletes, for good"},
		{"persistent_entries_value_size", &f.persistentSize, "bytes of their values"},
	}
}

func (f *mixedFill) check() error {
	const most = 1 << 24
	switch {
	case !(f.overwriteProbability >= 0 && f.overwriteProbability <= 1) || f.overwriteWindow < 1 || f.overwriteWindow > most:
		return fmt.Errorf("--overwrite_probability=%g, --overwrite_window_size=%d: want 0 to 1, and 1 to %d", f.overwriteProbability, f.overwriteWindow, most)
	case f.disposable > most || f.persistent > most || f.disposableSize < 0 || f.persistentSize < 0 || f.disposableSize > most || f.persistentSize > most || f.deleteDelay > 1<<40:
		return fmt.Errorf("--disposable_entries_batch_size=%d, --persistent_entries_batch_size=%d, their value sizes %d and %d: want 0 to %d", f.disposable, f.persistent, f.disposableSize, f.persistentSize, most)
	case f.persistent > 0 && f.disposable == 0:
		return errors.New("--persistent_entries_batch_size needs --disposable_entries_batch_size")
	case f.disposable > 0 && f.overwriteProbability > 0:
		return errors.New("--disposable_entries_batch_size and --overwrite_probability exclude each other")
	}
	return nil
}

// change is one operation of a mixed fill: a delete, or a value of size bytes.
type change struct {
	key  uint64
	gone bool
	size int
}

// fillMixed writes what next says, as many operations as there are.
func (t *thread) fillMixed(ops int64, next func() change) error {
	longest := max(t.p.valueSize, t.c.fill.disposableSize, t.c.fill.persistentSize)
	values := newValueSource(t.c, t.rng, longest)
	var size int64
	loop := t.count(false, ops)
	for batch := t.p.batch; !loop.done(batch); {
		t.batch.Reset()
		start := size
		for range batch {
			c := next()
			t.setKey(c.key)
			size += int64(len(t.key))
			if c.gone {
				t.batch.Delete(t.cf, t.key)
				continue
			}
			t.batch.Put(t.cf, t.key, values.sized(c.size))
			size += int64(c.size)
		}
		t.writePace.take(size - start)
		t.stats.resetClock()
		if err := t.db.Write(t.wo, &t.batch); err != nil {
			return err
		}
		t.stats.finished(batch, opWrite)
	}
	t.stats.bytes = size
	return nil
}

// fillOverwriting is filluniquerandom with --overwrite_probability.
func (t *thread) fillOverwriting(ops int64) error {
	f := &t.c.fill
	keys := newKeySource(uniqueRandom, uint64(t.p.num), t.rng)
	window := make([]uint64, 0, f.overwriteWindow)
	var unique, again int64
	err := t.fillMixed(min(ops, t.p.num), func() change {
		if len(window) > 0 && t.rng.Float64() < f.overwriteProbability {
			again++
			return change{key: window[t.rng.IntN(len(window))], size: int(t.p.valueSize)}
		}
		c := change{key: keys.take(), size: int(t.p.valueSize)}
		if len(window) < cap(window) {
			window = append(window, c.key)
		} else {
			window[unique%int64(len(window))] = c.key // the oldest
		}
		unique++
		return c
	})
	fmt.Fprintf(t.out, "Number of unique keys inserted: %d.\nNumber of overwrites: %d\n", unique, again)
	return err
}

// fillAndDelete is fillanddeleteuniquerandom. It repeats a sequence: disposable keys are written;
// after a delay the persistent keys of the same sequence, and then deletes of the disposable ones. While the delay
// lasts, further sequences begin.
func fillAndDelete(t *thread) error {
	f := &t.c.fill
	if f.disposable == 0 || t.c.writesPerRangeTombstone > 0 {
		if t.c.writesPerRangeTombstone > 0 && f.disposable > 0 {
			return errors.New("--disposable_entries_batch_size and --writes_per_range_tombstone exclude each other")
		}
		return fill(uniqueRandom)(t)
	}
	type job struct {
		due   time.Time
		first uint64 // of the disposable keys, by their place
	}
	var (
		ops            = uint64(t.c.writesEach())
		perm           = newPermutation(max(uint64(t.p.num), ops+(ops/f.disposable+1)*f.persistent), t.rng) // a place for each key
		place, through uint64                                                                               // of the next disposable key, and how far the first job is
		jobs           []job
		deletes, kept  int64
	)
	err := t.fillMixed(int64(ops), func() change {
		if len(jobs) == 0 || time.Now().Before(jobs[0].due) {
			c := change{key: perm.at(place), size: int(f.disposableSize)}
			kept++
			if place++; place%(f.disposable+f.persistent) == f.disposable%(f.disposable+f.persistent) {
				jobs = append(jobs, job{time.Now().Add(time.Duration(f.deleteDelay) * time.Microsecond), place - f.disposable})
				place += f.persistent
			}
			return c
		}
		c := change{key: perm.at(jobs[0].first + f.disposable + through), size: int(f.persistentSize)}
		if through >= f.persistent {
			c = change{key: perm.at(jobs[0].first + through - f.persistent), gone: true}
			deletes++
		} else {
			kept++
		}
		if through++; through == f.disposable+f.persistent {
			jobs, through = jobs[1:], 0
		}
		return c
	})
	fmt.Fprintf(t.out, "Number of unique keys inserted (disposable+persistent): %d.\nNumber of 'disposable entry delete': %d\n", kept, deletes)
	return err
}
