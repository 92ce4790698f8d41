package dbbench

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Flags follow gflags, as db_bench's do: -name=value, --name=value, --name value,
// --switch and --noswitch, a later flag wins. A flag is one of
//
//   - bound: it has a field of config (see bindings);
//   - known: db_bench lists it (flags.txt), and it has no meaning here;
//   - removed: db_bench had it once, or has it since 7.8.3, and published command lines use it.
//
// The last two are accepted with one warning line each. Anything else is an error, unless
// --undefok=name,name lets it pass.

// flagsText lists the flags of db_bench 7.8.3 as "name type default".
//
//go:embed flags.txt
var flagsText string

// removedFlags are accepted with a warning that ends in the text.
var removedFlags = map[string]string{
	"access_hint_on_compaction_start":          "RocksDB removed it",
	"base_background_compactions":              "RocksDB removed it",
	"disable_data_sync":                        "RocksDB removed it; files are always synced",
	"disable_flashcache_for_background_writes": "RocksDB removed it",
	"expanded_compaction_factor":               "RocksDB removed it",
	"filter_deletes":                           "RocksDB removed it",
	"hard_rate_limit":                          "RocksDB removed it",
	"max_grandparent_overlap_factor":           "RocksDB removed it",
	"max_mem_compaction_level":                 "RocksDB removed it",
	"new_table_reader_for_compaction_inputs":   "RocksDB removed it",
	"purge_redundant_kvs_while_flush":          "RocksDB removed it",
	"rate_limit":                               "RocksDB removed it; see --benchmark_write_rate_limit",
	"rate_limit_delay_max_milliseconds":        "RocksDB removed it",
	"readahead":                                "RocksDB removed it; see --readahead_size",
	"skip_table_builder_flush":                 "RocksDB removed it",
	"soft_rate_limit":                          "RocksDB removed it",
	"source_compaction_factor":                 "RocksDB removed it",
	"verify_compression":                       "compressed blocks are not read back when written",
}

// flagAliases are old names of flags that live on.
var flagAliases = map[string]string{"numa_aware": "enable_numa"}

// knownFlag is a line of flags.txt.
type knownFlag struct{ name, kind, def string }

func knownFlags() map[string]knownFlag {
	known := map[string]knownFlag{}
	for line := range strings.Lines(flagsText) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] != "#" {
			known[f[0]] = knownFlag{f[0], f[1], strings.Trim(f[2], `"`)}
		}
	}
	return known
}

// flagParser parses one command line into a config.
type flagParser struct {
	bound    map[string]binding
	known    map[string]knownFlag
	warned   map[string]bool
	undefok  map[string]bool // names that --undefok lets pass
	warnings io.Writer
	depth    int // of --flagfile
}

// parseFlags fills c from args. Warnings about flags without meaning go to w, a line each.
func parseFlags(c *config, args []string, w io.Writer) error {
	p := &flagParser{
		bound: map[string]binding{}, known: knownFlags(),
		warned: map[string]bool{}, warnings: w, undefok: map[string]bool{},
	}
	for _, arg := range args { // it holds for flags before it, too
		if list, ok := strings.CutPrefix("-"+strings.TrimLeft(arg, "-"), "-undefok="); ok {
			p.letPass(list)
		}
	}
	for _, b := range bindings(c) {
		p.bound[b.name] = b
	}
	if err := p.parse(args); err != nil {
		return err
	}
	return c.check()
}

// letPass takes the list of --undefok.
func (p *flagParser) letPass(list string) {
	for _, name := range strings.Split(list, ",") {
		p.undefok[strings.ReplaceAll(strings.TrimSpace(name), "-", "_")] = true
	}
}

func (p *flagParser) parse(args []string) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		body, ok := strings.CutPrefix(arg, "-")
		if !ok || body == "" {
			return fmt.Errorf("unexpected argument %q: flags begin with --", arg)
		}
		if body = strings.TrimPrefix(body, "-"); body == "" {
			if len(args) > 0 {
				return fmt.Errorf("unexpected argument %q after --", args[0])
			}
			return nil
		}
		name, value, hasValue := strings.Cut(body, "=")
		name = strings.ReplaceAll(name, "-", "_")
		if old := flagAliases[name]; old != "" {
			name = old
		}
		kind := p.kindOf(name)
		switch {
		case kind == "" && !hasValue && p.kindOf(strings.TrimPrefix(name, "no")) == "bool":
			name, value = strings.TrimPrefix(name, "no"), "false"
		case kind == "":
			return p.unknown(name)
		case !hasValue && kind == "bool":
			value = "true"
		case !hasValue && kind == "any":
			if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				args = args[1:]
			}
		case !hasValue:
			if len(args) == 0 {
				return fmt.Errorf("flag --%s is missing its argument", name)
			}
			value, args = args[0], args[1:]
		}
		if err := p.apply(name, value); err != nil {
			return err
		}
	}
	return nil
}

// kindOf is the type of a flag: a gflags type, "any" for removed flags, "" for unknown ones.
func (p *flagParser) kindOf(name string) string {
	if b, ok := p.bound[name]; ok {
		return b.kind()
	}
	if k, ok := p.known[name]; ok {
		return k.kind
	}
	if _, ok := removedFlags[name]; ok || p.undefok[name] {
		return "any"
	}
	return ""
}

