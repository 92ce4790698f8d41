package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A decoder is a function or method whose name says that it decodes, parses, decompresses or loads, and which takes
// bytes ([]byte or io.Reader). Each has a line in decoders: the fuzz targets that reach it. And each package that
// takes numbers out of bytes, because it imports one of numberPackages, has a line in fuzzed.

var decoderName = regexp.MustCompile(`^(?i:decode|parse|unmarshal|decompress|load)`)

// decoders are the fuzz targets that reach a decoder: of its package, or with the package before a dot. After a dash is
// the reason why there is none.
var decoders = map[string]string{
	".loadBatch":                              "FuzzLoadBatch",
	".DB.LoadBatch":                           "FuzzLoadBatch",
	".parseBackupMeta":                        "FuzzBackupMeta",
	"bench/report.Decode":                     "- JSON of a report, by encoding/json",
	"blocktable.loadU128":                     "- 16 bytes of a filter's rows, whose length its reader has checked: FuzzFilter",
	"cmd/flatrock.ldb.loadLine":               "FuzzQuery",
	"cmd/flatrock.ldb.loaded":                 "- a value with a time behind it, or one that is too short",
	"internal/wal.Batch.Load":                 "FuzzDecode .FuzzLoadBatch",
	"plaintable.rowFormat.decode":             "FuzzRows",
	"blocktable.Reader.decodeInto":            "FuzzWholeTable",
	"cmd/flatrock.ldb.parseLine":              "FuzzQuery",
	"internal/blob.DecodeIndex":               "FuzzDecodeIndex",
	"internal/blob.decodeExpirations":         "FuzzReader",
	"internal/blob.Reader.decompress":         "FuzzReader",
	"internal/block.DecodeFooter":             "FuzzFooter",
	"internal/block.Footer.decodeHandles":     "FuzzFooter",
	"internal/block.Footer.decodeExtended":    "FuzzFooter",
	"internal/block.DecodeHandle":             "FuzzFooter FuzzMetaIndex",
	"internal/block.DecodeMetaIndex":          "FuzzMetaIndex",
	"internal/block.DecodeProperties":         "FuzzProperties",
	"internal/compress.Decoder.Decode":        "FuzzDecode",
	"internal/compress.Decoder.DecodeUnsized": "internal/wal.FuzzDecompress",
	"internal/compress.decodeEmptyLZ4":        "FuzzDecode",
	"internal/entity.Decode":                  "FuzzDecode",
	"internal/manifest.DecodeEdit":            "FuzzDecodeEdit",
	"internal/optionsfile.Parse":              "FuzzParse",
	"internal/optionsfile.File.parse":         "FuzzParse",
	"internal/wal.Decode":                     "FuzzDecode",
	"internal/wal.decodeFollows":              "FuzzReplay",
	"internal/wal.decodeRecords":              "FuzzDecode",
	"internal/wal.decompressor.decompress":    "FuzzDecompress",
	"plaintable.decodeBloom":                  "FuzzBloom",
	"plaintable.decodeChecksums":              "FuzzChecksums",
	"plaintable.decodeFlag":                   "FuzzRows",
	"plaintable.decodeIndex":                  "FuzzIndex",
	"plaintable.decodeLines":                  "FuzzIndex FuzzIndexRoundTrip",
	"plaintable.decodePrefixKey":              "FuzzRows",
	"plaintable.decodeRowIndex":               "FuzzIndex FuzzIndexRoundTrip",
	"plaintable.decodeSeries":                 "FuzzSeries",
	"plaintable.decodeTail":                   "FuzzRows",
	"plaintable.decodeTombstones":             "FuzzTombstones",
	"plaintable.Reader.parseLayout":           "FuzzFile",
}

var numberPackages = []string{"encoding/binary", module + "/internal/coding", module + "/internal/record", module + "/internal/block"}

