package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// The commands that change where tables are, for a database that then opens with other
// options: reduce_levels and change_compaction_style; and those that change a MANIFEST
// without its database: unsafe_remove_sst_file and update_manifest.

// reshape opens the database with change made to the family's options, runs f and closes it.
// The OPTIONS file then says what change says.
func (l *ldb) reshape(change func(o *flatrock.ColumnFamilyOptions), f func(cf *flatrock.ColumnFamily) error) (err error) {
	o := flatrock.Options{WALDir: l.text("wal_dir"), MaxDecompressedSize: l.maxDecompressed, FileMode: l.fileMode}
	mode, err := l.recoveryModeName()
	if err != nil {
		return err
	}
	o.WALRecoveryMode = recoveryModes[mode]
	if o.ColumnFamilies, err = l.families(true, &o); err != nil {
		return failedf("%w", err)
	}
	found := false
	for _, d := range o.ColumnFamilies {
		if d.Name == l.family {
			found = true
			change(d.Options)
		}
	}
	if !found {
		return l.noFamily()
	}
	db, err := flatrock.Open(l.dir, &o)
	if err != nil {
		return failedf("%w", err)
	}
	if err = f(db.ColumnFamily(l.family)); err != nil {
		err = failedf("%w", err)
	}
	return errors.Join(err, db.Close())
}

// familyState is the MANIFEST and in it the family asked for.
func (l *ldb) familyState() (*manifest.State, *manifest.ColumnFamily, error) {
	s, err := l.state(manifest.RecoverOptions{})
	if err != nil {
		return nil, nil, failedf("%w", err)
	}
	f := s.FamilyNamed(l.family)
	if f == nil {
		return nil, nil, l.noFamily()
	}
	return s, f, nil
}

// reduceLevels merges the family and moves it up, so that new_levels levels hold it. With
// that many or fewer in use nothing happens, as in RocksDB.
func (l *ldb) reduceLevels() error {
	levels, err := strconv.Atoi(l.text("new_levels"))
	if err != nil || levels <= 0 {
		return failedf(" Use --new_levels to specify a new level number\n")
	}
	_, family, err := l.familyState()
	if err != nil {
		return err
	}
	old := 0
	for level, files := range family.Version.Levels {
		if len(files) > 0 {
			old = level + 1
		}
	}
	if l.flag("print_old_levels") {
		fmt.Fprintf(l.out, "The old number of levels in use is %d\n", old)
	}
	if old <= levels {
		return nil
	}
	fmt.Fprintln(l.out, "Compacting the db...")
	if err := l.out.Flush(); err != nil { // it may take long
		return err
	}
	how := &flatrock.CompactRangeOptions{ChangeLevel: true, TargetLevel: levels - 1}
	if levels == 1 {
		how.BottommostLevelCompaction, how.MaxSubcompactions = flatrock.BottommostForce, 1
	}
	var was flatrock.ColumnFamilyOptions
	err = l.reshape(func(o *flatrock.ColumnFamilyOptions) {
		was = *o
		o.DisableAutoCompactions = true
		if levels == 1 {
			oneFile(o)
		}
	}, func(cf *flatrock.ColumnFamily) error {
		return cf.CompactRange(l.ctx, how, nil, nil)
	})
	return l.reshaped(err, &was, func(o *flatrock.ColumnFamilyOptions) {
		o.NumLevels = levels
		if o.CompactionStyle == flatrock.CompactionStyleLevel {
			o.NumLevels = max(levels, 2) // RocksDB takes one level for two there
		}
	})
}

// oneFile has compactions end in one file, whatever its size: level 0 takes no more.
func oneFile(o *flatrock.ColumnFamilyOptions) {
	o.TargetFileSizeBase, o.TargetFileSizeMultiplier, o.MaxCompactionBytes = 1<<50, 1, 1<<50
}

// reshaped puts the options back that a reshape had for itself, with change made to them if it went well.
// err is what became of it; was is empty if it did not get as far as the options.
func (l *ldb) reshaped(err error, was *flatrock.ColumnFamilyOptions, change func(o *flatrock.ColumnFamilyOptions)) error {
	if was.NumLevels == 0 {
		return err
	}
	return errors.Join(err, l.reshape(func(o *flatrock.ColumnFamilyOptions) {
		*o = *was
		if err == nil {
			change(o)
		}
	}, func(*flatrock.ColumnFamily) error { return nil }))
}

// styleOption reads --old_compaction_style or --new_compaction_style.
func (l *ldb) styleOption(which string) (flatrock.CompactionStyle, error) {
	switch l.text(which + "_compaction_style") {
	case "0":
		return flatrock.CompactionStyleLevel, nil
	case "1":
		return flatrock.CompactionStyleUniversal, nil
	}
	return 0, failedf("Use --%s_compaction_style to specify %s compaction style. Check ldb help for proper compaction style value.\n", which, which)
}

