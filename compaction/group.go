package compaction

import (
	"fmt"

	"github.com/flatrock-db/flatrock/internal/entity"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/mutation"
	"github.com/flatrock-db/flatrock/internal/rangedel"
)

// stripeState is what is known of the stripe that entries are being added to.
type stripeState uint8

const (
	stripeOpen    stripeState = iota // nothing kept yet
	stripeSingle                     // the last entry kept is a single delete, looking for its value
	stripePaired                     // a single delete met its value: only a delete beneath still counts
	stripeMerging                    // operands collected, looking for what is beneath
	stripeValue                      // a value was kept: only a single delete right beneath still counts
	stripeClosed                     // decided: anything older is obsolete
)

// group reduces the entries of one user key by the rules K1 to K6. Its memory is
// reused from key to key; it holds only what may be kept.
type group struct {
	job       *Job
	snapshots []uint64
	covers    rangedel.Cursor
	stats     *Stats

	userKey []byte
	kept    []keptEntry
	bytes   []byte // from base on the values of kept; before that what a batch has already
	base    int

	stripe  int // of the last entry: the index of the oldest snapshot that sees it
	state   stripeState
	cover   uint64 // newest range tombstone of the stripe over userKey
	started bool
	// unmerged says that the stripe has operands that were kept for want of an operator.
	unmerged bool

	refusals uint64      // of the operator, over all keys
	refusal  error       // the first
	operands []keptEntry // newest first; values in bytes
	views    [][]byte

	filtering filtering
}

// keptEntry is an entry with its value as a span of group.bytes.
type keptEntry struct {
	trailer    uint64
	start, end int
}

func (g *group) init(job *Job, list *rangedel.List, stats *Stats) {
	g.job, g.snapshots, g.stats = job, job.Snapshots, stats
	g.covers.Reset(list)
	g.filtering.init(job)
}

// value is the value of a kept entry, borrowed until begin.
func (g *group) value(e keptEntry) []byte { return e.value(g.bytes) }

func (e keptEntry) value(bytes []byte) []byte { return bytes[e.start:e.end:e.end] }

func (g *group) begin(userKey []byte) {
	g.userKey = append(g.userKey[:0], userKey...)
	g.forget()
	g.stripe, g.started = len(g.snapshots), false
	g.filtering.begin(g)
}

// forget drops what was to be kept of the key.
func (g *group) forget() { g.kept, g.bytes, g.operands = g.kept[:0], g.bytes[:g.base], g.operands[:0] }

// stripeOf returns the index of the oldest snapshot that sees seq, len(snapshots)
// if none does.
func stripeOf(snapshots []uint64, from int, seq uint64) int {
	for from > 0 && snapshots[from-1] >= seq {
		from--
	}
	return from
}

func (g *group) store(trailer uint64, value []byte) keptEntry {
	start := len(g.bytes)
	g.bytes = append(g.bytes, value...)
	return keptEntry{trailer, start, len(g.bytes)}
}

func (g *group) keep(trailer uint64, value []byte) { g.kept = append(g.kept, g.store(trailer, value)) }

