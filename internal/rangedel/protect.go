package rangedel

import "github.com/flatrock-db/flatrock/internal/hash"

// Protection of a list in memory: each fragment has a checksum of its place, its keys and its
// sequence numbers. An answer is proved by the fragment that covers the key, or by the two
// around the gap.

// Protect gives l checksums of so many bytes a fragment: 1, 2, 4 or 8. It must come before l
// is shared.
func (l *List) Protect(bytes int) {
	if l == nil || bytes == 0 {
		return
	}
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
