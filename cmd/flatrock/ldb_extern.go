package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// writeExternal makes a table file for ingestion from the lines of the input: a
// block-based one of format version 5 without compression, in the family's order.
func (l *ldb) writeExternal() error {
	if len(l.words) != 1 && len(l.words) != 2 {
		return failedf("output SST file path must be specified")
	}
	from, err := l.readFrom(append(l.words, dash)[1])
	if err != nil {
		return failedf("%w", err)
	}
	defer from.Close()
	path := l.words[0]
	if l.flag("create_if_missing") {
		if err := l.withDB(false, func(*flatrock.DB) error { return nil }); err != nil {
			return err
		}
	}
	s, err := l.state(manifest.RecoverOptions{})
	if err != nil {
		return failedf("%w", err)
	}
	family := s.FamilyNamed(l.family)
	if family == nil {
		return l.noFamily()
	}
	temp, done := whole(path)
	f, err := mmapfs.OS.Create(temp)
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
		return failedf("%w", done(errors.Join(err, f.Close())))
	}
	n, err := l.addLines(w, from)
	if err == nil && n == 0 {
		err = failedf("Failed to finish writing to file: Invalid argument: Cannot create sst file with no entries")
	}
	if err != nil {
		w.Abandon()
		return done(err)
	}
	if _, err = w.Finish(); err != nil {
		err = failedf("Failed to finish writing to file: %w", err)
	}
	if err = done(err); err != nil {
		return err
	}
	return l.succeeded("external SST file written to " + path)
}

// addLines adds the lines of the input, which come in order.
func (l *ldb) addLines(w *blocktable.Writer, from io.Reader) (n int, err error) {
	bad := 0
	in := bufio.NewReaderSize(from, 64<<10)
	for err == nil {
		var line []byte
		if err = l.ctx.Err(); err != nil {
			return n, err
		}
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
			if !isPassedOver(line) {
				bad++
			}
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
		fmt.Fprintf(l.err, "Warning: %d bad lines ignored.\n", bad) // where RocksDB says it, too
	}
	return n, nil
}
