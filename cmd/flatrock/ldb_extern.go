package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// writeExternal makes a table file for ingestion from the lines of the input: a
// block-based one of format version 5 without compression, in the family's order.
func (l *ldb) writeExternal() error {
	if len(l.words) != 1 {
		return failedf("output SST file path must be specified")
	}
	path := l.words[0]
	s, err := l.state(manifest.RecoverOptions{})
	if err != nil {
		return failedf("%w", err)
	}
	family := s.FamilyNamed(l.family)
	if family == nil {
		return l.noFamily()
	}
	f, err := mmapfs.OS.Create(path)
	if err != nil {
		return failedf("failed to open SST file: %w", err)
	}
	w, err := blocktable.NewWriter(f, blocktable.WriterOptions{
		Options: blocktable.DefaultOptions(),
		Order:   orderNamed(family.Comparator),
		Identity: table.Identity{ColumnFamilyID: family.ID, ColumnFamilyName: family.Name, DBID: "SST Writer",
			DBSessionID: manifest.NewSessionID(), FileNumber: 1, ExternalFile: true},
	})
	if err != nil {
		return failedf("%w", errors.Join(err, f.Close()))
	}
	n, err := l.addLines(w)
	if err == nil && n == 0 {
		err = failedf("Failed to finish writing to file: Invalid argument: Cannot create sst file with no entries")
	}
	if err != nil {
		w.Abandon()
		return errors.Join(err, mmapfs.OS.Remove(path))
	}
	if _, err := w.Finish(); err != nil {
		return failedf("Failed to finish writing to file: %w", err)
	}
	_, err = fmt.Fprintf(l.out, "external SST file written to %s\n", path)
	return err
}

// addLines adds the lines of the input, which come in order.
func (l *ldb) addLines(w *blocktable.Writer) (n int, err error) {
	bad := 0
	in := bufio.NewReaderSize(l.in, 64<<10)
	for err == nil {
		var line []byte
		line, err = in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return n, failedf("reading the input: %w", err)
		}
		if len(line) == 0 {
			continue
		}
		key, value, ok, e := l.parseLine(bytes.TrimSuffix(line, []byte("\n")))
		switch {
		case e != nil:
			return n, e
		case !ok:
			bad++
			continue
		}
		if e := w.Add(key, keys.Pack(0, keys.KindValue), value); e != nil {
			if errors.Is(e, blocktable.ErrOutOfOrder) {
				return n, failedf("failed to write record to file: Invalid argument: Keys must be added in strict ascending order.")
			}
			return n, failedf("failed to write record to file: %w", e)
		}
		n++
	}
	if bad > 0 {
		fmt.Fprintf(l.out, "Warning: %d bad lines ignored.\n", bad)
	}
	return n, nil
}
