package stress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/flatrock-db/flatrock"
)

// seldomNewer does one of the operations beyond reading and writing; op is below 12.
func (w *worker) seldomNewer(op int) error {
	f := w.rng.IntN(len(w.specs))
	ctx := context.Background()
	switch op {
	case 0, 1:
		return w.checkpoint(ctx)
	case 2, 3, 4:
		return w.compactFiles(ctx, f)
	case 5, 6:
		return w.setOptions(f)
	case 7, 8:
		return w.ingest(ctx, f)
	case 9:
		if w.id != 0 {
			return nil
		}
		if w.tracing {
			w.tracing = false
			_, err := w.db.EndBlockCacheTrace()
			return err
		}
		err := w.db.StartBlockCacheTrace(&flatrock.BlockCacheTraceOptions{SamplingFrequency: uint64(w.rng.IntN(3))}, io.Discard)
		if errors.Is(err, flatrock.ErrNotSupported) { // no family has a cache
			return nil
		}
		w.tracing = err == nil
		return err
	case 10:
		return w.updates()
	default:
		if err := w.db.DisableFileDeletions(); err != nil {
			return err
		}
		_, err := w.db.GetLiveFilesStorageInfo(nil)
		return errors.Join(err, w.db.EnableFileDeletions())
	}
}

// checkpoint makes a checkpoint, opens it, and compares it: a moment between the call
// and its return.
func (w *worker) checkpoint(ctx context.Context) error {
	dir := fmt.Sprintf("%s-checkpoint%d", w.dir, w.id)
	fsys := w.opts.db.FS
	if err := fsys.RemoveAll(dir); err != nil {
		return err
	}
	o := &flatrock.CheckpointOptions{}
	if !w.opts.noWAL && w.rng.IntN(2) == 0 {
		o.LogSizeForFlush = flatrock.NeverFlush
	}
	must := w.h.clock.Load()
	if _, err := w.db.CreateCheckpoint(ctx, dir, o); err != nil {
		return err
	}
	b := bounds{must: must, mustSync: must, may: w.h.clock.Load(), live: w.tolerate == nil, perFamily: w.opts.noWAL} // a log that is copied may hold a batch that failed
	opts := w.opts.db
	opts.CreateIfMissing, opts.CreateMissingColumnFamilies = false, false
	opts.ReadOnly = w.rng.IntN(2) == 0
	copyOf := &round{session: &session{cfg: w.cfg, dir: dir, specs: w.specs, h: w.h, stats: w.stats}, opts: roundOptions{db: opts}}
	err := copyOf.openDB()
	if err == nil {
		v := snapshotView{copyOf.families, nil}
		var c *cut
		if c, err = w.h.readCut(v, b); err == nil {
			err = c.checkAll(v, w.specs)
		}
		err = errors.Join(err, copyOf.db.Close())
	}
	if err != nil {
		return fmt.Errorf("checkpoint (read-only %v, %+v, no log %v): %w", opts.ReadOnly, *o, w.opts.noWAL, err)
	}
	return fsys.RemoveAll(dir)
}

// compactFiles merges some files of a family into a level of its own choice.
func (w *worker) compactFiles(ctx context.Context, family int) error {
	cf := w.families[family]
	files, err := w.db.GetLiveFilesMetaData()
	if err != nil {
		return err
	}
	var names []string
	level := 0
	for _, f := range files {
		if f.ColumnFamilyName == cf.Name() && w.rng.IntN(3) == 0 {
			names = append(names, f.Name)
			level = max(level, f.Level)
		}
	}
	if len(names) == 0 {
		return nil
	}
	level = min(6, level+w.rng.IntN(2))
	_, err = cf.CompactFiles(ctx, nil, names, level)
	if errors.Is(err, flatrock.ErrBusy) || errors.Is(err, flatrock.ErrInvalidArgument) {
		return nil // another compaction has them, or had them
	}
	return err
}

