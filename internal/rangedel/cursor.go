package rangedel

import "github.com/flatrock-db/flatrock/internal/keys"

// Cursor answers Cover for keys that come roughly in order, in either direction:
// it remembers the fragment or gap of the last answer, so that most answers cost
// two comparisons and no search. The zero Cursor is over an empty list. Not safe
// for concurrent use.
type Cursor struct {
	list *List
	run  []*List  // of a sorted level: list is the last one searched
	live *Mutable // instead of list
	// [lo, hi) is the span that the last search found: fragment frag, or a gap if
	// that is -1. A nil bound is open.
	lo, hi []byte
	frag   int
	known  bool
	// Of a live memtable: the sequence number asked with, and its answer.
	seq, newest uint64
	err         error // with protection; see Err
}

// Reset puts c over l, which may be nil.
func (c *Cursor) Reset(l *List) { *c = Cursor{list: l, frag: -1} }

// ResetRun puts c over the lists of files that lie one after the other, none of them
// nil; their spans do not overlap, and none includes its end.
func (c *Cursor) ResetRun(run []*List) {
	*c = Cursor{run: run, frag: -1}
	if len(run) > 0 {
		c.list = run[0]
	}
}

// ResetLive puts c over a live memtable's tombstones. It costs nothing, and those
// that are added later do not matter to a reader that may not see them.
func (c *Cursor) ResetLive(m *Mutable) { *c = Cursor{live: m, frag: -1} }

// Empty reports whether there is nothing that could cover a key.
func (c *Cursor) Empty() bool { return c.list == nil && c.live == nil }

// Cover is List.Cover.
func (c *Cursor) Cover(userKey []byte, seq uint64) uint64 {
	if c.list == nil {
		if c.live == nil {
			return 0
		}
		if !c.known || c.seq != seq || !c.holds(&c.live.order, userKey) {
			c.newest, c.lo, c.hi, c.err = c.live.coverSpan(userKey, seq)
			c.known, c.seq = c.err == nil, seq
		}
		return c.newest
	}
	if !c.known || !c.holds(&c.list.order, userKey) {
		c.search(userKey)
	}
	if c.frag < 0 {
		return 0
	}
	return c.list.Newest(c.frag, seq)
}

// Span returns the bounds of the fragment that the last Cover answered from;
// ok is false if it answered from a gap. An end of nil stands for an inclusive
// end, past which the caller cannot seek by key alone.
func (c *Cursor) Span() (start, end []byte, ok bool) {
	if c.live != nil {
		return c.lo, c.hi, c.known && c.newest > 0
	}
	if c.list == nil || c.frag < 0 {
		return nil, nil, false
	}
	return c.lo, c.hi, true
}

// Bounds returns the span [lo, hi) of keys around the last one asked for in which
// Cover gives the same answer; nil stands for no bound. ok is false if nothing is
// known beyond that key.
func (c *Cursor) Bounds() (lo, hi []byte, ok bool) {
	if c.Empty() {
		return nil, nil, true
	}
	return c.lo, c.hi, c.known
}

func (c *Cursor) holds(order *keys.Order, userKey []byte) bool {
	return (c.lo == nil || order.Compare(c.lo, userKey) <= 0) &&
		(c.hi == nil || order.Compare(userKey, c.hi) < 0)
}

func (c *Cursor) search(userKey []byte) {
	c.err = nil
	if len(c.run) > 1 {
		c.searchRun(userKey)
	} else {
		c.searchList(userKey)
	}
	if c.list.Protected() {
		c.prove(userKey)
	}
}

// searchRun searches the last list that begins at or before userKey, and bounds a
// gap at its end by the next one.
func (c *Cursor) searchRun(userKey []byte) {
	order := &c.run[0].order
	lo, hi := 0, len(c.run)
	for lo < hi { // first list that begins after userKey
		mid := int(uint(lo+hi) >> 1)
		if order.Compare(c.run[mid].frags[0].start, userKey) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	c.list = c.run[max(lo-1, 0)]
	c.searchList(userKey)
	if c.frag < 0 && c.hi == nil && lo > 0 && lo < len(c.run) {
		c.hi = c.run[lo].frags[0].start
	}
}

func (c *Cursor) searchList(userKey []byte) {
	l := c.list
	i := l.seek(userKey)
	c.known = true
	if i >= 0 {
		c.frag = i
		c.lo, c.hi = l.frags[i].start, l.frags[i].end
		// What lies past an inclusive end is no fragment: remember nothing.
		if l.EndInclusive(i) {
			c.hi, c.known = nil, false
		}
		return
	}
	i = -1 - i
	c.frag, c.lo, c.hi = -1, nil, nil
	if i > 0 {
		c.lo = l.frags[i-1].end
		if l.EndInclusive(i - 1) {
			c.known = false
		}
	}
	if i < len(l.frags) {
		c.hi = l.frags[i].start
	}
}
