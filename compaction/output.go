package compaction

import (
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
)

// entryOverhead is the most bytes, rounded up, that a table format adds to an
// entry beyond its user key, trailer and value.
const entryOverhead = 32

// outputs spreads what a job keeps over files.
type outputs struct {
	job   *Job
	res   *Result
	spans []span // range tombstones not written yet, in order

	open    bool
	current Output
	entries int // point entries in the current output

	grandparent int    // index of the first that does not end before the last key
	overlap     uint64 // bytes of grandparents that the current output overlaps
}

func (o *outputs) init(job *Job, spans []span, res *Result) {
	o.job, o.spans, o.res = job, spans, res
}

// add writes the kept entries of one user key, ending the current file first if
// it is large enough.
func (o *outputs) add(g *group) error {
	crowded := o.passGrandparents(g.userKey)
	if o.open && o.entries > 0 && (crowded || o.full(g)) {
		if err := o.finish(g.userKey); err != nil {
			return err
		}
	}
	if err := o.start(); err != nil {
		return err
	}
	for _, e := range g.kept {
		if err := o.current.Writer.Add(g.userKey, e.trailer, g.value(e)); err != nil {
			return err
		}
		o.res.Stats.OutputEntries++
	}
	o.entries += len(g.kept)
	return nil
}

// full reports whether the current output should not take g as well.
func (o *outputs) full(g *group) bool {
	target, limit := o.job.TargetFileSize, o.job.MaxFileSize
	if target <= 0 && limit <= 0 {
		return false
	}
	size := o.current.Writer.EstimatedSize()
	if target > 0 && size >= target {
		return true
	}
	if limit <= 0 {
		return false
	}
	need := int64(0)
	for _, e := range g.kept {
		need += int64(len(g.userKey) + keys.TrailerLen + e.end - e.start + entryOverhead)
	}
	return size+need > limit
}

// passGrandparents moves past the grandparents that end before userKey and
// reports whether the current output overlaps too many bytes of them.
func (o *outputs) passGrandparents(userKey []byte) bool {
	if o.job.MaxGrandparentOverlap == 0 {
		return false
	}
	for o.grandparent < len(o.job.Grandparents) {
		f := o.job.Grandparents[o.grandparent]
		if o.job.Order.Compare(userKey, f.LargestKey) <= 0 {
			break
		}
		if o.open {
			o.overlap += f.Size
		}
		o.grandparent++
	}
	return o.overlap > o.job.MaxGrandparentOverlap
}

func (o *outputs) start() error {
	if o.open {
		return nil
	}
	out, err := o.job.NewOutput()
	if err != nil {
		return err
	}
	o.res.Created = append(o.res.Created, out.Number)
	o.current, o.open, o.entries, o.overlap = out, true, 0, 0
	return nil
}

// finish ends the current output before the user key next; nil for the end of
// all. Range tombstones are written up to there.
func (o *outputs) finish(next []byte) error {
	if next != nil {
		next = append([]byte(nil), next...)
	}
	if err := o.writeSpans(next); err != nil {
		return err
	}
	summary, err := o.current.Writer.Finish()
	o.open = false
	if err != nil {
		return err
	}
	o.res.Stats.OutputBytes += uint64(summary.Size)
	o.res.Files = append(o.res.Files, o.metadata(&summary))
	return nil
}

// writeSpans adds the range tombstones that start before next to the current
// output, and leaves what reaches beyond for the following one.
func (o *outputs) writeSpans(next []byte) error {
	order := o.job.Order
	for len(o.spans) > 0 {
		s := &o.spans[0]
		if next != nil && order.Compare(s.start, next) >= 0 {
			return nil
		}
		end, cut := s.end, false
		if next != nil && order.Compare(end, next) > 0 {
			end, cut = next, true
		}
		for _, seq := range s.seqs {
			if err := o.current.Writer.AddTombstone(table.Tombstone{Start: s.start, End: end, Seq: seq}); err != nil {
				return err
			}
			o.res.Stats.OutputTombstones++
		}
		if cut {
			s.start = next
			return nil
		}
		o.spans = o.spans[1:]
	}
	return nil
}

// finishLast ends the last output. Range tombstones alone make a file too.
func (o *outputs) finishLast() error {
	if len(o.spans) > 0 {
		if err := o.start(); err != nil {
			return err
		}
	}
	if !o.open {
		return nil
	}
	return o.finish(nil)
}

func (o *outputs) abandon() {
	if o.open {
		o.open = false
		o.current.Writer.Abandon()
	}
}

func (o *outputs) metadata(s *table.Summary) *manifest.FileMetadata {
	return &manifest.FileMetadata{
		Number: o.current.Number, PathID: o.current.PathID, Size: uint64(s.Size),
		SmallestKey: s.SmallestUserKey, SmallestTrailer: s.SmallestTrailer,
		LargestKey: s.LargestUserKey, LargestTrailer: s.LargestTrailer,
		SmallestSeq: s.SmallestSeq, LargestSeq: s.LargestSeq,
		EpochNumber: o.job.EpochNumber, UniqueID: o.current.UniqueID,
		OldestBlobNumber:   s.OldestBlobNumber,
		OldestAncestorTime: o.job.OldestAncestorTime,
		FileCreationTime:   o.job.FileCreationTime,
		TailSize:           uint64(s.TailSize),
	}
}
