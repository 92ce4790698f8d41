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

// tree is a whole log-structured tree over fake tables: flushes, the pickers and
// Run, with versions that the manifest builder checks.
type tree struct {
	t         *testing.T
	h         *itertest.History
	o         compaction.Options
	v         *manifest.Version
	tables    *fakeTables
	snapshots []uint64
	epoch     uint64
	last      uint64 // newest sequence number flushed
	log       []string
	jobs      map[string]int
}

func TestATreeUnderItsPickersReadsLikeASortedMap(t *testing.T) {
	rounds := uint64(120)
	if testing.Short() {
		rounds = 30
	}
	jobs := make(map[string]int)
	for seed := range rounds {
		if !growTree(t, seed, jobs) {
			return
		}
	}
	for _, what := range []string{"L0", "move", "L1", "full", "bottommost"} {
		if jobs[what] == 0 {
			t.Errorf("no compaction of sort %q was ever picked: %v", what, jobs)
		}
	}
}

func growTree(t *testing.T, seed uint64, jobs map[string]int) bool {
	rng := rand.New(rand.NewPCG(seed, 3))
	var order keys.Order
	if seed%5 == 4 {
		order = keys.NewOrder(keys.ReverseBytewise)
	}
	shape := itertest.Shape{Ops: 100 + rng.IntN(900), Keys: 5 + rng.IntN(200), Deletes: rng.IntN(30), Singles: rng.IntN(10),
		Merges: rng.IntN(20), Ranges: rng.IntN(3) * rng.IntN(4), Entities: rng.IntN(5)}
	tr := &tree{t: t, h: itertest.Random(rng, order, shape), tables: newFakeTables(order), jobs: jobs}
	tr.o = compaction.Options{L0Trigger: 1 + rng.IntN(4), MaxBytesForLevelBase: uint64(200 + rng.IntN(800)), MaxBytesForLevelMultiply: 3,
		DynamicLevelBytes: rng.IntN(2) == 0, TargetFileSizeBase: uint64(60 + rng.IntN(200)), TargetFileSizeMultiply: 1 + rng.IntN(2),
		MaxCompactionBytes: uint64(300 + rng.IntN(3000))}
	tr.v = manifest.NewVersion(order, 3+rng.IntN(4))

	ops := tr.h.Ops
	for len(ops) > 0 {
		n := min(len(ops), 1+rng.IntN(60))
		chunk := &itertest.History{Order: order, Ops: ops[:n]}
		ops = ops[n:]
		tr.last = chunk.Ops[n-1].Seq
		err := tr.flush(chunk.Runs(rng, 1)[0])
		if err == nil {
			err = tr.settle(rng)
		}
		if err == nil {
			err = tr.check()
		}
		if err != nil {
			t.Errorf("seed %d: %v\nsnapshots %v\nlog:\n%s\nversion:\n%s\nhistory:\n%s", seed, err, tr.snapshots,
				strings.Join(tr.log, "\n"), tr.text(), chunkText(tr.h, tr.last))
			return false
		}
		if rng.IntN(3) == 0 {
			tr.snapshots = append(tr.snapshots, tr.last)
		}
		if len(tr.snapshots) > 0 && rng.IntN(4) == 0 {
			i := rng.IntN(len(tr.snapshots))
			tr.snapshots = slices.Delete(tr.snapshots, i, i+1)
		}
	}
	return true
}

func chunkText(h *itertest.History, last uint64) string {
	upTo := &itertest.History{Order: h.Order}
	for _, op := range h.Ops {
		if op.Seq <= last {
			upTo.Ops = append(upTo.Ops, op)
		}
	}
	return upTo.String()
}

func (tr *tree) flush(r itertest.Run) error {
	tr.epoch++
	job := &compaction.Job{Order: tr.h.Order, Tombstones: r.Tombstones, EpochNumber: tr.epoch,
		Sources: []compaction.Source{compaction.MemTableSource(itertest.New(tr.h.Order, r.Entries))}}
	files, err := tr.run(job)
	if err != nil {
		return err
	}
	if len(files) > 1 {
		return fmt.Errorf("a flush wrote %d files", len(files))
	}
	return tr.install(nil, files, 0)
}

func (tr *tree) run(job *compaction.Job) ([]*manifest.FileMetadata, error) {
	job.Snapshots, job.NewOutput, job.Operator = slices.Compact(slices.Clone(tr.snapshots)), tr.tables.newOutput, merge.StringAppend(",")
	res, err := compaction.Run(context.Background(), job)
	return res.Files, err
}

func (tr *tree) input() *compaction.Input { return &compaction.Input{Version: tr.v, Options: &tr.o} }

// settle compacts until the pickers are content.
func (tr *tree) settle(rng *rand.Rand) error {
	for range 200 {
		c := compaction.Pick(tr.input())
		if c == nil {
			break
		}
		if err := tr.compact(c); err != nil {
			return err
		}
	}
	if c := compaction.Pick(tr.input()); c != nil {
		return fmt.Errorf("the picker is never content: %+v", c)
	}
	if rng.IntN(8) > 0 {
		return nil
	}
	full := compaction.FullOptions{Force: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		full.Start, full.End = fmt.Appendf(nil, "%c", 'a'+rng.IntN(3)), fmt.Appendf(nil, "%c", 'a'+rng.IntN(3))
	}
	c, err := compaction.PickFull(tr.input(), full)
	if err != nil || c == nil {
		return err
	}
	tr.jobs["full"]++
	return tr.compact(c)
}

