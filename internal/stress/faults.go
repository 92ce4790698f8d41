package stress

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// faults makes the operations of a FaultFS fail with odds, drawn for each round.
type faults struct {
	fs *mmapfs.FaultFS

	mu       sync.Mutex
	rng      *rand.Rand
	kinds    mmapfs.Op // that fail
	odds     int       // one of so many
	flipOdds int       // one of so many reads of tables has a bit flipped; 0: none
	diskOdds int       // one of so many operations fills or empties the disk; 0: none
	full     bool

	on      atomic.Bool
	flipped atomic.Int64
	stats   *Stats
}

// newFaults draws what fails.
func newFaults(base mmapfs.FS, rng *rand.Rand, flips bool, stats *Stats) *faults {
	f := &faults{fs: mmapfs.NewFault(base), rng: rng, stats: stats}
	f.odds = pick(rng, 30, 100, 300, 1000, 3000)
	f.kinds = pick(rng, mmapfs.OpAll, mmapfs.OpMutate, mmapfs.OpRead|mmapfs.OpOpen|mmapfs.OpMap, mmapfs.OpSync|mmapfs.OpSyncDir,
		mmapfs.OpWrite|mmapfs.OpMappedWrite|mmapfs.OpMapWrite, mmapfs.OpRename|mmapfs.OpCreate|mmapfs.OpRemove|mmapfs.OpStat|mmapfs.OpList)
	switch rng.IntN(4) {
	case 0:
		f.kinds, f.diskOdds = 0, pick(rng, 50, 300)
	case 1:
		if flips {
			f.kinds, f.flipOdds = 0, pick(rng, 3, 30, 300)
		}
	}
	f.fs.SetHook(f.operation)
	f.fs.SetReadHook(f.flip)
	return f
}

// switchTo turns the faults on or off; off, the disk has room again.
func (f *faults) switchTo(on bool) {
	f.on.Store(on)
	if !on {
		f.mu.Lock()
		f.full = false
		f.mu.Unlock()
		f.fs.FailWritesAfter(-1)
	}
}

func (f *faults) operation(op mmapfs.Op, _ string) error {
	if !f.on.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.diskOdds > 0 && op&mmapfs.OpMutate != 0 && f.rng.IntN(f.diskOdds) == 0 {
		f.full = !f.full
		room := int64(-1)
		if f.full {
			room = int64(f.rng.IntN(20000))
		}
		f.fs.FailWritesAfter(room)
	}
	if op&f.kinds != 0 && op&(mmapfs.OpClose|mmapfs.OpLock) == 0 && f.rng.IntN(f.odds) == 0 {
		f.stats.Injected.Add(1)
		return errInjected
	}
	return nil
}

var errInjected = errors.New("stress: this operation was to fail")

// flip flips a bit of what was read from a table.
func (f *faults) flip(name string, p []byte) {
	if f.flipOdds == 0 || !f.on.Load() || !strings.HasSuffix(name, ".sst") {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rng.IntN(f.flipOdds) == 0 {
		bit := f.rng.IntN(8 * len(p))
		p[bit/8] ^= 1 << (bit % 8)
		f.flipped.Add(1)
		f.stats.Injected.Add(1)
	}
}

// tolerate reports whether an error may come of the faults.
func (f *faults) tolerate(err error) bool {
	switch {
	case errors.Is(err, mmapfs.ErrInjected), errors.Is(err, errInjected):
		return true
	case f.flipped.Load() > 0 && (errors.Is(err, flatrock.ErrCorruption) || errors.Is(err, flatrock.ErrInvalidArgument)):
		return true // the meta blocks of plain tables have no checksums: what they say then seems to contradict the options
	}
	return false
}

// Faults lets file operations fail with odds, flips bits of what is read, and fills
// the disk now and then, mapped logs included. An error is allowed where
// something failed; a wrong answer never is, nor the loss of what was acknowledged,
// whether the process is then closed, killed or the machine loses its power.
func Faults(ctx context.Context, cfg Config, stats *Stats) error {
	if cfg.Ops == 0 {
		cfg.Ops = 300
	}
	if cfg.Keys == 0 {
		cfg.Keys = 100
	}
	cfg = cfg.withDefaults()
	cfg.Dir = "/db"
	for number := cfg.Database; ; number++ {
		s := newSession(cfg, number, cfg.Dir, harness{mapped: true, flips: true}, stats)
		stats.Databases.Add(1)
		mem, b := mmapfs.NewMem(), bounds{}
		for round := range uint64(cfg.RoundsPerDB) {
			if ctx.Err() != nil || cfg.Rounds > 0 && int(stats.Rounds.Load()) >= cfg.Rounds {
				return nil
			}
			var err error
			done := s.watchRound("faults", round)
			mem, b, err = s.faultRound(round, mem, b)
			if done(); err != nil {
				return s.failure("faults", round, err)
			}
			stats.Rounds.Add(1)
		}
		cfg.Log("faults: database %d: fine; %s", number, stats)
	}
}

func (s *session) faultRound(number uint64, mem *mmapfs.MemFS, b bounds) (*mmapfs.MemFS, bounds, error) {
	rng := s.cfg.rng("faults", s.number, number)
	f := newFaults(mem, rand.New(rand.NewPCG(rng.Uint64(), 1)), true, s.stats)
	r := &round{session: s, number: number, opts: s.drawOptions(f.fs, number), tolerate: f.tolerate}
	if rng.IntN(3) == 0 { // Open may fail, and then loses nothing
		f.switchTo(true)
		err := r.openDB()
		f.switchTo(false)
		switch {
		case err == nil:
			if err = r.db.Close(); err != nil && !f.tolerate(err) {
				return nil, b, fmt.Errorf("Close: %w", err)
			}
		case !f.tolerate(err):
			return nil, b, fmt.Errorf("with faults: %w", err)
		}
	}
	if err := r.openDB(); err != nil {
		return nil, b, err
	}
	err := r.adopt(b)
	if err == nil { // what the generation begins with may not have been synced yet, and this round may end without power
		err = r.db.SyncWAL()
	}
	if err == nil {
		f.switchTo(true)
		err = r.work(context.Background(), s.cfg.Ops)
		f.switchTo(false)
	}
	if err == nil && f.flipOdds == 0 {
		// What failed once may be gone for reads, but is never wrong.
		if err = r.finish(); f.tolerate(err) {
			err = nil
		}
	}
	next, b := s.endFaultRound(r, rng, mem)
	cerr := r.db.Close()
	if cerr != nil && f.tolerate(cerr) {
		cerr = nil
		if next == mem {
			b = r.opts.promise().killed()
		}
	}
	return next, b, errors.Join(err, cerr, r.opts.told.err())
}

// endFaultRound chooses how the round ends.
func (s *session) endFaultRound(r *round, rng *rand.Rand, mem *mmapfs.MemFS) (*mmapfs.MemFS, bounds) {
	switch rng.IntN(3) {
	case 0:
		return mem.Kill(), r.opts.promise().killed()
	case 1:
		return mem.Crash(rng), r.opts.promise().lostPower()
	}
	return mem, r.opts.closed()
}

// notExist reports whether err says that a file is missing.
func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
