package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// sstOptions are the options of sst_dump that are served; those in sstNotBuilt are
// known and refused.
var (
	sstOptions = []string{"file", "command", "output_hex", "from", "to", "prefix", "read_num", "verify_checksum", "input_key_hex",
		"show_properties", "show_summary", "json", "help", "version", "parse_internal_key"}
	sstNotBuilt = []string{"decode_blob_index", "set_block_size", "compression_types", "compression_level_from", "compression_level_to",
		"compression_max_dict_bytes", "compression_zstd_max_train_bytes", "compression_max_dict_buffer_bytes",
		"compression_use_zstd_finalize_dict", "env_uri", "fs_uri"}
)

// sstDump is the tool of that name.
type sstDump struct {
	*app
	command           string
	json, hex         bool
	properties        bool
	verify            bool
	from, to, prefix  []byte
	limit             uint64 // entries; 0 for all
	read              uint64
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
	if name, found := opts.unknown(sstOptions, sstNotBuilt); found {
		return usagef("Unrecognized argument '--%s'; see flatrock help sst_dump", name)
	}
	for _, name := range sstNotBuilt {
		if opts.has(name) {
			return notBuilt("sst_dump --" + name)
		}
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
		properties: opts.flag("show_properties"), verify: opts.flag("verify_checksum")}
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
	case "check", "scan", "none", "verify", "identify", "raw":
	case "recompress":
		return notBuilt("sst_dump --command=" + d.command)
	default:
		return usagef("Unrecognized command '%s'; see flatrock help sst_dump", d.command)
	}
	if d.limit, err = opts.number("read_num", 0); err != nil {
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
	if d.json && d.command == "raw" {
		return usagef("--json and --command=raw exclude each other")
	}
	if d.prefix != nil && d.from != nil {
		return usagef("Cannot specify --prefix and --from")
	}
	return nil
}

// path treats one file, or the table files of a directory in the order of their names.
func (d *sstDump) path(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("NotFound: %s: No such file or directory", path)
		}
		return err
	}
	if !st.IsDir() {
		t, err := d.open(path)
		if err != nil {
			fmt.Fprintf(d.err, "%s: %v\n%s is not a valid SST file\n", path, err, path)
			return errReported
		}
		if d.command == "identify" && !d.json {
			fmt.Fprintf(d.out, "%s is a valid SST file\n", path)
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
		t, err := d.open(name)
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

func (d *sstDump) open(path string) (*tableFile, error) {
	if !d.json {
		fmt.Fprintf(d.out, "Process %s\n", path)
	}
	t, err := openTableFile(path, tableOptions{})
	if t != nil && !d.json {
		fmt.Fprintf(d.out, "Sst file format: %s\n", t.format())
	}
	return t, err
}

// treat runs the command on one open file and closes it.
func (d *sstDump) treat(t *tableFile) (err error) {
	defer func() { err = errors.Join(err, t.Close()) }()
	d.files++
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
		fmt.Fprintf(d.err, "%s: Corruption: %v\n", t.path, err)
		return errReported
	}
	switch {
	case d.json && d.command == "identify":
		return d.jsonValue(map[string]any{"file": t.path, "format": t.format(), "format_version": t.footer.Version})
	case d.properties && d.json:
		return d.jsonValue(map[string]any{"file": t.path, "format": t.format(), "properties": propertiesJSON(p)})
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
	if d.verify || d.command == "verify" {
		if err := t.VerifyChecksums(); err != nil {
			return err
		}
	}
	switch d.command {
	case "verify":
		if !d.json {
			fmt.Fprintln(d.out, "The file is ok")
		}
		return nil
	case "check", "scan":
		return d.scan(t)
	case "raw":
		return d.raw(t)
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
		switch {
		case d.command != "scan":
			return nil
		case d.json:
			return d.jsonEntry(e)
		}
		return d.printEntry(e)
	})
	if err != nil || d.command != "scan" || !d.json || from != nil || d.to != nil || d.limit > 0 {
		return err
	}
	return t.eachTombstone(d.jsonEntry)
}

func (d *sstDump) printEntry(e entry) error {
	value := e.value
	var err error
	if d.hex {
		_, err = fmt.Fprintf(d.out, "%s => %s\n", internalKeyText(e, true), upperHex(value))
	} else {
		_, err = fmt.Fprintf(d.out, "%s => %s\n", cText([]byte(internalKeyText(e, false))), cText(value))
	}
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
