package main

import (
	osexec "os/exec"
	"strings"
	"testing"
)

// TestCompletionNamesEverything: each shell's script knows every tool and command; and bash, where there is
// one, completes with it.
func TestCompletionNamesEverything(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := mustExec(t, "completion", shell)
		for _, name := range tools {
			if !strings.Contains(script, name) {
				t.Errorf("%s: no %s", shell, name)
			}
		}
		for _, c := range ldbCommands() {
			if !strings.Contains(script, c.name+" ") {
				t.Errorf("%s: no %s", shell, c.name)
			}
		}
	}
	check(t, "", "completion wants bash, zsh or fish", 2, "completion", "csh")
	check(t, "", "completion wants bash, zsh or fish", 2, "completion")
	for _, name := range tools {
		if r := exec(t, "", "help", name); name != "help" && r.status != 0 {
			t.Errorf("help %s: %+v", name, r)
		}
	}
	bash, err := osexec.LookPath("bash")
	if err != nil {
		t.Log("no bash here: its script is not run")
		return
	}
	for _, c := range []struct{ words, want string }{
		{"flatrock comp", "completion"}, {"flatrock ldb reduce", "reduce_levels"}, {"flatrock ldb --db=x --new_l", "--new_levels"},
		{"flatrock sst_dump --set_b", "--set_block_size"}, {"flatrock doctor --no", "--no-checksums"}, {"flatrock completion z", "zsh"},
	} {
		drive := mustExec(t, "completion", "bash") + "COMP_WORDS=(" + c.words + ")\nCOMP_CWORD=$((${#COMP_WORDS[@]}-1))\n_flatrock\necho \"${COMPREPLY[@]}\"\n"
		out, err := osexec.Command(bash, "-c", drive).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != c.want {
			t.Errorf("%q completes to %q, %v; want %s", c.words, out, err, c.want)
		}
	}
}
