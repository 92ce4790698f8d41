package stress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// PowerLoss crashes an in-memory file system at a random operation of each round: it
// loses a random part of what was not synced, blocks, tails and directory entries.
// What a sync covered must survive, and what is lost must be a suffix. Default
// sizes are small, so that there are many rounds.
func PowerLoss(ctx context.Context, cfg Config, stats *Stats) error {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&cfg.Workers, 2)
	def(&cfg.Families, 2)
	def(&cfg.Keys, 40)
	def(&cfg.Ops, 60)
	def(&cfg.RoundsPerDB, 6)
	cfg = cfg.withDefaults()
	cfg.Dir = "/db"
	for number := cfg.Database; ; number++ {
		s := newSession(cfg, number, cfg.Dir, harness{mapped: true}, stats)
		stats.Databases.Add(1)
		mem := mmapfs.NewMem()
		b := bounds{}
		for round := range uint64(cfg.RoundsPerDB) {
			if ctx.Err() != nil || cfg.Rounds > 0 && int(stats.Rounds.Load()) >= cfg.Rounds {
				return nil
			}
			var err error
			done := s.watchRound("power loss", round)
			mem, b, err = s.powerRound(round, mem, b)
			if done(); err != nil {
				return s.failure("power loss", round, err)
			}
			stats.Rounds.Add(1)
			stats.Kills.Add(1)
		}
		if number%16 == 0 {
			cfg.Log("power loss: database %d: fine; %s", number, stats)
		}
	}
}

// powerRound opens what the last crash left, whose content b bounds, works, and
// crashes. It returns the file system and the bounds for the next round.
func (s *session) powerRound(number uint64, mem *mmapfs.MemFS, b bounds) (*mmapfs.MemFS, bounds, error) {
	rng := s.cfg.rng("power", s.number, number)
	p := &powerCut{mem: mem, h: s.h, rng: rand.New(rand.NewPCG(rng.Uint64(), 1))}
	p.kinds, p.at = mmapfs.OpAll, 1+rng.IntN(40+s.cfg.Ops*12)
	if rng.IntN(2) == 0 { // near the steps that seldom come
		p.kinds = pick(rng, mmapfs.OpRemove, mmapfs.OpRename|mmapfs.OpCreate, mmapfs.OpSync, mmapfs.OpSyncDir)
		p.at = 1 + rng.IntN(12)
	}
	fault := mmapfs.NewFault(mem)
	fault.SetHook(p.operation)
	r := &round{session: s, number: number, opts: s.drawOptions(fault, number)}
	p.promise = r.opts.promise()
	if rng.IntN(5) == 0 { // crash while it recovers from the last crash
		p.kinds, p.at = mmapfs.OpAll, 1+rng.IntN(60)
		p.arm()
	}
	err := r.openDB()
	if err == nil {
		if p.fired() {
			// What was there is still all that may be there, and nothing was added.
			return p.after, b, r.db.Close()
		}
		err = r.adopt(b)
		p.arm()
		if err == nil {
			err = r.work(context.Background(), s.cfg.Ops)
		}
		if err == nil {
			err = r.finish()
		}
		p.fire()
		err = errors.Join(err, r.db.Close(), r.opts.told.err())
	}
	if err != nil {
		return nil, b, fmt.Errorf("%w\n%s", err, listing(mem, s.dir))
	}
	return p.after, p.bounds, nil
}

// powerCut takes the image of the crash, at some operation of the file system.
type powerCut struct {
	mem     *mmapfs.MemFS
	h       *history
	rng     *rand.Rand
	promise promise

	mu     sync.Mutex
	armed  bool      // the generation has begun: the history knows what may be there
	kinds  mmapfs.Op // of operations that count
	at     int       // so many of them until the crash, which comes before the operation after
	after  *mmapfs.MemFS
	bounds bounds
}

func (p *powerCut) operation(op mmapfs.Op, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.armed || p.after != nil:
	case p.at <= 0:
		p.crash()
	case op&p.kinds != 0:
		p.at--
	}
	return nil
}

func (p *powerCut) arm() {
	p.mu.Lock()
	p.armed, p.at = true, max(p.at, 1)
	p.mu.Unlock()
}

// fired reports whether the crash has happened; if not, it waits until armed again.
func (p *powerCut) fired() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	return p.after != nil
}

// fire crashes now, if that has not happened yet.
func (p *powerCut) fire() {
	p.mu.Lock()
	if p.after == nil {
		p.crash()
	}
	p.mu.Unlock()
}

// crash reads the clock before and after it takes the image: a batch that returns or
// begins in between counts as one that need not, or may, be there.
func (p *powerCut) crash() {
	must := p.h.clock.Load()
	p.after = p.mem.Crash(p.rng)
	p.bounds = bounds{mustSync: must, may: p.h.clock.Load(), perFamily: p.promise.perFamily()}
}

// listing is what a directory holds, for messages.
func listing(fsys *mmapfs.MemFS, dir string) string {
	names, err := fsys.List(dir)
	if err != nil {
		return err.Error()
	}
	out := ""
	for _, n := range names {
		if info, err := fsys.Stat(dir + "/" + n); err == nil {
			out += fmt.Sprintf("%s %d\n", n, info.Size())
		}
	}
	return out
}
