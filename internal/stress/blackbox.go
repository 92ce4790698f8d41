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
	rng := cfg.rng("kills")
	for number := uint64(0); ; number++ {
		dir := filepath.Join(cfg.Dir, "db")
		if err := errors.Join(os.RemoveAll(dir), removeFile(filepath.Join(cfg.Dir, stateName))); err != nil {
			return err
		}
		stats.Databases.Add(1)
		for round := range uint64(cfg.RoundsPerDB) {
			spec := ChildSpec{Seed: cfg.Seed, Dir: cfg.Dir, Workers: cfg.Workers, Families: cfg.Families, Keys: cfg.Keys, Ops: cfg.Ops, Sync: cfg.Sync,
				Database: number, Round: round, Faults: faults && rng.IntN(2) == 0}
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
	cmd := spawn(string(text))
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
		timer := time.AfterFunc(after/10, kill)
		defer timer.Stop()
	}
	var done childReport
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == childReady && !early && !spec.Check {
			timer := time.AfterFunc(after, kill)
			defer timer.Stop()
		}
		if rest, ok := bytes.CutPrefix(lines.Bytes(), []byte(childDone)); ok {
			if err := json.Unmarshal(rest, &done); err != nil {
				return err
			}
		}
	}
	io.Copy(io.Discard, out)
	err = cmd.Wait()
	stats.Operations.Add(done.Operations)
	stats.Injected.Add(done.Injected)
	if n, err := spec.traced(); err == nil { // no error: an early death leaves no file
		stats.Writes.Add(n)
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
	return fmt.Errorf("black box, seed %d, database %d, round %d: the child says %w\n%s", spec.Seed, spec.Database, spec.Round, err, tail(diag.Bytes()))
}

// What a child prints.
const (
	childReady = "ready"
	childDone  = "done "
)

// childReport comes from a child that ends by itself.
type childReport struct{ Operations, Injected int64 }

func (spec *ChildSpec) config() Config {
	return Config{Seed: spec.Seed, Dir: spec.Dir, Workers: spec.Workers, Families: spec.Families, Keys: spec.Keys, Ops: spec.Ops, Sync: spec.Sync}.withDefaults()
}

// traced is how many batches the trace of the generation holds.
func (spec *ChildSpec) traced() (n int64, err error) {
	cfg := spec.config()
	h, err := openStateFile(filepath.Join(spec.Dir, stateName), shapeOf(cfg, cfg.drawFamilies(spec.Database)), traceWords)
	if err != nil {
		return 0, err
	}
	for i := range h.logs {
		n += int64(len(h.logs[i].batches))
	}
	return n, h.file.close()
}

func tail(b []byte) []byte { return b[max(0, len(b)-6000):] }

// Child is the process that BlackBox kills: it proves that the database holds what
// the state file says, and works on until it dies or has done its operations.
func Child(text string, stdout io.Writer) error {
	var spec ChildSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return fmt.Errorf("the child's orders: %w", err)
	}
	cfg := spec.config()
	stats := new(Stats)
	fsys := mmapfs.FS(mmapfs.OS)
	s := newSession(cfg, spec.Database, filepath.Join(spec.Dir, "db"), harness{direct: directWorks(spec.Dir), ingest: true}, stats)
	var f *faults
	if spec.Faults {
		s.harness.flips = true
		f = newFaults(fsys, cfg.rng("faults", spec.Database, spec.Round), true)
		fsys = f.fs
		s.harness.direct = false // what goes around the page cache goes around the faults
	}
	var err error
	if s.h, err = openStateFile(filepath.Join(spec.Dir, stateName), shapeOf(cfg, s.specs), traceWords); err != nil {
		return err
	}
	err = s.childRound(spec, fsys, f, stdout)
	report := childReport{Operations: stats.Operations.Load()}
	if f != nil {
		report.Injected = f.failed.Load() + f.flipped.Load()
	}
	line, jerr := json.Marshal(report)
	_, werr := fmt.Fprintf(stdout, "%s%s\n", childDone, line)
	return errors.Join(err, s.h.file.close(), jerr, werr)
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
			if err = r.finish(); f != nil && f.tolerate(err) {
				err = nil
			}
		}
	}
	cerr := r.db.Close()
	if cerr == nil {
		s.h.file.closed()
	} else if f != nil && f.tolerate(cerr) {
		cerr = nil
	}
	return errors.Join(err, cerr)
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
