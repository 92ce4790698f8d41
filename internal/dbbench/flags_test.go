package dbbench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func parseArgs(args ...string) (*config, string, error) {
	c := newConfig()
	var w strings.Builder
	err := parseFlags(c, args, &w)
	return c, w.String(), err
}

func TestFlagForms(t *testing.T) {
	c, warnings, err := parseArgs("--num=5", "-reads", "7", "--histogram", "--noprogress_reports", "-sync=no",
		"--verify-checksum=0", "--seed=-3", "--compression_ratio=.25", "--num=6", "--db", "some where", "--write_buffer_size=0x100000")
	if err != nil || warnings != "" {
		t.Fatal(err, warnings)
	}
	if c.num != 6 || c.reads != 7 || !c.histogram || c.progressReports || c.sync || c.verifyChecksum ||
		c.seed != -3 || c.compressionRatio != 0.25 || c.db != "some where" || c.writeBufferSize != 1<<20 {
		t.Fatalf("%+v", c)
	}
}

func TestFlagErrors(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--raeds=5", "unknown flag --raeds; did you mean --reads?"},
		{"--bloom_bit=5", "did you mean --bloom_bits?"},
		{"--plain_table_memroy=lock", "did you mean --plain_table_memory?"},
		{"--open_fils=3", "did you mean --open_files?"},
		{"--qqqqqqqqqqqq", "unknown flag --qqqqqqqqqqqq; --help lists the flags"},
		{"--num=abc", `illegal value "abc" for flag --num: want int64`},
		{"--sync=maybe", `illegal value "maybe" for flag --sync: want bool`},
		{"--open_files=many", `illegal value "many" for flag --open_files: want int32`},
		{"--num", "flag --num is missing its argument"},
		{"readrandom", "unexpected argument"},
		{"--num=0", "--num=0"},
		{"--threads=0", "--threads=0"},
		{"--key_size=2 --num=100000", "too small"},
		{"--prefix_size=17", "--prefix_size=17"},
		{"--keys_per_prefix=3", "needs --prefix_size"},
		{"--memtablerep=cuckoo", "--memtablerep=cuckoo"},
		{"--memtablerep=prefix_hash", "needs --prefix_size"},
		{"--plain_table_memory=huge", "--plain_table_memory=huge"},
		{"--use_plain_table --plain_table_encoding=x", "--plain_table_encoding=x"},
		{"--use_plain_table --plain_table_encoding=prefix", "PrefixEncoding"},
		{"--wal_write_mode=x", "--wal_write_mode=x"},
		{"--compression_type=rar", "--compression_type=rar"},
		{"--checksum_type=9", "--checksum_type=9"},
		{"--value_size_distribution_type=pareto", "pareto"},
		{"--sync --disable_wal", "exclude each other"},
		{"--use_existing_keys", "needs --use_existing_db"},
		{"--benchmarks=readrandm", "unknown benchmark 'readrandm'; did you mean readrandom?"},
		{"--benchmarks=readrandom[Y3]", `"Y3"`},
		{"--benchmarks=readrandom[X3", "no closing bracket"},
		{"--flagfile=/does/not/exist", "--flagfile"},
	} {
		out, errs, code := runProgram(t, strings.Fields(test.args)...)
		if code != exitFailed || !strings.Contains(errs, test.want) || out != "" {
			t.Errorf("%s: exit code %d, %q%q; want %q", test.args, code, out, errs, test.want)
		}
	}
}