func (w *worker) setOptions(family int) error {
	return w.families[family].SetOptions(map[string]string{
		"disable_auto_compactions":           pick(w.rng, "true", "false", "false"),
		"write_buffer_size":                  pick(w.rng, "65536", "100000", "300000"),
		"level0_file_num_compaction_trigger": pick(w.rng, "2", "4", "6"),
		"target_file_size_base":              pick(w.rng, "4096", "20000", "65536"),
	})
}

// ingest writes values for a range of keys into a file, the worker's counter with them,
// and has it ingested: a batch that no log holds.
func (w *worker) ingest(ctx context.Context, family int) error {
	if w.opts.noWAL || !w.harness.ingest || w.broken {
		return nil
	}
	s := &w.specs[family]
	from := w.rng.IntN(w.cfg.Keys)
	to := min(w.cfg.Keys, from+1+w.rng.IntN(20))
	var entries []entry
	for i := from; i < to; i++ {
		if !isSingle(i) {
			entries = append(entries, entry{kind: putEntry, family: family, key: i, id: w.h.newValue()})
		}
	}
	if len(entries) == 0 {
		return nil
	}
	path := fmt.Sprintf("%s-external%d.sst", filepath.Clean(w.dir), w.id)
	locked := w.lockKeys(entries)
	defer func() {
		for _, k := range locked {
			k.lock.Unlock()
		}
	}()
	record := w.h.begin(w.id, entries, false)
	if record == nil {
		return errTraceFull
	}
	err := w.writeExternal(path, s, record)
	if err == nil {
		err = w.families[family].IngestExternalFile(ctx, []string{path}, &flatrock.IngestExternalFileOptions{
			MoveFiles: w.rng.IntN(2) == 0, VerifyChecksumsBeforeIngest: w.tolerate != nil || w.rng.IntN(2) == 0, // a bit flipped while a file is copied stays
		})
	}
	w.h.end(record, err)
	if rerr := w.opts.db.FS.Remove(path); rerr != nil && !notExist(rerr) && err == nil {
		err = rerr
	}
	return err
}

func (w *worker) writeExternal(path string, s *familySpec, r *batchRecord) error {
	cf := w.families[r.entries[0].family]
	file, err := flatrock.NewSstFileWriter(path, &flatrock.SstFileWriterOptions{Family: cf, FS: w.opts.db.FS})
	if err != nil {
		return err
	}
	type pair struct{ key, value []byte }
	var pairs []pair
	for _, e := range r.entries {
		pairs = append(pairs, pair{s.keys.key(e.key), appendValue(nil, e.id)})
	}
	pairs = append(pairs, pair{counterKey(w.id), binary.LittleEndian.AppendUint64(nil, r.number)})
	if s.reverse {
		slices.Reverse(pairs)
	}
	for _, p := range pairs {
		if err := file.Put(p.key, p.value); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	_, err = file.Finish()
	return err
}

// updates walks some batches of the log from now on: without a gap.
func (w *worker) updates() error {
	if w.opts.noWAL {
		return nil
	}
	s, err := w.take()
	if err != nil {
		return err
	}
	seq := s.snap.Sequence()
	s.snap.Release()
	if err := w.write(); err != nil || seq == 0 {
		return err
	}
	it, err := w.db.GetUpdatesSince(seq + 1)
	if err != nil {
		return noGap(err)
	}
	next := seq + 1
	for n := 0; n < 50 && it.Valid(); n++ {
		b := it.Batch()
		if n > 0 && b.Sequence != next {
			return fmt.Errorf("updates since %d: batch %d begins at %d, want %d", seq+1, n, b.Sequence, next)
		}
		next = b.Sequence + uint64(b.Count)
		it.Next()
	}
	err = it.Err()
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	return noGap(err)
}

// noGap lets pass that a log was deleted once its writes were flushed, and that what
// was ingested is in none.
func noGap(err error) error {
	if gap := (*flatrock.UpdatesGapError)(nil); errors.As(err, &gap) {
		return nil
	}
	return err
}
