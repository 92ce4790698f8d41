//go:build oracle

package oracle_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// accepted asks RocksDB's command line tools about the database: whether it is
// consistent, what its MANIFEST says, which families it has, and what they hold.
func (w *world) accepted() {
	w.t.Helper()
	fail := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatalf("after step %d: %v\n%s", w.steps, err, keep(w.t, w.tmp))
		}
	}
	db := "--db=" + w.dir
	out, err := tool("ldb", db, "--try_load_options", "checkconsistency")
	fail(err)
	if strings.TrimSpace(out) != "OK" {
		w.t.Fatalf("ldb checkconsistency: %s", out)
	}
	manifests, err := filepath.Glob(filepath.Join(w.dir, "MANIFEST-*"))
	fail(err)
	current, err := os.ReadFile(filepath.Join(w.dir, "CURRENT"))
	fail(err)
	if live := filepath.Join(w.dir, strings.TrimSpace(string(current))); !slices.Contains(manifests, live) {
		w.t.Fatalf("CURRENT names %s, and there is %q", live, manifests)
	} else {
		out, err = tool("ldb", "manifest_dump", "--path="+live)
		fail(err)
	}
	for _, f := range w.specs {
		if !strings.Contains(out, `"`+name(f.Name)+`"`) {
			w.t.Fatalf("ldb manifest_dump does not mention family %s:\n%s", name(f.Name), tail(out))
		}
	}
	for _, f := range w.specs {
		w.scan(f)
	}
}

// scan compares what ldb scan prints with the world.
func (w *world) scan(f spec) {
	w.t.Helper()
	out, err := tool("ldb", "--db="+w.dir, "--try_load_options", "--hex", "--column_family="+name(f.Name), "scan")
	if err != nil {
		w.t.Fatalf("after step %d: %v\n%s", w.steps, err, keep(w.t, w.tmp))
	}
	ks := w.sorted(f)
	i := 0
	for line := range strings.Lines(out) {
		k, v, ok := strings.Cut(strings.TrimRight(line, "\n"), " : ")
		key, kerr := hex.DecodeString(strings.TrimPrefix(k, "0x"))
		value, verr := hex.DecodeString(strings.TrimPrefix(v, "0x"))
		if !ok || kerr != nil || verr != nil {
			w.t.Fatalf("ldb scan of %s: line %q", f.Name, line)
		}
		if i >= len(ks) || string(key) != ks[i] || string(value) != w.data[f.Name][ks[i]] {
			w.t.Fatalf("ldb scan of %s: key %d is %x = %.40x, which is not what was written", f.Name, i, key, value)
		}
		i++
	}
	if i != len(ks) {
		w.t.Fatalf("ldb scan of %s: %d keys, want %d", f.Name, i, len(ks))
	}
}
