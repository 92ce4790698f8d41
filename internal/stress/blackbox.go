package stress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flatrock-db/flatrock/internal/killpoint"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// ChildSpec is what a child process of BlackBox is told.
type ChildSpec struct {
	Seed     uint64
	Dir      string
	Workers  int
	Families int
	Keys     int
	Ops      int
	Sync     int
	Database uint64
	Round    uint64
	Faults   bool // file operations fail with odds
	Flips    bool // they do in some round of this database: files must be such that flipped bits are noticed
	Check    bool // open and compare, nothing else
}

// traceWords is the room of a worker's trace in the state file.
const traceWords = 1 << 17

// BlackBox runs rounds in child processes and kills each at a random time. spawn
// makes the command of a child, which calls Child with the text.
func BlackBox(ctx context.Context, cfg Config, faults bool, spawn func(spec string) *exec.Cmd, stats *Stats) error {
	cfg = cfg.withDefaults()
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return err
	}
	for number := cfg.Database; ; number++ {
		rng := cfg.rng("kills", number)
		dir := filepath.Join(cfg.Dir, "db")
		if err := errors.Join(removeDB(mmapfs.OS, dir), removeFile(filepath.Join(cfg.Dir, stateName))); err != nil {
			return err
		}
		stats.Databases.Add(1)
		for round := range uint64(cfg.RoundsPerDB) {
			spec := ChildSpec{Seed: cfg.Seed, Dir: cfg.Dir, Workers: cfg.Workers, Families: cfg.Families, Keys: cfg.Keys, Ops: cfg.Ops, Sync: cfg.Sync,
				Database: number, Round: round, Faults: faults && rng.IntN(2) == 0, Flips: faults}
			if ctx.Err() != nil || cfg.Rounds > 0 && int(stats.Rounds.Load()) >= cfg.Rounds {
				spec.Check = true
				return runChild(spec, rng, spawn, stats)
			}
			if err := runChild(spec, rng, spawn, stats); err != nil {
				return err
			}
			stats.Rounds.Add(1)
		}
		cfg.Log("black box: database %d: fine; %s", number, stats)
	}
}

const stateName = "expected-state"

func removeFile(name string) error {
	if err := os.Remove(name); err != nil && !notExist(err) {
		return err
	}
	return nil
}

// runChild starts a child and kills it. That it fails before is an error.
func runChild(spec ChildSpec, rng *rand.Rand, spawn func(string) *exec.Cmd, stats *Stats) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	before, err := spec.done()
	if err != nil { // there is no file yet
		before = doneSoFar{}
	}
	cmd := spawn(string(text))
	defer watch(func() { cmd.Process.Signal(syscall.SIGQUIT) })() // it prints its stacks
	var diag bytes.Buffer
	cmd.Stderr = &diag
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	kill := func() { cmd.Process.Kill() } // an error says that it is dead already
	early := !spec.Check && rng.IntN(8) == 0
	after := time.Duration(rng.Int64N(int64(600 * time.Millisecond)))
	if early {
		defer time.AfterFunc(after/10, kill).Stop()
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == childReady && !early && !spec.Check {
			defer time.AfterFunc(after, kill).Stop()
		}
	}
	io.Copy(io.Discard, out)
	err = cmd.Wait()
	if after, err := spec.done(); err == nil { // an early death leaves no file
		stats.Operations.Add(after.operations - before.operations)
		stats.Checks.Add(after.checks - before.checks)
		stats.Injected.Add(after.injected - before.injected)
		if after.generation > before.generation {
			stats.Writes.Add(after.writes)
		}
	}
	if err == nil {
		return nil
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			stats.Kills.Add(1)
			if _, rest, ok := bytes.Cut(diag.Bytes(), []byte(killpoint.Message)); ok {
				point, _, _ := bytes.Cut(rest, []byte("\n"))
				stats.killedAt(string(point))
			}
			return nil
		}
	}
	stats.failed(spec.Database)
	return fmt.Errorf("black box, seed %d, database %d, round %d: the child says %w\n%s", spec.Seed, spec.Database, spec.Round, err, tail(diag.Bytes()))
}

// childReady is what a child prints once it has proved what the last one left, and works.
const childReady = "ready"

