package compaction

import (
	"github.com/flatrock-db/flatrock/internal/invariant"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/killpoint"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
)

// entryOverhead is the most bytes, rounded up, that a table format adds to an
// entry beyond its user key, trailer and value.
const entryOverhead = 32

// outputs spreads what a job keeps over files.
type outputs struct {
	lastKey []byte // only with the tag flatrock_invariants
	job     *Job
	res     *Result // only Files and Created
	stats   Stats   // of what goes out
	spans   []span  // range tombstones not written yet, in order

	open    bool
	current Output
	entries int // point entries in the current output

	bounds grandparents
	marker Marker // of the current output; may be nil
	split  bool   // SplitKey has been passed
	aged   islands

	blobs      blobBalance
	oldestBlob uint64 // that the current output refers to; 0 for none
}

func (o *outputs) init(job *Job, spans []span, res *Result) {
	o.job, o.spans, o.res = job, spans, res
	o.bounds.init(job)
	o.aged.files = job.Aged
}

// add writes the kept entries of one user key, whose values are spans of bytes, ending the current file first if
// it is large enough.
func (o *outputs) add(userKey []byte, kept []keptEntry, bytes []byte) error {
	cut := o.bounds.pass(userKey, o.size())
	if o.aged.pass(o.job.Order, userKey) {
		cut = true
	}
	if o.job.SplitKey != nil && !o.split && o.job.Order.Compare(userKey, o.job.SplitKey) >= 0 {
		o.split, cut = true, true
	}
	if o.open && o.entries > 0 && (cut || o.full(userKey, kept)) {
		if err := o.finish(userKey); err != nil {
			return err
		}
	}
	if err := o.start(); err != nil {
		return err
	}
	if invariant.Enabled {
		invariant.Check(o.entries == 0 || o.job.Order.Compare(o.lastKey, userKey) < 0, "an output has key %q after %q", userKey, o.lastKey)
		o.lastKey = append(o.lastKey[:0], userKey...)
		for i := 1; i < len(kept); i++ {
			invariant.Check(kept[i].trailer < kept[i-1].trailer, "key %q: %s is written after %s", userKey, entryText(userKey, kept[i].trailer), entryText(userKey, kept[i-1].trailer))
		}
	}
	for _, e := range kept {
		value := e.value(bytes)
		if err := o.current.Writer.Add(userKey, e.trailer, value); err != nil {
			return err
		}
		if keys.KindOf(e.trailer) == keys.KindBlobIndex {
			if file := o.blobs.out(userKey, value); file != 0 && (o.oldestBlob == 0 || file < o.oldestBlob) {
				o.oldestBlob = file
			}
		}
		o.stats.OutputEntries++
		if o.marker != nil {
			o.marker.Add(keys.KindOf(e.trailer), o.current.Writer.EstimatedSize())
		}
	}
	o.entries += len(kept)
	return nil
}

// full reports whether the current output should not take these entries as well.
func (o *outputs) full(userKey []byte, kept []keptEntry) bool {
	target, limit := max(o.job.TargetFileSize, o.job.StretchFileSize), o.job.MaxFileSize
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
	for _, e := range kept {
		need += e.size(userKey)
	}
	return size+need > limit
}

// size is that of the current output so far, zero if there is none.
func (o *outputs) size() int64 {
	if !o.open {
		return 0
	}
	return o.current.Writer.EstimatedSize()
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
	o.current, o.open, o.entries, o.oldestBlob = out, true, 0, 0
	o.bounds.begin()
	if o.job.NewMarker != nil {
		o.marker = o.job.NewMarker()
	}
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
	killpoint.Here("table closed")
	o.stats.OutputBytes += uint64(summary.Size)
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
			o.stats.OutputTombstones++
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
	marked := o.marker != nil && o.marker.Marked()
	return &manifest.FileMetadata{
		MarkedForCompaction: marked, Temperature: o.job.Temperature,
		Number: o.current.Number, PathID: o.current.PathID, Size: uint64(s.Size),
		SmallestKey: s.SmallestUserKey, SmallestTrailer: s.SmallestTrailer,
		LargestKey: s.LargestUserKey, LargestTrailer: s.LargestTrailer,
		SmallestSeq: s.SmallestSeq, LargestSeq: s.LargestSeq,
		EpochNumber: o.job.EpochNumber, UniqueID: o.current.UniqueID,
		OldestBlobNumber:   o.oldestBlob, // not every format keeps it
		OldestAncestorTime: o.job.OldestAncestorTime,
		FileCreationTime:   o.job.FileCreationTime,
		TailSize:           uint64(s.TailSize),
	}
}
