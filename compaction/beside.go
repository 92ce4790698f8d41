package compaction

import (
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// With Job.Beside a Run takes two goroutines: one reads, merges and decides, the other one builds the files. What is kept
// goes from the first to the second in batches, which are recycled.

// batchBytes is when a batch is handed on, in bytes of keys and values. To wake a goroutine of another processor takes some
// ten microseconds in a virtual machine: an eighth of this made whole compactions a fifth slower. Tests make it smaller.
var batchBytes = 1024 << 10

// spareBatches is how many batches there are: one that is filled, those that wait, and one that is written.
const spareBatches = 4

// batch is what is kept of some user keys.
type batch struct {
	bytes  []byte
	kept   []keptEntry
	groups []keptGroup
}

// batches are spare ones, of Runs that have ended: what they have grown to is kept.
var batches = sync.Pool{New: func() any { return &batch{groups: make([]keptGroup, 0, 64)} }}

// recycle keeps a batch, unless one large value has made it large.
func recycle(b batch) {
	if cap(b.bytes) <= 4*batchBytes {
		b.bytes, b.kept, b.groups = b.bytes[:0], b.kept[:0], b.groups[:0]
		batches.Put(&b)
	}
}

// keptGroup is a user key as a span of batch.bytes, and where its entries end in batch.kept.
type keptGroup struct{ start, end, kept int }

// handing is how a Run hands on what it keeps. It belongs to the goroutine that merges.
type handing struct {
	beside func(f func()) (wait func())
	out    *outputs

	now    batch // being filled; its bytes are the group's meanwhile
	queue  chan batch
	spare  chan batch
	wait   func()
	failed atomic.Bool
	err    error // of the outputs; to be read once failed is set, or wait has returned
}

// add takes what g keeps, and hands it on.
func (h *handing) add(g *group) error {
	if h.beside == nil {
		return h.out.add(g.userKey, g.kept, g.bytes)
	}
	if h.now.groups == nil {
		h.begin(g)
	}
	h.now.kept = append(h.now.kept, g.kept...)
	start := len(g.bytes)
	g.bytes = append(g.bytes, g.userKey...)
	h.now.groups = append(h.now.groups, keptGroup{start, len(g.bytes), len(h.now.kept)})
	g.base = len(g.bytes)
	if len(g.bytes) < batchBytes {
		return nil
	}
	if h.queue == nil {
		h.start()
	}
	if h.failed.Load() {
		return h.err
	}
	h.now.bytes = g.bytes
	h.queue <- h.now
	h.now = <-h.spare
	g.bytes, g.base = h.now.bytes, 0
	return nil
}

// begin takes a batch that has grown before for the first keys; what g keeps of the first moves there.
func (h *handing) begin(g *group) {
	h.now = *batches.Get().(*batch)
	g.bytes = append(h.now.bytes, g.bytes...)
}

func (h *handing) start() {
	h.queue, h.spare = make(chan batch, spareBatches), make(chan batch, spareBatches)
	for range spareBatches - 1 {
		h.spare <- *batches.Get().(*batch)
	}
	h.wait = h.beside(func() {
		for b := range h.queue {
			if h.err == nil {
				if h.err = h.out.take(&b); h.err != nil {
					h.failed.Store(true)
				}
			}
			b.bytes, b.kept, b.groups = b.bytes[:0], b.kept[:0], b.groups[:0]
			h.spare <- b
		}
	})
}

// stop waits until all that was handed on is in the outputs, which then belong to the caller. It may be called again.
func (h *handing) stop() error {
	if h.queue != nil {
		close(h.queue)
		h.wait()
		h.queue = nil
		for len(h.spare) > 0 {
			recycle(<-h.spare)
		}
	}
	return h.err
}

// finish hands on the last of it.
func (h *handing) finish(g *group) error {
	if err := h.stop(); err != nil {
		return err
	}
	h.now.bytes = g.bytes
	err := h.out.take(&h.now)
	if h.now.groups != nil {
		recycle(h.now)
		h.now, g.bytes, g.base = batch{}, nil, 0
	}
	return err
}

// take adds the groups of a batch.
func (o *outputs) take(b *batch) error {
	from := 0
	for _, g := range b.groups {
		if err := o.add(b.bytes[g.start:g.end:g.end], b.kept[from:g.kept], b.bytes); err != nil {
			return err
		}
		from = g.kept
	}
	return nil
}

// size is about what an entry takes in a table.
func (e keptEntry) size(userKey []byte) int64 {
	return int64(len(userKey) + keys.TrailerLen + e.end - e.start + entryOverhead)
}
