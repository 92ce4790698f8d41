package compaction_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/iterator/itertest"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
)

// deeperRuns is an exact Beyond over the runs that a job leaves out.
type deeperRuns struct {
	order keys.Order
	runs  []itertest.Run
}

func (d deeperRuns) LacksKey(userKey []byte) bool {
	for _, r := range d.runs {
		for _, e := range r.Entries {
			if bytes.Equal(e.Key, userKey) {
				return false
			}
		}
	}
	return true
}

func (d deeperRuns) LacksRange(start, end []byte) bool {
	for _, r := range d.runs {
		for _, e := range r.Entries {
			if d.order.Compare(e.Key, start) >= 0 && d.order.Compare(e.Key, end) < 0 {
				return false
			}
		}
	}
	return true
}

// TestNoSnapshotSeesACompaction compacts some neighbouring runs of a random
// history and checks that every snapshot still reads what the model says.
func TestNoSnapshotSeesACompaction(t *testing.T) {
	rounds := uint64(2500)
	if testing.Short() {
		rounds = 200
	}
	for seed := range rounds {
		if !compactOnce(t, seed) {
			return
		}
	}
}

func compactOnce(t *testing.T, seed uint64) bool {
	rng := rand.New(rand.NewPCG(seed, 2))
	var order keys.Order
	if seed%5 == 4 {
		order = keys.NewOrder(keys.ReverseBytewise)
	}
	shape := itertest.Shape{Ops: 1 + rng.IntN(300), Keys: 1 + rng.IntN(60), Deletes: rng.IntN(30), Singles: rng.IntN(20),
		Merges: rng.IntN(25), Ranges: rng.IntN(3) * rng.IntN(6), Entities: rng.IntN(8), Timed: rng.IntN(4)}
	if seed%3 == 0 {
		shape.Keys = 1 + rng.IntN(6)
	}
	h := itertest.Random(rng, order, shape)
	runs := h.Runs(rng, 1+rng.IntN(6))
	from := rng.IntN(len(runs))
	to := from + 1 + rng.IntN(len(runs)-from)
	last := uint64(shape.Ops + 1)
	var snapshots []uint64
	for range rng.IntN(4) {
		snapshots = append(snapshots, uint64(rng.IntN(int(last)+1)))
	}
	slices.Sort(snapshots)
	snapshots = slices.Compact(snapshots)

	tables := newFakeTables(order)
	job := &compaction.Job{Order: order, Snapshots: snapshots, NewOutput: tables.newOutput,
		Bottommost: to == len(runs), EpochNumber: 7}
	if rng.IntN(5) > 0 {
		job.Operator = []merge.Operator{merge.StringAppend(","), merge.StringAppendTest(",")}[rng.IntN(2)]
	}
	switch rng.IntN(3) {
	case 0:
		job.Beyond = deeperRuns{order, runs[to:]}
	case 1:
		job.Bottommost = false
	}
	if rng.IntN(2) == 0 {
		job.TargetFileSize = int64(20 + rng.IntN(400))
	}
	if rng.IntN(4) == 0 {
		job.MaxFileSize = int64(20 + rng.IntN(400))
	}
	if rng.IntN(2) == 0 {
		job.Beside = beside
	}
	inputs := func() {
		job.Sources = nil
		for i, r := range runs[from:to] {
			job.Sources = append(job.Sources, source(order, fmt.Sprintf("%06d.sst", i), r))
		}
	}
	for _, r := range runs[from:to] {
		job.Tombstones = append(job.Tombstones, r.Tombstones...)
	}
	inputs()
	var res *compaction.Result
	var err error
	if rng.IntN(3) > 0 {
		res, err = compaction.Run(context.Background(), job)
	} else { // two jobs share the range
		cut := h.Ops[rng.IntN(len(h.Ops))].Key
		job.Upper = cut
		res, err = compaction.Run(context.Background(), job)
		if err == nil {
			inputs()
			job.Lower, job.Upper = cut, nil
			var rest *compaction.Result
			rest, err = compaction.Run(context.Background(), job)
			res.Files = append(res.Files, rest.Files...)
		}
	}
	describe := func(problem string) bool {
		var out strings.Builder
		for _, f := range res.Files {
			w := tables.files[f.Number]
			fmt.Fprintf(&out, "file %d: %v %s\n", f.Number, w.entries, tombstonesText(w.tombstones))
		}
		t.Errorf("seed %d: %s\nruns %d to %d of %d, bottommost %v, snapshots %v\nhistory:\n%s\noutputs:\n%s",
			seed, problem, from, to, len(runs), job.Bottommost, snapshots, h, out.String())
		return false
	}
	if err != nil {
		return describe(err.Error())
	}
	if err := checkFiles(order, res.Files, tables); err != nil {
		return describe(err.Error())
	}

	// Read each snapshot, and the newest state, through what is there now.
	for _, seq := range append(slices.Clone(snapshots), last) {
		if problem := readBack(order, h, seq, runs[:from], res.Files, tables, runs[to:]); problem != "" {
			return describe(fmt.Sprintf("at seq %d: %s", seq, problem))
		}
	}
	return true
}

