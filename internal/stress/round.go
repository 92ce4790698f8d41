package stress

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/leaks"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// session is the life of one database, from an empty directory on.
type session struct {
	cfg     Config
	harness harness
	number  uint64 // of the database
	dir     string
	specs   []familySpec
	h       *history
	stats   *Stats
}

// Stats counts what a run did. Safe for concurrent use.
type Stats struct {
	Rounds, Databases, Operations, Writes, Checks, Kills, Injected atomic.Int64

	mu     sync.Mutex
	steps  map[string]int // how often a named step killed
	broken uint64         // number of the database that failed
}

// failed notes on which database something was wrong.
func (s *Stats) failed(database uint64) {
	s.mu.Lock()
	s.broken = database
	s.mu.Unlock()
}

// Failed is the number of the database on which something was wrong: a run with the same seed
// that begins there (Config.Database) draws the same.
func (s *Stats) Failed() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

func (s *Stats) killedAt(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steps == nil {
		s.steps = map[string]int{}
	}
	s.steps[step]++
}

// Steps says how often each named step killed a process.
func (s *Stats) Steps() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.steps)
}

func (s *Stats) String() string {
	return fmt.Sprintf("%d rounds on %d databases, %d operations, %d writes, %d checks, %d kills, %d injected faults",
		s.Rounds.Load(), s.Databases.Load(), s.Operations.Load(), s.Writes.Load(), s.Checks.Load(), s.Kills.Load(), s.Injected.Load())
}

// newSession draws the formats of a database; its history is in memory.
func newSession(cfg Config, number uint64, dir string, h harness, stats *Stats) *session {
	specs := cfg.drawFamilies(number)
	s := &session{cfg: cfg, harness: h, number: number, dir: dir, specs: specs, h: newHistory(shapeOf(cfg, specs)), stats: stats}
	s.h.stats = stats
	return s
}

// round is one time that the database is open.
type round struct {
	*session
	number   uint64
	opts     roundOptions
	db       *flatrock.DB
	families []*flatrock.ColumnFamily
	// tolerate says whether an error is one that was injected. nil: none is.
	tolerate func(error) bool
	stop     atomic.Bool
}

// open opens the database for a round, on fsys, and looks at nothing yet.
func (s *session) open(number uint64, fsys mmapfs.FS) (*round, error) {
	r := &round{session: s, number: number, opts: s.drawOptions(fsys, number)}
	return r, r.openDB()
}

func (r *round) openDB() error {
	db, err := flatrock.Open(r.dir, &r.opts.db)
	if err != nil {
		return fmt.Errorf("Open: %w", err)
	}
	r.db = db
	r.families = r.families[:0]
	for i := range r.specs {
		cf := db.ColumnFamily(r.specs[i].name)
		if cf == nil {
			return errors.Join(fmt.Errorf("family %s is gone", r.specs[i].name), db.Close())
		}
		r.families = append(r.families, cf)
	}
	return nil
}

// adopt proves that the database holds what it must after whatever ended the round
// before, and begins a generation with that.
func (r *round) adopt(b bounds) error {
	v := snapshotView{r.families, nil}
	c, err := r.h.readCut(v, b)
	if err == nil {
		err = c.checkAll(v, r.specs)
	}
	if err != nil {
		return fmt.Errorf("after Open: %w", err)
	}
	if err := r.h.rebase(c, r.opts.promise()); err != nil {
		return err
	}
	for _, cf := range r.db.ColumnFamilies() { // left by a crash
		if strings.HasPrefix(cf.Name(), transientPrefix) {
			if err := r.db.DropColumnFamily(cf); err != nil {
				return err
			}
		}
	}
	return nil
}

// work lets the workers do so many operations each, or until the context ends or
// something is wrong.
func (r *round) work(ctx context.Context, ops int) error {
	var wg sync.WaitGroup
	errs := make([]error, r.cfg.Workers)
	for i := range r.cfg.Workers {
		w := &worker{round: r, id: i, rng: r.cfg.rng("worker", r.session.number, r.number, uint64(i))}
		wg.Go(func() {
			defer w.releaseAll()
			for n := 0; n < ops && !r.stop.Load() && ctx.Err() == nil; n++ {
				err := w.step()
				r.stats.Operations.Add(1)
				if r.h.file != nil {
					r.h.file.count(r.h)
				}
				if err == nil {
					continue
				}
				if errors.Is(err, errTraceFull) {
					return
				}
				if r.tolerate == nil || !r.tolerate(err) {
					errs[i] = fmt.Errorf("worker %d, operation %d: %w", i, n, err)
					r.stop.Store(true)
					return
				}
				w.broken = w.broken || errors.Is(err, flatrock.ErrBackground)
			}
		})
	}
	wg.Wait()
	for i := range r.h.logs {
		r.stats.Writes.Add(int64(len(r.h.logs[i].batches)))
	}
	return errors.Join(errs...)
}

