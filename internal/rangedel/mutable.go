package rangedel

import (
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Mutable holds the range tombstones of a live memtable, always in fragments.
// Any number of readers run beside a writer, without locks; writers exclude each
// other. A tombstone costs its writer O(log n), and a read one descent of
// O(log n), however many there are and however they overlap; nothing is ever
// fragmented again. An immutable memtable goes on with the same tree.
//
// The tree is a B+tree over the starts and ends of tombstones. A slot of a node
// stands for the span from its bound to the next one, and has the sequence
// numbers ("marks") of the tombstones that cover it whole but not the slot above
// it. The cover of a key is the newest mark on the way down to it. When a span is
// cut in two, both halves share the marks, which are immutable lists; so neither
// cutting nor splitting a node ever moves a mark.
//
// Most keys need no descent: see fence.
//
// A new bound replaces one node by a changed copy behind an atomic pointer, and a
// mark is one atomic store. Readers may meet any mixture of old and new: what
// they can miss is younger than what they may see.
type Mutable struct {
	// What reads look at. A write changes it only when it is done.
	order    keys.Order
	bytewise bool
	report   func() error          // with Protect
	fence    atomic.Pointer[fence] // nil: search the tree
	root     atomic.Pointer[node]
	count    atomic.Int64
	newest   atomic.Uint64 // greatest sequence number

	_ [64]byte // what a write changes all the time is on lines of its own

	mu     sync.Mutex        // guards writes
	all    []table.Tombstone // in order of arrival; guarded by mu
	sums   []hash.EntrySum   // of all, with Protect; guarded by mu
	fenced int               // tombstones that fence was made for; guarded by mu
	bytes  atomic.Int64
}

const (
	fanOut    = 32
	nodeBytes = 1400 // of the Go heap, about
	markBytes = 48
)

// node has n slots. Slot 0 begins where the node does: searches of the node never
// ask for less. Fixed once published, but for marks and kids.
type node struct {
	n      int
	skip   int    // of bytewise nodes: bounds 1 to n-1 share that many first bytes
	lead   uint64 // the first eight bytes of those bounds, but what comes after skip
	images [fanOut]uint64
	bounds [fanOut][]byte // of the very first slot nil: no bound
	marks  [fanOut]atomic.Pointer[mark]
	kids   *[fanOut]atomic.Pointer[node] // nil in a leaf
	sums   *[fanOut]hash.EntrySum        // of bounds; nil unless protected
}

// mark is a list of sequence numbers, newest first. jump leads further down, so
// that a search of a list takes logarithmic time.
type mark struct {
	seq        uint64
	depth      int
	next, jump *mark
	sum        hash.EntrySum
}

// push returns the list with seq added.
func (k *mark) push(seq uint64) *mark {
	switch {
	case k == nil:
		return &mark{seq: seq, depth: 1, sum: markSum(seq, 1)}
	case k.seq == seq:
		return k
	case k.seq > seq: // memtables that take writers side by side see them out of order
		return k.next.push(seq).push(k.seq)
	}
	added := &mark{seq: seq, depth: k.depth + 1, next: k, jump: k, sum: markSum(seq, k.depth+1)}
	if j := k.jump; j != nil && j.jump != nil && k.depth-j.depth == j.depth-j.jump.depth {
		added.jump = j.jump
	}
	return added
}

// newestAt is the greatest sequence number of the list that is at most seq, or 0.
func (k *mark) newestAt(seq uint64) uint64 {
	for k != nil && k.seq > seq {
		if k.jump != nil && k.jump.seq > seq {
			k = k.jump
		} else {
			k = k.next
		}
	}
	if k == nil {
		return 0
	}
	return k.seq
}

// NewMutable returns an empty Mutable.
func NewMutable(order keys.Order) *Mutable {
	return &Mutable{order: order, bytewise: order.Bytewise()}
}

// Add inserts the tombstone [start, end) at seq. The keys are copied. An empty
// range is ignored. Readers that begin later see it.
func (m *Mutable) Add(start, end []byte, seq uint64) {
	if m.order.Compare(start, end) >= 0 {
		return
	}
	var sum hash.EntrySum
	if m.report != nil {
		sum = tombstoneSum(start, end, seq)
	}
	both := make([]byte, 0, len(start)+len(end)+1) // never nil, which stands for no bound
	both = append(append(both, start...), end...)
	n := len(start)
	start, end = both[:n:n], both[n:]

	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, table.Tombstone{Start: start, End: end, Seq: seq})
	if m.report != nil {
		m.sums = append(m.sums, sum)
	}
	if m.root.Load() == nil {
		m.root.Store(m.newNode(1))
		m.bytes.Add(nodeBytes)
	}
	m.cut(start)
	m.cut(end)
	m.markSpan(m.root.Load(), start, end, nil, seq)
	m.bytes.Add(int64(len(both)) + 56)
	m.addFence()
	if seq > m.newest.Load() {
		m.newest.Store(seq)
	}
	m.count.Add(1)
}

