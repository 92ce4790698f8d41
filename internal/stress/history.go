package stress

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock"
)

// entryKind is what an entry of a batch does.
type entryKind uint8

const (
	putEntry entryKind = iota + 1
	deleteEntry
	singleDeleteEntry
	mergeEntry
	rangeEntry
	entityEntry
)

func (k entryKind) String() string {
	return [...]string{"?", "put", "delete", "single delete", "merge", "delete range", "put entity"}[k]
}

// entry is one change of a batch. Keys are indices.
type entry struct {
	kind     entryKind
	family   int
	key, end int    // end: of a range, exclusive
	id       uint64 // of the value or operand
}

// batchRecord is what the trace holds of a batch. Its times are of the history's
// clock, which ticks with every event.
type batchRecord struct {
	worker  int
	number  uint64 // of the worker's batches, from 1
	begin   uint64
	sync    bool // acknowledged only once durable; of a barrier: makes durable, else it only outlives a kill
	entries []entry

	// barrier: no batch, but something that makes durable what had returned before it
	// began, of barrierFamily or, if that is negative, of all families.
	barrier       bool
	barrierFamily int

	end     atomic.Uint64 // when it returned; 0: it has not
	failed  atomic.Bool   // with an error. Set before end
	refused atomic.Bool   // with one that says that nothing was logged. Set before end

	slot int // where the state file has it
}

// touches reports whether the batch changes the family, and so has a counter there.
func (b *batchRecord) touches(family int) bool {
	for _, e := range b.entries {
		if e.family == family {
			return true
		}
	}
	return false
}

// change is an entry from the point of view of a key.
type change struct {
	batch *batchRecord
	kind  entryKind
	id    uint64
}

// apply is the value's id after the change.
func (c change) apply(id uint64) uint64 {
	switch c.kind {
	case putEntry, entityEntry:
		return c.id
	case mergeEntry:
		return merged(id, c.id)
	}
	return 0
}

// keyHistory is one key of one family.
type keyHistory struct {
	// lock is held by a writer of the key from before its batch begins until it
	// has returned, so that the changes of a key have an order; readers that want one
	// certain answer share it.
	lock sync.RWMutex

	mu      sync.Mutex
	base    uint64   // id of the value when the generation began
	changes []change // since; those of failed batches stay
	settled int      // how many of them have returned
	now     uint64   // id after all that were acknowledged
}

// history is the expected state of a database: what it held when the generation
// began, that is when it was last opened and found right, and every batch since.
type history struct {
	shape
	clock   atomic.Uint64
	nextID  atomic.Uint64
	keys    [][]keyHistory // by family and index
	counter [][]uint64     // by family and worker, when the generation began

	logs []workerLog // by worker
	file *stateFile  // nil: in memory only

	stats *Stats // counts operations, checks and faults; with a file, since the database began
}

// workerLog is the trace of a worker's batches of this generation.
type workerLog struct {
	mu      sync.Mutex
	first   uint64 // number of the first
	batches []*batchRecord
}

// shape is how large a history is.
type shape struct {
	Workers  int
	Families []keyspace
}

func newHistory(s shape) *history {
	h := &history{shape: s, logs: make([]workerLog, s.Workers), stats: new(Stats)}
	for _, f := range s.Families {
		h.keys = append(h.keys, make([]keyHistory, f.n))
		h.counter = append(h.counter, make([]uint64, s.Workers))
	}
	for i := range h.logs {
		h.logs[i].first = 1
	}
	h.clock.Store(1)
	return h
}

// newValue is an id that no value had before.
func (h *history) newValue() uint64 { return mix(h.nextID.Add(1)<<1)&idMask | 1 }

// begin records a batch that a worker is about to write. The locks of its keys are
// held. It returns nil when the trace is full: then the round is over.
func (h *history) begin(worker int, entries []entry, sync bool) *batchRecord {
	return h.record(&batchRecord{worker: worker, sync: sync, entries: entries})
}

// beginBarrier records something that makes a family, or with -1 all of them,
// durable, or without sync only known to the operating system.
func (h *history) beginBarrier(worker, family int, sync bool) *batchRecord {
	return h.record(&batchRecord{worker: worker, barrier: true, barrierFamily: family, sync: sync})
}

