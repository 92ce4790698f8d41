package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// sstOptions are the options of sst_dump that are served.
var sstOptions = []string{"file", "command", "output_hex", "from", "to", "prefix", "read_num", "verify_checksum", "input_key_hex",
	"show_properties", "show_summary", "json", "help", "version", "parse_internal_key",
	"max_decompressed_size", "decode_blob_index", "readahead_size"}

// sstDump is the tool of that name.
type sstDump struct {
	*app
	command           string
	json, hex         bool
	inFile            string // the file as JSON lines name it, if they do
	properties        bool
	verify            bool
	from, to, prefix  []byte
	limit             uint64 // entries; 0 for all
	decodeBlobs       bool
	recompression     recompression
	maxDecompressed   int64
	read              uint64
	seen              *counted // of the file that is read
	files             int
	blocks            uint64
	data, index, filt uint64
}

func (a *app) sstDump(args []string) error {
	opts := parseArguments(args)
	if opts.has("help") {
		return a.help([]string{"sst_dump"})
	}
	if opts.has("version") {
		_, err := fmt.Fprintln(a.out, "sst_dump (Flatrock, as RocksDB 7.8.3)")
		return err
	}
	if err := opts.refused(); err != nil {
		return err
	}
	if name, found := opts.unknown(sstOptions, recompressOptions); found {
		return usagef("Unrecognized argument '--%s'%s; see flatrock help sst_dump", name, didYouMean(name, slices.Concat(sstOptions, recompressOptions)))
	}
	if opts.has("parse_internal_key") {
		return a.parseInternalKey(opts.text("parse_internal_key"))
	}
	paths := opts.words
	if opts.has("file") {
		paths = append([]string{opts.text("file")}, paths...)
	}
	if len(paths) == 0 {
		return usagef("file or directory must be specified; see flatrock help sst_dump")
	}
	d := sstDump{app: a, command: opts.text("command"), json: opts.flag("json"), hex: opts.flag("output_hex"),
		properties: opts.flag("show_properties"), verify: opts.flag("verify_checksum"), decodeBlobs: opts.flag("decode_blob_index")}
	if err := d.parse(&opts); err != nil {
		return err
	}
	for _, p := range paths {
		if err := d.path(p); err != nil {
			return err
		}
	}
	if opts.flag("show_summary") && !d.json {
		fmt.Fprintf(d.out, "total number of files: %d\ntotal number of data blocks: %d\ntotal data block size: %d\ntotal index block size: %d\ntotal filter block size: %d\n",
			d.files, d.blocks, d.data, d.index, d.filt)
	}
	return nil
}

// parse checks the command and reads the range.
func (d *sstDump) parse(opts *arguments) (err error) {
	switch d.command {
	case "":
		d.command = "check"
		if d.json {
			d.command = "scan"
		}
	case "check", "scan", "none", "verify", "identify", "raw", "recompress":
	default:
		return usagef("Unrecognized command '%s'; see flatrock help sst_dump", d.command)
	}
	if d.recompression, err = parseRecompression(opts); err != nil {
		return err
	}
	if d.maxDecompressed, _, err = opts.limits(); err != nil {
		return err
	}
	if d.limit, err = opts.number("read_num", 0); err != nil {
		return err
	}
	if _, err = opts.number("readahead_size", 0); err != nil { // how far is read ahead is ours to find
		return err
	}
	for name, dst := range map[string]*[]byte{"from": &d.from, "to": &d.to, "prefix": &d.prefix} {
		if !opts.has(name) {
			continue
		}
		*dst = []byte(opts.text(name))
		if opts.flag("input_key_hex") {
			if *dst, err = fromHex(opts.text(name)); err != nil {
				return err
			}
		}
	}
	if d.prefix != nil && d.from != nil {
		return usagef("Cannot specify --prefix and --from")
	}
	return nil
}