// addFence makes the newest tombstone known to the fence, or a new fence for all of them.
func (m *Mutable) addFence() {
	n := len(m.all)
	if m.report != nil { // nothing proves what a fence says
		return
	}
	if m.order.Custom() || n < max(fenceLeast, 2*m.fenced) {
		if f := m.fence.Load(); f != nil {
			f.add(m.all[n-1])
		}
		return
	}
	f := newFence(m.all, !m.bytewise)
	m.bytes.Add(f.bytes())
	if old := m.fence.Swap(f); old != nil {
		m.bytes.Add(-old.bytes())
	}
	m.fenced = n
}

// Count is the number of tombstones added. Zero lets a reader skip everything else.
func (m *Mutable) Count() int64 { return m.count.Load() }

// Newest is the greatest sequence number of a tombstone, 0 without any: entries
// from there on are not covered.
func (m *Mutable) Newest() uint64 { return m.newest.Load() }

// UsedBytes is about what the tombstones hold of the Go heap, in bytes.
func (m *Mutable) UsedBytes() int64 { return m.bytes.Load() }

// Near reports whether a tombstone may cover userKey; where it says no, Cover is 0 at every
// sequence number. It costs a few nanoseconds and seldom more than one cache line, which a
// Get has under way while it waits for its entry: so it asks before it looks for that.
func (m *Mutable) Near(userKey []byte) bool {
	f := m.fence.Load()
	return f == nil && m.count.Load() > 0 || f != nil && f.near(userKey)
}

// Cover is List.Cover over all tombstones: a search of the tree, which Near may save. No allocation.
func (m *Mutable) Cover(userKey []byte, seq uint64) uint64 {
	x := m.root.Load()
	if x == nil {
		return 0
	}
	var newest uint64
	lead := image(userKey, 0)
	for {
		i := m.findLed(x, userKey, lead)
		if k := x.marks[i].Load(); k != nil {
			if k.seq <= seq { // nearly every read is newer than every tombstone
				newest = max(newest, k.seq)
			} else {
				newest = max(newest, k.newestAt(seq))
			}
		}
		if x.kids == nil {
			return newest
		}
		x = x.kids[i].Load()
	}
}

// coverSpan is Cover, and the span [lo, hi) around userKey in which it holds for
// good; nil for no bound.
func (m *Mutable) coverSpan(userKey []byte, seq uint64) (newest uint64, lo, hi []byte, err error) {
	x := m.root.Load()
	if x == nil {
		return 0, nil, nil, nil
	}
	for {
		i := m.find(x, userKey)
		if k := x.marks[i].Load(); m.report == nil {
			newest = max(newest, k.newestAt(seq))
		} else if seq, ok := k.provenAt(seq); ok && m.proves(x, i, userKey) {
			newest = max(newest, seq)
		} else {
			return 0, nil, nil, m.report()
		}
		lo = x.bounds[i]
		if i+1 < x.n {
			hi = x.bounds[i+1]
		}
		if x.kids == nil {
			return newest, lo, hi, nil
		}
		x = x.kids[i].Load()
	}
}

// find returns the last slot of x that begins at or before userKey.
func (m *Mutable) find(x *node, userKey []byte) int {
	return m.findLed(x, userKey, image(userKey, 0))
}

// findLed is find for who knows the image of the key's first eight bytes. Where
// bounds share no more than those it looks at the node alone, not at any key.
func (m *Mutable) findLed(x *node, userKey []byte, lead uint64) int {
	if !m.bytewise {
		return m.findIn(x, userKey, x.n)
	}
	want := lead
	if x.skip > 0 {
		if cut := lead &^ leadMask(x.skip); cut < x.lead {
			return 0
		} else if cut > x.lead {
			return x.n - 1
		}
		if len(userKey) < x.skip || x.skip > 8 {
			if c := comparePrefix(userKey, x.bounds[1][:x.skip]); c < 0 {
				return 0
			} else if c > 0 {
				return x.n - 1
			}
		}
		want = image(userKey, x.skip)
	}
	i := imageLimit(x.images[1:x.n], want)
	if i > 0 && x.images[i] == want && m.order.Compare(x.bounds[i], userKey) > 0 {
		return m.findIn(x, userKey, i)
	}
	return i
}

// leadMask has the bits of the first eight bytes that come after skip.
func leadMask(skip int) uint64 { return ^uint64(0) >> (8 * min(skip, 8)) }