func (p *flagParser) apply(name, value string) error {
	if b, ok := p.bound[name]; ok {
		if err := b.parse(value); err != nil {
			return fmt.Errorf("illegal value %q for flag --%s: want %s", value, name, b.kind())
		}
		return nil
	}
	if name == "undefok" {
		p.letPass(value)
		return nil
	}
	if name == "flagfile" {
		return p.readFile(value)
	}
	if k, ok := p.known[name]; ok {
		if !validValue(k.kind, value) {
			return fmt.Errorf("illegal value %q for flag --%s: want %s", value, name, k.kind)
		}
		p.warn(name, "it has no meaning here")
		return nil
	}
	if why, ok := removedFlags[name]; ok {
		p.warn(name, why)
	}
	return nil
}

func (p *flagParser) warn(name, why string) {
	if !p.warned[name] {
		p.warned[name] = true
		fmt.Fprintf(p.warnings, "warning: --%s is ignored: %s\n", name, why)
	}
}

// readFile takes flags from a file, one a line; # begins a comment.
func (p *flagParser) readFile(name string) error {
	if p.depth++; p.depth > 8 {
		return fmt.Errorf("--flagfile=%s: files include each other too deeply", name)
	}
	defer func() { p.depth-- }()
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("--flagfile: %w", err)
	}
	var args []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			args = append(args, line)
		}
	}
	return p.parse(args)
}

// unknown is the error for a flag nobody knows, with the nearest names.
func (p *flagParser) unknown(name string) error {
	var names []string
	for n := range p.bound {
		names = append(names, n)
	}
	for n := range p.known {
		if _, ok := p.bound[n]; !ok {
			names = append(names, n)
		}
	}
	if near := nearest(name, names); near != "" {
		return fmt.Errorf("unknown flag --%s; did you mean --%s?", name, near)
	}
	return fmt.Errorf("unknown flag --%s; --help lists the flags", name)
}

// nearest is the name with the least edit distance to s, if that is small enough to
// be a slip of the keyboard; "" otherwise.
func nearest(s string, names []string) string {
	best, at := "", max(2, len(s)/3)+1
	slices.Sort(names)
	for _, n := range names {
		if d := editDistance(s, n); d < at {
			best, at = n, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func editDistance(a, b string) int {
	older, old := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := old[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(old[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old = old, row
	}
	return old[len(b)]
}

// binding ties a flag to a field of config.
type binding struct {
	name  string
	field any // *bool, *int64, *uint64, *float64 or *string
	usage string
}

func (b binding) kind() string {
	switch b.field.(type) {
	case *bool:
		return "bool"
	case *int64:
		return "int64"
	case *uint64:
		return "uint64"
	case *float64:
		return "double"
	}
	return "string"
}

func (b binding) value() string {
	switch f := b.field.(type) {
	case *bool:
		return strconv.FormatBool(*f)
	case *int64:
		return strconv.FormatInt(*f, 10)
	case *uint64:
		return strconv.FormatUint(*f, 10)
	case *float64:
		return strconv.FormatFloat(*f, 'g', -1, 64)
	case *string:
		return *f
	}
	return ""
}

func (b binding) parse(s string) (err error) {
	switch f := b.field.(type) {
	case *bool:
		*f, err = parseBool(s)
	case *int64:
		*f, err = strconv.ParseInt(s, 0, 64)
	case *uint64:
		*f, err = strconv.ParseUint(s, 0, 64)
	case *float64:
		*f, err = strconv.ParseFloat(s, 64)
	case *string:
		*f = s
	}
	return err
}

// parseBool reads what gflags takes for a bool.
func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "1", "t", "true", "y", "yes":
		return true, nil
	case "0", "f", "false", "n", "no":
		return false, nil
	}
	return false, strconv.ErrSyntax
}

// validValue tells whether gflags would take s for a flag of the type.
func validValue(kind, s string) bool {
	var err error
	switch kind {
	case "bool":
		_, err = parseBool(s)
	case "int32":
		_, err = strconv.ParseInt(s, 0, 32)
	case "uint32":
		_, err = strconv.ParseUint(s, 0, 32)
	case "int64":
		_, err = strconv.ParseInt(s, 0, 64)
	case "uint64":
		_, err = strconv.ParseUint(s, 0, 64)
	case "double":
		_, err = strconv.ParseFloat(s, 64)
	}
	return err == nil
}

// printHelp lists the flags that have a meaning here.
func printHelp(w io.Writer) {
	fmt.Fprint(w, `go run ./bench, or flatrock db_bench: the benchmark driver of Flatrock, with the flags and output lines of RocksDB's db_bench.

Without arguments it runs the main job: a RAM-resident database in a temporary directory is
loaded, read while it is written, closed, reopened and verified, and a report is printed.

Every flag of db_bench 7.8.3 is accepted; those with a meaning here:

`)
	for _, b := range bindings(newConfig()) {
		fmt.Fprintf(w, "  --%s (%s, default %q)\n      %s\n", b.name, b.kind(), b.value(), b.usage)
	}
	fmt.Fprintf(w, "\nBenchmarks, separated by commas; name[X3] repeats, name[W1-X5] warms up first:\n\n")
	for _, b := range benchmarks() {
		fmt.Fprintf(w, "  %-20s %s\n", b.name, b.usage)
	}
}
