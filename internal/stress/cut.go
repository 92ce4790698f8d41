package stress

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/flatrock-db/flatrock"
)

// cut is the set of batches that a view holds: of each worker those up to a
// number, family by family where there is no log.
type cut struct {
	h      *history
	number [][]uint64 // by family and worker: as the counters say
	upTo   [][]uint64 // the same, or where all families must agree the largest of them
	live   bool       // the view is of the generation itself: failed batches are not in it
	last   []uint64   // by worker: its newest acknowledged batch
	only   int        // bounds.only
}

// view reads one moment of a database, by family and key.
type view interface {
	get(family int, key []byte) ([]byte, error)
}

// has reports whether the cut holds what a batch did to a family.
func (c *cut) has(b *batchRecord, family int) bool {
	if b.number > c.upTo[family][b.worker] {
		return false
	}
	// A batch that failed may be there only if nothing of its worker followed it: what follows it, followed a
	// Resume, which undid it.
	return !b.failed.Load() || !c.live && !b.refused.Load() && b.number > c.last[b.worker] && b.number == c.upTo[family][b.worker]
}

// bounds say which batches a view must and may hold.
type bounds struct {
	must      uint64 // acknowledged before this time: there
	mustSync  uint64 // acknowledged as durable before this time: there
	may       uint64 // begun after this time: not there; 0 for no limit
	perFamily bool   // no log: S1 and S3 hold family by family
	live      bool   // of a database that has been open since the generation began
	kill      bool   // barriers that only outlive a kill count
	only      int    // the view has family only-1; 0: all
	// began is when reading the view began, if its database is written on: what a failed batch left in a
	// log may be seen until a batch after it is acknowledged, and of those only the ones before count.
	began uint64
}

// families are those that a view has, by index.
func (h *history) families(only int) []int {
	if only > 0 {
		return []int{only - 1}
	}
	all := make([]int, len(h.Families))
	for i := range all {
		all[i] = i
	}
	return all
}

// readCut reads the counters of a view and proves S1, S3 and S4 of it.
func (h *history) readCut(v view, b bounds) (*cut, error) {
	c := &cut{h: h, live: b.live, only: b.only, last: make([]uint64, h.Workers), number: make([][]uint64, len(h.Families))}
	for f := range c.number {
		c.number[f] = make([]uint64, h.Workers)
	}
	for _, f := range h.families(b.only) {
		numbers := c.number[f]
		for w := range h.Workers {
			value, err := v.get(f, counterKey(w))
			switch {
			case errors.Is(err, flatrock.ErrNotFound):
			case err != nil:
				return nil, fmt.Errorf("family %d, counter of worker %d: %w", f, w, err)
			case len(value) != 8:
				return nil, fmt.Errorf("family %d, counter of worker %d: %x is no counter", f, w, value)
			default:
				numbers[w] = binary.LittleEndian.Uint64(value)
			}
			if numbers[w] < h.counter[f][w] {
				return nil, fmt.Errorf("family %d: the counter of worker %d is %d, and was %d when the round began", f, w, numbers[w], h.counter[f][w])
			}
		}
	}
	c.upTo = c.number
	if !b.perFamily {
		most := make([]uint64, h.Workers)
		for w := range most {
			for f := range h.Families {
				most[w] = max(most[w], c.number[f][w])
			}
		}
		c.upTo = make([][]uint64, len(h.Families))
		for f := range c.upTo {
			c.upTo[f] = most
		}
	}
	return c, c.check(b)
}

// snapshotLogs copies the lists of batches, so that workers may go on.
func (h *history) snapshotLogs() [][]*batchRecord {
	out := make([][]*batchRecord, h.Workers)
	for w := range out {
		l := &h.logs[w]
		l.mu.Lock()
		out[w] = l.batches[:len(l.batches):len(l.batches)]
		l.mu.Unlock()
	}
	return out
}

