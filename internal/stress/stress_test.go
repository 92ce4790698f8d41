package stress

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/flatrock-db/flatrock/internal/leaks/leaktest"
)

// TestDoses runs the CI dose of each harness.
func TestDoses(t *testing.T) {
	for _, d := range doses {
		t.Run(d.name, func(t *testing.T) {
			var stats Stats
			if err := d.run(context.Background(), &stats, testing.Short()); err != nil {
				t.Fatal(err)
			}
			t.Log(&stats)
		})
	}
}

const childEnv = "FLATROCK_STRESS_CHILD"

// spawn makes the test binary a child.
func spawn(spec string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+spec)
	return cmd
}

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := Child(spec, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if name := os.Getenv(runEnv); name != "" {
		os.Exit(runDose(name))
	}
	os.Exit(leaktest.Main(m))
}
