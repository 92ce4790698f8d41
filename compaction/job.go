package compaction

import (
	"context"
	"fmt"
	"time"

	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Job is a merge of sorted runs into new files. Nothing in it is changed.
type Job struct {
	Order keys.Order
	// Sources are the inputs, newest first. Run closes them.
	Sources []Source
	// Tombstones are the range tombstones of all inputs, in any order, clipped to
	// their files' bounds (rangedel.List.Clip). The keys are borrowed until Run
	// returns.
	Tombstones []table.Tombstone
	// Lower (inclusive) and Upper (exclusive) restrict the job to a part of the
	// inputs, for jobs that share the work by key ranges; nil for no bound.
	Lower, Upper []byte

	// Snapshots are the sequence numbers that readers still hold, ascending.
	Snapshots []uint64
	// Operator merges operands; without one they are kept as they are.
	Operator merge.Operator
	// Filter, if not nil, decides about the newest entry of each user key and about merge
	// operands, except those that a snapshot sees. FilterLevel is what it is told.
	Filter      Filter
	FilterLevel int
	// Beyond knows what lies deeper than the output. nil: anything may, as for a
	// flush.
	Beyond Beyond
	// Bottommost says that no sorted run older than the inputs has a key in their
	// range; Beyond is then not asked, and sequence numbers become zero (K6)
	// unless KeepSeq is set.
	Bottommost bool
	KeepSeq    bool

	// TargetFileSize is the size in bytes at which an output ends at the next
	// user key; zero for no limit.
	TargetFileSize int64
	// MaxFileSize is the most bytes that the table format can hold in a file, zero
	// for no limit. An output ends before the user key that would cross it.
	MaxFileSize int64
	// Grandparents are the files of the next level below the output level in the job's
	// range, in order. At the bounds of one, an output ends if together with those that
	// it overlaps it has more than MaxGrandparentOverlap bytes, so that it can later be
	// merged down at a fair price. Zero for no limit.
	Grandparents          []*manifest.FileMetadata
	MaxGrandparentOverlap uint64
	// AlignOutputs ends outputs at the bounds of grandparents rather than anywhere:
	// before a grandparent that could be left out altogether, and from half of
	// TargetFileSize on. In return an output may grow to StretchFileSize bytes while no
	// bound comes; zero stands for TargetFileSize.
	AlignOutputs    bool
	StretchFileSize int64
	// Aged are files of the output level, in order, at whose bounds outputs end.
	Aged []*manifest.FileMetadata
	// SplitKey, if not nil, is a user key before which an output ends.
	SplitKey []byte
	// NewMarker, if not nil, makes what decides for each output whether it is marked for
	// compaction.
	NewMarker func() Marker
	// Temperature is recorded in the outputs.
	Temperature uint8
	// Uncompressed and CompressionLevel are for NewOutput: that the outputs are not worth compressing,
	// and where their level is among those that can have data; see Choice.
	Uncompressed     bool
	CompressionLevel int

	// NewOutput starts an output file. It is called when the first entry of the
	// file is at hand.
	NewOutput func() (Output, error)

	// Beside, if not nil, calls f in a goroutine of its own, and wait returns once f has. Then that goroutine builds
	// the outputs, while the one of Run merges, unless there is little to do: NewOutput, the Writers and NewMarker are
	// called there.
	Beside func(f func()) (wait func())

	// What the metadata of every output records.
	EpochNumber        uint64
	OldestAncestorTime uint64 // unix seconds
	FileCreationTime   uint64 // unix seconds

	// Guard, if not nil, calls f, which reads the sources, and turns faults of mapped
	// files into errors. What was begun is cleaned up after it.
	Guard func(f func() error) error
}

// Beyond answers what lies in sorted runs older than the inputs of a job and not
// among them. Keys come in ascending order. An answer of true must be certain.
type Beyond interface {
	// LacksKey reports that no such run holds userKey.
	LacksKey(userKey []byte) bool
	// LacksRange reports that no such run holds a key in [start, end).
	LacksRange(start, end []byte) bool
}

// Output is a file being written.
type Output struct {
	Number   uint64
	PathID   uint8
	Writer   table.Writer // Run finishes or abandons it
	UniqueID []byte       // recorded in the metadata; may be nil
}

// Stats counts what a Run did.
type Stats struct {
	InputEntries     uint64
	InputBytes       uint64 // of user keys, trailers and values
	InputTombstones  uint64
	OutputEntries    uint64
	OutputBytes      uint64 // file sizes
	OutputTombstones uint64

	Obsolete       uint64 // entries hidden by a newer one of their stripe
	Covered        uint64 // entries under a range tombstone
	DeletesDropped uint64 // deletes with nothing left to hide
	SinglePairs    uint64 // single deletes that met their value
	MergeOperands  uint64 // operands that were merged into something
	ZeroedSeqs     uint64
	Filtered       uint64 // entries that the filter removed
}

// Add adds what another Run did.
func (s *Stats) Add(o *Stats) {
	s.InputEntries += o.InputEntries
	s.InputBytes += o.InputBytes
	s.InputTombstones += o.InputTombstones
	s.OutputEntries += o.OutputEntries
	s.OutputBytes += o.OutputBytes
	s.OutputTombstones += o.OutputTombstones
	s.Obsolete += o.Obsolete
	s.Covered += o.Covered
	s.DeletesDropped += o.DeletesDropped
	s.SinglePairs += o.SinglePairs
	s.MergeOperands += o.MergeOperands
	s.ZeroedSeqs += o.ZeroedSeqs
	s.Filtered += o.Filtered
}

// Result is what a Run wrote.
type Result struct {
	// Files describes the finished outputs in key order. None may be left: all
	// that came in may have been deleted.
	Files []*manifest.FileMetadata
	// Created lists the numbers of all outputs that were started. After an error
	// the caller removes them; no file of a failed Run is of use.
	Created []uint64
	// BlobGarbage is what the outputs refer to no longer, by blob file.
	BlobGarbage []manifest.BlobGarbage
	Stats       Stats
	// CPU is the time of the processor that Run took, where its caller measured it.
	CPU time.Duration

	// MergeRefusals counts the stripes whose operands the merge operator refused, and which
	// were kept as they are; MergeRefusal is the first refusal, and names the key.
	MergeRefusals uint64
	MergeRefusal  error
}

// cancelInterval is how many entries pass between two looks at the context.
const cancelInterval = 1024

// Run merges. The Result is never nil; Files counts only without an error.
// Errors are those of the sources (keys.ErrCorruption for entries out of order),
// of the outputs, of the merge operator, or the context's.
func Run(ctx context.Context, job *Job) (*Result, error) {
	r := &run{job: job, res: &Result{}, ctx: ctx}
	guard := job.Guard
	if guard == nil {
		guard = func(f func() error) error { return f() }
	}
	err := guard(r.run)
	if serr := r.hand.stop(); err == nil {
		err = serr
	}
	r.res.Stats.Add(&r.out.stats)
	if err != nil {
		r.out.abandon()
	}
	r.res.MergeRefusals, r.res.MergeRefusal = r.key.refusals, r.key.refusal
	if cerr := r.m.Close(); err == nil {
		err = cerr
	}
	return r.res, err
}

// run is the state of one Run.
type run struct {
	job *Job
	ctx context.Context
	res *Result
	m   iterator.Merging
	key group
	out outputs

	blobs blobBalance // of what comes in; out has its own
	hand  handing
}

func (r *run) run() error {
	job := r.job
	its := make([]table.Iterator, len(job.Sources))
	for i, s := range job.Sources {
		its[i] = s.Iter
	}
	r.m.Init(job.Order, its)

	list := rangedel.New(job.Order, job.Tombstones)
	r.res.Stats.InputTombstones = uint64(len(job.Tombstones))
	r.key.init(job, list, &r.res.Stats)
	r.out.init(job, keptTombstones(job, list), r.res)
	r.hand.beside, r.hand.out = job.Beside, &r.out

	if job.Lower != nil {
		r.m.SeekGE(job.Lower, keys.Pack(keys.MaxSeq, keys.KindSeek))
	} else {
		r.m.First()
	}
	for r.m.Valid() {
		if job.Upper != nil && job.Order.Compare(r.m.UserKey(), job.Upper) >= 0 {
			break
		}
		if err := r.nextKey(); err != nil {
			return err
		}
	}
	if err := r.m.Err(); err != nil {
		return err
	}
	if err := r.hand.finish(&r.key); err != nil {
		return err
	}
	if err := r.ctx.Err(); err != nil { // the outputs may have taken their time
		return err
	}
	if err := r.out.finishLast(); err != nil {
		return err
	}
	r.blobs.add(&r.out.blobs)
	r.res.BlobGarbage = r.blobs.garbage()
	return nil
}

// nextKey takes all entries of the next user key and writes what is left of them. What a compaction wrote cannot be
// undone, so it does not trust its inputs: their entries must be in order, and of kinds that a table may hold. An
// entry out of order in its source comes at once out of the merge, which checks all sources with one comparison.
func (r *run) nextKey() error {
	g, stats := &r.key, &r.res.Stats
	g.begin(r.m.UserKey())
	for {
		trailer, value := r.m.Trailer(), r.m.Value()
		if !keys.KindOf(trailer).ValidInTable() {
			return keys.Corruptf(r.source(), -1, "expected a kind of entry that a table holds, found %s", entryText(g.userKey, trailer))
		}
		stats.InputEntries++
		stats.InputBytes += uint64(len(g.userKey) + keys.TrailerLen + len(value))
		if stats.InputEntries%cancelInterval == 0 {
			if err := r.ctx.Err(); err != nil {
				return err
			}
		}
		if keys.KindOf(trailer) == keys.KindBlobIndex {
			r.blobs.in(g.userKey, value)
		}
		if err := g.add(trailer, value); err != nil {
			return err
		}
		from := r.m.SourceIndex()
		if !r.m.Next() {
			break
		}
		same, err := r.inOrder(trailer, from)
		if err != nil {
			return err
		}
		if !same {
			break
		}
	}
	if err := r.m.Err(); err != nil {
		return err
	}
	if err := g.finish(); err != nil {
		return err
	}
	if len(g.kept) > 0 {
		if err := r.hand.add(g); err != nil {
			return err
		}
	}
	if to := g.filtering.seek(len(r.job.Snapshots)); to != nil {
		if r.m.SeekGE(to, keys.Pack(keys.MaxSeq, keys.KindSeek)) {
			_, err := r.inOrder(0, -1)
			return err
		}
	}
	return nil
}

// inOrder says whether the entry that the merge came to has the user key of the group, whose last entry had
// that trailer and came from that source. An error says that it should have come before.
func (r *run) inOrder(trailer uint64, from int) (same bool, err error) {
	g, key, next := &r.key, r.m.UserKey(), r.m.Trailer()
	c := r.job.Order.Compare(g.userKey, key)
	if c < 0 {
		return false, nil
	}
	if c > 0 || next > trailer || next == trailer && r.m.SourceIndex() == from {
		return false, keys.Corruptf(r.source(), -1, "expected entries in order, found %s after %s", entryText(key, next), entryText(g.userKey, trailer))
	}
	return true, nil
}

// source names what the current entry comes from.
func (r *run) source() string { return r.job.Sources[r.m.SourceIndex()].Name() }

func entryText(userKey []byte, trailer uint64) string {
	return fmt.Sprintf("%q#%d,%v", userKey, keys.Seq(trailer), keys.KindOf(trailer))
}
