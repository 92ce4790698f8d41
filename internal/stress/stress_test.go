package stress

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestLive runs rounds with clean ends.
func TestLive(t *testing.T) {
	cfg := Config{Seed: 1, Dir: "/db", Rounds: 8, Ops: 1500}
	if testing.Short() {
		cfg.Rounds, cfg.Ops = 3, 500
	}
	var stats Stats
	cfg.Log = t.Logf
	if err := Live(context.Background(), cfg, mmapfs.NewMem(), &stats); err != nil {
		t.Fatal(err)
	}
	t.Log(&stats)
}

func TestPowerLoss(t *testing.T) {
	cfg := Config{Seed: 1, Rounds: 600}
	if testing.Short() {
		cfg.Rounds = 100
	}
	cfg.Log = t.Logf
	var stats Stats
	if err := PowerLoss(context.Background(), cfg, &stats); err != nil {
		t.Fatal(err)
	}
	t.Log(&stats)
}

func TestFaults(t *testing.T) {
	cfg := Config{Seed: 1, Rounds: 150, Log: t.Logf}
	if testing.Short() {
		cfg.Rounds = 30
	}
	var stats Stats
	if err := Faults(context.Background(), cfg, &stats); err != nil {
		t.Fatal(err)
	}
	t.Log(&stats)
}

func TestBlackBox(t *testing.T) {
	for _, faults := range []bool{false, true} {
		t.Run(fmt.Sprintf("faults=%v", faults), func(t *testing.T) {
			cfg := Config{Seed: 1, Dir: t.TempDir(), Rounds: 24, Log: t.Logf}
			if testing.Short() {
				cfg.Rounds = 6
			}
			var stats Stats
			if err := BlackBox(context.Background(), cfg, faults, spawn, &stats); err != nil {
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
	os.Exit(m.Run())
}