// add takes the next entry of the key; entries come newest first.
func (g *group) add(trailer uint64, value []byte) error {
	seq, kind := keys.Seq(trailer), keys.KindOf(trailer)
	first := !g.started
	if stripe := stripeOf(g.snapshots, g.stripe, seq); !g.started || stripe != g.stripe {
		if err := g.endStripe(); err != nil {
			return err
		}
		g.openStripe(stripe)
	}
	switch {
	case g.state == stripeClosed:
		g.stats.Obsolete++
		return nil
	case seq < g.cover: // K2
		g.stats.Covered++
		g.closeOnNothing()
		return nil
	}
	if g.filtering.filter != nil {
		var done bool
		var err error
		if trailer, value, done, err = g.filterEntry(first, trailer, value); done || err != nil {
			return err
		}
		kind = keys.KindOf(trailer)
	}
	switch g.state {
	case stripeSingle:
		g.addBelowSingle(trailer, value)
		return nil
	case stripeMerging:
		return g.addBelowOperands(trailer, value)
	case stripeValue:
		if kind != keys.KindSingleDelete {
			g.stats.Obsolete++
			g.state = stripeClosed
			return nil
		}
	}
	if g.state == stripePaired {
		// What lies beneath was written before the key was last absent, and a delete
		// of it may still have to hide older stripes or deeper runs.
		switch kind {
		case keys.KindDelete, keys.KindSingleDelete, keys.KindDeleteWithTimestamp:
			g.state = stripeOpen
		default:
			g.stats.Obsolete++
			return nil
		}
	}
	switch kind {
	case keys.KindMerge:
		if g.job.Operator == nil {
			g.keep(trailer, value) // K1 does not hold: the reader needs all of them
			g.unmerged = true
			return nil
		}
		g.operands = append(g.operands, g.store(trailer, value))
		g.state = stripeMerging
	case keys.KindSingleDelete:
		g.keep(trailer, value)
		g.state = stripeSingle
		if g.unmerged { // operands above it rely on what it hides
			g.state = stripeClosed
		}
	case keys.KindValue, keys.KindEntity, keys.KindBlobIndex:
		g.keep(trailer, value)
		g.state = stripeValue
	default:
		g.keep(trailer, value)
		g.state = stripeClosed
	}
	return nil
}

func (g *group) openStripe(stripe int) {
	g.stripe, g.state, g.started, g.cover, g.unmerged = stripe, stripeOpen, true, 0, false
	if !g.covers.Empty() {
		newest := keys.MaxSeq
		if stripe < len(g.snapshots) {
			newest = g.snapshots[stripe]
		}
		g.cover = g.covers.Cover(g.userKey, newest)
	}
}

// addBelowSingle decides a single delete by the entry beneath it (K4).
func (g *group) addBelowSingle(trailer uint64, value []byte) {
	last := len(g.kept) - 1
	switch keys.KindOf(trailer) {
	case keys.KindSingleDelete: // only the older one can have a value of its own
		g.stats.Obsolete++
		g.kept[last].trailer = trailer
		return
	case keys.KindDelete, keys.KindDeleteWithTimestamp: // hides more than the single delete does
		g.stats.Obsolete++
		g.kept = g.kept[:last]
		g.keep(trailer, value)
	case keys.KindMerge: // not what single deletes are for: hide it, and go on hiding
		g.stats.Obsolete++
	default:
		g.stats.SinglePairs++
		g.kept = g.kept[:last]
		g.state = stripePaired
		return
	}
	g.state = stripeClosed
}

// addBelowOperands takes what lies beneath the collected operands (K3).
func (g *group) addBelowOperands(trailer uint64, value []byte) error {
	switch kind := keys.KindOf(trailer); kind {
	case keys.KindMerge:
		g.operands = append(g.operands, g.store(trailer, value))
		return nil
	case keys.KindDelete, keys.KindSingleDelete:
		if g.mergeOnto(nil, false) {
			g.stats.Obsolete++
			return nil
		}
	case keys.KindValue:
		if g.mergeOnto(value, true) {
			return nil
		}
	case keys.KindEntity:
		if done, err := g.mergeOntoEntity(value); done || err != nil {
			return err
		}
	}
	// The operator refused, or there is a value that is elsewhere, or that time changes:
	// leave it to the reader.
	g.keepOperands()
	g.keep(trailer, value)
	g.state = stripeClosed
	return nil
}

// closeOnNothing ends the stripe where a delete of any sort hides all that is
// older: operands merge onto nothing.
func (g *group) closeOnNothing() {
	if g.state == stripeMerging && !g.mergeOnto(nil, false) {
		g.keepOperands()
	}
	g.state = stripeClosed
}

// mergeOnto replaces the operands by a value with the newest one's sequence number. It
// reports false if the operator refused them: nothing has changed then, and what they
// and the value beneath them are stays for the reader, who gets the error.
func (g *group) mergeOnto(existing []byte, has bool) bool {
	newest := g.operands[0].trailer
	start := len(g.bytes)
	out, err := merge.Append(g.bytes, g.job.Operator, g.userKey, existing, has, g.oldestFirst())
	if err != nil {
		g.refused(err)
		return false
	}
	g.bytes = out
	g.kept = append(g.kept, keptEntry{keys.Pack(keys.Seq(newest), keys.KindValue), start, len(out)})
	g.merged()
	return true
}

