// Package leaktest is the TestMain of packages whose tests hold mappings, arenas, files and goroutines.
package leaktest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/flatrock-db/flatrock/internal/leaks"
)

// Main runs the tests of a package, and fails if they leave more behind than there was before: a database or a
// file that a test forgot to close hides what the code under test forgets. Benchmarks may share what they
// build, and a fuzzing process is stopped anywhere, so neither is checked. What tests keep for each
// other, release lets go.
func Main(m *testing.M, release ...func()) (code int) {
	before := leaks.Now()
	if code = m.Run(); code != 0 || set("test.bench") || set("test.fuzz") || set("test.list") {
		return code
	}
	for _, f := range release {
		f()
	}
	if err := before.Leaked(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: after all tests:", err)
		return 1
	}
	return 0
}

func set(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != ""
}