// Every flag that db_bench lists is accepted, with one warning if it has no meaning here.
func TestEveryFlagOfDBBenchIsAccepted(t *testing.T) {
	bound := map[string]bool{}
	for _, b := range bindings(newConfig()) {
		bound[b.name] = true
	}
	known := knownFlags()
	if len(known) < 400 {
		t.Fatalf("%d flags", len(known))
	}
	for name, k := range known {
		if name == "flagfile" || name == "undefok" || name == "benchmarks" || name == "use_existing_keys" || name == "readonly" {
			continue
		}
		_, warnings, err := parseArgs("--"+name+"="+k.def, "--"+name+"="+k.def)
		if err != nil {
			t.Errorf("--%s=%s: %v", name, k.def, err)
		}
		want := "warning: --" + name + " is ignored: it has no meaning here\n"
		if bound[name] {
			want = ""
		}
		if warnings != want {
			t.Errorf("--%s: %q, want %q", name, warnings, want)
		}
	}
	for name, why := range removedFlags {
		if _, ok := known[name]; ok || bound[name] {
			t.Errorf("--%s is not removed", name)
		}
		for _, args := range [][]string{{"--" + name + "=1"}, {"--" + name, "1"}, {"--" + name}} {
			_, warnings, err := parseArgs(args...)
			if err != nil || warnings != "warning: --"+name+" is ignored: "+why+"\n" {
				t.Errorf("%v: %v, %q", args, err, warnings)
			}
		}
	}
}

// sameNumber reports whether a and b, one of them with all its digits, are one double.
func sameNumber(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}

// A command line without a flag must mean the same as with db_bench.
func TestDefaultsAreDBBenchs(t *testing.T) {
	ours := map[string]string{ // flags that differ, and why
		"benchmarks": "only what exists here",
		"help":       "flags.txt was made with --help",
	}
	others := map[string]bool{ // flags of other versions of db_bench
		"writes_per_second": true, "block_protection_bytes_per_key": true, "auto_readahead_size": true,
	}
	known := knownFlags()
	for _, b := range bindings(newConfig()) {
		k, ok := known[b.name]
		switch {
		case !ok && !strings.HasPrefix(b.usage, "ours:") && !others[b.name]:
			t.Errorf("--%s is no flag of db_bench, and its text does not begin with ours:", b.name)
		case ok && ours[b.name] == "" && b.value() != k.def && !sameNumber(b.value(), k.def):
			t.Errorf("--%s: default %q, db_bench's is %q", b.name, b.value(), k.def)
		}
	}
}

// --undefok lets flags pass that nobody knows, wherever it stands, and no others.
func TestUndefinedFlagsThatAreOK(t *testing.T) {
	c, warnings, err := parseArgs("--some_flag=3", "--num=5", "--other-flag", "--undefok=some_flag,other_flag", "--reads=7")
	if err != nil || warnings != "" || c.num != 5 || c.reads != 7 {
		t.Fatal(err, warnings)
	}
	if _, _, err := parseArgs("--some_flag=3", "--third_flag=1", "--undefok=some_flag"); err == nil || !strings.Contains(err.Error(), "third_flag") {
		t.Fatal(err)
	}
}

func TestFlagFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "flags")
	if err := os.WriteFile(file, []byte("# sizes\n--num=12\n\n--open_files=5\n--reads=3"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, warnings, err := parseArgs("--flagfile="+file, "--reads=4")
	if err != nil || c.num != 12 || c.reads != 4 || strings.Count(warnings, "\n") != 1 {
		t.Fatal(err, c.num, c.reads, warnings)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.WriteFile(loop, []byte("--flagfile="+loop), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := parseArgs("--flagfile=" + loop); err == nil || !strings.Contains(err.Error(), "too deeply") {
		t.Fatal(err)
	}
}

func TestEditDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"reads", "reads", 0}, {"raeds", "reads", 1}, {"kitten", "sitting", 3}, {"num", "", 3}} {
		if d := editDistance(test.a, test.b); d != test.want {
			t.Errorf("%q, %q: %d, want %d", test.a, test.b, d, test.want)
		}
	}
}

func TestHelpListsFlagsAndBenchmarks(t *testing.T) {
	out := mustRun(t, "--help")
	for _, want := range []string{"--plain_table_memory (string", "--num (int64, default \"1000000\")", "readwhilewriting"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
