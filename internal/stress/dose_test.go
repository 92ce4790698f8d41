package stress

import (
	"context"
	"fmt"
	"os"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// runEnv makes the test binary run one dose of a harness.
const runEnv = "FLATROCK_STRESS_RUN"

type harnessDose struct {
	name string
	run  func(ctx context.Context, stats *Stats, short bool) error
}

// doses are what CI runs of each harness, in the order in which the mutation test
// tries them.
var doses = []harnessDose{
	{"power loss", func(ctx context.Context, stats *Stats, short bool) error {
		return PowerLoss(ctx, Config{Seed: 1, Rounds: dose(short, 100, 600)}, stats)
	}},
	{"live", func(ctx context.Context, stats *Stats, short bool) error {
		return Live(ctx, Config{Seed: 1, Dir: "/db", Rounds: dose(short, 3, 10), Ops: dose(short, 500, 1000)}, mmapfs.NewMem(), stats)
	}},
	{"faults", func(ctx context.Context, stats *Stats, short bool) error {
		return Faults(ctx, Config{Seed: 1, Rounds: dose(short, 30, 150)}, stats)
	}},
	{"metamorphic", func(ctx context.Context, stats *Stats, short bool) error {
		return Metamorphic(ctx, Config{Seed: 1, Rounds: dose(short, 4, 24)}, stats)
	}},
	{"black box", func(ctx context.Context, stats *Stats, short bool) error {
		dir, err := os.MkdirTemp("", "flatrock-stress-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		return BlackBox(ctx, Config{Seed: 1, Dir: dir, Rounds: dose(short, 8, 24)}, !short, spawn, stats)
	}},
}

func dose(short bool, small, large int) int {
	if short {
		return small
	}
	return large
}

// runDose runs the dose of that name and prints what came of it.
func runDose(name string) int {
	for _, d := range doses {
		if d.name != name {
			continue
		}
		var stats Stats
		if err := d.run(context.Background(), &stats, false); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(&stats)
		return 0
	}
	fmt.Println("no such harness:", name)
	return 2
}