// checkFiles verifies the bounds and that the outputs make a sorted level.
func checkFiles(order keys.Order, files []*manifest.FileMetadata, tables *fakeTables) error {
	if len(files) == 0 {
		return nil
	}
	v := manifest.NewVersion(order, 2)
	v.Levels[1] = files
	if err := v.Check(); err != nil {
		return err
	}
	for i, f := range files {
		if i > 0 && bytes.Equal(files[i-1].LargestKey, f.SmallestKey) && !files[i-1].LargestIsExclusive() {
			return fmt.Errorf("user key %q is in files %d and %d", f.SmallestKey, files[i-1].Number, f.Number)
		}
		if f.EpochNumber != 7 || !tables.files[f.Number].done {
			return fmt.Errorf("file %d: epoch %d, finished %v", f.Number, f.EpochNumber, tables.files[f.Number].done)
		}
	}
	return nil
}

func readBack(order keys.Order, h *itertest.History, seq uint64, above []itertest.Run,
	files []*manifest.FileMetadata, tables *fakeTables, below []itertest.Run) string {
	o := iterator.Options{Order: order, Seq: seq, Operator: merge.StringAppend(",")}
	var sources []table.Iterator
	add := func(it table.Iterator, ts []table.Tombstone) {
		o.Tombstones = append(o.Tombstones, iterator.SourceTombstones{Source: len(sources), List: rangedel.New(order, ts)})
		sources = append(sources, it)
	}
	for _, r := range above {
		add(itertest.New(order, r.Entries), r.Tombstones)
	}
	var all []table.Tombstone
	list := &iterator.FileList{OpenFile: func(i int) (table.Iterator, error) {
		return itertest.New(order, tables.files[files[i].Number].entries), nil
	}}
	for _, f := range files {
		list.Bounds = append(list.Bounds, iterator.Bounds{Smallest: f.SmallestKey, SmallestTrailer: f.SmallestTrailer,
			Largest: f.LargestKey, LargestTrailer: f.LargestTrailer})
		all = append(all, tables.files[f.Number].tombstones...)
	}
	add(iterator.NewLevel(order, list), all)
	for _, r := range below {
		add(itertest.New(order, r.Entries), r.Tombstones)
	}
	var u iterator.User
	u.Reset(&o, sources)
	defer u.Close()
	i, want := 0, h.At(seq)
	for u.First(); u.Valid(); u.Next() {
		if i >= len(want) {
			return fmt.Sprintf("found %s=%s past the map's end", u.Key(), u.Value())
		}
		if !bytes.Equal(u.Key(), want[i].Key) || !bytes.Equal(u.Value(), want[i].Value) {
			return fmt.Sprintf("found %s=%s, the map has %s=%s", u.Key(), u.Value(), want[i].Key, want[i].Value)
		}
		i++
	}
	if u.Err() != nil {
		return u.Err().Error()
	}
	if i != len(want) {
		return fmt.Sprintf("ended before %s=%s", want[i].Key, want[i].Value)
	}
	return ""
}
