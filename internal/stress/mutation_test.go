//go:build flatrock_mutations

package stress

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/internal/mutation"
)

// TestEveryMutationIsCaught switches on one bug after the other, and lets the harnesses
// run their doses until one of them notices. With FLATROCK_MUTATION_TABLE all
// of them run, for the table of doc/testing.md.
func TestEveryMutationIsCaught(t *testing.T) {
	table := os.Getenv("FLATROCK_MUTATION_TABLE") != ""
	for _, kind := range mutation.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			caught := false
			order := slices.Clone(doses)
			slices.SortStableFunc(order, func(a, b harnessDose) int {
				switch likely[kind] {
				case a.name:
					return -1
				case b.name:
					return 1
				}
				return 0
			})
			for _, d := range order {
				start := time.Now()
				out, found := underMutation(t, kind, d.name)
				verdict := "missed"
				if found {
					caught = true
					verdict = "CAUGHT"
				}
				t.Logf("| %s | %s | %s | %.1fs | %s", kind, d.name, verdict, time.Since(start).Seconds(), firstLine(out))
				if caught && !table {
					return
				}
			}
			if !caught {
				t.Errorf("no harness caught %s within its dose", kind)
			}
		})
	}
}

// likely are the bugs that another harness than the first is made for.
var likely = map[mutation.Kind]string{mutation.IgnoreChecksum: "faults"}

// underMutation runs a dose in a process with the bug.
func underMutation(t *testing.T, kind mutation.Kind, harness string) (out string, caught bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // a bug may also hang it
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), runEnv+"="+harness, mutation.Env+"="+string(kind))
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(b), err != nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s[:min(len(s), 160)]
}
