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
//
// Where many tombstones overlap, the fragments' sequence numbers together would
// be quadratic in the tombstones. A list then keeps each tombstone at the nodes of
// a binary tree over the fragments that its range is made of, log2(n) of them at
// most twice over, and an answer looks at the log2(n) nodes above a fragment.
package rangedel

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// List is an immutable set of fragments in key order. A nil *List is empty.
// Safe for concurrent use.
//
// Invariants:
//
//	R1 Each fragment has start < end, or start == end if it is the last one of
//	   a list clipped at an inclusive bound, and at least one sequence number.
//	R2 A fragment ends at or before the start of the next.
type List struct {
	// What a Get that survives looks at.
	fence  *fence // with Fence
	newest uint64 // the greatest sequence number
	sums   []byte // with Protect

	order keys.Order
	frags []fragment
	count int // tombstones that the list was made from
	// lastInclusive makes the last fragment include its end: the list was clipped
	// at a file's largest key, which belongs to the file.
	lastInclusive bool
	// Of lists in byte order: the starts of frags share the first skip bytes, and
	// images are what follows there; see seek. ends are the same of the ends of frags, which
	// share these bytes too, or nil.
	skip   int
	images []uint64
	ends   []uint64
	first  int // index in seqs of frags[0]: more than 0 in a clipped list
	seqs   seqSets

	sumLen int
	report func(fragment int) error
}

// fragment is a span of user keys [start, end).
type fragment struct{ start, end []byte }

// New cuts tombstones into fragments. Empty tombstones (Start >= End) are
// dropped. The keys are borrowed for as long as the List is in use; the slices of
// tombstones are not. It returns nil when nothing is left. Time and memory are
// within O(n log n), however the tombstones overlap.
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
	l := &List{order: order, count: len(all)}
	l.cut(all)
	l.addImages()
	return l
}

// addImages fills in what searches go by.
func (l *List) addImages() {
	if !l.order.Bytewise() {
		return
	}
	l.skip = sharedLen(l.frags[0].start, l.frags[len(l.frags)-1].start)
	l.images = make([]uint64, len(l.frags))
	for i := range l.frags {
		l.images[i] = image(l.frags[i].start, l.skip)
	}
	if comparePrefix(l.frags[len(l.frags)-1].end, l.frags[0].start[:l.skip]) == 0 {
		l.ends = make([]uint64, len(l.frags))
		for i := range l.frags {
			l.ends[i] = image(l.frags[i].end, l.skip)
		}
	}
}

// bound is the start or end of a tombstone.
type bound struct {
	key   []byte
	index int // of the tombstone
	end   bool
}

// cut makes the fragments of tombstones, none of them empty.
func (l *List) cut(all []table.Tombstone) {
	bounds := make([]bound, 0, 2*len(all))
	for i, t := range all {
		bounds = append(bounds, bound{t.Start, i, false}, bound{t.End, i, true})
	}
	slices.SortFunc(bounds, func(a, b bound) int { return l.order.Compare(a.key, b.key) })

	// A sweep over the bounds: between two different ones lies a fragment if any
	// tombstone is open there. So a tombstone's fragments are neighbours.
	spans := make([]seqSpan, len(all))
	for _, t := range all {
		l.newest = max(l.newest, t.Seq)
	}
	l.frags = make([]fragment, 0, len(bounds)-1)
	open, total := 0, 0
	for i, b := range bounds {
		if i > 0 && open > 0 && l.order.Compare(bounds[i-1].key, b.key) < 0 {
			l.frags = append(l.frags, fragment{bounds[i-1].key, b.key})
			total += open
		}
		if b.end {
			spans[b.index].hi = len(l.frags)
			open--
		} else {
			spans[b.index] = seqSpan{lo: len(l.frags), seq: all[b.index].Seq}
			open++
		}
	}
	l.seqs = newSeqSets(len(l.frags), total, spans)
}

// seqSpan is a sequence number that belongs to fragments [lo, hi).
type seqSpan struct {
	lo, hi int
	seq    uint64
}

