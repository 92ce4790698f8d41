package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/flatrock-db/flatrock/internal/blob"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// dumpTable prints all entries of a table file, and its properties.
func (l *ldb) dumpTable(path string, o tableOptions) (err error) {
	d := sstDump{app: l.app, command: "scan", json: l.json, hex: l.keyHex}
	if !l.json {
		fmt.Fprintf(l.out, "Process %s\n", path)
	}
	t, err := openTableFile(path, o)
	if err != nil {
		return failedf("Error in reading SST file %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if !l.json {
		fmt.Fprintf(l.out, "Sst file format: %s\n", t.format())
	}
	if err := d.scan(t); err != nil {
		return failedf("Error in reading SST file %s: %w", path, err)
	}
	if l.json {
		return nil
	}
	_, err = fmt.Fprintf(l.out, "\nTable Properties:\n%s\n", propertiesText(t.Properties(), "\n", "="))
	return err
}

const liveRule = "==============================\n"

// dumpLiveFiles prints everything that the database's files hold.
func (l *ldb) dumpLiveFiles() error {
	if l.json {
		return usagef("dump_live_files has no JSON; list_live_files_metadata, sst_dump and dump_wal have")
	}
	path, err := l.manifestPath("dump_live_files")
	if err != nil {
		return err
	}
	s, err := l.state(manifest.RecoverOptions{})
	if err != nil {
		return failedf("%w", err)
	}
	fmt.Fprintf(l.out, "Manifest File\n%s%s\n", liveRule, path)
	if err := l.dumpManifest(path, false); err != nil {
		return err
	}
	fmt.Fprintln(l.out)
	files := liveFiles(s)
	for _, family := range s.Families {
		fmt.Fprintf(l.out, "Column family name: %s\n%s\nSST Files\n%s", family.Name, liveRule, liveRule)
		for _, f := range files {
			if f.family != family {
				continue
			}
			path := l.tablePath(f.meta.Number)
			fmt.Fprintf(l.out, "%s level:%d\n------------------------------\n", path, f.level)
			if err := l.dumpTable(path, tableOptions{largestSeq: f.meta.LargestSeq, inDatabase: true}); err != nil {
				return err
			}
			fmt.Fprintln(l.out)
		}
		fmt.Fprintf(l.out, "Blob Files\n%s", liveRule)
		for _, b := range family.Version.Blobs {
			if err := l.dumpBlobs(l.blobPath(b.Number)); err != nil {
				return failedf("%w", err)
			}
		}
	}
	return l.dumpLiveLogs()
}

// dumpBlobs prints the records of a blob file.
func (l *ldb) dumpBlobs(path string) (err error) {
	f, err := mmapfs.OS.Open(path)
	if err != nil {
		return err
	}
	r, err := blob.Open(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	fmt.Fprintf(l.out, "%s family:%d compression:%v\n------------------------------\n", path, r.Family(), r.Compression())
	return r.Each(func(rec blob.Record) error {
		_, err := fmt.Fprintf(l.out, "%s ==> %s offset:%d size:%d\n", shown(rec.Key, l.keyHex), shown(rec.Value, l.valueHex), rec.Offset, rec.Size)
		return err
	})
}

func (l *ldb) dumpLiveLogs() error {
	fmt.Fprintf(l.out, "\nWrite Ahead Log Files\n%s", liveRule)
	dir := l.text("wal_dir")
	if dir == "" {
		dir = l.dir
	}
	names, err := mmapfs.OS.List(dir)
	if err != nil {
		return failedf("%w", err)
	}
	var logs []uint64
	for _, name := range names {
		if kind, number, ok := manifest.ParseName(name); ok && kind == manifest.KindLog {
			logs = append(logs, number)
		}
	}
	slices.SortFunc(logs, cmp.Compare)
	for _, number := range logs {
		path := dir + "/" + manifest.LogName("", number)
		if empty, err := emptyLog(path, number); err != nil {
			return failedf("%s: %w", path, err)
		} else if empty {
			continue
		}
		fmt.Fprintln(l.out, path)
		if err := l.dumpLog(path, true, true); err != nil {
			return err
		}
	}
	return nil
}

// emptyLog reports whether a log has no batch, and does not count as live.
func emptyLog(path string, number uint64) (empty bool, err error) {
	r, err := wal.Open(mmapfs.OS, path, number, wal.SkipAnyCorruptedRecords)
	if err != nil {
		return false, err
	}
	_, err = r.Next()
	if errors.Is(err, io.EOF) {
		empty, err = r.Reports() == 0, nil
	}
	return empty, errors.Join(err, r.Close())
}
