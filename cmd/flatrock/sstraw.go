package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// raw writes everything in a block-based table to a text file beside it.
func (d *sstDump) raw(t *tableFile) (err error) {
	r, ok := t.Reader.(*blocktable.Reader)
	if !ok {
		return errors.New("a plain table has no blocks for --command=raw; scan shows all of it")
	}
	name := t.path
	switch {
	case d.json:
		return d.jsonRaw(t, r)
	case t.name == dash:
		w := rawWriter{Writer: d.out, ctx: d.ctx, t: t, r: r}
		return w.all()
	}
	if isTableName(name) {
		name = name[:len(name)-4]
	}
	name += "_dump.txt"
	temp, done := whole(name)
	f, err := os.Create(temp)
	if err != nil {
		return err
	}
	w := rawWriter{Writer: bufio.NewWriterSize(f, 64<<10), ctx: d.ctx, t: t, r: r}
	if err = done(errors.Join(w.all(), w.Flush(), f.Close())); err == nil {
		_, err = fmt.Fprintf(d.out, "raw dump written to file %s\n", name)
	}
	return err
}

// jsonRaw prints the parts of a block-based table, an object a line.
func (d *sstDump) jsonRaw(t *tableFile, r *blocktable.Reader) error {
	place := func(h block.Handle) map[string]uint64 {
		return map[string]uint64{"offset": h.Offset, "size": h.Size}
	}
	err := d.jsonValue(map[string]any{"file": t.name, "part": "footer", "format_version": t.footer.Version, "metaindex": place(t.footer.MetaIndex), "index": place(t.footer.Index)})
	for _, m := range r.MetaBlocks() {
		err = errors.Join(err, d.jsonValue(map[string]any{"part": "meta", "name": m.Name, "offset": m.Handle.Offset, "size": m.Handle.Size}))
	}
	err = errors.Join(err, d.jsonValue(map[string]any{"part": "properties", "properties": propertiesJSON(t.Properties())}))
	if err != nil {
		return err
	}
	n := 0
	err = r.EachDataBlock(func(separator []byte, h block.Handle) error {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		n++
		if err := d.jsonValue(map[string]any{"part": "block", "number": n, "separator": hex.EncodeToString(separator), "offset": h.Offset, "size": h.Size}); err != nil {
			return err
		}
		return r.EachInBlock(h, func(userKey []byte, trailer uint64, value []byte) error {
			return d.jsonPart("entry", entry{userKey, trailer, value})
		})
	})
	if err != nil {
		return err
	}
	return t.eachTombstone(func(e entry) error { return d.jsonPart("tombstone", e) })
}

// jsonPart writes an entry with the part of the table that it is in.
func (d *sstDump) jsonPart(part string, e entry) error {
	line := append(appendNameField([]byte{'{'}, "part", part), ',')
	_, err := d.out.Write(append(appendEntryFields(line, e), "}\n"...))
	return err
}

// rawWriter writes the parts of a table as RocksDB's DumpTable does.
type rawWriter struct {
	*bufio.Writer
	ctx context.Context
	t   *tableFile
	r   *blocktable.Reader
}

const rule = "--------------------------------------\n"

func (w *rawWriter) all() error {
	w.footer()
	w.metaIndex()
	fmt.Fprintf(w, "Table Properties:\n%s  %s\n", rule, propertiesText(w.t.Properties(), "\n  ", ": "))
	if err := w.index(); err != nil {
		return err
	}
	if err := w.dictionary(); err != nil {
		return err
	}
	if tombs := w.t.fragments(); len(tombs) > 0 {
		fmt.Fprintf(w, "Range deletions:\n%s", rule)
		for _, x := range tombs {
			w.entry(x.Start, x.End)
		}
		w.WriteByte('\n')
	}
	return w.data()
}

func handleHex(h block.Handle) string { return upperHex(block.AppendHandle(nil, h)) }

func (w *rawWriter) footer() {
	f := w.t.footer
	fmt.Fprintf(w, "Footer Details:\n%s  metaindex handle: %s\n  index handle: %s\n  table_magic_number: %d\n  format version: %d\n  \n",
		rule, handleHex(f.MetaIndex), handleHex(f.Index), block.BlockMagic, f.Version)
}