// path treats one file, or the table files of a directory in the order of their names.
func (d *sstDump) path(name string) (err error) {
	path, remove, err := d.spooled(name, "stdin.sst")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	st, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("NotFound: %s: No such file or directory", path)
		}
		return err
	}
	if !st.IsDir() {
		t, err := d.open(path, name)
		if err != nil {
			fmt.Fprintf(d.err, "%s: %v\n%s is not a valid SST file\n", name, err, name)
			return errReported
		}
		if d.command == "identify" && !d.json {
			fmt.Fprintf(d.out, "%s is a valid SST file\n", name)
		}
		return d.treat(t)
	}
	all, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	var valid []string
	var failed error
	for _, f := range all {
		if f.IsDir() || !isTableName(f.Name()) {
			continue
		}
		if d.limit > 0 && d.read >= d.limit {
			break
		}
		name := strings.TrimSuffix(path, "/") + "/" + f.Name()
		t, err := d.open(name, name)
		if err == nil {
			valid = append(valid, name)
			err = d.treat(t)
		} else {
			fmt.Fprintf(d.err, "%s: %v\n", name, err)
			err = errReported
		}
		if err != nil {
			if !errors.Is(err, errReported) {
				return err
			}
			failed = err
		}
	}
	return errors.Join(d.listValid(path, valid), failed)
}

func isTableName(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".ldb")
}

func (d *sstDump) listValid(path string, valid []string) error {
	if len(valid) == 0 {
		if !d.json {
			fmt.Fprintln(d.out, "------------------------------")
		}
		fmt.Fprintf(d.err, "No valid SST files found in %s\n", path)
		return errReported
	}
	if d.command == "identify" && !d.json {
		fmt.Fprintf(d.out, "------------------------------\nList of valid SST files found in %s:\n", path)
		for _, v := range valid {
			fmt.Fprintln(d.out, v)
		}
		fmt.Fprintf(d.out, "Number of valid SST files: %d\n", len(valid))
	}
	return nil
}

// open opens the file at path, which is told by name.
func (d *sstDump) open(path, name string) (*tableFile, error) {
	if !d.json {
		fmt.Fprintf(d.out, "Process %s\n", name)
	}
	t, err := openTableFile(path, tableOptions{maxDecompressed: d.maxDecompressed})
	if t != nil {
		t.name = name
	}
	if t != nil && !d.json {
		fmt.Fprintf(d.out, "Sst file format: %s\n", t.format())
	}
	return t, err
}

// treat runs the command on one open file and closes it.
func (d *sstDump) treat(t *tableFile) (err error) {
	defer func() { err = errors.Join(err, t.Close()) }()
	d.files++
	what, name, end := "entries", filepath.Base(t.name), func() {}
	switch d.command {
	case "verify": // tells nothing meanwhile
		d.seen, end = &counted{}, d.showProgress(false, func() string { return "verifying " + name })
	case "recompress":
		what = "entries written"
		fallthrough
	default:
		d.seen, end = d.count(d.command == "scan", what+" of "+name, int64(min(t.Properties().NumEntries, 1<<40)))
	}
	defer end()
	if d.files == 1 && !d.json && (d.command == "check" || d.command == "scan") {
		from := d.from
		if d.prefix != nil {
			from = d.prefix
		}
		fmt.Fprintf(d.out, "from [%s] to [%s]\n", upperHex(from), upperHex(d.to))
	}
	p := t.Properties()
	d.blocks += p.NumDataBlocks
	d.data += p.DataSize
	d.index += p.IndexSize
	d.filt += p.FilterSize
	if err := d.walk(t); err != nil {
		if d.ctx.Err() != nil && errors.Is(err, d.ctx.Err()) {
			return err
		}
		fmt.Fprintf(d.err, "%s: Corruption: %v\n", t.name, err)
		return errReported
	}
	switch {
	case d.json && d.command == "identify":
		return d.jsonValue(map[string]any{"file": t.name, "format": t.format(), "format_version": t.footer.Version})
	case d.properties && d.json:
		return d.jsonValue(map[string]any{"file": t.name, "format": t.format(), "properties": propertiesJSON(p)})
	case d.properties:
		fmt.Fprintf(d.out, "Table Properties:\n------------------------------\n  %s", propertiesText(p, "\n  ", ": "))
		fmt.Fprintf(d.out, "Raw user collected properties\n------------------------------\n")
		for _, q := range collected(p) {
			fmt.Fprintf(d.out, "  # %s: 0x%s\n", q.Name, upperHex(q.Value))
		}
	}
	return nil
}