// fuzzed are the fuzz targets of packages that take numbers out of bytes, or after a dash the reason why those are bytes
// that the process itself has made.
var fuzzed = map[string]string{
	"":                           "FuzzOpen FuzzLoadBatch FuzzBackupMeta FuzzStoredOptions",
	"bench/peers":                "- keys of the workload",
	"blockcache":                 "- records of its own trace, before they are written",
	"blocktable":                 "FuzzDataBlock FuzzIndexBlock FuzzWholeTable FuzzFilter FuzzHint",
	"cmd/flatrock":               "FuzzQuery FuzzArguments",
	"compaction":                 "- the trailers of internal keys, which tables have checked",
	"internal/blob":              "FuzzDecodeIndex FuzzReader",
	"internal/block":             "FuzzFooter FuzzMetaIndex FuzzProperties",
	"internal/coding":            "FuzzDecode",
	"internal/compress":          "FuzzDecode FuzzZSTDBound",
	"internal/dbbench":           "- keys and values that it writes itself; its flags: FuzzFlags",
	"internal/entity":            "FuzzDecode",
	"internal/hash":              "- words of what is hashed: any bytes will do",
	"internal/hostile":           "- spoils files for tests",
	"internal/iterator/itertest": "- makes histories for tests",
	"internal/keys":              "- an internal key is cut eight bytes before its end, or is too short",
	"internal/manifest":          "FuzzDecodeEdit FuzzRecover",
	"internal/merge":             "- operands of eight bytes; others count as zero",
	"internal/rangedel":          "- an image that it laid out itself",
	"internal/record":            "FuzzReader",
	"internal/stress":            "- the expected state, which its own processes write",
	"internal/traceanalysis":     "- numbers in keys that it hashes; records: internal/tracefile",
	"internal/tracebuf":          "- a ring in memory",
	"internal/tracefile":         "FuzzBlockTrace FuzzQueryTrace FuzzParseLine",
	"internal/wal":               "FuzzReplay FuzzDecompress FuzzDecode",
	"memtable":                   "- its own arena",
	"numa":                       "- what the kernel's counters say",
	"plaintable":                 "FuzzSeries FuzzRows FuzzIndex FuzzIndexRoundTrip FuzzBloom FuzzChecksums FuzzTombstones FuzzFile",
	"prefixhash":                 "- buckets that it filled itself; an index in a file: plaintable",
}

// decodersOf are the decoders in a file, a method with its type.
func decodersOf(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !decoderName.MatchString(fn.Name.Name) || !slices.ContainsFunc(fn.Type.Params.List, func(p *ast.Field) bool { return isBytes(p.Type) }) {
			continue
		}
		name := fn.Name.Name
		if fn.Recv != nil {
			of := fn.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if id, ok := of.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		names = append(names, name)
	}
	return names
}

func isBytes(t ast.Expr) bool {
	if a, ok := t.(*ast.ArrayType); ok && a.Len == nil {
		id, ok := a.Elt.(*ast.Ident)
		return ok && id.Name == "byte"
	}
	return isSelector(t, "io", "Reader")
}

// TestDecodersAreFuzzed holds decoders and fuzzed to the source, and their targets too.
func TestDecodersAreFuzzed(t *testing.T) {
	targets, found, takers := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			for _, d := range s.file.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Fuzz") {
					targets[s.pkg+"."+fn.Name.Name] = true
				}
			}
			continue
		}
		for _, name := range decodersOf(s.file) {
			if found[s.pkg+"."+name] = true; decoders[s.pkg+"."+name] == "" {
				t.Errorf("%s: the decoder %q has no line in decoders: which fuzz target reaches it?", s.path, s.pkg+"."+name)
			}
		}
		for _, imp := range s.imports() {
			if slices.Contains(numberPackages, imp) {
				if takers[s.pkg] = true; fuzzed[s.pkg] == "" {
					t.Errorf("%s imports %s, and its package has no line in fuzzed", s.path, imp)
				}
			}
		}
	}
	exist := func(pkg, list, table string) {
		for _, name := range strings.Fields(list) {
			if at := strings.LastIndex(name, "."); at < 0 {
				name = pkg + "." + name
			}
			if !targets[name] {
				t.Errorf("%s: there is no fuzz target %s", table, name)
			}
		}
	}
	for name, list := range decoders {
		if !found[name] {
			t.Errorf("decoders: there is no decoder %q", name)
		}
		pkg := name[:strings.LastIndex(name, "/")+1]
		rest, _, _ := strings.Cut(name[len(pkg):], ".")
		if !strings.HasPrefix(list, "- ") {
			exist(pkg+rest, list, "decoders")
		}
	}
	for pkg, list := range fuzzed {
		if !takers[pkg] {
			t.Errorf("fuzzed: package %q takes no numbers out of bytes", pkg)
		}
		if !strings.HasPrefix(list, "- ") {
			exist(pkg, list, "fuzzed")
		}
	}
	if len(targets) < 40 {
		t.Errorf("found %d fuzz targets only: %v", len(targets), slices.Sorted(maps.Keys(targets)))
	}
}

// TestDecodersAreNoticed feeds the rule what is one, and what is none.
func TestDecodersAreNoticed(t *testing.T) {
	const file = `package p
func decodeThing(b []byte) error { return nil }
func (r *Reader) LoadAll(in io.Reader) {}
func ParseName(s string) {}
func encode(b []byte) {}
func parse(n int, b [8]byte) {}
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", file, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if got := decodersOf(f); !slices.Equal(got, []string{"decodeThing", "Reader.LoadAll"}) {
		t.Errorf("found %q", got)
	}
}
