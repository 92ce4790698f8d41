package compaction

import (
	"slices"

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
		f := list.At(i)
		s := span{start: f.Start, end: f.End}
		if job.Lower != nil && job.Order.Compare(s.start, job.Lower) < 0 {
			s.start = job.Lower
		}
		if job.Upper != nil && job.Order.Compare(s.end, job.Upper) > 0 {
			s.end = job.Upper
		}
		if job.Order.Compare(s.start, s.end) >= 0 {
			continue
		}
		if s.seqs = keptSeqs(job, s, f.Seqs); len(s.seqs) == 0 {
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

func keptSeqs(job *Job, s span, seqs []uint64) []uint64 {
	var kept []uint64
	stripe, last := len(job.Snapshots), -1
	for _, seq := range seqs {
		if stripe = stripeOf(job.Snapshots, stripe, seq); stripe == last {
			continue
		}
		last = stripe
		if stripe == 0 && (job.Bottommost || job.Beyond != nil && job.Beyond.LacksRange(s.start, s.end)) {
			break
		}
		kept = append(kept, seq)
	}
	return kept
}
