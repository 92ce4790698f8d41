package stress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/flatrock-db/flatrock"
)

// worker does random operations. Its random numbers are its own, so a seed gives
// the same operations whatever the others do.
type worker struct {
	*round
	id  int
	rng *rand.Rand

	held   []held
	broken bool // writes are refused: only read

	tracing   bool // this worker has begun a block cache trace
	iterator  *heldIterator
	secondary *round // a database that follows this one
	backups   []madeBackup
	batch     flatrock.Batch
}

// everything is a bound that nothing passes.
const everything = 1<<62 - 1

// step does one operation.
func (w *worker) step() error {
	switch op := w.rng.IntN(1000); {
	case op < 470:
		return w.write()
	case op < 680:
		return w.checkNow(w.rng.IntN(len(w.specs)), w.rng.IntN(w.cfg.Keys), w.rng.IntN(3) == 0)
	case op < 815:
		return w.checkSnapshot()
	case op < 850:
		return w.hold()
	case op < 915:
		return w.checkHeld()
	case op < 945:
		return w.checkIterator()
	case op < 955:
		return w.catchUp()
	default:
		return w.seldom(op - 955)
	}
}

// seldom does one of the operations that cost more; op is below 45.
func (w *worker) seldom(op int) error {
	f := w.rng.IntN(len(w.specs))
	cf := w.families[f]
	ctx := context.Background()
	if w.broken && op < 25 {
		return nil
	}
	switch {
	case op < 12:
		o := flushOptions(w.rng)
		if o.NoWait {
			return cf.Flush(ctx, o)
		}
		return w.barrier(f, func() error { return cf.Flush(ctx, o) })
	case op < 18:
		o := compactRangeOptions(w.rng)
		if w.rng.IntN(2) == 0 {
			return refused(o, paused(w.barrier(f, func() error { return cf.CompactRange(ctx, o, nil, nil) })))
		}
		from := w.rng.IntN(w.cfg.Keys)
		start, end := rangeOf(w.specs[f].keys, w.specs[f].reverse, from, min(w.cfg.Keys, from+1+w.rng.IntN(w.cfg.Keys)))
		return refused(o, paused(cf.CompactRange(ctx, o, start, end)))
	case op < 23:
		if w.opts.noWAL {
			return nil
		}
		if w.rng.IntN(2) == 0 {
			return w.barrier(-1, w.db.SyncWAL)
		}
		return w.barrierOf(-1, w.rng.IntN(2) == 0)
	case op < 25:
		return w.transient()
	case op < 26:
		return w.db.VerifyChecksum(ctx)
	case op < 27:
		w.db.Metrics()
		return nil
	case op < 28:
		return w.checkSnapshot()
	default:
		return w.seldomNewer(op - 28)
	}
}

// barrier does something after which a family, or all of them, is durable.
func (w *worker) barrier(family int, do func() error) error {
	return w.bar(family, true, do)
}

// barrierOf is FlushWAL.
func (w *worker) barrierOf(family int, sync bool) error {
	return w.bar(family, sync, func() error { return w.db.FlushWAL(sync) })
}

func (w *worker) bar(family int, sync bool, do func() error) error {
	b := w.h.beginBarrier(w.id, family, sync)
	if b == nil {
		return errTraceFull
	}
	err := do()
	w.h.end(b, err)
	return err
}

// errTraceFull ends a round: the state file holds no more.
var errTraceFull = errors.New("the trace is full")

// write makes a random batch and writes it.
func (w *worker) write() error {
	if w.broken {
		return nil
	}
	n := 1 + w.rng.IntN(3)
	if w.rng.IntN(30) == 0 {
		n = 1 + w.rng.IntN(30)
	}
	draft := make([]entry, n)
	for i := range draft {
		draft[i] = w.draft()
	}
	locked := w.lockKeys(draft)
	defer func() {
		for _, k := range locked {
			k.lock.Unlock()
		}
	}()
	entries := w.settle(draft)
	if len(entries) == 0 {
		return nil
	}
	wo := w.opts.drawWrite(w.rng, w.cfg.Sync)
	record := w.h.begin(w.id, entries, wo.Sync)
	if record == nil {
		return errTraceFull
	}
	batch, err := w.build(record)
	if err == nil {
		err = w.db.Write(wo, batch)
	}
	w.h.end(record, err)
	if wo.NoSlowdown && errors.Is(err, flatrock.ErrIncomplete) {
		return nil // it would have had to wait
	}
	return err
}