func (c *cut) check(b bounds) error {
	logs := c.h.snapshotLogs()
	for w, batches := range logs {
		for _, r := range batches {
			if end := r.end.Load(); !r.barrier && end != 0 && !r.failed.Load() && (b.began == 0 || end <= b.began) {
				c.last[w] = max(c.last[w], r.number)
			}
		}
	}
	if err := c.agree(logs); err != nil {
		return err
	}
	if !b.perFamily && b.only == 0 {
		if err := c.closed(logs, b, -1); err != nil {
			return err
		}
	}
	for _, f := range c.h.families(b.only) {
		if err := c.closed(logs, b, f); err != nil {
			return fmt.Errorf("family %d: %w", f, err)
		}
	}
	return nil
}

// agree proves S1: each counter is that of the newest batch of the cut which
// touches the family.
func (c *cut) agree(logs [][]*batchRecord) error {
	for _, f := range c.h.families(c.only) {
		want := append([]uint64(nil), c.h.counter[f]...)
		for w, batches := range logs {
			for _, r := range batches {
				if r.touches(f) && c.has(r, f) {
					want[w] = r.number
				}
			}
			if got := c.number[f][w]; got != want[w] {
				return fmt.Errorf("family %d has worker %d up to batch %d, and the others up to %d: it should have batch %d", f, w, got, c.upTo[f][w], want[w])
			}
		}
	}
	return nil
}

// closed proves S3 and S4 for a family, or with -1 for all of them together.
func (c *cut) closed(logs [][]*batchRecord, b bounds, family int) error {
	of := max(family, 0)        // together they all agree
	var lost, kept *batchRecord // the lost one that returned first, the kept one that began last
	consider := func(r *batchRecord) {
		if kept == nil || r.begin > kept.begin {
			kept = r
		}
	}
	for _, batches := range logs {
		for _, r := range batches {
			end := r.end.Load()
			acknowledged := end != 0 && !r.failed.Load()
			if r.barrier {
				if acknowledged && end <= b.mustSync && (r.sync || b.kill) && (r.barrierFamily == family || r.barrierFamily < 0) {
					consider(r)
				}
				continue
			}
			if family >= 0 && !r.touches(family) {
				continue
			}
			if c.has(r, of) {
				if b.may != 0 && r.begin > b.may {
					return fmt.Errorf("batch %d of worker %d is there, and began after the view was taken", r.number, r.worker)
				}
				consider(r)
				continue
			}
			if !acknowledged {
				continue
			}
			if end <= b.must || r.sync && end <= b.mustSync {
				return fmt.Errorf("batch %d of worker %d is lost (the counter is %d): it was acknowledged at %d (synced: %v), before %d (synced ones before %d)",
					r.number, r.worker, c.upTo[of][r.worker], end, r.sync, b.must, b.mustSync)
			}
			if lost == nil || end < lost.end.Load() {
				lost = r
			}
		}
	}
	if lost != nil && kept != nil && lost.end.Load() < kept.begin {
		what := fmt.Sprintf("batch %d of worker %d is there", kept.number, kept.worker)
		if kept.barrier {
			what = fmt.Sprintf("worker %d synced everything", kept.worker)
		}
		return fmt.Errorf("batch %d of worker %d is lost, which had returned at %d, and %s, which began later, at %d: what is lost is no suffix",
			lost.number, lost.worker, lost.end.Load(), what, kept.begin)
	}
	return nil
}

// checkKey proves S2 for one key.
func (c *cut) checkKey(family, key int, value []byte, exists bool) error {
	c.h.stats.Checks.Add(1)
	id, last := c.h.keys[family][key].at(c, family)
	if err := sameValue(id, value, exists); err != nil {
		by := "it had when the round began"
		if last != nil {
			by = fmt.Sprintf("batch %d of worker %d (at %d) left", last.number, last.worker, last.begin)
		}
		return fmt.Errorf("family %d, key %d %q: %w, which %s\n  its story: %s", family, key, c.h.Families[family].key(key), err, by, c.h.keys[family][key].story(c, family))
	}
	return nil
}

// sameValue compares what was read with the value of an id.
func sameValue(id uint64, value []byte, exists bool) error {
	if id == 0 {
		if exists {
			return fmt.Errorf("it has %s; want none", describe(value, exists))
		}
		return nil
	}
	if !exists || string(appendValue(nil, id)) != string(value) {
		return fmt.Errorf("it has %s; want the value of id %#x", describe(value, exists), id)
	}
	return nil
}