// seqSets holds a set of sequence numbers for each fragment, in descending order
// without duplicates, all in one slice: set i is seqs[offsets[i]:offsets[i+1]].
// With leaves not zero, the sets are those of a binary tree's nodes instead: node
// 1 is the root, 2p and 2p+1 are below p, and node leaves+i is fragment i; a
// fragment has what its node and the nodes above it have.
type seqSets struct {
	seqs    []uint64
	offsets []int
	leaves  int
}

// flatLimit is how many sequence numbers a tombstone may take on average in the
// flat form.
const flatLimit = 4

func newSeqSets(fragments, total int, spans []seqSpan) seqSets {
	var s seqSets
	sets := fragments
	if total > flatLimit*len(spans)+64 {
		s.leaves = 1 << bits.Len(uint(fragments-1))
		sets = s.leaves + fragments
	}
	s.offsets = make([]int, sets+1)
	n := 0
	for _, sp := range spans {
		s.each(sp, func(set int) {
			s.offsets[set]++
			n++
		})
	}
	// Turn counts into ends, and fill each set from its end.
	end := 0
	for i, c := range s.offsets {
		end += c
		s.offsets[i] = end
	}
	s.seqs = make([]uint64, n)
	for _, sp := range spans {
		s.each(sp, func(set int) {
			s.offsets[set]--
			s.seqs[s.offsets[set]] = sp.seq
		})
	}
	s.tidy()
	return s
}

// each calls f for the sets that hold sp's sequence number.
func (s *seqSets) each(sp seqSpan, f func(set int)) {
	if s.leaves == 0 {
		for i := sp.lo; i < sp.hi; i++ {
			f(i)
		}
		return
	}
	for lo, hi := sp.lo+s.leaves, sp.hi+s.leaves; lo < hi; lo, hi = lo>>1, hi>>1 {
		if lo&1 == 1 {
			f(lo)
			lo++
		}
		if hi&1 == 1 {
			hi--
			f(hi)
		}
	}
}

// tidy sorts each set in descending order and drops duplicates.
func (s *seqSets) tidy() {
	to := 0
	for i := range len(s.offsets) - 1 {
		set := s.seqs[s.offsets[i]:s.offsets[i+1]]
		if len(set) > 1 {
			slices.Sort(set)
			set = slices.Compact(set)
			slices.Reverse(set)
		}
		s.offsets[i] = to
		to += copy(s.seqs[to:], set)
	}
	s.offsets[len(s.offsets)-1] = to
	s.seqs = s.seqs[:to]
}

func (s *seqSets) set(i int) []uint64 { return s.seqs[s.offsets[i]:s.offsets[i+1]] }

// newest returns the greatest sequence number of fragment i that is at most seq.
func (s *seqSets) newest(i int, seq uint64) uint64 {
	if s.leaves == 0 {
		return newestOf(s.set(i), seq)
	}
	var newest uint64
	for p := i + s.leaves; p > 0; p >>= 1 {
		newest = max(newest, newestOf(s.set(p), seq))
	}
	return newest
}