// draft draws an entry; what it can be for its key, settle decides.
func (w *worker) draft() entry {
	f := w.rng.IntN(len(w.specs))
	e := entry{family: f, key: w.rng.IntN(w.cfg.Keys), id: w.h.newValue()}
	if w.rng.IntN(4) == 0 {
		e.key = w.rng.IntN(1 + w.cfg.Keys/20) // some keys are hot
	}
	switch op := w.rng.IntN(100); {
	case op < 40:
		e.kind = putEntry
	case op < 50:
		e.kind = entityEntry
		e.id |= uint64(1+w.rng.IntN(255)) << tagShift
	case op < 70:
		e.kind = deleteEntry
	case op < 94:
		e.kind = mergeEntry
	case w.specs[f].allowsRanges():
		e.kind = rangeEntry
		e.end = min(w.cfg.Keys, e.key+1+w.rng.IntN(25))
		e.id = 0
	default:
		e.kind = deleteEntry
	}
	return e
}

// lockKeys locks the keys of the entries, in an order that all workers keep.
func (w *worker) lockKeys(entries []entry) []*keyHistory {
	type place struct{ family, key int }
	var places []place
	for _, e := range entries {
		end := e.key + 1
		if e.kind == rangeEntry {
			end = e.end
		}
		for i := e.key; i < end; i++ {
			places = append(places, place{e.family, i})
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.key, b.key))
	})
	places = slices.Compact(places)
	locked := make([]*keyHistory, len(places))
	for i, p := range places {
		locked[i] = &w.h.keys[p.family][p.key]
		locked[i].lock.Lock()
	}
	return locked
}

// isSingle says which keys are removed by SingleDelete, and so written only while
// they have no value.
func isSingle(key int) bool { return key%8 == 7 }

// settle turns drafts into what the contract of SingleDelete allows. The keys are
// locked.
func (w *worker) settle(draft []entry) []entry {
	type place struct{ family, key int }
	exists := map[place]bool{}
	var out []entry
	for _, e := range draft {
		p := place{e.family, e.key}
		if e.kind == rangeEntry {
			for i := e.key; i < e.end; i++ {
				exists[place{e.family, i}] = false
			}
			out = append(out, e)
			continue
		}
		if !isSingle(e.key) {
			if e.kind == deleteEntry {
				e.id = 0
			}
			out = append(out, e)
			continue
		}
		has, known := exists[p]
		if !known {
			has = w.h.keys[e.family][e.key].current() != 0
		}
		if has {
			e.kind, e.id = singleDeleteEntry, 0
		} else if e.kind != entityEntry {
			e.kind = putEntry
		}
		exists[p] = !has
		out = append(out, e)
	}
	return out
}

// take makes a snapshot and says what must be in it.
func (w *worker) take() (held, error) {
	must := w.h.clock.Load()
	snap, err := w.db.NewSnapshot()
	if err != nil {
		return held{}, err
	}
	return held{snapshotView{w.families, snap}, bounds{must: must, mustSync: must, may: w.h.clock.Load(), live: true}}, nil
}

func (w *worker) check(s held) error {
	c, err := w.h.readCut(s, s.b)
	if err == nil {
		err = c.checkSome(s.snapshotView, w.specs, w.rng)
	}
	if err != nil {
		return fmt.Errorf("snapshot %d: %w", s.snap.Sequence(), err)
	}
	return nil
}

func (w *worker) checkSnapshot() error {
	s, err := w.take()
	if err != nil {
		return err
	}
	defer s.snap.Release()
	return w.check(s)
}

// maxHeld is how many snapshots a worker holds.
const maxHeld = 3

func (w *worker) hold() error {
	if len(w.held) == maxHeld {
		w.held[0].snap.Release()
		w.held = w.held[1:]
	}
	s, err := w.take()
	if err == nil {
		w.held = append(w.held, s)
	}
	return err
}

// checkHeld compares a snapshot from some time ago.
func (w *worker) checkHeld() error {
	if len(w.held) == 0 {
		return nil
	}
	i := w.rng.IntN(len(w.held))
	err := w.check(w.held[i])
	if w.rng.IntN(3) == 0 {
		w.held[i].snap.Release()
		w.held = slices.Delete(w.held, i, i+1)
	}
	return err
}

func (w *worker) releaseAll() {
	for _, s := range w.held {
		s.snap.Release()
	}
	w.held = nil
	if w.tracing {
		w.db.EndBlockCacheTrace() // what a trace lacks is not what is tested here
	}
	w.letGo()
}

// letGo closes what is held beside snapshots: that it fails a fault may cause, and is no
// loss.
func (w *worker) letGo() {
	if w.iterator != nil {
		w.iterator.it.Close()
		w.iterator = nil
	}
	if w.secondary != nil {
		w.secondary.db.Close()
		w.secondary = nil
	}
}