// findIn is find among the first n slots, by comparing keys.
func (m *Mutable) findIn(x *node, userKey []byte, n int) int {
	lo, hi := 0, n
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if m.order.Compare(x.bounds[mid], userKey) <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// begins reports whether slot i of x begins at key.
func (m *Mutable) begins(x *node, i int, key []byte) bool {
	return x.bounds[i] != nil && m.order.Compare(x.bounds[i], key) == 0
}

// cut makes key a bound of a leaf's slot.
func (m *Mutable) cut(key []byte) {
	x := m.root.Load()
	left, right := m.cutIn(x, key)
	if right != nil {
		root := m.newNode(2)
		root.kids = new([fanOut]atomic.Pointer[node])
		root.bounds[1] = right.bounds[0]
		if root.sums != nil {
			root.sums[1] = right.sums[0]
		}
		root.kids[0].Store(left)
		root.kids[1].Store(right)
		m.seal(root)
		m.bytes.Add(nodeBytes)
		left = root
	}
	if left != x {
		m.root.Store(left)
	}
}

// cutIn is cut below x. It returns what takes the place of x: x itself, a copy, or
// two nodes.
func (m *Mutable) cutIn(x *node, key []byte) (left, right *node) {
	i := m.find(x, key)
	if x.kids == nil {
		if m.begins(x, i, key) {
			return x, nil
		}
		return m.insert(x, i, key, nil)
	}
	kid := x.kids[i].Load()
	l, r := m.cutIn(kid, key)
	if r == nil {
		if l != kid {
			x.kids[i].Store(l)
		}
		return x, nil
	}
	left, right = m.insert(x, i, r.bounds[0], r)
	// The copy's slot i still leads to the unsplit kid.
	if in := left; i < left.n {
		in.kids[i].Store(l)
	} else {
		right.kids[i-left.n].Store(l)
	}
	return left, right
}

// insert returns a copy of x, split in two if it was full, with a slot more after
// slot i, which has the same marks.
func (m *Mutable) insert(x *node, i int, bound []byte, kid *node) (left, right *node) {
	half := x.n
	if x.n == fanOut {
		if half = fanOut / 2; i+1 == fanOut { // keys in order: leave the left one full
			half = fanOut - 1
		}
		right = x.slots(half, fanOut)
		m.bytes.Add(nodeBytes)
	}
	left = x.slots(0, half)
	in, at := left, i
	if i >= half {
		in, at = right, i-half
	}
	copy(in.bounds[at+2:in.n+1], in.bounds[at+1:in.n])
	if in.sums != nil {
		copy(in.sums[at+2:in.n+1], in.sums[at+1:in.n])
		if kid != nil {
			in.sums[at+1] = kid.sums[0]
		} else {
			in.sums[at+1] = boundSum(bound)
		}
	}
	for to := in.n; to > at; to-- {
		if k := in.marks[to-1].Load(); k != in.marks[to].Load() {
			in.marks[to].Store(k)
		}
		if in.kids != nil && to > at+1 {
			in.kids[to].Store(in.kids[to-1].Load())
		}
	}
	in.bounds[at+1] = bound
	if in.kids != nil {
		in.kids[at+1].Store(kid)
	}
	in.n++
	m.seal(left)
	if right != nil {
		m.seal(right)
	}
	return left, right
}

// newNode returns a node of n slots without bounds.
func (m *Mutable) newNode(n int) *node {
	x := &node{n: n}
	if m.report != nil {
		x.sums = new([fanOut]hash.EntrySum)
	}
	return x
}

// slots returns a node of the slots lo to hi of x.
func (x *node) slots(lo, hi int) *node {
	y := &node{n: hi - lo}
	copy(y.bounds[:], x.bounds[lo:hi])
	if x.sums != nil {
		y.sums = new([fanOut]hash.EntrySum)
		copy(y.sums[:], x.sums[lo:hi])
	}
	for i := range y.n {
		if k := x.marks[lo+i].Load(); k != nil { // a store has its price
			y.marks[i].Store(k)
		}
	}
	if x.kids != nil {
		y.kids = new([fanOut]atomic.Pointer[node])
		for i := range y.n {
			y.kids[i].Store(x.kids[lo+i].Load())
		}
	}
	return y
}

// seal fills in what searches of a new node go by.
func (m *Mutable) seal(x *node) {
	if !m.bytewise || x.n < 2 {
		return
	}
	x.skip = sharedLen(x.bounds[1], x.bounds[x.n-1])
	x.lead = image(x.bounds[1], 0) &^ leadMask(x.skip)
	for i := 1; i < x.n; i++ {
		x.images[i] = image(x.bounds[i], x.skip)
	}
}

// markSpan marks the slots of x and below that [start, end) is made of. A start of
// nil is at or before x's, an end of nil at or after x's end; upper is that end,
// nil if there is none.
func (m *Mutable) markSpan(x *node, start, end, upper []byte, seq uint64) {
	i := 0
	if start != nil {
		if i = m.find(x, start); m.begins(x, i, start) {
			start = nil
		}
	}
	for ; i < x.n; i++ {
		slotEnd := upper
		if i+1 < x.n {
			slotEnd = x.bounds[i+1]
		}
		if end != nil && x.bounds[i] != nil && m.order.Compare(x.bounds[i], end) >= 0 {
			return
		}
		within := end
		if end == nil || slotEnd != nil && m.order.Compare(slotEnd, end) <= 0 {
			within = nil
		}
		if start == nil && within == nil {
			k := x.marks[i].Load()
			if added := k.push(seq); added != k {
				x.marks[i].Store(added)
				m.bytes.Add(markBytes)
			}
		} else {
			m.markSpan(x.kids[i].Load(), start, within, slotEnd, seq)
		}
		start = nil
	}
}

// Tombstones returns all tombstones added so far, oldest first; the keys are
// shared. A flush reads them when no writer is left.
func (m *Mutable) Tombstones() []table.Tombstone {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[:len(m.all):len(m.all)]
}
