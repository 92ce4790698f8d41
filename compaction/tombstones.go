package compaction

import (
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/rangedel"
)

// span is a piece of the key space with the sequence numbers, newest first, of
// the range tombstones to be written for it.
type span struct {
	start, end []byte
	seqs       []uint64
}

// keptTombstones applies K7 to the job's range tombstones: what the outputs are
// to hold, in key order, neighbours joined where they say the same.
func keptTombstones(job *Job, list *rangedel.List) []span {
	var kept []span
	for i := range list.Len() {
		var s span
		s.start, s.end = list.Span(i)
		if job.Lower != nil && job.Order.Compare(s.start, job.Lower) < 0 {
			s.start = job.Lower
		}
		if job.Upper != nil && job.Order.Compare(s.end, job.Upper) > 0 {
			s.end = job.Upper
		}
		if job.Order.Compare(s.start, s.end) >= 0 {
			continue
		}
		if s.seqs = keptSeqs(job, s, list, i); len(s.seqs) == 0 {
			continue
		}
		if n := len(kept) - 1; n >= 0 && job.Order.Compare(kept[n].end, s.start) == 0 && slices.Equal(kept[n].seqs, s.seqs) {
			kept[n].end = s.end
			continue
		}
		kept = append(kept, s)
	}
	return kept
}

// keptSeqs asks for the newest tombstone over the span in each stripe, newest
// stripe first.
func keptSeqs(job *Job, s span, list *rangedel.List, i int) []uint64 {
	var kept []uint64
	stripe := len(job.Snapshots)
	for seq := list.Newest(i, keys.MaxSeq); seq > 0; {
		stripe = stripeOf(job.Snapshots, stripe, seq)
		if stripe == 0 {
			if !job.Bottommost && (job.Beyond == nil || !job.Beyond.LacksRange(s.start, s.end)) {
				kept = append(kept, seq)
			}
			break
		}
		kept = append(kept, seq)
		seq = list.Newest(i, job.Snapshots[stripe-1])
	}
	return kept
}