// walk reads the file as the command asks.
func (d *sstDump) walk(t *tableFile) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if d.verify || d.command == "verify" {
		if err := t.verify(d.ctx); err != nil {
			return err
		}
	}
	switch d.command {
	case "verify":
		if d.json {
			return d.jsonValue(map[string]any{"file": t.name, "ok": true})
		}
		_, err := fmt.Fprintln(d.out, "The file is ok")
		return err
	case "check", "scan":
		before := d.read
		if err := d.scan(t); err != nil || !d.json || d.command != "check" {
			return err
		}
		return d.jsonValue(map[string]any{"file": t.name, "ok": true, "entries": d.read - before})
	case "raw":
		return d.raw(t)
	case "recompress":
		return d.recompress(t)
	}
	return nil
}

// scan reads the entries of the range, and prints them if that is the command. Range
// deletes follow in JSON only, and where neither range nor number is limited.
func (d *sstDump) scan(t *tableFile) error {
	from := d.from
	if d.prefix != nil {
		from = d.prefix
	}
	err := t.each(from, func(e entry) error {
		switch {
		case d.limit > 0 && d.read >= d.limit,
			d.prefix != nil && !strings.HasPrefix(string(e.key), string(d.prefix)),
			d.to != nil && t.order.Compare(e.key, d.to) >= 0:
			return errStop
		case d.ctx.Err() != nil:
			return d.ctx.Err()
		}
		d.read++
		d.seen.done.Add(1)
		switch {
		case d.command != "scan":
			return nil
		case d.json:
			return d.jsonEntryOf(e)
		}
		return d.printEntry(e)
	})
	if err != nil || d.command != "scan" || !d.json || from != nil || d.to != nil || d.limit > 0 {
		return err
	}
	return t.eachTombstone(d.jsonEntryOf)
}

// jsonEntryOf writes the entry, after the name of the file if lines name it.
func (d *sstDump) jsonEntryOf(e entry) error {
	if d.inFile == "" {
		return d.jsonEntry(e)
	}
	line := append(appendNameField([]byte{'{'}, "file", d.inFile), ',')
	_, err := d.out.Write(append(appendEntryFields(line, e), "}\n"...))
	return err
}

func (d *sstDump) printEntry(e entry) error {
	text, decoded, err := blobText(e, d.decodeBlobs, d.hex)
	if err != nil {
		return err
	}
	key := internalKeyText(e, d.hex)
	switch {
	case decoded:
	case d.hex:
		text = upperHex(e.value)
	default:
		key, text = cText([]byte(key)), cText(e.value)
	}
	_, err = fmt.Fprintf(d.out, "%s => %s\n", key, text)
	return err
}

// internalKeyText is RocksDB's DebugString of an internal key.
func internalKeyText(e entry, hex bool) string {
	key := string(e.key)
	if hex {
		key = upperHex(e.key)
	}
	return fmt.Sprintf("'%s' seq:%d, type:%d", key, keys.Seq(e.trailer), keys.KindOf(e.trailer))
}

// parseInternalKey shows the parts of an internal key given in hex.
func (a *app) parseInternalKey(text string) error {
	b, err := fromHex(text)
	if err != nil {
		return err
	}
	key, trailer, ok := keys.Split(b)
	if !ok {
		return usagef("Error while parsing internal key: expected 8 bytes or more, found %d", len(b))
	}
	_, err = fmt.Fprintf(a.out, "key=%s\n", internalKeyText(entry{key: key, trailer: trailer}, true))
	return err
}