func (h *history) record(b *batchRecord) *batchRecord {
	l := &h.logs[b.worker]
	l.mu.Lock()
	b.number = l.first + uint64(len(l.batches))
	b.begin = h.clock.Add(1)
	if h.file != nil && !h.file.add(b) {
		l.mu.Unlock()
		return nil
	}
	l.batches = append(l.batches, b)
	l.mu.Unlock()
	for _, e := range b.entries {
		h.each(e, func(k *keyHistory) {
			k.mu.Lock()
			k.changes = append(k.changes, change{b, e.kind, e.id})
			k.mu.Unlock()
		})
	}
	return b
}

// each calls f for the keys of an entry.
func (h *history) each(e entry, f func(k *keyHistory)) {
	if e.kind != rangeEntry {
		f(&h.keys[e.family][e.key])
		return
	}
	for i := e.key; i < e.end; i++ {
		f(&h.keys[e.family][i])
	}
}

// end records that the batch returned. An error that is not ErrBackground says that
// nothing was logged.
func (h *history) end(b *batchRecord, err error) {
	b.failed.Store(err != nil)
	b.refused.Store(err != nil && !errors.Is(err, flatrock.ErrBackground))
	at := h.clock.Add(1)
	b.end.Store(at)
	if h.file != nil {
		h.file.finish(b)
	}
	for _, e := range b.entries {
		h.each(e, func(k *keyHistory) {
			k.mu.Lock()
			if err == nil {
				for _, c := range k.changes[k.settled:] {
					k.now = c.apply(k.now)
				}
			}
			k.settled = len(k.changes)
			k.mu.Unlock()
		})
	}
}

// current is the id that the key has now. The caller holds its lock.
func (k *keyHistory) current() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

// progress is how many changes of the key have returned and have begun.
func (k *keyHistory) progress() (returned, begun int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.settled, len(k.changes)
}

// between are the ids that the key may show to a read that began after the first
// from changes had returned and ended before any after the first to had begun.
func (k *keyHistory) between(from, to int) []uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := k.base
	var ids []uint64
	for i, c := range k.changes[:to] {
		if i >= from {
			ids = append(ids, id)
		}
		if !c.batch.failed.Load() {
			id = c.apply(id)
		}
	}
	return append(ids, id)
}

// at is the id of the key in a cut.
func (k *keyHistory) at(c *cut, family int) (id uint64, last *batchRecord) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id = k.base
	for _, ch := range k.changes {
		if c.has(ch.batch, family) {
			id, last = ch.apply(id), ch.batch
		}
	}
	return id, last
}

// story says what became of the key in this generation, for messages.
func (k *keyHistory) story(c *cut, family int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := fmt.Sprintf("%#x when the generation began", k.base)
	for _, ch := range k.changes[max(0, len(k.changes)-40):] {
		b := ch.batch
		out += fmt.Sprintf("; %s %#x (batch %d of worker %d, %d to %d", ch.kind, ch.id, b.number, b.worker, b.begin, b.end.Load())
		if b.failed.Load() {
			out += ", failed"
		}
		if !c.has(b, family) {
			out += ", not there"
		}
		out += ")"
	}
	return out
}

// rebase makes the state of a cut the one that the history begins with.
func (h *history) rebase(c *cut, promise promise) error {
	for f := range h.keys {
		for i := range h.keys[f] {
			k := &h.keys[f][i]
			id, _ := k.at(c, f)
			k.base, k.now, k.changes, k.settled = id, id, nil, 0
		}
		for w := range h.Workers {
			h.counter[f][w] = c.number[f][w]
		}
	}
	for w := range h.logs {
		h.logs[w].batches = nil
		h.logs[w].first = 1
		for f := range h.keys {
			h.logs[w].first = max(h.logs[w].first, h.counter[f][w]+1)
		}
	}
	if h.file != nil {
		return h.file.rebase(h, promise)
	}
	return nil
}

// replay puts the batches of an earlier process into the histories of their keys.
func (h *history) replay(all []*batchRecord) {
	slices.SortFunc(all, func(a, b *batchRecord) int { return cmp.Compare(a.begin, b.begin) })
	newest := h.clock.Load()
	for _, b := range all {
		newest = max(newest, b.begin, b.end.Load())
		for _, e := range b.entries {
			h.each(e, func(k *keyHistory) { k.changes = append(k.changes, change{b, e.kind, e.id}) })
		}
	}
	h.clock.Store(newest)
}