func (tr *tree) compact(c *compaction.Choice) error {
	tr.log = append(tr.log, fmt.Sprintf("%v -> L%d move %v bottommost %v", c.Deletions(), c.OutputLevel, c.TrivialMove, c.Bottommost))
	tr.jobs[fmt.Sprintf("L%d", c.Inputs[0].Level)]++
	if c.Bottommost {
		tr.jobs["bottommost"]++
	}
	if c.TrivialMove {
		tr.jobs["move"]++
		return tr.install(c.Deletions(), c.Files(), c.OutputLevel)
	}
	order := tr.h.Order
	job := &compaction.Job{Order: order, Beyond: c.Beyond(tr.v), Bottommost: c.Bottommost, TargetFileSize: int64(c.TargetFileSize),
		Grandparents: c.Grandparents, MaxGrandparentOverlap: c.MaxGrandparentOverlap, EpochNumber: manifest.MinEpoch(c.Files())}
	open := func(f *manifest.FileMetadata) (table.Iterator, error) {
		return itertest.New(order, tr.tables.files[f.Number].entries), nil
	}
	for _, in := range c.Inputs {
		if in.Level > 0 {
			job.Sources = append(job.Sources, compaction.LevelSource(order, in.Files, open))
		}
		for _, f := range in.Files {
			if in.Level == 0 {
				it, _ := open(f)
				job.Sources = append(job.Sources, compaction.FileSource(f, it))
			}
			job.Tombstones = tr.tombstones(f).AppendTombstones(job.Tombstones)
		}
	}
	files, err := tr.run(job)
	if err != nil {
		return err
	}
	return tr.install(c.Deletions(), files, c.OutputLevel)
}

func (tr *tree) tombstones(f *manifest.FileMetadata) *rangedel.List {
	return rangedel.New(tr.h.Order, tr.tables.files[f.Number].tombstones).Clip(f.SmallestKey, f.LargestKey, f.LargestIsExclusive())
}

func (tr *tree) install(del []manifest.DeletedFile, add []*manifest.FileMetadata, level int) error {
	e := &manifest.VersionEdit{DeletedFiles: del}
	for _, f := range add {
		e.NewFiles = append(e.NewFiles, manifest.NewFile{Level: level, Meta: f})
	}
	b := manifest.NewBuilder(tr.v)
	if err := b.Apply(e); err != nil {
		return err
	}
	v, err := b.Build()
	if err != nil {
		return err
	}
	tr.v = v
	return nil
}

// check reads the newest state and every snapshot.
func (tr *tree) check() error {
	for _, seq := range append(slices.Clone(tr.snapshots), tr.last) {
		if err := tr.read(seq); err != nil {
			return fmt.Errorf("at seq %d: %w", seq, err)
		}
	}
	return nil
}

func (tr *tree) read(seq uint64) error {
	order := tr.h.Order
	o := iterator.Options{Order: order, Seq: seq, Operator: merge.StringAppend(",")}
	var sources []table.Iterator
	for level, files := range tr.v.Levels {
		for _, f := range files {
			o.Tombstones = append(o.Tombstones, iterator.SourceTombstones{Source: len(sources), List: tr.tombstones(f)})
			if level == 0 {
				sources = append(sources, itertest.New(order, tr.tables.files[f.Number].entries))
			}
		}
		if level == 0 || len(files) == 0 {
			continue
		}
		list := &iterator.FileList{OpenFile: func(i int) (table.Iterator, error) {
			return itertest.New(order, tr.tables.files[files[i].Number].entries), nil
		}}
		for _, f := range files {
			list.Bounds = append(list.Bounds, iterator.Bounds{Smallest: f.SmallestKey, SmallestTrailer: f.SmallestTrailer,
				Largest: f.LargestKey, LargestTrailer: f.LargestTrailer})
		}
		sources = append(sources, iterator.NewLevel(order, list))
	}
	var u iterator.User
	u.Reset(&o, sources)
	defer u.Close()
	want, i := tr.h.At(seq), 0
	for u.First(); u.Valid(); u.Next() {
		if i >= len(want) || !bytes.Equal(u.Key(), want[i].Key) || !bytes.Equal(u.Value(), want[i].Value) {
			return fmt.Errorf("key %d is %s=%s, not what the map has", i, u.Key(), u.Value())
		}
		i++
	}
	if u.Err() != nil {
		return u.Err()
	}
	if i < len(want) {
		return fmt.Errorf("ended before %s=%s", want[i].Key, want[i].Value)
	}
	return nil
}

func (tr *tree) text() string {
	var b strings.Builder
	for level, files := range tr.v.Levels {
		for _, f := range files {
			w := tr.tables.files[f.Number]
			fmt.Fprintf(&b, "L%d %d %s %v %s\n", level, f.Number, boundsOf(f), w.entries, tombstonesText(w.tombstones))
		}
	}
	return b.String()
}