func newestOf(seqs []uint64, seq uint64) uint64 {
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

// Span returns the bounds of fragment i, in key order. They belong to the List.
func (l *List) Span(i int) (start, end []byte) { return l.frags[i].start, l.frags[i].end }

// Newest returns the greatest sequence number that is at most seq of a tombstone
// over fragment i, 0 if there is none. Asked again with one less than each answer,
// it lists them all.
func (l *List) Newest(i int, seq uint64) uint64 { return l.seqs.newest(l.first+i, seq) }

// MaxSeq is the greatest sequence number of a tombstone: entries from there on are not
// covered.
func (l *List) MaxSeq() uint64 { return l.newest }

// EndInclusive reports whether fragment i includes its end, which only the last
// fragment of a clipped list can.
func (l *List) EndInclusive(i int) bool { return l.lastInclusive && i == len(l.frags)-1 }

// IncludesEnd reports whether the last fragment includes its end.
func (l *List) IncludesEnd() bool { return l != nil && l.lastInclusive }

// Near reports whether a tombstone may cover userKey. False is certain; true may be wrong, and is
// what lists without Fence say. Asked before a table is searched for the key, its cache misses and the
// table's overlap.
func (l *List) Near(userKey []byte) bool {
	return l != nil && (l.fence == nil || l.fence.near(userKey))
}

// Cover returns the greatest sequence number that is at most seq of a tombstone
// covering userKey; 0 if there is none. An entry of userKey with a smaller
// sequence number than that is deleted, for a reader at seq. No allocation; one
// binary search, which Near may save.
func (l *List) Cover(userKey []byte, seq uint64) uint64 {
	i := l.seek(userKey)
	if i < 0 {
		return 0
	}
	return l.Newest(i, seq)
}

// CoverAll is the least Cover of the keys from smallest to largest, largest itself
// left out when exclusive: 0 if one of them is not covered.
func (l *List) CoverAll(smallest, largest []byte, exclusive bool, seq uint64) uint64 {
	i := l.seek(smallest)
	if i < 0 {
		return 0
	}
	least := l.Newest(i, seq)
	for least > 0 && !l.covers(i, largest) {
		c := l.order.Compare(l.frags[i].end, largest)
		if exclusive && c >= 0 {
			break
		}
		if i++; i == len(l.frags) || l.order.Compare(l.frags[i-1].end, l.frags[i].start) < 0 {
			return 0
		}
		least = min(least, l.Newest(i, seq))
	}
	return least
}

// seek returns the index of the fragment that covers userKey, or -1-i with i the
// first fragment after userKey.
func (l *List) seek(userKey []byte) int {
	if l == nil {
		return -1
	}
	lo, hi := 0, len(l.frags)
	if l.images != nil {
		prefix := l.frags[0].start[:l.skip]
		if len(userKey) >= len(prefix) && string(userKey[:len(prefix)]) == string(prefix) {
			want := image(userKey, l.skip)
			lo = imageLimit(l.images, want)
			if lo > 0 && l.images[lo-1] == want && l.order.Compare(l.frags[lo-1].start, userKey) > 0 {
				lo, hi = 0, lo-1 // equal images do not tell
			} else if lo > 0 && l.ends != nil && l.ends[lo-1] != want {
				if want < l.ends[lo-1] {
					return lo - 1
				}
				return -1 - lo
			} else {
				hi = lo
			}
		} else if comparePrefix(userKey, prefix) < 0 {
			hi = 0
		} else {
			lo = hi
		}
	}
	for lo < hi { // first fragment that starts after userKey
		mid := int(uint(lo+hi) >> 1)
		if l.order.Compare(l.frags[mid].start, userKey) <= 0 {
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
	c := l.order.Compare(userKey, l.frags[i].end)
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
	if l.order.Compare(first.start, smallest) >= 0 && l.order.Compare(last.end, largest) <= 0 {
		return l
	}
	out := &List{order: l.order, count: l.count, newest: l.newest, seqs: l.seqs, first: l.first}
	for i, f := range l.frags {
		if l.order.Compare(f.end, smallest) <= 0 && !l.EndInclusive(i) {
			out.first++
			continue
		}
		c := l.order.Compare(f.start, largest)
		if c > 0 || c == 0 && exclusive {
			break
		}
		if l.order.Compare(f.start, smallest) < 0 {
			f.start = smallest
		}
		if c := l.order.Compare(f.end, largest); c > 0 {
			f.end = largest
			out.lastInclusive = !exclusive
		} else if l.EndInclusive(i) {
			out.lastInclusive = c < 0 || !exclusive
		}
		out.frags = append(out.frags, f)
	}
	if len(out.frags) == 0 {
		return nil
	}
	out.addImages()
	return out
}

// AppendTombstones appends tombstones that have l's effect, in key order and then
// newest first: the form in which table files store them. The keys are borrowed
// from l. An inclusive end becomes the key just past it, or where the order has
// no such key, the end itself, as RocksDB does. Many overlapping tombstones make
// many more of these; a compaction makes few by dropping what no snapshot needs.
func (l *List) AppendTombstones(dst []table.Tombstone) []table.Tombstone {
	for i := range l.Len() {
		f := l.frags[i]
		if l.EndInclusive(i) && l.order.Bytewise() {
			f.end = append(slices.Clip(f.end), 0)
		}
		for seq := l.Newest(i, keys.MaxSeq); seq > 0; seq = l.Newest(i, seq-1) {
			dst = append(dst, table.Tombstone{Start: f.start, End: f.end, Seq: seq})
		}
	}
	return dst
}