func (w *rawWriter) metaIndex() {
	fmt.Fprintf(w, "Metaindex Details:\n%s", rule)
	for _, m := range w.r.MetaBlocks() {
		name := ""
		switch {
		case m.Name == block.MetaProperties:
			name = "Properties block"
		case m.Name == block.MetaCompressionDict:
			name = "Compression dictionary block"
		case m.Name == block.MetaRangeDel:
			name = "Range deletion block"
		case strings.Contains(m.Name, "filter.rocksdb."):
			name = "Filter block"
		default:
			continue
		}
		fmt.Fprintf(w, "  %s handle: %s\n", name, handleHex(m.Handle))
	}
	w.WriteByte('\n')
}

// spaced is every byte of b followed by a space.
func spaced(b []byte, zero string) string {
	var s strings.Builder
	for _, c := range b {
		if c == 0 && zero != "" {
			s.WriteString(zero)
		} else {
			s.WriteByte(c)
		}
		s.WriteByte(' ')
	}
	return s.String()
}

func (w *rawWriter) index() error {
	fmt.Fprintf(w, "Index Details:\n%s  Block key hex dump: Data block handle\n  Block key ascii\n\n", rule)
	firstKeys := false
	if typ := w.t.Properties().User[block.PropIndexType]; len(typ) == 4 {
		firstKeys = blocktable.IndexType(binary.LittleEndian.Uint32(typ)) == blocktable.BinarySearchWithFirstKey
	}
	err := w.r.EachDataBlock(func(separator []byte, h block.Handle) error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		value := handleHex(h)
		if firstKeys {
			first, err := w.firstKey(h)
			if err != nil {
				return err
			}
			value += first
		}
		fmt.Fprintf(w, "  HEX    %s: %s\n  ASCII  %s\n  ------\n", upperHex(separator), value, spaced(separator, ""))
		return nil
	})
	w.WriteByte('\n')
	return err
}

// dictionary writes the compression dictionary, which opening has checked.
func (w *rawWriter) dictionary() error {
	h, ok := block.FindMeta(w.r.MetaBlocks(), block.MetaCompressionDict)
	if !ok {
		return nil
	}
	f, err := mmapfs.OS.Open(w.t.path)
	if err != nil {
		return err
	}
	b := make([]byte, h.Size)
	_, err = f.ReadAt(b, int64(h.Offset))
	fmt.Fprintf(w, "Compression Dictionary:\n%s  size (bytes): %d\n\n  HEX    %s\n\n", rule, len(b), upperHex(b))
	return errors.Join(err, f.Close())
}

// firstKey is the first internal key of a block as an index entry has it.
func (w *rawWriter) firstKey(h block.Handle) (text string, err error) {
	err = w.r.EachInBlock(h, func(userKey []byte, trailer uint64, _ []byte) error {
		k := keys.AppendInternal(nil, userKey, trailer)
		text = upperHex(append(binary.AppendUvarint(nil, uint64(len(k))), k...))
		return errStop
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return text, err
}

func (w *rawWriter) data() error {
	n, least, most, sum := 0, uint64(math.MaxUint64), uint64(0), uint64(0)
	err := w.r.EachDataBlock(func(_ []byte, h block.Handle) error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		n++
		least, most, sum = min(least, h.Size), max(most, h.Size), sum+h.Size
		fmt.Fprintf(w, "Data Block # %d @ %s\n%s", n, handleHex(h), rule)
		err := w.r.EachInBlock(h, func(userKey []byte, _ uint64, value []byte) error {
			w.entry(userKey, value)
			return nil
		})
		w.WriteByte('\n')
		return err
	})
	if n > 0 && err == nil {
		fmt.Fprintf(w, "Data Block Summary:\n%s  # data blocks: %d\n  min data block size: %d\n  max data block size: %d\n  avg data block size: %.6f\n",
			rule, n, least, most, float64(sum)/float64(n))
	}
	return err
}

func (w *rawWriter) entry(key, value []byte) {
	fmt.Fprintf(w, "  HEX    %s: %s\n  ASCII  %s: %s\n  ------\n", upperHex(key), upperHex(value), spaced(key, `\0`), spaced(value, `\0`))
}
