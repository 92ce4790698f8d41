package flatrock

import (
	"context"
	"time"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// pickerInputLocked is what pickers choose by.
func (cf *ColumnFamily) pickerInputLocked() *compaction.Input {
	in := &compaction.Input{
		Version: cf.compactable(), Options: cf.compactionOptions(), Running: &cf.running,
		Now: uint64(cf.db.opts.now().Unix()), Stats: cf.fileStats,
	}
	if cf.db.manifest != nil { // it has no writer where nothing is written, and scores need no cursors
		if st := cf.db.manifest.State().Family(cf.id); st != nil {
			in.Cursors = st.CompactCursors
		}
	}
	if !cf.db.opts.AllowIngestBehind {
		in.Released = cf.db.released
	}
	return in
}

// compactionOptions are the family's options as pickers take them.
func (cf *ColumnFamily) compactionOptions() *compaction.Options {
	return cf.mutable().picking(cf.maxOutputSize())
}

// fileStats tells pickers what the properties of an open file say.
func (cf *ColumnFamily) fileStats(f *manifest.FileMetadata) compaction.FileStats {
	h := cf.tables[f.Number]
	if h == nil {
		return compaction.FileStats{}
	}
	p := h.reader().Properties()
	return compaction.FileStats{Entries: p.NumEntries, Deletions: p.NumDeletions, RangeDeletions: p.NumRangeDeletions,
		RawKeySize: p.RawKeySize, RawValueSize: p.RawValueSize, CreationTime: p.CreationTime, NewestKeyTime: p.NewestKeyTime,
		FileCreationTime: p.FileCreationTime, ModTime: h.modTime}
}

// endManualLocked answers the manual compactions that will not run.
func (db *DB) endManualLocked() {
	for _, m := range db.manual {
		m.done, m.err = true, db.background
		if m.err == nil {
			m.err = ErrClosed
		}
	}
	if len(db.manual) > 0 {
		db.manual = nil
		db.work.Broadcast()
	}
}

func (db *DB) compact(ctx context.Context, cf *ColumnFamily, choice *compaction.Choice, files *fileSet, handles map[uint64]*tableHandle) (err error) {
	start := time.Now()
	edit := &manifest.VersionEdit{ColumnFamily: cf.id, DeletedFiles: choice.Deletions()}
	out := 0
	if choice.Cursor != nil {
		edit.CompactCursors = append(edit.CompactCursors, *choice.Cursor)
	}
	watched := db.beginCompaction(cf, choice)
	defer func() { watched.end(err) }()
	switch {
	case choice.Drop:
	case choice.TrivialMove:
		for _, f := range choice.Files() {
			edit.NewFiles = append(edit.NewFiles, manifest.NewFile{Level: choice.OutputLevel, Meta: f})
		}
	default:
		result, err := db.mergeInputs(ctx, cf, choice, files, handles)
		if err != nil {
			return err
		}
		watched.wrote(result)
		for _, f := range result.Files {
			edit.NewFiles = append(edit.NewFiles, manifest.NewFile{Level: choice.OutputLevel, Meta: f})
			out += int(f.Size)
		}
		choice.Outputs = result.Files
		edit.BlobGarbages = result.BlobGarbage
		db.metrics.compactedIn.Add(int64(choice.InputBytes()))
		db.metrics.compactedOut.Add(int64(out))
	}
	if err := db.install(cf, edit, nil); err != nil {
		return err
	}
	db.metrics.compactions.Add(1)
	db.log.Info("compaction", "family", cf.name, "reason", choice.Reason.String(), "level", choice.OutputLevel,
		"files", len(choice.Files()), "moved", choice.TrivialMove, "dropped", choice.Drop, "bytes_in", choice.InputBytes(), "bytes_out", out, "took", time.Since(start))
	return nil
}
