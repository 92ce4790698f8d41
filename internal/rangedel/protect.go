package rangedel

import (
	"slices"

	"github.com/flatrock-db/flatrock/internal/hash"
)

// Protection of a list in memory: each fragment has a checksum of its place, its keys and its
// sequence numbers. An answer is proved by the fragment that covers the key, or by the two
// around the gap.

// Protect gives l checksums of so many bytes a fragment: 1, 2, 4 or 8. report makes the
// error about one that is damaged, for Cursor.Err. It must come before l is shared.
func (l *List) Protect(bytes int, report func(fragment int) error) {
	if l == nil || bytes == 0 {
		return
	}
	l.report = report
	l.sumLen = hash.EntrySumLen(bytes)
	l.sums = make([]byte, len(l.frags)*l.sumLen)
	for i := range l.frags {
		s := l.sum(i)
		s.Put(l.sums[i*l.sumLen:][:l.sumLen])
	}
}

// Protected reports whether l has checksums.
func (l *List) Protected() bool { return l != nil && l.sums != nil }

func (l *List) sum(i int) hash.EntrySum {
	s := hash.NewEntrySum(uint64(i))
	s.Bytes(l.frags[i].start)
	s.Bytes(l.frags[i].end)
	if l.seqs.leaves == 0 {
		addSeqs(&s, l.seqs.set(l.first+i))
		return s
	}
	for p := l.first + i + l.seqs.leaves; p > 0; p >>= 1 {
		addSeqs(&s, l.seqs.set(p))
	}
	return s
}

func addSeqs(s *hash.EntrySum, seqs []uint64) {
	for _, seq := range seqs {
		s.Word(seq)
	}
	s.Word(uint64(len(seqs)) << 57)
}

// intact reports whether fragment i is what it was; there is nothing wrong with those that
// do not exist.
func (l *List) intact(i int) bool {
	if i < 0 || i >= len(l.frags) {
		return true
	}
	s := l.sum(i)
	return s.Matches(l.sums[i*l.sumLen:][:l.sumLen])
}

// DamagedAt checks what Cover says of userKey: it returns -1, or the number of a fragment that is
// not what it was.
func (l *List) DamagedAt(userKey []byte) int {
	i := l.seek(userKey)
	if i >= 0 {
		if !l.intact(i) || l.order.Compare(l.frags[i].start, userKey) > 0 || !l.covers(i, userKey) {
			return i
		}
		return -1
	}
	i = -1 - i // the first after the gap
	if i > 0 && (!l.intact(i-1) || l.order.Compare(l.frags[i-1].end, userKey) > 0) {
		return i - 1
	}
	if i < len(l.frags) && (!l.intact(i) || l.order.Compare(l.frags[i].start, userKey) <= 0) {
		return i
	}
	return -1
}

// Damaged checks all of l: it returns -1, or the number of a fragment that is not what it was.
func (l *List) Damaged() int {
	for i := range l.frags {
		if !l.intact(i) {
			return i
		}
	}
	return -1
}

// The protection of a Mutable: each bound has a sum, made from what Add was given, which
// goes with it from node to node, and so has each mark and each tombstone for the flush. An
// answer is proved by the bounds on both sides of the key in each node on the way
// down, and by the marks that it was taken from.

// Protect makes m check its answers; report makes the error about damage. It must come
// before the first Add.
func (m *Mutable) Protect(report func() error) { m.report = report }

// Protected reports whether answers are checked.
func (m *Mutable) Protected() bool { return m.report != nil }

// Proven is Cover that checks its answer.
func (m *Mutable) Proven(userKey []byte, seq uint64) (uint64, error) {
	newest, _, _, err := m.coverSpan(userKey, seq)
	return newest, err
}

// Verify checks all tombstones, before they are written elsewhere.
func (m *Mutable) Verify() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range m.sums {
		if t := &m.all[i]; s != tombstoneSum(t.Start, t.End, t.Seq) {
			return m.report()
		}
	}
	return nil
}

func tombstoneSum(start, end []byte, seq uint64) hash.EntrySum {
	s := hash.NewEntrySum(0)
	s.Bytes(start)
	s.Bytes(end)
	s.Word(seq)
	return s
}

func boundSum(key []byte) hash.EntrySum {
	s := hash.NewEntrySum(1)
	s.Bytes(key)
	return s
}

func markSum(seq uint64, depth int) hash.EntrySum {
	s := hash.NewEntrySum(uint64(depth))
	s.Word(seq)
	return s
}

// proves reports whether slot i of x is the one for userKey.
func (m *Mutable) proves(x *node, i int, userKey []byte) bool {
	for _, j := range [2]int{i, i + 1} {
		if j >= x.n || x.bounds[j] == nil {
			continue
		}
		if x.sums[j] != boundSum(x.bounds[j]) || (m.order.Compare(x.bounds[j], userKey) <= 0) != (j == i) {
			return false
		}
	}
	return true
}

// provenAt is newestAt; false if a mark on the way is damaged.
func (k *mark) provenAt(seq uint64) (uint64, bool) {
	for k != nil {
		if k.sum != markSum(k.seq, k.depth) {
			return 0, false
		}
		if k.seq <= seq {
			return k.seq, true
		}
		if j := k.jump; j != nil && j.seq > seq && j.sum == markSum(j.seq, j.depth) {
			k = j
		} else {
			k = k.next
		}
	}
	return 0, true
}

// Err is why the last Cover may be wrong: what it was taken from is damaged.
func (c *Cursor) Err() error { return c.err }

// prove checks what the search for userKey came to. What is damaged is not remembered.
func (c *Cursor) prove(userKey []byte) {
	i := c.list.DamagedAt(userKey)
	if i < 0 && !c.rightList(userKey) {
		i = 0
	}
	if i >= 0 {
		c.known, c.err = false, c.list.report(i)
	}
}

// rightList reports whether c.list is the last of its run that begins at or before
// userKey, or the first.
func (c *Cursor) rightList(userKey []byte) bool {
	i := slices.Index(c.run, c.list)
	if i < 0 || len(c.run) == 1 {
		return true
	}
	begins := func(l *List) bool { return l.order.Compare(l.frags[0].start, userKey) <= 0 }
	return c.list.intact(0) && (i == 0 || begins(c.list)) && (i+1 == len(c.run) || c.run[i+1].intact(0) && !begins(c.run[i+1]))
}
