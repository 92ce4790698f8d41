package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/internal/stress"
	"github.com/flatrock-db/flatrock/mmapfs"
)

const stressText = `flatrock stress [options]

Random operations on databases of its own, which are taken down in every way and checked
key by key afterwards. It ends at the first wrong answer, and says how to see it again.

    --mode=all             all of these in turn (the default), or one of
           live            rounds that end in good order
           blackbox        a process that is killed at random times (kill -9)
           whitebox        the same, killed at named steps too: needs a binary built
                           with -tags flatrock_killpoints
           faults          file operations fail with odds, bits flip, the disk fills
           powerloss       what was not synced is lost, in part, in a file system in memory
           metamorphic     scripts of operations give the same answers whatever the options
    --db=DIR               where databases lie; its content is removed. Default: a
                           temporary directory, in RAM if there is one
    --duration=60s         how long, in all; 0 for no end
    --rounds=N             how many rounds of each mode at most
    --seed=N               of options and operations; default: drawn, and printed
    --database=N           begin with database number N of the seed, such as the one that failed
    --threads=N --column_families=N --keys=N --ops_per_thread=N
    --sync=N               how many writes of a hundred are synced; default 10
    --faults               blackbox: file operations fail too
    --kill_odds=N          whitebox: one of so many steps kills; default 300
    --script=FILE          metamorphic: play a script that was printed, or - for standard input
    --quiet                print the end only

What is checked, and what each mode has found, is in doc/testing.md.

Examples:
    flatrock stress --mode=blackbox --duration=10m
    flatrock stress --mode=metamorphic --seed=7 --rounds=100
`

var stressOptions = []string{"mode", "db", "duration", "rounds", "seed", "database", "threads", "column_families", "keys", "ops_per_thread",
	"sync", "faults", "kill_odds", "script", "quiet", "child", "help"}

// stress runs the harnesses of internal/stress.
func (a *app) stress(args []string) error {
	arg := parseArguments(args)
	if name, found := arg.unknown(stressOptions); found {
		return usagef("stress: unknown option --%s; see flatrock help stress", name)
	}
	if len(arg.words) > 0 {
		return usagef("stress: unexpected %q; see flatrock help stress", arg.words[0])
	}
	if arg.has("help") {
		return a.help([]string{"stress"})
	}
	if arg.has("child") {
		return stress.Child(arg.text("child"), os.Stdout)
	}
	if arg.has("script") {
		return a.stressScript(arg.text("script"))
	}
	r, err := readStress(&arg)
	if err != nil {
		return err
	}
	ctx := a.ctx
	if r.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.duration)
		defer cancel()
	}
	if !arg.has("quiet") {
		r.cfg.Log = func(format string, args ...any) {
			fmt.Fprintf(a.out, format+"\n", args...)
			a.out.Flush()
		}
	}
	if r.cfg.Dir == "" {
		if r.cfg.Dir, err = os.MkdirTemp(memoryDir(), "flatrock-stress-"); err != nil {
			return err
		}
		defer os.RemoveAll(r.cfg.Dir)
	}
	return a.runStress(ctx, r)
}

// stressScript plays a script of the metamorphic test.
func (a *app) stressScript(name string) error {
	in, err := a.readFrom(name)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(in)
	if err = errors.Join(err, in.Close()); err != nil {
		return err
	}
	if err := stress.ReplayScript(string(text)); err != nil {
		return fmt.Errorf("stress: %s: %w", name, err)
	}
	fmt.Fprintln(a.out, "both option sets answer the same")
	return nil
}

// memoryDir is a directory in RAM, or "" for where temporary files lie otherwise.
func memoryDir() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// stressRun is what the command line asks for.
type stressRun struct {
	cfg      stress.Config
	modes    []string
	duration time.Duration
	faults   bool
	killOdds uint64
	same     []string // arguments that a replay needs too
}

var stressModes = []string{"live", "blackbox", "faults", "powerloss", "metamorphic"}

