// Package rangedel cuts range tombstones into fragments and answers "is this key
// covered, and since when?".
//
// Tombstones may overlap in any way. Cut at every start and end, they become
// fragments that do not overlap, each with the sequence numbers of all
// tombstones that cover it, newest first:
//
//	tombstones          a-----d#5   c-----f#9
//	fragments           [a,c) #5    [c,d) #9 #5    [d,f) #9
//
// A binary search over the fragments then answers for a key, and a walk over
// them gives the spans in order. A tombstone covers the entries of its range
// whose sequence numbers are below its own.
package rangedel

import (
	"slices"
	"sort"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Fragment is a span of user keys [Start, End) and the sequence numbers of the
// tombstones that cover it, in descending order without duplicates. Its slices
// belong to the List.
type Fragment struct {
	Start, End []byte
	Seqs       []uint64
}

// Newest returns the greatest sequence number of f that is at most seq, 0 if
// there is none.
func (f *Fragment) Newest(seq uint64) uint64 {
	seqs := f.Seqs
	if len(seqs) == 0 {
		return 0
	}
	if seqs[0] <= seq { // nearly every read is newer than every tombstone
		return seqs[0]
	}
	i := sort.Search(len(seqs), func(i int) bool { return seqs[i] <= seq })
	if i == len(seqs) {
		return 0
	}
	return seqs[i]
}

// List is an immutable set of fragments in key order. A nil *List is empty.
// Safe for concurrent use.
//
// Invariants:
//
//	R1 Each fragment has Start < End, or Start == End if it is the last one of
//	   a list clipped at an inclusive bound, and at least one sequence number.
//	R2 A fragment ends at or before the start of the next.
type List struct {
	order keys.Order
	frags []Fragment
	count int // tombstones that the list was made from
	// lastInclusive makes the last fragment include its End: the list was clipped
	// at a file's largest key, which belongs to the file.
	lastInclusive bool
}

// New cuts tombstones into fragments. Empty tombstones (Start >= End) are
// dropped. The keys are borrowed for as long as the List is in use; the slices of
// tombstones are not. It returns nil when nothing is left.
func New(order keys.Order, tombstones ...[]table.Tombstone) *List {
	n := 0
	for _, ts := range tombstones {
		n += len(ts)
	}
	if n == 0 {
		return nil
	}
	all := make([]table.Tombstone, 0, n)
	for _, ts := range tombstones {
		for _, t := range ts {
			if order.Compare(t.Start, t.End) < 0 {
				all = append(all, t)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b table.Tombstone) int { return order.Compare(a.Start, b.Start) })
	return fromSorted(order, all)
}

// fromSorted is New for one or more tombstones, none empty, sorted by start.
func fromSorted(order keys.Order, sorted []table.Tombstone) *List {
	return &List{order: order, count: len(sorted), frags: fragment(order, sorted)}
}

// fragment sweeps over tombstones sorted by start. The active ones are those
// that start at or before the sweep and end after it, sorted by end.
func fragment(order keys.Order, sorted []table.Tombstone) []Fragment {
	frags := make([]Fragment, 0, len(sorted))
	var active []table.Tombstone
	var slab []uint64 // room for the sequence numbers of many fragments
	emit := func(start, end []byte) {
		if len(slab) < len(active) {
			slab = make([]uint64, max(len(active), min(len(sorted), 1024)))
		}
		seqs := slab[:len(active):len(active)]
		slab = slab[len(active):]
		for i, t := range active {
			seqs[i] = t.Seq
		}
		if len(seqs) > 1 {
			slices.Sort(seqs)
			seqs = slices.Compact(seqs)
			slices.Reverse(seqs)
		}
		frags = append(frags, Fragment{Start: start, End: end, Seqs: seqs})
	}
	// advance closes fragments from start until limit, nil for no limit, as
	// active tombstones end.
	advance := func(start, limit []byte) {
		for len(active) > 0 {
			end := active[0].End
			if limit != nil && order.Compare(end, limit) > 0 {
				end = limit
			}
			if order.Compare(start, end) < 0 {
				emit(start, end)
			}
			start = end
			n := 0
			for n < len(active) && order.Compare(active[n].End, end) <= 0 {
				n++
			}
			active = slices.Delete(active, 0, n)
			if limit != nil && order.Compare(end, limit) == 0 {
				return
			}
		}
	}
	var at []byte
	for _, t := range sorted {
		if len(active) > 0 && order.Compare(at, t.Start) < 0 {
			advance(at, t.Start)
		}
		at = t.Start
		i := sort.Search(len(active), func(i int) bool { return order.Compare(active[i].End, t.End) > 0 })
		active = slices.Insert(active, i, t)
	}
	advance(at, nil)
	return frags
}

// Len is the number of fragments.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.frags)
}

// Count is the number of tombstones that l was made from.
func (l *List) Count() int {
	if l == nil {
		return 0
	}
	return l.count
}

// At returns fragment i, in key order.
func (l *List) At(i int) Fragment { return l.frags[i] }

// EndInclusive reports whether fragment i includes its End, which only the last
// fragment of a clipped list can.
func (l *List) EndInclusive(i int) bool { return l.lastInclusive && i == len(l.frags)-1 }

// Cover returns the greatest sequence number that is at most seq of a tombstone
// covering userKey; 0 if there is none. An entry of userKey with a smaller
// sequence number than that is deleted, for a reader at seq. No allocation; one
// binary search.
func (l *List) Cover(userKey []byte, seq uint64) uint64 {
	i := l.seek(userKey)
	if i < 0 {
		return 0
	}
	return l.frags[i].Newest(seq)
}

// seek returns the index of the fragment that covers userKey, or -1-i with i the
// first fragment after userKey.
func (l *List) seek(userKey []byte) int {
	if l == nil {
		return -1
	}
	lo, hi := 0, len(l.frags)
	for lo < hi { // first fragment that starts after userKey
		mid := int(uint(lo+hi) >> 1)
		if l.order.Compare(l.frags[mid].Start, userKey) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo > 0 && l.covers(lo-1, userKey) {
		return lo - 1
	}
	return -1 - lo
}

// covers reports whether fragment i, which starts at or before userKey, reaches it.
func (l *List) covers(i int, userKey []byte) bool {
	c := l.order.Compare(userKey, l.frags[i].End)
	return c < 0 || c == 0 && l.EndInclusive(i)
}

// Clip returns l restricted to the user keys from smallest to largest; largest
// itself is left out when exclusive. A file's tombstones may reach beyond the
// file's bounds in the MANIFEST; there they must have no effect, since what they
// deleted outside may since have been compacted to sequence number zero. The
// bounds are borrowed. It returns l itself when nothing reaches beyond.
//
// exclusive is right for a largest bound whose trailer is that of a range
// tombstone's end: Pack(MaxSeq, KindRangeDelete).
func (l *List) Clip(smallest, largest []byte, exclusive bool) *List {
	if l == nil {
		return nil
	}
	first, last := &l.frags[0], &l.frags[len(l.frags)-1]
	if l.order.Compare(first.Start, smallest) >= 0 && l.order.Compare(last.End, largest) <= 0 {
		return l
	}
	out := &List{order: l.order, count: l.count}
	for i, f := range l.frags {
		if l.order.Compare(f.End, smallest) <= 0 && !l.EndInclusive(i) {
			continue
		}
		c := l.order.Compare(f.Start, largest)
		if c > 0 || c == 0 && exclusive {
			break
		}
		if l.order.Compare(f.Start, smallest) < 0 {
			f.Start = smallest
		}
		if c := l.order.Compare(f.End, largest); c > 0 {
			f.End = largest
			out.lastInclusive = !exclusive
		} else if l.EndInclusive(i) {
			out.lastInclusive = c < 0 || !exclusive
		}
		out.frags = append(out.frags, f)
	}
	if len(out.frags) == 0 {
		return nil
	}
	return out
}

// Join returns one list for lists whose ranges do not overlap, given in key
// order: the clipped lists of a level's files. Nil lists are skipped. A
// fragment's inclusive end survives only if nothing follows it; before others it
// becomes an end just past the key, or for orders that have no such key, a
// fragment of its own would be needed, so Join then reports ok false and the
// caller keeps the lists apart.
func Join(order keys.Order, lists ...*List) (joined *List, ok bool) {
	out := &List{order: order}
	for _, l := range lists {
		if l == nil {
			continue
		}
		if out.lastInclusive {
			last := &out.frags[len(out.frags)-1]
			if !order.Bytewise() {
				return nil, false
			}
			last.End = append(slices.Clip(last.End), 0)
			out.lastInclusive = false
		}
		out.frags = append(out.frags, l.frags...)
		out.count += l.count
		out.lastInclusive = l.lastInclusive
	}
	if len(out.frags) == 0 {
		return nil, true
	}
	return out, true
}

// AppendTombstones appends the fragments of l as tombstones, one for each
// sequence number, in key order and then newest first: the form in which table
// files store them. The keys are borrowed from l.
func (l *List) AppendTombstones(dst []table.Tombstone) []table.Tombstone {
	for i := range l.Len() {
		f := l.frags[i]
		end := f.End
		if l.EndInclusive(i) && l.order.Bytewise() {
			end = append(slices.Clip(end), 0)
		}
		for _, seq := range f.Seqs {
			dst = append(dst, table.Tombstone{Start: f.Start, End: end, Seq: seq})
		}
	}
	return dst
}
