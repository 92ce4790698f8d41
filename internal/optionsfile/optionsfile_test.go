package optionsfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const goldenRoot = "../../testdata/golden/db"

func goldenFiles(t testing.TB) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*/db/OPTIONS-*", "*/db/private/*/OPTIONS-*"} {
		found, err := filepath.Glob(filepath.Join(goldenRoot, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	if len(paths) < 45 {
		t.Fatalf("found %d golden OPTIONS files, expected 45 or more", len(paths))
	}
	return paths
}

func TestGoldenFilesAreWrittenAgainByteForByte(t *testing.T) {
	for _, path := range goldenFiles(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse(filepath.Base(path), text)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Append(nil); !bytes.Equal(got, text) {
			t.Fatalf("%s: %d bytes, expected %d", path, len(got), len(text))
		}
		if f.Family(DefaultFamily) == nil || f.Table(DefaultFamily) == nil || f.DB() == nil || f.Families()[0] != DefaultFamily {
			t.Fatalf("%s: sections missing", path)
		}
		if major, _, _, ok := f.RocksDBVersion(); !ok || major < 7 {
			t.Fatalf("%s: version %d %t", path, major, ok)
		}
	}
}

// TestGoldenValuesReadAsWhatTheyAre takes each kind of value from a golden file.
func TestGoldenValuesReadAsWhatTheyAre(t *testing.T) {
	text, err := os.ReadFile(goldenRoot + "/d01_multi_cf/db/OPTIONS-000011")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("OPTIONS-000011", text)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Families(), []string{"default", "plain_hashskip", "plain_hashlink", "plain_total"}; !slices.Equal(got, want) {
		t.Fatalf("families %q", got)
	}
	get := func(s *Section, key string) Option {
		t.Helper()
		o, ok := s.Lookup(key)
		if !ok {
			t.Fatalf("no %s", key)
		}
		return o
	}
	cf, table := f.Family("plain_hashskip"), f.Table("plain_hashskip")
	if v, err := get(cf, "write_buffer_size").Uint64(); v != 67108864 || err != nil {
		t.Errorf("%d %v", v, err)
	}
	if v, err := get(f.DB(), "max_open_files").Int(); v != -1 || err != nil {
		t.Errorf("%d %v", v, err)
	}
	if v, err := get(f.DB(), "create_if_missing").Bool(); !v || err != nil {
		t.Errorf("%t %v", v, err)
	}
	if v, err := get(table, "hash_table_ratio").Float64(); v != 0.75 || err != nil {
		t.Errorf("%v %v", v, err)
	}
	if v, err := get(cf, "max_bytes_for_level_multiplier_additional").List(); len(v) != 7 || v[6].Value != "1" || err != nil {
		t.Errorf("%v %v", v, err)
	}
	if !get(cf, "compaction_filter").IsNull() || get(cf, "comparator").IsNull() {
		t.Error("nullptr")
	}
	if table.Factory() != "PlainTable" || get(table, "encoding_type").Text() != "kPlain" || cf.Factory() != "" {
		t.Errorf("table section %q", table.Title)
	}
	id, params, err := get(cf, "memtable_factory").Custom()
	if id != "HashSkipListRepFactory" || len(params) != 3 || params[2].Key != "bucket_count" || params[2].Value != "1000" || err != nil {
		t.Errorf("%s %v %v", id, params, err)
	}
	id, params, err = get(cf, "merge_operator").Custom()
	if id != "StringAppendOperator" || len(params) != 1 || params[0].Text() != "," || err != nil {
		t.Errorf("%s %v %v", id, params, err)
	}
	if id, _, err := get(cf, "table_factory").Custom(); id != "PlainTable" || err != nil {
		t.Errorf("%s %v", id, err)
	}
	universal, err := get(cf, "compaction_options_universal").Object()
	if err != nil || len(universal) != 8 {
		t.Fatalf("%v %v", universal, err)
	}
	if v, err := universal[1].Int(); universal[1].Key != "compression_size_percent" || v != -1 || err != nil {
		t.Errorf("%v %v", universal[1], err)
	}
}

const minimal = `[Version]
  rocksdb_version=7.8.3
  options_file_version=1.1
[DBOptions]
  create_if_missing=false
[CFOptions "default"]
  comparator=leveldb.BytewiseComparator
`

func TestMinimalFile(t *testing.T) {
	for what, text := range map[string]string{
		"as it is":        minimal,
		"without version": minimal[strings.Index(minimal, "[DBOptions]"):],
		"windows":         strings.ReplaceAll(minimal, "\n", "\r\n"),
		"comments":        "# first\n" + strings.ReplaceAll(minimal, "=", " = ") + "  # last",
		"no last newline": strings.TrimSuffix(minimal, "\n"),
		"comment behind":  strings.Replace(minimal, "false", "false # not now", 1),
	} {
		f, err := Parse("OPTIONS-1", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if o, ok := f.Family("default").Lookup("comparator"); !ok || o.Value != "leveldb.BytewiseComparator" {
			t.Errorf("%s: %q", what, o.Value)
		}
		if o, ok := f.DB().Lookup("create_if_missing"); !ok || o.Value != "false" {
			t.Errorf("%s: %q", what, o.Value)
		}
	}
}

func TestQuotesAndEscapesInFamilyNames(t *testing.T) {
	for _, name := range []string{`late"quote`, `"`, `a"b"c`, "hash#", `back\slash`, `end\`, "colon:", "new\nline\r", "]", "[x]", " spaces ", "=", "ünïcode", "\x00\xff"} {
		f := New("7.8.3")
		f.Add(TitleDB, "")
		f.Add(TitleFamily, DefaultFamily)
		f.Add(TitleFamily, name).Set("comparator", "x")
		f.Add(TitleTable+"PlainTable", name).Set("user_key_len", "0")
		got, err := Parse("OPTIONS-1", f.Append(nil))
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got.Family(name) == nil || got.Table(name) == nil {
			t.Errorf("%q: found %q", name, got.Families())
		}
	}
	f, err := Parse("OPTIONS-1", []byte(minimal+"[CFOptions \"late\"quote\"]\n"))
	if err != nil || f.Family(`late"quote`) == nil {
		t.Errorf("%v", err)
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	for what, c := range map[string]struct {
		text string
		line int
		want string
	}{
		"empty":                    {"", 0, "single DBOptions section"},
		"no families":              {"[DBOptions]\n", 0, "single CFOptions:default section"},
		"two DBOptions":            {minimal + "[DBOptions]\n", 8, "one DBOptions section"},
		"two Versions":             {minimal + "[Version]\n", 8, "one Version section"},
		"two defaults":             {minimal + "[CFOptions \"default\"]\n", 8, "one CFOptions section"},
		"default not first":        {"[DBOptions]\n[CFOptions \"a\"]\n", 2, `CFOptions "default" first`},
		"table before family":      {minimal + "\n[TableOptions/PlainTable \"a\"]", 9, "before its TableOptions"},
		"two tables":               {minimal + "[TableOptions/PlainTable \"default\"]\n[TableOptions/BlockBasedTable \"default\"]", 9, "one TableOptions section"},
		"unknown section":          {minimal + "[Extra]\n", 8, `unknown section "Extra"`},
		"argument of DBOptions":    {"[DBOptions \"x\"]\n", 1, "no argument"},
		"open section":             {"[DBOptions\n", 1, "end with ]"},
		"one quote":                {"[CFOptions \"default]\n", 1, "double quotes"},
		"text behind the argument": {"[CFOptions \"default\" x]\n", 1, "double quotes"},
		"no equals sign":           {minimal + "what\n", 8, "key=value"},
		"no name":                  {minimal + " = 3\n", 8, "a name before ="},
		"statement outside":        {"a=b\n", 1, "section before the first statement"},
		"old file version":         {strings.Replace(minimal, "=1.1", "=0.9", 1), 3, "at least 1"},
		"strange file version":     {strings.Replace(minimal, "=1.1", "=1.1.1", 1), 3, "up to two numbers"},
		"strange version":          {strings.Replace(minimal, "=7.8.3", "=seven", 1), 2, "up to three numbers"},
		"unknown version key":      {strings.Replace(minimal, "rocksdb_version", "flatrock_version", 1), 2, "unknown option"},
	} {
		_, err := Parse("OPTIONS-000007", []byte(c.text))
		var at *SyntaxError
		if !errors.As(err, &at) || at.Line != c.line || at.File != "OPTIONS-000007" || !strings.Contains(at.Reason, c.want) {
			t.Errorf("%s: %v, expected line %d and %q", what, err, c.line, c.want)
		}
	}
}

func TestEscapeRoundTrip(t *testing.T) {
	for plain, escaped := range map[string]string{
		"": "", "plain": "plain", `a\b`: `a\\b`, "#:": `\#\:`, "\n\r": `\n\r`, ",": ",", "n": "n",
	} {
		if got := Escape(plain); got != escaped {
			t.Errorf("Escape(%q) = %q, expected %q", plain, got, escaped)
		}
		if got := Unescape(escaped); got != plain {
			t.Errorf("Unescape(%q) = %q, expected %q", escaped, got, plain)
		}
	}
	for escaped, plain := range map[string]string{`\x`: "x", `\`: "", `a\`: "a"} {
		if got := Unescape(escaped); got != plain {
			t.Errorf("Unescape(%q) = %q, expected %q", escaped, got, plain)
		}
	}
}

func TestNumbers(t *testing.T) {
	for s, want := range map[string]uint64{"0": 0, "7": 7, "64k": 64 << 10, "64K": 64 << 10, "3m": 3 << 20, "2g": 2 << 30, "1T": 1 << 40,
		"18446744073709551615": 1<<64 - 1, "16777215t": 16777215 << 40} {
		if v, err := (Option{Value: s}).Uint64(); v != want || err != nil {
			t.Errorf("%s: %d %v", s, v, err)
		}
	}
	for _, s := range []string{"", "k", "-1", "1.5", "1kk", "0x10", "18446744073709551616", "16777216t", "1 ", "1b"} {
		if v, err := (Option{Key: "x", Line: 9, Value: s}).Uint64(); err == nil || !strings.Contains(err.Error(), "line 9: x:") {
			t.Errorf("%q: %d %v", s, v, err)
		}
	}
	for s, want := range map[string]int64{"-1": -1, "-2k": -2048, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63, "-8388608t": -1 << 63} {
		if v, err := (Option{Value: s}).Int64(); v != want || err != nil {
			t.Errorf("%s: %d %v", s, v, err)
		}
	}
	for _, s := range []string{"9223372036854775808", "8388608t", "-8388609t"} {
		if v, err := (Option{Value: s}).Int64(); err == nil {
			t.Errorf("%s: %d", s, v)
		}
	}
	if v, err := (Option{Value: "2g"}).Int(); err == nil {
		t.Errorf("%d", v)
	}
	for _, s := range []string{"", "x", "inf", "nan", "1e999"} {
		if v, err := (Option{Value: s}).Float64(); err == nil {
			t.Errorf("%q: %v", s, v)
		}
	}
	for s, want := range map[string]bool{"true": true, "1": true, "false": false, "0": false} {
		if v, err := (Option{Value: s}).Bool(); v != want || err != nil {
			t.Errorf("%s: %t %v", s, v, err)
		}
	}
	if _, err := (Option{Value: "TRUE"}).Bool(); err == nil {
		t.Error("TRUE is no bool of RocksDB's")
	}
	if FormatFloat(0.75) != "0.750000" {
		t.Error(FormatFloat(0.75))
	}
}

func TestListsAndObjects(t *testing.T) {
	list := func(s string) string {
		elements, err := Option{Value: s}.List()
		if err != nil {
			return "error"
		}
		var got []string
		for _, e := range elements {
			got = append(got, e.Value)
		}
		return strings.Join(got, "|")
	}
	for s, want := range map[string]string{
		"": "", "a": "a", "a:b": "a|b", "a::b": "a||b", `a\:b:c`: `a\:b|c`, "{x=1;y={z=2:3;};}:b": "{x=1;y={z=2:3;};}|b",
		"{a": "error", "a}:b": "error",
	} {
		if got := list(s); got != want {
			t.Errorf("list %q: %q, expected %q", s, got, want)
		}
	}
	object := func(s string) string {
		fields, err := Option{Key: "o", Value: s}.Object()
		if err != nil {
			return "error"
		}
		return FormatObject(fields...)
	}
	for s, want := range map[string]string{
		"": "{}", "{}": "{}", "a=1": "{a=1;}", "{a=1;b=2;}": "{a=1;b=2;}", " { a = 1 ; b = {c=1;d={e=2;};} ; } ": "{a=1;b={c=1;d={e=2;};};}",
		"{a=}": "{a=;}", "{{a=1;}}": "{a=1;}", "a=b=c;": "{a=b=c;}",
		"{a=1": "error", "{a=1;}}": "error", "{a}": "error", "{=1;}": "error", "{a={b=1;}x;}": "error", "{a=1;}{b=2;}": "error", "a={": "error",
	} {
		if got := object(s); got != want {
			t.Errorf("object %q: %q, expected %q", s, got, want)
		}
	}
	custom := func(s string) string {
		id, params, err := Option{Key: "o", Value: s}.Custom()
		if err != nil {
			return "error"
		}
		return id + FormatObject(params...)
	}
	for s, want := range map[string]string{
		"": "{}", "nullptr": "{}", "{id=nullptr;}": "{}", "Id": "Id{}", "{id=Id;p=1;}": "Id{p=1;}", "{p=1;id=Id;}": "Id{p=1;}", "id=Id;p=1": "Id{p=1;}",
		"prefix_hash:100": "prefix_hash:100{}", "{p=1;}": "error", "{id=": "error",
	} {
		if got := custom(s); got != want {
			t.Errorf("custom %q: %q, expected %q", s, got, want)
		}
	}
}

func TestSetReplacesInPlace(t *testing.T) {
	s := New("7.8.3").Add(TitleDB, "")
	s.Set("a", "1")
	s.Set("b", "2")
	s.Set("a", "3")
	if len(s.Options) != 2 || s.Options[0].Value != "3" {
		t.Fatalf("%v", s.Options)
	}
	if _, ok := s.Lookup("c"); ok {
		t.Fatal("found what is not there")
	}
}

func FuzzParse(f *testing.F) {
	for i, path := range goldenFiles(f) {
		if text, err := os.ReadFile(path); err == nil && i%6 == 0 {
			f.Add(text)
		}
	}
	f.Add([]byte(minimal))
	f.Add([]byte(minimal + "[TableOptions/PlainTable \"default\"]\n a={b={c=1;};d=\\#\\:;}:x # c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("OPTIONS-1", text)
		if err != nil {
			var at *SyntaxError
			if !errors.As(err, &at) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		out := file.Append(nil)
		again, err := Parse("OPTIONS-1", out)
		if err != nil {
			t.Fatalf("own text refused: %v\n%s", err, out)
		}
		if err := file.differs("OPTIONS-1", again); err != nil {
			t.Fatalf("%v\n%q\n%q", err, text, out)
		}
		for _, s := range file.Sections {
			for _, o := range s.Options {
				readAll(t, o, 0)
			}
		}
	})
}

// readAll reads a value in every way, nested ones as deep as they go.
func readAll(t *testing.T, o Option, depth int) {
	o.Bool()
	o.Uint64()
	o.Int()
	o.Float64()
	o.Custom()
	if u := o.Text(); Unescape(Escape(u)) != u {
		t.Fatalf("escape of %q", u)
	}
	list, _ := o.List()
	fields, _ := o.Object()
	if depth == 4 {
		return
	}
	for _, e := range append(list, fields...) {
		if len(e.Value) < len(o.Value) {
			readAll(t, e, depth+1)
		}
	}
}
