package rangedel

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/table"
)

// fence tells cheaply that no tombstone of a Mutable or a List is near a key: a Get of a key that
// survives then looks at one word for each size of cell, not at a tree.
//
// It judges by what the bounds of the tombstones look like: their first bytes are
// prefix, and the eight bytes from there on, their image, have the bits of pattern where
// all bounds agree (fixed). For any other key stands the greatest judged image before it,
// or else the least one; that keeps the order, so what a tombstone covers lies between what stands
// for its bounds. The other bits, spread over the image as they may be (four in
// each digit of a decimal number), count as digits of four bits. A cell of size j is all
// images that agree but for their last digits, base bits and j digits; a range is made of
// at most some thirty cells for each size, few of them large. The cells are members of
// a Bloom filter whose three bits lie in one word, so a key that is far costs one cache line
// for each size in use: of narrow tombstones there is one.
//
// The smallest cells are coarse, an eighth of an ordinary tombstone or a quarter, so that
// they are few. Keys just beside a tombstone share the cells at its ends; for them there is
// a second filter, with what of those is covered, in cells of sixteen to one.
//
// Any tombstone can be added to any fence. A fence whose pattern does not suit what comes
// later says less, never anything wrong, and is made anew when the tombstones have doubled.
// So each is added once more on average.
type fence struct {
	// What near looks at first.
	lead, leadMask uint64 // the prefix as far as it is in the first eight bytes
	fixed, pattern uint64
	prefix         []byte
	coarse         cellSet
	inUse          atomic.Uint32     // bit j: there are cells of size j
	shifts         [fenceSizes]uint8 // of images, for each size of cell

	fine      cellSet // of cells of the smallest size: the whole ones, and parts of the others
	fineShift uint8
	reverse   bool
	sizes     int
}

// cellSet is a Bloom filter of cells.
type cellSet struct {
	words []atomic.Uint64 // a power of two
	shift uint8           // of hashes, to the index of the word
	n     int             // cells added, with repetitions; of the writer
}

// mayHave reports whether the cell may have been added.
func (s *cellSet) mayHave(cell uint64, size int) bool {
	h, mask := cellHash(cell, size)
	return s.words[h>>(s.shift&63)].Load()&mask == mask
}

// add adds a cell, or counts it while there are no words.
func (s *cellSet) add(cell uint64, size int) {
	s.n++
	if s.words != nil {
		h, mask := cellHash(cell, size)
		s.words[h>>(s.shift&63)].Or(mask)
	}
}

// makeRoom makes the words for twice the cells counted.
func (s *cellSet) makeRoom() {
	n := max(1, bits.Len(uint(2*s.n*fenceBits/64)))
	*s = cellSet{words: make([]atomic.Uint64, 1<<n), shift: uint8(64 - n)}
}

// cellHash gives for a cell a number whose first bits choose the word, and its bits there.
func cellHash(cell uint64, size int) (h, mask uint64) {
	hi, lo := bits.Mul64(cell+uint64(size)<<58+1, fenceMul)
	h = hi ^ lo
	return h, 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63)
}

const (
	fenceSizes = 17 // 64 bits in digits of four, and the cell of all
	fenceLeast = 32 // fewer tombstones than that are quick to search
	fenceBits  = 8  // for each cell, when the tombstones have doubled
	fenceMul   = 0x9e3779b97f4a7c15
	fineSize   = fenceSizes // what stands for a size in the hash of a part of a cell
)

// near reports whether a tombstone may cover userKey. Nearly every Get beside tombstones
// ends here: without a branch that depends on anything but the lengths.
func (f *fence) near(userKey []byte) bool {
	skip, at := len(f.prefix), len(userKey)-8
	if at < 0 {
		return f.nearOther(userKey)
	}
	lead, img := binary.BigEndian.Uint64(userKey), uint64(0)
	if at >= skip {
		img = binary.BigEndian.Uint64(userKey[skip:])
	} else {
		img = binary.BigEndian.Uint64(userKey[at:]) << (8 * uint(skip-at))
	}
	if (lead^f.lead)&f.leadMask|(img^f.pattern)&f.fixed != 0 || skip > 8 && !bytes.HasPrefix(userKey[8:], f.prefix[8:]) {
		return f.nearOther(userKey)
	}
	return f.has(img)
}

