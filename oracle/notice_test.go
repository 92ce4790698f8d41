//go:build oracle

package oracle_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChecksNotice proves that the comparisons can fail: for each way in which
// contents can differ, both engines must say so.
func TestChecksNotice(t *testing.T) {
	w := newWorld(t, 500, fixedSpecs[0], fixedSpecs[5])
	w.create(false, dbOptions{}.text()).busy(600).check().close()
	good, err := os.ReadFile(filepath.Join(w.tmp, "expected-001"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(good), "\n")
	first := func(prefix string) int {
		for i, l := range lines {
			if strings.HasPrefix(l, prefix) {
				return i
			}
		}
		t.Fatalf("no line %q", prefix)
		return 0
	}
	has, lacks := first("has "), first("lacks ")
	key := strings.Fields(lines[has])[1]
	for what, change := range map[string]func([]string) []string{
		"another value":    func(l []string) []string { l[has] = "has " + key + " 6e6f\n"; return l },
		"a key too many":   func(l []string) []string { l[has] = ""; return l },
		"a key too few":    func(l []string) []string { l[has] = "has 00000000 00\n" + l[has]; return l },
		"a key that lives": func(l []string) []string { l[lacks] = "lacks " + key + "\n"; return l },
		"another family":   func(l []string) []string { return append(l, "family other\n") },
	} {
		bad := strings.Join(change(append([]string(nil), lines...)), "")
		file := filepath.Join(w.tmp, "bad")
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		for who, run := range map[string]func(dir, file string) error{"rocksdb": runRocksDB, "flatrock": play} {
			script := filepath.Join(w.tmp, "script")
			if err := os.WriteFile(script, []byte("openreadonly\ncheck "+file+"\nclose\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := run(w.dir, script); err == nil {
				t.Errorf("%s: %s: the check passed", who, what)
			}
		}
	}
}