// changeStyle makes one file in level 0 of a family in levels, from where the universal
// style can go on, and writes the new style into the OPTIONS file.
func (l *ldb) changeStyle() error {
	old, err := l.styleOption("old")
	if err != nil {
		return err
	}
	style, err := l.styleOption("new")
	switch {
	case err != nil:
		return err
	case old == style:
		return failedf("Old compaction style is the same as new compaction style. Nothing to do.\n")
	case old == flatrock.CompactionStyleUniversal:
		return failedf("Convert from universal compaction to level compaction. Nothing to do.\n")
	}
	report := func(when string, cf *flatrock.ColumnFamily) (files []int, err error) {
		var text []string
		meta, err := cf.GetColumnFamilyMetaData()
		if err != nil {
			return nil, err
		}
		for _, level := range meta.Levels {
			files = append(files, len(level.Files))
			text = append(text, strconv.Itoa(len(level.Files)))
		}
		fmt.Fprintf(l.out, "files per level %s compaction: %s\n", when, strings.Join(text, ","))
		return files, l.out.Flush()
	}
	var was flatrock.ColumnFamilyOptions
	err = l.reshape(func(o *flatrock.ColumnFamilyOptions) {
		was = *o
		o.DisableAutoCompactions = true
		oneFile(o)
	}, func(cf *flatrock.ColumnFamily) error {
		if _, err := report("before", cf); err != nil {
			return err
		}
		o := &flatrock.CompactRangeOptions{ChangeLevel: true, TargetLevel: 0, MaxSubcompactions: 1, BottommostLevelCompaction: flatrock.BottommostForce}
		if err := cf.CompactRange(l.ctx, o, nil, nil); err != nil {
			return err
		}
		files, err := report("after", cf)
		if err != nil {
			return err
		}
		for level, n := range files {
			if want := max(0, 1-level); n > want {
				return fmt.Errorf("Number of db files at level %d after compaction is %d, not %d.\n", level, n, want)
			}
		}
		return nil
	})
	return l.reshaped(err, &was, func(o *flatrock.ColumnFamilyOptions) { o.CompactionStyle = style })
}

// offline runs edit on the MANIFEST of a database that nobody has open, and appends the edits that it
// returns to a new MANIFEST. Without edits nothing is written.
func (l *ldb) offline(edit func(s *manifest.State) ([]*manifest.VersionEdit, error)) (err error) {
	if _, err := manifest.ReadCurrent(mmapfs.OS, l.dir); err != nil { // before a LOCK file is made
		return failedf("%w", err)
	}
	lock, err := mmapfs.OS.Lock(manifest.LockName(l.dir))
	if err != nil {
		return failedf("%w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s, err := l.state(manifest.RecoverOptions{})
	if err != nil {
		return failedf("%w", err)
	}
	edits, err := edit(s)
	if err != nil || len(edits) == 0 {
		return err
	}
	names, err := mmapfs.OS.List(l.dir)
	if err != nil {
		return failedf("%w", err)
	}
	for _, name := range names {
		if kind, number, ok := manifest.ParseName(name); ok && kind != manifest.KindInfoLog { // those are numbered by time
			s.MarkFileNumberUsed(number)
		}
	}
	w, err := manifest.NewWriter(mmapfs.OS, l.dir, s, manifest.WriterOptions{}, edits...)
	if err != nil {
		return failedf("%w", err)
	}
	if err := w.Close(); err != nil {
		return failedf("%w", err)
	}
	return nil
}

// removeTable takes a table out of the MANIFEST, and what it held out of the database. The
// file stays until the database is opened next.
func (l *ldb) removeTable() error {
	if len(l.words) != 1 {
		return failedf("SST file number must be specified")
	}
	number, err := strconv.ParseUint(l.words[0], 10, 64)
	if err != nil {
		return failedf("Failed to parse SST file number %s", l.words[0])
	}
	err = l.offline(func(s *manifest.State) ([]*manifest.VersionEdit, error) {
		for _, f := range liveFiles(s) {
			if f.meta.Number == number {
				return []*manifest.VersionEdit{{ColumnFamily: f.family.ID, DeletedFiles: []manifest.DeletedFile{{Level: f.level, Number: number}}}}, nil
			}
		}
		return nil, failedf("failed to unsafely remove SST file: NotFound: File not present in any level")
	})
	if err != nil {
		return err
	}
	return l.succeeded("unsafely removed SST file")
}

// updateManifest compares the live tables with what the MANIFEST says of them. Temperatures
// are all that RocksDB's command brings up to date; the file systems that this program
// knows have none, so that, as on RocksDB's default one, there is nothing to write.
func (l *ldb) updateManifest() error {
	if !l.flag("update_temperatures") {
		return failedf("No action like --update_temperatures specified for update_manifest")
	}
	err := l.offline(func(s *manifest.State) ([]*manifest.VersionEdit, error) {
		for _, f := range liveFiles(s) {
			_, err := mmapfs.OS.Stat(manifest.TableName(l.dir, f.meta.Number))
			if errors.Is(err, fs.ErrNotExist) {
				if _, old := mmapfs.OS.Stat(manifest.OldTableName(l.dir, f.meta.Number)); old == nil {
					continue
				}
			}
			if err != nil {
				return nil, failedf("failed to update manifest: %w", err)
			}
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	return l.succeeded("Manifest updates successful")
}