// nearOther is near for any key.
func (f *fence) nearOther(userKey []byte) bool {
	switch c := comparePrefix(userKey, f.prefix); {
	case c < 0:
		return f.has(f.pattern)
	case c > 0:
		return f.has(f.pattern | ^f.fixed)
	}
	return f.has(f.judged(image(userKey, len(f.prefix))))
}

// judged is the judged image that stands for an image: the greatest that is not greater, or
// else the least of all.
func (f *fence) judged(img uint64) uint64 {
	d := (img ^ f.pattern) & f.fixed
	if d == 0 {
		return img
	}
	i := 63 - bits.LeadingZeros64(d) // the first bit that is wrong
	below := uint64(1)<<i - 1
	if img>>i&1 == 1 { // too large: the greatest with what comes before
		img |= below
	} else { // too small: the next smaller of what comes before
		rest := img &^ f.fixed &^ below
		if rest == 0 {
			return f.pattern
		}
		img = rest - 1
	}
	return img&^f.fixed | f.pattern
}

// has reports whether a tombstone may cover a judged image.
func (f *fence) has(img uint64) bool {
	if f.inUse.Load() == 1 { // narrow tombstones
		return f.coarse.mayHave(img>>(f.shifts[0]&63), 0) && f.hasPart(img)
	}
	for use := f.inUse.Load(); use != 0; use &= use - 1 {
		j := bits.TrailingZeros32(use) % fenceSizes
		if f.coarse.mayHave(img>>f.shifts[j], j) && (j > 0 || f.hasPart(img)) {
			return true
		}
	}
	return false
}

// hasPart looks closer, at who is in a cell of the smallest size.
func (f *fence) hasPart(img uint64) bool {
	return f.fine.mayHave(img>>f.fineShift, fineSize) || f.fine.mayHave(img>>f.shifts[0], 0)
}

// Fence lets Near tell which keys are far from all tombstones, for some forty bytes a
// fragment: worth it in lists that many reads ask. It must come before l is shared. Lists of
// few fragments, with checksums (nothing proves what a fence says) or in an order that
// is not of bytes stay as they are.
func (l *List) Fence() {
	if l != nil && len(l.frags) >= fenceLeast && !l.Protected() && !l.order.Custom() {
		l.addFence()
	}
}

func (l *List) addFence() {
	all := make([]table.Tombstone, len(l.frags))
	for i, f := range l.frags {
		all[i] = table.Tombstone{Start: f.start, End: f.end}
	}
	if last := &all[len(all)-1]; l.lastInclusive && l.order.Bytewise() { // a fence in reverse order has the ends
		last.End = append(bytes.Clone(last.End), 0)
	}
	l.fence = newFence(all, !l.order.Bytewise())
}

// newFence returns a fence around the tombstones, none of them empty.
func newFence(all []table.Tombstone, reverse bool) *fence {
	f := &fence{reverse: reverse}
	f.learn(all)
	for _, t := range all { // without words: how many cells there are
		f.add(t)
	}
	f.coarse.makeRoom()
	f.fine.makeRoom()
	for _, t := range all {
		f.add(t)
	}
	return f
}

// learn chooses prefix, pattern and sizes by the bounds of the tombstones.
func (f *fence) learn(all []table.Tombstone) {
	first := all[0].Start
	skip := len(first)
	for _, t := range all {
		skip = min(skip, sharedLen(first, t.Start), sharedLen(first, t.End))
	}
	f.prefix, f.pattern = bytes.Clone(first[:skip]), image(first, skip)
	var differ uint64
	for _, t := range all {
		differ |= (image(t.Start, skip) ^ f.pattern) | (image(t.End, skip) ^ f.pattern)
	}
	f.lead, f.leadMask = image(f.prefix, 0), ^leadMask(skip)
	f.fixed = ^differ
	f.pattern &= f.fixed

	// The smallest cells are such that an ordinary tombstone is made of a few.
	var widths []uint64
	for i := 0; i < len(all); i += 1 + len(all)/64 {
		lo, hi := f.span(all[i])
		widths = append(widths, gather(hi, differ)-gather(lo, differ))
	}
	slices.Sort(widths)
	base := max(0, bits.Len64(widths[len(widths)/2])-3)
	for ; f.sizes < fenceSizes; f.sizes++ {
		at := bitAt(differ, base+4*f.sizes)
		f.shifts[f.sizes] = at
		if at == 64 { // one cell is all
			f.sizes++
			break
		}
	}
	f.fineShift = bitAt(differ, max(0, base-4))
}