// finish checks everything at the end of a round, when nobody works any more.
func (r *round) finish() error {
	v := snapshotView{r.families, nil}
	c, err := r.h.readCut(v, bounds{must: everything, mustSync: everything, live: true})
	if err == nil {
		err = c.checkAll(v, r.specs)
	}
	if err != nil {
		return fmt.Errorf("at the end of the round: %w", err)
	}
	return nil
}

// checkModes proves that the files of this opening have no rights but those of FileMode.
func (r *round) checkModes() error {
	mode := r.opts.db.FileMode
	if mode == 0 {
		return nil
	}
	newest := map[string]uint64{} // numbers
	names, err := r.opts.db.FS.List(r.dir)
	for _, name := range names {
		var number uint64
		for _, kind := range []string{"MANIFEST-", "OPTIONS-"} {
			if n, serr := fmt.Sscanf(name, kind+"%d", &number); n == 1 && serr == nil {
				newest[kind] = max(newest[kind], number)
			}
		}
	}
	for kind, number := range newest {
		info, serr := r.opts.db.FS.Stat(fmt.Sprintf("%s/%s%06d", r.dir, kind, number))
		if serr != nil {
			return errors.Join(err, serr)
		}
		if got := info.Mode(); got&^mode != 0 || got&0o600 != 0o600 {
			err = errors.Join(err, fmt.Errorf("%s has mode %v, with FileMode %v", info.Name(), got, mode))
		}
	}
	if len(newest) != 2 {
		err = errors.Join(err, fmt.Errorf("the directory has no MANIFEST or no OPTIONS: %q", names))
	}
	return err
}

// failure says where it happened, and how to see it again.
func (s *session) failure(harness string, round uint64, err error) error {
	if err == nil {
		return nil
	}
	s.stats.failed(s.number)
	return fmt.Errorf("%s, seed %d, database %d, round %d: %w", harness, s.cfg.Seed, s.number, round, err)
}

// Live runs rounds that end in good order.
func Live(ctx context.Context, cfg Config, fsys mmapfs.FS, stats *Stats) error {
	cfg = cfg.withDefaults()
	_, mem := fsys.(*mmapfs.MemFS)
	h := harness{mapped: mem, modes: fsys == mmapfs.FS(mmapfs.OS), tails: true, whole: true, ingest: true}
	for number := cfg.Database; ; number++ {
		if err := removeDB(fsys, cfg.Dir); err != nil {
			return err
		}
		s := newSession(cfg, number, cfg.Dir, h, stats)
		stats.Databases.Add(1)
		b := bounds{must: everything, mustSync: everything}
		for round := range uint64(cfg.RoundsPerDB) {
			if ctx.Err() != nil || cfg.Rounds > 0 && int(stats.Rounds.Load()) >= cfg.Rounds {
				return nil
			}
			var err error
			done := s.watchRound("live", round)
			b, err = s.liveRound(ctx, round, fsys, b)
			if done(); err != nil {
				return s.failure("live", round, err)
			}
			stats.Rounds.Add(1)
			cfg.Log("live: database %d, round %d: fine; %s", number, round, stats)
		}
	}
}

// liveRound returns the bounds of what it leaves.
func (s *session) liveRound(ctx context.Context, number uint64, fsys mmapfs.FS, b bounds) (bounds, error) {
	before := leaks.Now()
	r, err := s.open(number, fsys)
	if err != nil {
		return b, err
	}
	err = r.adopt(b)
	if err == nil {
		err = r.work(ctx, s.cfg.Ops)
	}
	if err == nil {
		err = errors.Join(r.finish(), r.checkModes())
	}
	if err = errors.Join(err, r.db.Close(), r.opts.told.err()); err == nil {
		err = before.Leaked()
	}
	return r.opts.closed(), err
}
