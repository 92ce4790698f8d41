//go:build flatrock_killpoints

package stress

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/flatrock-db/flatrock/internal/killpoint"
)

// TestWhiteBox lets children kill themselves at named steps.
func TestWhiteBox(t *testing.T) {
	stats := new(Stats)
	cfg := Config{Seed: 1, Dir: t.TempDir(), Rounds: 60}
	err := BlackBox(context.Background(), cfg, true, func(spec string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+spec, killpoint.OddsEnv+"=40")
		return cmd
	}, stats)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(stats, stats.Steps())
	if n := len(stats.Steps()); n < 8 {
		t.Errorf("only %d steps killed: %v", n, stats.Steps())
	}
}
