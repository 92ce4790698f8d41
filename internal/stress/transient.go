package stress

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/flatrock-db/flatrock"
)

// transientPrefix begins the names of families that come and go.
const transientPrefix = "transient"

// transient creates a family, uses it, and drops it. Here is what may lose data: files that are deleted
// with what is in them, and the FIFO style.
func (w *worker) transient() error {
	name := fmt.Sprintf("%s%d", transientPrefix, w.id)
	spec := w.specs[w.rng.IntN(len(w.specs))]
	if old := w.db.ColumnFamily(name); old != nil { // a fault came in between
		return w.db.DropColumnFamily(old)
	}
	o := w.cfg.drawFamilyRound(w.rng, &spec, w.harness)
	lossy := w.rng.IntN(4) == 0
	if lossy {
		o.CompactionStyle = flatrock.CompactionStyleFIFO
		o.CompactionOptionsFIFO = flatrock.FIFOOptions{MaxTableFilesSize: 20 << 10, AllowCompaction: w.rng.IntN(2) == 0}
	}
	reap := reaper{w.rng.Uint64(), spec.reverse}
	reaping := !lossy && w.rng.IntN(4) == 0
	if reaping {
		o.CompactionFilter = reap
	}
	cf, err := w.db.CreateColumnFamily(name, o)
	if err != nil {
		return err
	}
	mayLack := func(key int) bool { return lossy || reaping && reap.reaps(spec.keys.key(key)) }
	t := transientFamily{w, cf, &spec, map[int]uint64{}}
	if err := t.use(mayLack); err != nil {
		return fmt.Errorf("family %s: %w", name, err)
	}
	if err := w.db.DropColumnFamily(cf); err != nil {
		return err
	}
	if _, err := cf.Get(nil, spec.keys.key(0), nil); !errors.Is(err, flatrock.ErrColumnFamilyDropped) {
		return fmt.Errorf("family %s was dropped, and Get says %v", name, err)
	}
	return nil
}

type transientFamily struct {
	w    *worker
	cf   *flatrock.ColumnFamily
	spec *familySpec
	ids  map[int]uint64 // by key, each of which is written once
}

func (t *transientFamily) use(mayLack func(key int) bool) error {
	if err := t.put(); err != nil {
		return err
	}
	if t.w.rng.IntN(2) == 0 {
		if err := t.check(mayLack); err != nil {
			return err
		}
	}
	ctx := context.Background()
	if t.w.rng.IntN(2) == 0 {
		return errors.Join(t.check(mayLack), t.ingestBehind(ctx, mayLack))
	}
	// More files, some of them in deeper levels, and some of those deleted.
	for range 1 + t.w.rng.IntN(3) {
		if err := errors.Join(t.put(), t.cf.Flush(ctx, nil)); err != nil {
			return err
		}
	}
	if err := paused(t.cf.CompactRange(ctx, nil, nil, nil)); err != nil {
		return err
	}
	if err := errors.Join(t.put(), t.check(mayLack)); err != nil {
		return err
	}
	from := t.w.rng.IntN(t.spec.keys.n)
	to := min(t.spec.keys.n, from+1+t.w.rng.IntN(t.spec.keys.n))
	start, end := rangeOf(t.spec.keys, t.spec.reverse, from, to)
	if err := t.cf.DeleteFilesInRanges([]flatrock.KeyRange{{Start: start, End: end}}, false); err != nil {
		return fmt.Errorf("DeleteFilesInRanges: %w", err)
	}
	return t.check(func(key int) bool { return mayLack(key) || key >= from && key < to })
}

// ingestBehind ingests keys beneath what is there, some of which are there already. What is there wins.
func (t *transientFamily) ingestBehind(ctx context.Context, mayLack func(key int) bool) error {
	w := t.w
	if !w.opts.db.AllowIngestBehind || w.opts.noWAL || !w.harness.ingest || w.broken {
		return nil
	}
	added := map[int]uint64{}
	from := w.rng.IntN(t.spec.keys.n)
	to := min(t.spec.keys.n, from+1+w.rng.IntN(20))
	for key := from; key < to; key++ {
		if !mayLack(key) { // else what is there may have gone, and all that hid others with it
			added[key] = w.h.newValue()
		}
	}
	if len(added) == 0 {
		return nil
	}
	path := fmt.Sprintf("%s-behind%d.sst", filepath.Clean(w.dir), w.id)
	file, err := flatrock.NewSstFileWriter(path, &flatrock.SstFileWriterOptions{Family: t.cf, FS: w.opts.db.FS})
	if err != nil {
		return err
	}
	order := slices.Sorted(maps.Keys(added))
	if t.spec.reverse {
		slices.Reverse(order)
	}
	for _, key := range order {
		if err == nil {
			err = file.Put(t.spec.keys.key(key), appendValue(nil, added[key]))
		}
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if _, err := file.Finish(); err != nil {
		return err
	}
	o := ingestOptions(w.rng, w.tolerate != nil)
	o.IngestBehind = true
	err = t.cf.IngestExternalFile(ctx, []string{path}, o)
	if rerr := w.opts.db.FS.Remove(path); rerr != nil && !notExist(rerr) && err == nil {
		err = rerr
	}
	if err != nil {
		return fmt.Errorf("ingesting behind: %w", err)
	}
	for key, id := range added {
		if t.ids[key] == 0 {
			t.ids[key] = id
		}
	}
	return t.check(mayLack)
}

// put writes keys that were not written before.
func (t *transientFamily) put() error {
	wo := &flatrock.WriteOptions{DisableWAL: t.w.opts.noWAL}
	for range 1 + t.w.rng.IntN(20) {
		i := t.w.rng.IntN(t.spec.keys.n)
		if t.ids[i] != 0 {
			continue
		}
		t.ids[i] = t.w.h.newValue()
		if err := t.cf.Put(wo, t.spec.keys.key(i), appendValue(nil, t.ids[i])); err != nil {
			return err
		}
	}
	if t.w.rng.IntN(2) == 0 {
		return t.cf.Flush(context.Background(), nil)
	}
	return nil
}

// check compares all keys; those that mayLack names may have no value.
func (t *transientFamily) check(mayLack func(key int) bool) error {
	for i := range t.spec.keys.n {
		t.w.stats.Checks.Add(1)
		v, err := t.cf.Get(nil, t.spec.keys.key(i), nil)
		if err != nil && !errors.Is(err, flatrock.ErrNotFound) {
			return err
		}
		if err != nil && mayLack(i) {
			continue
		}
		if err := sameValue(t.ids[i], v, err == nil); err != nil {
			return fmt.Errorf("key %d: %w", i, err)
		}
	}
	return nil
}