// mergeOntoEntity is mergeOnto for an entity, whose damage is an error.
func (g *group) mergeOntoEntity(stored []byte) (done bool, err error) {
	newest := g.operands[0].trailer
	existing, err := entity.Default(stored)
	if err != nil {
		return false, fmt.Errorf("key %q: %w", g.userKey, err)
	}
	value, err := merge.Append(nil, g.job.Operator, g.userKey, existing, true, g.oldestFirst())
	if err != nil {
		g.refused(err)
		return false, nil
	}
	start := len(g.bytes)
	if g.bytes, err = entity.ReplaceDefault(g.bytes, stored, value); err != nil {
		return false, fmt.Errorf("key %q: %w", g.userKey, err)
	}
	g.kept = append(g.kept, keptEntry{keys.Pack(keys.Seq(newest), keys.KindEntity), start, len(g.bytes)})
	g.merged()
	return true, nil
}

func (g *group) refused(err error) {
	if g.refusals++; g.refusal == nil {
		g.refusal = err
	}
}

func (g *group) merged() {
	g.stats.MergeOperands += uint64(len(g.operands))
	g.operands = g.operands[:0]
	g.state = stripeClosed
}

func (g *group) oldestFirst() [][]byte {
	g.views = g.views[:0]
	for i := len(g.operands) - 1; i >= 0; i-- {
		g.views = append(g.views, g.value(g.operands[i]))
	}
	return g.views
}

func (g *group) keepOperands() {
	g.kept = append(g.kept, g.operands...)
	g.operands = g.operands[:0]
}

// endStripe closes a stripe that has no more entries. Operands without anything
// beneath them stay operands, as few as the operator allows.
func (g *group) endStripe() error {
	if !g.started || g.state != stripeMerging {
		return nil
	}
	if p, ok := g.job.Operator.(merge.PartialMerger); ok && len(g.operands) > 1 {
		if operand, ok := p.PartialMerge(g.userKey, g.oldestFirst()); ok {
			g.keep(g.operands[0].trailer, operand)
			g.merged()
			return nil
		}
	}
	g.keepOperands()
	g.state = stripeClosed
	return nil
}

// finish ends the key: g.kept is then what to write, newest first.
func (g *group) finish() error {
	if g.state == stripeMerging {
		if g.nothingDeeper() {
			g.closeOnNothing()
		} else if err := g.endStripe(); err != nil {
			return err
		}
	}
	g.hideOlder()
	g.dropDeletes()
	if g.job.Bottommost && !g.job.KeepSeq {
		g.zeroSeq()
	}
	return nil
}

func (g *group) nothingDeeper() bool {
	return mutation.On(mutation.DropTombstoneEarly) || g.job.Bottommost || g.job.Beyond != nil && g.job.Beyond.LacksKey(g.userKey)
}

// dropDeletes is K5. What a delete at the old end of the key hid is gone, or was
// never there; so no snapshot can tell the difference.
func (g *group) dropDeletes() {
	asked := false
	for n := len(g.kept); n > 0; n-- {
		kind := keys.KindOf(g.kept[n-1].trailer)
		if kind != keys.KindDelete && kind != keys.KindSingleDelete {
			return
		}
		if !asked && !g.nothingDeeper() {
			return
		}
		asked = true
		g.kept = g.kept[:n-1]
		g.stats.DeletesDropped++
	}
}

// zeroSeq is K6.
func (g *group) zeroSeq() {
	if len(g.kept) == 0 {
		return
	}
	last := &g.kept[len(g.kept)-1]
	seq, kind := keys.Seq(last.trailer), keys.KindOf(last.trailer)
	if seq == 0 || len(g.snapshots) > 0 && seq > g.snapshots[0] {
		return
	}
	switch kind {
	case keys.KindValue, keys.KindEntity, keys.KindBlobIndex:
		last.trailer = keys.Pack(0, kind)
		g.stats.ZeroedSeqs++
	}
}