func (spec *ChildSpec) config() Config {
	return Config{Seed: spec.Seed, Dir: spec.Dir, Workers: spec.Workers, Families: spec.Families, Keys: spec.Keys, Ops: spec.Ops, Sync: spec.Sync}.withDefaults()
}

// doneSoFar is what the children of a database did.
type doneSoFar struct {
	operations, checks, injected int64
	writes                       int64 // of the last generation alone
	generation                   uint64
}

// done reads it from the state file.
func (spec *ChildSpec) done() (d doneSoFar, err error) {
	name := filepath.Join(spec.Dir, stateName)
	if _, err := os.Stat(name); err != nil {
		return d, err
	}
	cfg := spec.config()
	h, err := openStateFile(name, shapeOf(cfg, cfg.drawFamilies(spec.Database)), traceWords)
	if err != nil {
		return d, err
	}
	d = doneSoFar{h.stats.Operations.Load(), h.stats.Checks.Load(), h.stats.Injected.Load(), 0, h.file.generation}
	for i := range h.logs {
		d.writes += int64(len(h.logs[i].batches))
	}
	return d, h.file.close()
}

func tail(b []byte) []byte { return b[max(0, len(b)-30000):] }

// Child is the process that BlackBox kills: it proves that the database holds what
// the state file says, and works on until it dies or has done its operations.
func Child(text string, stdout io.Writer) error {
	var spec ChildSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return fmt.Errorf("the child's orders: %w", err)
	}
	cfg := spec.config()
	fsys := mmapfs.FS(mmapfs.OS)
	h := harness{direct: directWorks(spec.Dir), modes: true, tails: true, ingest: true, flips: spec.Flips}
	s := newSession(cfg, spec.Database, filepath.Join(spec.Dir, "db"), h, nil)
	var err error
	if s.h, err = openStateFile(filepath.Join(spec.Dir, stateName), shapeOf(cfg, s.specs), traceWords); err != nil {
		return err
	}
	s.stats = s.h.stats
	var f *faults
	if spec.Faults {
		f = newFaults(fsys, cfg.rng("faults", spec.Database, spec.Round), true, s.stats)
		fsys = f.fs
		s.harness.modes = false  // another file system decides for itself
		s.harness.direct = false // what goes around the page cache goes around the faults
	}
	err = s.childRound(spec, fsys, f, stdout)
	s.h.file.count(s.h)
	return errors.Join(err, s.h.file.close())
}

func (s *session) childRound(spec ChildSpec, fsys mmapfs.FS, f *faults, stdout io.Writer) error {
	b, err := s.h.file.bounds()
	if err != nil {
		return err
	}
	r, err := s.open(spec.Round, fsys)
	if err != nil {
		return err
	}
	if f != nil {
		r.tolerate = f.tolerate
	}
	err = r.adopt(b)
	if err == nil && !spec.Check {
		if _, err = fmt.Fprintln(stdout, childReady); err == nil {
			if f != nil {
				f.switchTo(true)
			}
			err = r.work(context.Background(), s.cfg.Ops)
			if f != nil {
				f.switchTo(false)
			}
		}
		if err == nil && (f == nil || f.flipOdds == 0) {
			if err = errors.Join(r.finish(), r.checkModes()); f != nil && f.tolerate(err) {
				err = nil
			}
		}
	}
	cerr := r.db.Close()
	if cerr == nil && r.opts.closed().must == everything {
		s.h.file.closed()
	} else if f != nil && f.tolerate(cerr) {
		cerr = nil
	}
	return errors.Join(err, cerr, r.opts.told.err())
}

// directWorks asks whether files of the directory can be read around the page cache.
func directWorks(dir string) bool {
	name := filepath.Join(dir, "direct")
	if os.WriteFile(name, make([]byte, 4096), 0o600) != nil {
		return false
	}
	defer os.Remove(name)
	f, err := mmapfs.OpenDirect(mmapfs.OS, name)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.ReadAt(make([]byte, 8), 0)
	return err == nil
}

// HasKillPoints says whether this build kills itself at named steps; KillOddsEnv with
// the number N in a child's environment makes one of N steps do so.
const (
	HasKillPoints = killpoint.Enabled
	KillOddsEnv   = killpoint.OddsEnv
)
