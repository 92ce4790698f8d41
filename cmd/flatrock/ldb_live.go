package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/flatrock-db/flatrock/internal/blob"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// dumpTable prints all entries of a table file, and its properties.
func (l *ldb) dumpTable(path string, o tableOptions) (err error) {
	d := sstDump{app: l.app, command: "scan", json: l.json, inFile: l.inFile(path), hex: l.keyHex, decodeBlobs: l.flag("decode_blob_index")}
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
	var end func()
	d.seen, end = l.count(true, "entries of "+filepath.Base(path), int64(min(t.Properties().NumEntries, 1<<40)))
	err = d.scan(t)
	if end(); err != nil {
		return failedf("Error in reading SST file %s: %w", path, err)
	}
	if l.json {
		return nil
	}
	_, err = fmt.Fprintf(l.out, "\nTable Properties:\n%s\n", propertiesText(t.Properties(), "\n", "="))
	return err
}

const liveRule = "==============================\n"

// title prints what stands between the parts of a text, which JSON does not have.
func (l *ldb) title(format string, args ...any) {
	if !l.json {
		fmt.Fprintf(l.out, format, args...)
	}
}

// inFile is path where JSON lines must say which of several files they are about.
func (l *ldb) inFile(path string) string {
	if l.severalFiles {
		return path
	}
	return ""
}

// dumpLiveFiles prints everything that the database's files hold.
func (l *ldb) dumpLiveFiles() error {
	l.severalFiles = true
	path, err := l.manifestPath("dump_live_files")
	if err != nil {
		return err
	}
	s, err := l.state(manifest.RecoverOptions{})
	if err != nil {
		return failedf("%w", err)
	}
	l.title("Manifest File\n%s%s\n", liveRule, path)
	if err := l.dumpManifest(path, false); err != nil {
		return err
	}
	l.title("\n")
	files := liveFiles(s)
	for _, family := range s.Families {
		l.title("Column family name: %s\n%s\nSST Files\n%s", family.Name, liveRule, liveRule)
		for _, f := range files {
			if f.family != family {
				continue
			}
			path := l.tablePath(f.meta.Number)
			l.title("%s level:%d\n------------------------------\n", path, f.level)
			if err := l.dumpTable(path, tableOptions{largestSeq: f.meta.LargestSeq, inDatabase: true, maxDecompressed: l.maxDecompressed}); err != nil {
				return err
			}
			l.title("\n")
		}
		l.title("Blob Files\n%s", liveRule)
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
	r.Limit(l.maxDecompressed)
	if !l.json {
		l.blobHeader(path, r)
	}
	var records, keyBytes, stored, raw uint64
	uncompressed := l.flag("dump_uncompressed_blobs")
	err = r.Each(func(rec blob.Record) error {
		records++
		keyBytes, stored, raw = keyBytes+uint64(len(rec.Key)), stored+uint64(len(rec.Stored)), raw+uint64(len(rec.Value))
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if l.json {
			return l.jsonFileEntry(path, rec.Offset, rec.Key, rec.Value)
		}
		at := rec.Offset - uint64(len(rec.Key)) - blob.RecordHeader
		fmt.Fprintf(l.out, "Read record with offset 0x%x (%d):\n  key size   : %d\n  value size : %d\n  expiration : %d\n  key        : %s\n",
			at, at, len(rec.Key), len(rec.Stored), rec.Expiration, shown(rec.Key, l.keyHex))
		name, value := "blob    ", rec.Stored
		if uncompressed {
			name, value = "raw blob", rec.Value
			if r.Compression() == compress.None { // as in RocksDB
				value = nil
			}
		}
		_, err := fmt.Fprintf(l.out, "  %s   : %s\n", name, shown(value, l.valueHex))
		return err
	})
	if err != nil || l.json {
		return err
	}
	fmt.Fprintf(l.out, "Summary:\n  total records: %d\n  total key size: %d\n  total blob size: %d\n", records, keyBytes, stored)
	if r.Compression() != compress.None {
		fmt.Fprintf(l.out, "  total raw blob size: %d\n", raw)
	}
	_, err = fmt.Fprintln(l.out)
	return err
}

// blobHeader prints what is known of a blob file but for its records.
func (l *ldb) blobHeader(path string, r *blob.Reader) {
	expirations := func(e blob.Expirations) string {
		if e == (blob.Expirations{}) {
			return "nil"
		}
		return fmt.Sprintf("(%d, %d)", e.From, e.To)
	}
	fmt.Fprintf(l.out, "%s\n------------------------------\nBlob log header:\n  Version          : %d\n  Column Family ID : %d\n  Compression      : %s\n  Expiration range : %s\n",
		path, blob.Version, r.Family(), r.Compression().OptionName(), expirations(r.Expirations()))
	if n, e, ok := r.Footer(); ok {
		fmt.Fprintf(l.out, "Blob log footer:\n  Blob count       : %d\n  Expiration Range : %s\n", n, expirations(e))
	} else {
		fmt.Fprintln(l.out, "No blob log footer.")
	}
}

func (l *ldb) dumpLiveLogs() error {
	l.title("\nWrite Ahead Log Files\n%s", liveRule)
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
		if empty, err := l.emptyLog(path, number); err != nil {
			return failedf("%s: %w", path, err)
		} else if empty {
			continue
		}
		l.title("%s\n", path)
		if err := l.dumpLog(path, true, true); err != nil {
			return err
		}
	}
	return nil
}

// emptyLog reports whether a log has no batch, and does not count as live.
func (l *ldb) emptyLog(path string, number uint64) (empty bool, err error) {
	r, err := wal.Open(mmapfs.OS, path, number, wal.SkipAnyCorruptedRecords)
	if err != nil {
		return false, err
	}
	r.Limit(l.maxDecompressed)
	_, err = r.Next()
	if errors.Is(err, io.EOF) {
		empty, err = r.Reports() == 0, nil
	}
	return empty, errors.Join(err, r.Close())
}