// bitAt is where the n-th bit of mask is, from the last one on, 64 if it has fewer.
func bitAt(mask uint64, n int) uint8 {
	for ; n > 0 && mask != 0; n-- {
		mask &= mask - 1
	}
	return uint8(bits.TrailingZeros64(mask))
}

// gather moves the bits of x that mask has together.
func gather(x, mask uint64) (y uint64) {
	for n := 0; mask != 0; mask, n = mask&(mask-1), n+1 {
		y |= x >> bits.TrailingZeros64(mask) & 1 << n
	}
	return y
}

// span is the first and the last judged image of the keys that t may cover.
func (f *fence) span(t table.Tombstone) (lo, hi uint64) {
	start, end := t.Start, t.End
	if f.reverse {
		start, end = end, start // and with both of them, which does no harm
	}
	skip := len(f.prefix)
	lo, hi = f.pattern, f.pattern|^f.fixed
	switch c := comparePrefix(start, f.prefix); {
	case c > 0:
		lo = hi
	case c == 0:
		lo = f.judged(image(start, skip))
	}
	switch c := comparePrefix(end, f.prefix); {
	case c < 0:
		hi = f.pattern
	case c == 0:
		last := image(end, skip)
		if n := len(end) - skip; !f.reverse && 0 < n && n <= 8 && end[len(end)-1] != 0 {
			last-- // no key before end has its image
		}
		hi = f.judged(last)
	}
	return lo, hi
}

// add makes t known. Writers exclude each other.
func (f *fence) add(t table.Tombstone) {
	from, to := f.span(t)
	lo, hi := from, to
	for j := 0; ; j++ {
		low := lowBits(f.shifts[j])
		lo, hi = lo&^low, hi&^low // the cells' first images, their fixed bits apart
		if j+1 == f.sizes || (lo^hi)&^lowBits(f.shifts[j+1]) == 0 {
			f.addCells(lo, hi, j, from, to)
			return
		}
		// Whole cells of the next size are left to it.
		next := lowBits(f.shifts[j+1])
		first, last := lo&^next, hi|next // of the larger cells that lo and hi lie in
		if lo&next&^f.fixed != 0 {
			f.addCells(lo, lo|next&^low, j, from, to)
			up := (first | f.fixed | next) + 1
			first = up&^f.fixed | f.pattern // there is one: hi is there or after it
		} else {
			first = first&^f.fixed | f.pattern
		}
		if (hi|f.fixed|low)&next != next {
			f.addCells(hi&^next, hi, j, from, to)
			rest := hi &^ f.fixed &^ next
			if rest == 0 {
				return
			}
			last = (rest - 1) &^ f.fixed
		}
		last = last&^f.fixed | f.pattern
		if first > last {
			return
		}
		lo, hi = first, last
	}
}

func lowBits(n uint8) uint64 { return 1<<n - 1 }

// addCells adds the cells of size j from that of lo to that of hi, which have the same
// bits but for a few digits; of those of the smallest size also what lies from from to to.
func (f *fence) addCells(lo, hi uint64, j int, from, to uint64) {
	f.cells(lo, hi, f.shifts[j], func(first, last uint64) {
		f.coarse.add(first>>f.shifts[j], j)
		switch {
		case j > 0:
		case from <= first && last <= to:
			f.fine.add(first>>f.shifts[0], 0)
		default:
			f.cells(max(from, first), min(to, last), f.fineShift, func(first, _ uint64) {
				f.fine.add(first>>f.fineShift, fineSize)
			})
		}
	})
	if f.coarse.words != nil && f.inUse.Load()>>j&1 == 0 {
		f.inUse.Or(1 << j)
	}
}

// cells calls do with the first and the last judged image of all cells from that of lo to that
// of hi.
func (f *fence) cells(lo, hi uint64, shift uint8, do func(first, last uint64)) {
	low := lowBits(shift)
	hi = hi&^low&^f.fixed | f.pattern&^low
	for at := lo&^low&^f.fixed | f.pattern&^low; ; {
		do(at|f.pattern, (at|low)&^f.fixed|f.pattern)
		up := (at | f.fixed | low) + 1
		if at >= hi || up == 0 {
			return
		}
		at = up&^f.fixed&^low | f.pattern&^low
	}
}

// bytes is what f holds of the Go heap.
func (f *fence) bytes() int64 { return int64(8*(len(f.coarse.words)+len(f.fine.words))) + 300 }
