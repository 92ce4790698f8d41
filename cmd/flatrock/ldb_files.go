package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// state reads the MANIFEST. Comparators that this program does not have stand for
// their names: nothing here seeks.
func (l *ldb) state(o manifest.RecoverOptions) (*manifest.State, error) {
	o.Comparator = func(_, name string) (keys.Comparator, error) { return orderNamed(name).Comparator(), nil }
	onEdit := o.OnEdit
	o.OnEdit = func(e *manifest.VersionEdit, offset int64) error {
		if err := l.ctx.Err(); err != nil || onEdit == nil {
			return err
		}
		return onEdit(e, offset)
	}
	return manifest.Recover(mmapfs.OS, l.dir, o)
}

func (l *ldb) listColumnFamilies() error {
	s, err := l.state(manifest.RecoverOptions{})
	if err != nil {
		return fmt.Errorf("Error in processing db %s %w", l.dir, err)
	}
	if l.json {
		for _, f := range s.Families {
			if err := l.jsonValue(map[string]any{"cf": f.Name, "id": f.ID, "comparator": f.Comparator}); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintf(l.out, "Column families in %s: \n{", l.dir)
	for i, f := range s.Families {
		if i > 0 {
			fmt.Fprint(l.out, ", ")
		}
		fmt.Fprint(l.out, f.Name)
	}
	_, err = fmt.Fprintln(l.out, "}")
	return err
}

// tablePath is the path of a table file as RocksDB's tools write it.
func (l *ldb) tablePath(number uint64) string {
	return l.dir + "/" + manifest.TableName("", number)
}

// liveFile is a table file of the database.
type liveFile struct {
	family *manifest.ColumnFamily
	level  int
	meta   *manifest.FileMetadata
}

func liveFiles(s *manifest.State) (list []liveFile) {
	for _, f := range s.Families {
		for level, files := range f.Version.Levels {
			for _, m := range files {
				list = append(list, liveFile{f, level, m})
			}
		}
	}
	return list
}

func (l *ldb) listLiveFiles() error {
	levels, err := l.storedLevels()
	if err != nil {
		return err
	}
	s, err := l.state(manifest.RecoverOptions{NumLevels: func(family string) int { return levels[family] }})
	if err != nil {
		return failedf("%w", err)
	}
	files := liveFiles(s)
	if l.flag("sort_by_filename") {
		slices.SortFunc(files, func(a, b liveFile) int { return cmp.Compare(a.meta.Number, b.meta.Number) })
	}
	switch {
	case l.json:
		for _, f := range files {
			err := l.jsonValue(map[string]any{"file": l.tablePath(f.meta.Number), "level": f.level, "cf": f.family.Name, "size": f.meta.Size,
				"smallest": fmt.Sprintf("%x", f.meta.SmallestKey), "largest": fmt.Sprintf("%x", f.meta.LargestKey),
				"smallest_seq": f.meta.SmallestSeq, "largest_seq": f.meta.LargestSeq})
			if err != nil {
				return err
			}
		}
		return nil
	case l.flag("sort_by_filename"):
		return l.filesByName(s, files)
	}
	return l.filesByLevel(s, files)
}

// storedLevels is num_levels of the families, by the OPTIONS file if there is one.
func (l *ldb) storedLevels() (map[string]int, error) {
	levels := map[string]int{}
	f, _, err := optionsfile.LoadLatest(mmapfs.OS, l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return levels, nil
	}
	if err != nil {
		return nil, failedf("%w", err)
	}
	for _, name := range f.Families() {
		if o, ok := f.Family(name).Lookup("num_levels"); ok {
			if levels[name], err = o.Int(); err != nil {
				return nil, failedf("%w", err)
			}
		}
	}
	return levels, nil
}

func (l *ldb) blobPath(number uint64) string { return l.dir + "/" + manifest.BlobName("", number) }

func (l *ldb) filesByName(s *manifest.State, files []liveFile) error {
	type line struct {
		number uint64
		text   string
	}
	var lines []line
	for _, f := range files {
		lines = append(lines, line{f.meta.Number, fmt.Sprintf("%s : level %d, column family '%s'", l.tablePath(f.meta.Number), f.level, f.family.Name)})
	}
	for _, f := range s.Families {
		for _, b := range f.Version.Blobs {
			lines = append(lines, line{b.Number, fmt.Sprintf("%s, column family '%s'", l.blobPath(b.Number), f.Name)})
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.number, b.number) })
	fmt.Fprintln(l.out, "Live SST and Blob Files:")
	for _, x := range lines {
		fmt.Fprintln(l.out, x.text)
	}
	_, err := fmt.Fprintln(l.out, "------------------------------")
	return err
}

func (l *ldb) filesByLevel(s *manifest.State, files []liveFile) error {
	for _, f := range s.Families {
		fmt.Fprintf(l.out, "===== Column Family: %s =====\nLive SST Files:\n", f.Name)
		for level := range f.Version.Levels {
			fmt.Fprintf(l.out, "---------- level %d ----------\n", level)
			for _, x := range files {
				if x.family == f && x.level == level {
					fmt.Fprintln(l.out, l.tablePath(x.meta.Number))
				}
			}
		}
		fmt.Fprintln(l.out, "Live Blob Files:")
		for _, b := range f.Version.Blobs {
			fmt.Fprintln(l.out, l.blobPath(b.Number))
		}
	}
	_, err := fmt.Fprintln(l.out, "------------------------------")
	return err
}

// openLive opens a table file of the database and compares its size with the MANIFEST.
func (l *ldb) openLive(m *manifest.FileMetadata) (*tableFile, error) {
	o := tableOptions{largestSeq: m.LargestSeq, inDatabase: true, maxDecompressed: l.maxDecompressed}
	path := manifest.TableName(l.dir, m.Number)
	st, err := mmapfs.OS.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if old, err2 := mmapfs.OS.Stat(manifest.OldTableName(l.dir, m.Number)); err2 == nil {
			path, st, err = manifest.OldTableName(l.dir, m.Number), old, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if uint64(st.Size()) != m.Size {
		return nil, keys.Corruptf(filepath.Base(path), st.Size(), "the MANIFEST expects %d bytes, and the file has %d", m.Size, st.Size())
	}
	return openTableFile(path, o)
}

// listRangeDeletes prints the range deletes of the family's files, level by level.
func (l *ldb) listRangeDeletes() error {
	most, err := l.number("max_keys", 1000)
	if err != nil {
		return err
	}
	s, err := l.state(manifest.RecoverOptions{})
	if err != nil {
		return failedf("%w", err)
	}
	family := s.FamilyNamed(l.family)
	if family == nil {
		return l.noFamily()
	}
	left := most
	for _, f := range liveFiles(s) {
		if f.family != family {
			continue
		}
		if left == 0 {
			break
		}
		if err := l.rangeDeletesOf(f.meta, &left); err != nil {
			return failedf("%w", err)
		}
	}
	if l.json {
		return nil
	}
	if left == 0 {
		fmt.Fprintln(l.out, "(results may not be complete)")
	}
	_, err = fmt.Fprintln(l.out)
	return err
}

func (l *ldb) rangeDeletesOf(m *manifest.FileMetadata, left *uint64) (err error) {
	t, err := l.openLive(m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	path := l.tablePath(m.Number)
	if !l.json {
		fmt.Fprintf(l.out, "=== file : %s ===\n", path)
	}
	for _, x := range t.fragments() {
		if *left == 0 {
			return nil
		}
		*left--
		if l.json {
			err = l.jsonValue(map[string]any{"file": path, "start": fmt.Sprintf("%x", x.Start), "end": fmt.Sprintf("%x", x.End), "seq": x.Seq})
		} else {
			_, err = fmt.Fprintf(l.out, "start: %s end: %s seq: %d\n", upperHex(x.Start), upperHex(x.End), x.Seq)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dumpFile is dump --path: what is done depends on the file's name.
func (l *ldb) dumpFile(path string) error {
	kind, _, ok := manifest.ParseName(filepath.Base(path))
	switch {
	case ok && kind == manifest.KindTable:
		return l.dumpTable(path, tableOptions{maxDecompressed: l.maxDecompressed})
	case ok && kind == manifest.KindLog:
		return l.dumpLog(path, true, true)
	case ok && kind == manifest.KindManifest:
		return l.dumpManifest(path, false)
	case ok && kind == manifest.KindBlob:
		if err := l.dumpBlobs(path); err != nil {
			return failedf("%w", err)
		}
		return nil
	}
	if path == dash {
		return failedf("--path=-: the name of a file tells what it is; sst_dump, dump_wal and manifest_dump take -")
	}
	return failedf("Invalid file: %s", filepath.Base(path))
}

func (l *ldb) manifestDump() error {
	path, err := l.manifestPath("manifest_dump")
	if err != nil {
		return err
	}
	path, remove, err := l.spooled(path, manifest.ManifestBase(1))
	if err != nil {
		return failedf("%w", err)
	}
	return errors.Join(l.dumpManifest(path, l.flag("verbose")), remove())
}

// manifestPath is what --path says, or the MANIFEST of the database.
func (l *ldb) manifestPath(command string) (string, error) {
	if path := l.text("path"); path != "" {
		return path, nil
	}
	if l.dir == "" {
		return "", usagef("--db=DIR or --path=FILE must be given for %s", command)
	}
	number, err := manifest.ReadCurrent(mmapfs.OS, l.dir)
	if err != nil {
		return "", failedf("%w", err)
	}
	return l.dir + "/" + manifest.ManifestBase(number), nil
}

// stateOf is state for the MANIFEST at path.
func (l *ldb) stateOf(path string, o manifest.RecoverOptions) (*manifest.State, error) {
	other := *l
	other.dir = filepath.Dir(path)
	o.Manifest = filepath.Base(path)
	return other.state(o)
}

// dumpLevels is with how many levels ldb reads a MANIFEST, however many there are.
const dumpLevels = 64

func (l *ldb) dumpManifest(path string, verbose bool) error {
	style := manifest.DumpStyle{PlainKeys: !l.keyHex, PublicIDs: true}
	if verbose && !l.json {
		fmt.Fprintf(l.out, "Processing Manifest file %s\n", path)
	}
	s, err := l.stateOf(path, manifest.RecoverOptions{
		NumLevels: func(string) int { return dumpLevels },
		OnEdit: func(e *manifest.VersionEdit, offset int64) error {
			if verbose && !l.json {
				return e.DumpStyled(l.out, style)
			}
			return nil
		},
	})
	if err != nil {
		return failedf("%s: %w", path, err)
	}
	if l.json {
		return l.jsonManifest(s)
	}
	// RocksDB numbers versions as it makes them: an empty one for each family first.
	style.VersionNumber = func(i int) int { return len(s.Families) + i }
	if err := s.DumpStyled(l.out, style); err != nil {
		return err
	}
	if verbose {
		fmt.Fprintf(l.out, "Processing Manifest file %s done\n", path)
	}
	return nil
}

// jsonManifest writes a line for each family, and one for the counters.
func (l *ldb) jsonManifest(s *manifest.State) error {
	for _, f := range s.Families {
		type file struct {
			Level       int    `json:"level"`
			Number      uint64 `json:"number"`
			Size        uint64 `json:"size"`
			Smallest    string `json:"smallest"`
			Largest     string `json:"largest"`
			SmallestSeq uint64 `json:"smallest_seq"`
			LargestSeq  uint64 `json:"largest_seq"`
		}
		files := []file{}
		for level, list := range f.Version.Levels {
			for _, m := range list {
				files = append(files, file{level, m.Number, m.Size, fmt.Sprintf("%x", m.SmallestKey), fmt.Sprintf("%x", m.LargestKey), m.SmallestSeq, m.LargestSeq})
			}
		}
		err := l.jsonValue(map[string]any{"cf": f.Name, "id": f.ID, "log_number": f.LogNumber, "comparator": f.Comparator, "files": files})
		if err != nil {
			return err
		}
	}
	return l.jsonValue(map[string]any{"next_file_number": s.NextFileNumber, "last_sequence": s.LastSeq, "prev_log_number": s.PrevLogNumber,
		"max_column_family": s.MaxColumnFamily, "min_log_number_to_keep": s.MinLogNumberToKeep, "db_id": s.DBID})
}