func readStress(arg *arguments) (*stressRun, error) {
	r := &stressRun{faults: arg.flag("faults"), duration: time.Minute}
	r.cfg.Dir = arg.text("db")
	if r.cfg.Dir != "" {
		r.cfg.Dir = filepath.Join(r.cfg.Dir, "stress") // what is removed is ours
	}
	for _, n := range []struct {
		name   string
		to     *int
		absent int
	}{
		{"rounds", &r.cfg.Rounds, 0}, {"threads", &r.cfg.Workers, 0}, {"column_families", &r.cfg.Families, 0}, {"keys", &r.cfg.Keys, 0},
		{"ops_per_thread", &r.cfg.Ops, 0}, {"sync", &r.cfg.Sync, 10},
	} {
		v, err := arg.number(n.name, uint64(n.absent))
		if err != nil {
			return nil, err
		}
		if v > 1<<20 {
			return nil, usagef("--%s: %d is too many", n.name, v)
		}
		*n.to = int(v)
	}
	if r.cfg.Sync == 0 {
		r.cfg.Sync = -1
	}
	if r.cfg.Workers > 64 || r.cfg.Families > 32 {
		return nil, usagef("at most 64 threads and 32 column families")
	}
	var err error
	if r.cfg.Seed, err = arg.number("seed", uint64(time.Now().UnixNano())); err != nil {
		return nil, err
	}
	if r.cfg.Database, err = arg.number("database", 0); err != nil {
		return nil, err
	}
	if r.killOdds, err = arg.number("kill_odds", 300); err != nil {
		return nil, err
	}
	if s := arg.text("duration"); s != "" {
		if r.duration, err = time.ParseDuration(s); err != nil || r.duration < 0 {
			return nil, usagef("--duration: expected such as 30s or 5m, found %q", s)
		}
	}
	for _, name := range []string{"threads", "column_families", "keys", "ops_per_thread", "sync", "kill_odds", "faults"} {
		if arg.has(name) {
			r.same = append(r.same, strings.TrimSuffix("--"+name+"="+arg.text(name), "="))
		}
	}
	r.modes = stressModes
	if stress.HasKillPoints {
		r.modes = append(slices.Clone(stressModes), "whitebox")
	}
	if m := arg.text("mode"); m != "" && m != "all" {
		if m != "whitebox" && !slices.Contains(stressModes, m) {
			return nil, usagef("--mode: expected all, live, blackbox, whitebox, faults, powerloss or metamorphic, found %q", m)
		}
		r.modes = []string{m}
	}
	return r, nil
}

// runStress gives each mode its share of the time.
func (a *app) runStress(ctx context.Context, r *stressRun) error {
	fmt.Fprintf(a.out, "stress: seed %d\n", r.cfg.Seed)
	a.out.Flush()
	for i, mode := range r.modes {
		share, cancel := ctx, context.CancelFunc(func() {})
		if deadline, ok := ctx.Deadline(); ok {
			share, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(r.modes)-i))
		}
		start := time.Now()
		var stats stress.Stats
		err := a.runStressMode(share, mode, r, &stats)
		cancel()
		if err != nil {
			return fmt.Errorf("%w\n%s: failed, after %s: %s\nTo see it again: %s", err, mode, time.Since(start).Round(time.Second), &stats, r.again(mode, &stats))
		}
		fmt.Fprintf(a.out, "%s: passed, in %s: %s\n", mode, time.Since(start).Round(time.Second), &stats)
		steps := stats.Steps()
		for _, s := range slices.Sorted(maps.Keys(steps)) {
			fmt.Fprintf(a.out, "    killed %5d times at: %s\n", steps[s], s)
		}
		a.out.Flush()
	}
	return nil
}

// again is the command that draws the same once more.
func (r *stressRun) again(mode string, stats *stress.Stats) string {
	out := fmt.Sprintf("flatrock stress --mode=%s --seed=%d", mode, r.cfg.Seed)
	if n := stats.Failed(); n > 0 {
		out += fmt.Sprintf(" --database=%d", n)
	}
	for _, arg := range r.same {
		out += " " + arg
	}
	return out
}

func (a *app) runStressMode(ctx context.Context, mode string, r *stressRun, stats *stress.Stats) error {
	cfg := r.cfg
	switch mode {
	case "live":
		cfg.Dir = filepath.Join(cfg.Dir, "live")
		return stress.Live(ctx, cfg, mmapfs.OS, stats)
	case "faults":
		return stress.Faults(ctx, cfg, stats)
	case "powerloss":
		return stress.PowerLoss(ctx, cfg, stats)
	case "metamorphic":
		return stress.Metamorphic(ctx, cfg, stats)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	odds := uint64(0)
	if mode == "whitebox" {
		if !stress.HasKillPoints {
			return errors.New("stress: whitebox needs a binary with kill points: go build -tags flatrock_killpoints ./cmd/flatrock")
		}
		odds = r.killOdds
	}
	return stress.BlackBox(ctx, cfg, r.faults, func(spec string) *osexec.Cmd {
		cmd := osexec.Command(self, "stress", "--child="+spec)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", stress.KillOddsEnv, odds))
		return cmd
	}, stats)
}
