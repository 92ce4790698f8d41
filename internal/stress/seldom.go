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

// seldomNewer does one of the operations beyond reading and writing; op is below 17.
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
		return w.cacheTrace()
	case 10, 11:
		return w.updates()
	case 12:
		return w.backup(ctx)
	case 13:
		return w.exportImport(ctx, f)
	case 14:
		return w.pause(ctx)
	case 15:
		return w.resume(ctx)
	default:
		return w.look(ctx)
	}
}

// cacheTrace begins or ends a block cache trace.
func (w *worker) cacheTrace() error {
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
}

// pause stops what goes on in the background, reads meanwhile, and lets it go on.
func (w *worker) pause(ctx context.Context) error {
	if w.rng.IntN(2) == 0 {
		w.db.DisableManualCompaction()
		err := w.families[0].CompactRange(ctx, nil, nil, nil)
		if !errors.Is(err, flatrock.ErrPaused) && (err == nil || w.tolerate == nil) {
			err = fmt.Errorf("CompactRange, which is disabled, says %v", err)
		} else if errors.Is(err, flatrock.ErrPaused) {
			err = nil
		}
		w.db.EnableManualCompaction()
		return err
	}
	if err := w.db.PauseBackgroundWork(ctx); err != nil {
		return err
	}
	err := w.checkSnapshot()
	if err == nil && w.rng.IntN(2) == 0 {
		if err = w.db.WaitForCompact(ctx, &flatrock.WaitForCompactOptions{AbortOnPause: true}); errors.Is(err, flatrock.ErrPaused) {
			err = nil
		}
	}
	return errors.Join(err, w.db.ContinueBackgroundWork())
}

// resume makes the database writable again, if something failed that lets it.
func (w *worker) resume(ctx context.Context) error {
	if w.tolerate == nil {
		return nil
	}
	err := w.db.Resume(ctx)
	if err == nil {
		w.broken = false
	}
	return err
}

// look asks the database about itself.
func (w *worker) look(ctx context.Context) error {
	switch w.rng.IntN(6) {
	case 0:
		if err := w.db.DisableFileDeletions(); err != nil {
			return err
		}
		_, err := w.db.GetLiveFilesStorageInfo(nil)
		return errors.Join(err, w.db.EnableFileDeletions())
	case 1:
		if w.opts.db.FileChecksumGenFactory == flatrock.NoFileChecksums {
			return nil
		}
		return w.db.VerifyFileChecksums(ctx)
	case 2:
		f := w.rng.IntN(len(w.specs))
		start, end := rangeOf(w.specs[f].keys, w.specs[f].reverse, 0, w.cfg.Keys)
		_, err := w.families[f].GetApproximateSizes(&flatrock.SizeApproximationOptions{IncludeMemtables: true}, []flatrock.KeyRange{{Start: start, End: end}})
		return err
	case 3:
		for _, name := range flatrock.PropertyNames() {
			w.families[w.rng.IntN(len(w.specs))].GetProperty(name)
		}
		return nil
	case 4:
		if w.opts.noWAL {
			return nil
		}
		_, err := w.db.GetSortedWalFiles()
		return err
	}
	return paused(w.db.WaitForCompact(ctx, &flatrock.WaitForCompactOptions{AbortOnPause: true, Flush: w.rng.IntN(2) == 0}))
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
	level = min(w.families[family].Options().NumLevels-1, level+w.rng.IntN(2))
	_, err = cf.CompactFiles(ctx, compactFilesOptions(w.rng), names, level)
	if errors.Is(err, flatrock.ErrBusy) || errors.Is(err, flatrock.ErrInvalidArgument) {
		return nil // another compaction has them, or had them
	}
	return paused(err)
}

// paused lets pass that another worker has paused what was to be done.
func paused(err error) error {
	if errors.Is(err, flatrock.ErrPaused) {
		return nil
	}
	return err
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
		err = w.families[family].IngestExternalFile(ctx, []string{path}, ingestOptions(w.rng, w.tolerate != nil))
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
