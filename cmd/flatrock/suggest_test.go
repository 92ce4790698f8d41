package main

import (
	"strings"
	"testing"
)

// TestSlipsAreUnderstood: what a person may have meant is named, and nothing where it is too far away.
func TestSlipsAreUnderstood(t *testing.T) {
	db := "--db=" + t.TempDir()
	for command, want := range map[string]string{
		"ldb scann " + db: "(did you mean scan?)", "ldb sacn " + db: "(did you mean scan?)", "ldb list_column_famlies " + db: "(did you mean list_column_families?)",
		"ldb scan --form=1 " + db: "(did you mean from?)", "ldb dump --max_key=1 " + db: "(did you mean max_keys?)", "sst_dump --comand=scan x.sst": "(did you mean command?)",
		"docter x": "(did you mean doctor?)", "sst-dump x": "(did you mean sst_dump?)",
	} {
		if r := exec(t, "", strings.Fields(command)...); r.status != 2 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v, want %s", command, r, want)
		}
	}
	for _, command := range []string{"ldb xyzzy " + db, "ldb scan --xyzzy=1 " + db, "frobnicate"} {
		if r := exec(t, "", strings.Fields(command)...); r.status != 2 || strings.Contains(r.err, "did you mean") {
			t.Errorf("%s: %+v", command, r)
		}
	}
	for _, c := range []struct {
		a, b string
		n    int
	}{{"", "", 0}, {"", "abc", 3}, {"scan", "scan", 0}, {"sacn", "scan", 1}, {"scann", "scan", 1}, {"form", "from", 1}, {"kitten", "sitting", 3}} {
		if n := slips(c.a, c.b); n != c.n || slips(c.b, c.a) != c.n {
			t.Errorf("%q and %q: %d slips, want %d", c.a, c.b, n, c.n)
		}
	}
}

// TestWordsThatACommandPassesOver: they are, as in RocksDB's ldb, and that is told.
func TestWordsThatACommandPassesOver(t *testing.T) {
	dir := timedDirectory(t)
	if r := exec(t, "", "ldb", "scan", "from=k3", "--no_value", "--from=k9", "--db="+dir); r.status != 0 || r.out != "k9\n" || r.err != "Warning: scan takes no arguments, and passes over [\"from=k3\"]\n" {
		t.Errorf("%+v", r)
	}
	if out := mustExec(t, "version"); !strings.HasPrefix(out, "flatrock ") || !strings.Contains(out, "RocksDB 7.8.3") || mustExec(t, "--version") != out {
		t.Errorf("version: %q", out)
	}
	if mustExec(t, "ldb", "help", "scan") != mustExec(t, "help", "ldb", "scan") || mustExec(t, "ldb", "help") != mustExec(t, "ldb", "--help") {
		t.Error("ldb help is another help")
	}
}
