package dbbench

import (
	"errors"
	"fmt"
	"math"
)

// fillLevels returns the body of a benchmark that fills levels to fixed sizes: the
// deepest with --num values, and each one above with so many less as
// --max_bytes_for_level_multiplier says, as long as that is at least one. The deepest
// is written first, so that each level hides older entries below.
func fillLevels(order keyOrder) func(*thread) error {
	return func(t *thread) error {
		if !t.c.disableAutoCompactions {
			return errors.New("levels of fixed sizes need --disable_auto_compactions")
		}
		if t.c.maxBytesForLevelMultiplier < 1 {
			return fmt.Errorf("--max_bytes_for_level_multiplier=%g: want at least 1", t.c.maxBytesForLevelMultiplier)
		}
		values := t.values()
		var size int64
		deepest := int(t.c.numLevels) - 1
		for level := deepest; level > 0; level-- {
			n := int64(float64(t.p.num) / math.Pow(t.c.maxBytesForLevelMultiplier, float64(deepest-level)))
			if n < 1 {
				break
			}
			keys := newKeySource(order, uint64(t.p.num), t.rng)
			for range n {
				t.setKey(keys.take())
				v := values.next()
				if err := t.cf.Put(t.wo, t.key, v); err != nil {
					return err
				}
				size += int64(len(t.key) + len(v))
				t.stats.finished(1, opWrite)
				if t.halt.Load() {
					return nil
				}
			}
			if err := t.moveDown(level); err != nil {
				return err
			}
		}
		t.stats.bytes = size
		return t.printSizes()
	}
}

// moveDown flushes, and merges all of level 0 into a level.
func (t *thread) moveDown(level int) error {
	if err := t.cf.Flush(t.ctx, nil); err != nil {
		return err
	}
	m, err := t.cf.GetColumnFamilyMetaData()
	if err != nil {
		return err
	}
	var names []string
	for _, f := range m.Levels[0].Files {
		names = append(names, f.Name)
	}
	if len(names) == 0 {
		return nil
	}
	_, err = t.cf.CompactFiles(t.ctx, nil, names, level)
	return err
}

func (t *thread) printSizes() error {
	m, err := t.cf.GetColumnFamilyMetaData()
	if err != nil {
		return err
	}
	for _, l := range m.Levels {
		if n := len(l.Files); n > 0 {
			fmt.Fprintf(t.out, "Level[%d]: /%s - /%s(total size: %d bytes)\n", l.Level, l.Files[0].Name, l.Files[n-1].Name, l.Size)
		}
	}
	return nil
}
