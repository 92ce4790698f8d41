package stress

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestScriptsMeetAllOperations: what the language has is drawn, and so are families of both formats in one
// option set.
func TestScriptsMeetAllOperations(t *testing.T) {
	seen := map[string]bool{}
	both, several := false, false
	for seed := range uint64(24) {
		scene := drawScene(seed)
		for _, line := range drawScript(Config{Seed: seed}.rng("script"), scene, 500) {
			verb, _, _ := strings.Cut(line, " ")
			seen[verb] = true
			parts, _ := strings.CutPrefix(line, "batch ")
			families := map[uint64]bool{}
			for part := range strings.SplitSeq(parts, ";") {
				op, err := parseOperation(part)
				if err != nil {
					t.Fatal(err)
				}
				families[op.args[0]] = true
			}
			several = several || len(families) > 2
		}
		formats := map[bool]bool{}
		for _, f := range newPlayer(seed, 1).specs {
			formats[f.plain] = true
		}
		both = both || len(formats) == 2
	}
	for verb := range verbs {
		if !seen[verb] {
			t.Errorf("no script has %q", verb)
		}
	}
	if !both || !several {
		t.Errorf("families of both formats in one database: %v; batches over three families: %v", both, several)
	}
}

// TestScriptsShrink shrinks a script to what a failure needs: a line, and a part of a batch.
func TestScriptsShrink(t *testing.T) {
	s := drawScript(rand.New(rand.NewPCG(1, 1)), drawScene(1), 400)
	want := script{"batch merge 0 1 5", "reopen"}
	s = append(s, "batch put 0 1 7; merge 0 1 5; delete 0 3", "flush 0", "reopen")
	got := s.shrink(func(s script) bool {
		i := slices.IndexFunc(s, func(line string) bool { return strings.Contains(line, "merge 0 1 5") })
		return i >= 0 && slices.Contains(s[i:], "reopen")
	})
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDifferencesAreFoundAndReplay: an option set that forgets what a family merges after it was created anew is
// found, and the script that is printed shows it again.
func TestDifferencesAreFoundAndReplay(t *testing.T) {
	seed := uint64(0)
	broken := func(s script, seed, set uint64) (string, error) {
		if set == 3 {
			var t script
			created := false
			for _, line := range s {
				created = created || strings.HasPrefix(line, "create ")
				if !created || !strings.HasPrefix(line, "merge ") {
					t = append(t, line)
				}
			}
			s = t
		}
		return s.play(seed, set)
	}
	var err error
	for ; err == nil; seed++ { // not every script creates a family, and then merges
		if seed == 8 {
			t.Fatal("the difference was not found")
		}
		s := drawScript(Config{Seed: seed}.rng("script"), drawScene(seed), 200)
		err = s.compare(seed, 3, broken)
	}
	seed--
	at := strings.LastIndex(err.Error(), "\nseed ")
	c, perr := parseCase("# found today\n" + err.Error()[at:])
	if perr != nil {
		t.Fatal(perr)
	}
	if c.seed != seed || c.sets != [2]uint64{0, 3} || len(c.s) > 6 {
		t.Errorf("it was shrunk to %q, seed %d, sets %v", c.s, c.seed, c.sets)
	}
	if c.compare(broken) == nil {
		t.Error("the script that was printed shows nothing")
	}
	if err := ReplayScript(c.String()); err != nil {
		t.Errorf("without the bug: %v", err)
	}
}

func TestScriptsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "found no line",
		"put 0 1 2":                         "expected \"seed SEED sets A B\"",
		"seed 1 sets 0 1\nfly 1":            "line 2: no operation \"fly\"",
		"seed 1 sets 0 1\nput 0 x 1":        "line 2: ",
		"seed 1 sets 0 1\nbatch flush 0":    "no operation \"flush\" here",
		"seed 1 sets 0 1\nput 0 1 2 3 4 5":  "is no operation",
		"seed 1 sets 0 1\nbatch put 0 1 2;": "is no operation",
	} {
		if err := ReplayScript(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
