package main

import (
	"strings"
	"testing"
)

const goodConsole = `SeaBIOS
vmtest: begin ./numa
=== RUN   TestA
--- PASS: TestA (0.01s)
=== RUN   TestB
    --- PASS: TestB/sub (0.00s)
text without a newline--- PASS: TestB (1.00s)
=== RUN   ExampleC
--- PASS: ExampleC (0.00s)
PASS
vmtest: end ./numa exit 0
vmtest: done
[    9.0] reboot: Power down
`

var goodTests = []built{{name: "./numa", tests: []string{"TestA", "TestB", "ExampleC"}}}

func TestJudgePassesWhatPassed(t *testing.T) {
	if passed, err := judge(goodConsole, goodTests); err != nil || passed != 3 {
		t.Errorf("judge = %d, %v; want 3 passed", passed, err)
	}
}

func TestJudgeFailsWhateverElse(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"a failure", "--- PASS: TestA", "--- FAIL: TestA", "TestA: FAIL"},
		{"a skip", "--- PASS: TestA", "--- SKIP: TestA", "TestA: SKIP"},
		{"a subtest is not the test", "text without a newline--- PASS: TestB (1.00s)\n", "", "1 tests did not finish, the first TestB"},
		{"an exit code", "exit 0", "exit 2", `exit "2"`},
		{"a kernel panic", "vmtest: end ./numa exit 0\nvmtest: done\n", "Kernel panic - not syncing\n", "did not come to its end"},
		{"a guest that failed", "vmtest: done", "vmtest: guest failed: mount proc", "guest: mount proc"},
		{"a program that never began", "vmtest: begin ./numa", "", "did not begin"},
		{"a machine that went off", goodConsole, "", "did not begin"},
	} {
		console := strings.Replace(goodConsole, c.from, c.to, 1)
		if _, err := judge(console, goodTests); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestNoteworthyKeepsWhatMatters(t *testing.T) {
	got := noteworthy("=== RUN   TestA\n    a.go:1: wrong\n--- FAIL: TestA (0.00s)\n--- PASS: TestB (0.00s)\npanic: x\n")
	if want := "    a.go:1: wrong\n--- FAIL: TestA (0.00s)\npanic: x\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTreeIsBetweenItsLines(t *testing.T) {
	tree, err := treeOf("boot\nvmtest: tree\n-- a --\nb\nvmtest: end of tree, amd64\nvmtest: done\n")
	if err != nil || tree != "-- a --\nb\n" {
		t.Errorf("treeOf = %q, %v", tree, err)
	}
	if _, err := treeOf("vmtest: tree\n-- a --\n"); err == nil {
		t.Error("half a tree is taken for a whole one")
	}
}
