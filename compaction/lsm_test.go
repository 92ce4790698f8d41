package compaction_test

import (
	"bytes"
	"context"
	"errors"
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

	running  compaction.Running
	begun    []begun
	cursors  map[int][]byte
	released compaction.Released
	now      uint64
	stats    map[uint64]compaction.FileStats
	dropped  bool // the FIFO style took data away: what is read is not checked
}

// begun is a compaction under way, with the version that it was picked in.
type begun struct {
	c *compaction.Choice
	v *manifest.Version
}

func TestATreeUnderItsPickersReadsLikeASortedMap(t *testing.T) {
	rounds := uint64(400)
	if testing.Short() {
		rounds = 60
	}
	jobs := make(map[string]int)
	for seed := range rounds {
		if !growTree(t, seed, jobs) {
			return
		}
	}
	for _, what := range []string{"L0", "move", "L1", "bottommost", "at once", "l0-files", "level-size", "manual", "files", "refit", "marked", "bottommost", "ttl",
		"periodic", "size-amp", "size-ratio", "sorted-runs", "fifo-size", "fifo-ttl", "fifo-files"} {
		if jobs[what] == 0 && !testing.Short() {
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
	tr := &tree{t: t, h: itertest.Random(rng, order, shape), tables: newFakeTables(order), jobs: jobs,
		cursors: map[int][]byte{}, stats: map[uint64]compaction.FileStats{}, now: 1000}
	tr.o = compaction.Options{L0Trigger: 1 + rng.IntN(4), MaxBytesForLevelBase: uint64(200 + rng.IntN(800)), MaxBytesForLevelMultiply: 3,
		DynamicLevelBytes: rng.IntN(2) == 0, TargetFileSizeBase: uint64(60 + rng.IntN(200)), TargetFileSizeMultiply: 1 + rng.IntN(2),
		MaxCompactionBytes: uint64(300 + rng.IntN(3000)), Priority: compaction.Priority(rng.IntN(5)), L0StopTrigger: 12, WriteBufferSize: 100,
		Universal: compaction.DefaultUniversalOptions(), FIFO: compaction.FIFOOptions{MaxTableFilesSize: 3000, AllowCompaction: rng.IntN(2) == 0}}
	tr.o.Style = compaction.Style(rng.IntN(8) / 3 % 3) // FIFO less often
	if rng.IntN(3) == 0 {
		tr.o.TTL = uint64(20 + rng.IntN(400))
	}
	if rng.IntN(3) == 0 && tr.o.Style != compaction.FIFO {
		tr.o.PeriodicSeconds = uint64(20 + rng.IntN(400))
	}
	u := &tr.o.Universal
	u.SizeRatio, u.MaxSizeAmplificationPercent = rng.IntN(100), 25+rng.IntN(200)
	u.StopStyle, u.Incremental, u.AllowTrivialMove = compaction.StopStyle(rng.IntN(2)), rng.IntN(2) == 0, rng.IntN(2) == 0
	u.MaxReadAmp, u.MaxMergeWidth = rng.IntN(4)-1, 2+rng.IntN(10)
	tr.v = manifest.NewVersion(order, 3+rng.IntN(4))
	if rng.IntN(8) == 0 && tr.o.Style != compaction.Leveled {
		tr.v = manifest.NewVersion(order, 1)
	}

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
			tr.released = compaction.Released{Snapshot: tr.last, Files: tr.tables.next}
			if len(tr.snapshots) > 0 {
				tr.released.Snapshot = tr.snapshots[0]
			}
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
	job.NewMarker = compaction.DeletionDensity{Window: 8, Trigger: 6}.NewMarker
	job.FileCreationTime = tr.now
	if job.OldestAncestorTime == 0 {
		job.OldestAncestorTime = tr.now
	}
	if tr.tables.next%2 == 0 {
		job.Beside = beside
	}
	res, err := compaction.Run(context.Background(), job)
	return res.Files, err
}

func (tr *tree) input() *compaction.Input {
	return &compaction.Input{Version: tr.v, Options: &tr.o, Running: &tr.running, Now: tr.now, Cursors: tr.cursors, Released: tr.released,
		Stats: func(f *manifest.FileMetadata) compaction.FileStats { return tr.stats[f.Number] }}
}

// settle compacts until the pickers are content, up to three at once.
func (tr *tree) settle(rng *rand.Rand) error {
	tr.now += uint64(rng.IntN(40))
	for range 400 {
		if len(tr.begun) < 3 && rng.IntN(3) > 0 {
			if c := compaction.Pick(tr.input()); c != nil {
				tr.begin(c)
				continue
			}
			if len(tr.begun) == 0 {
				break
			}
		}
		if err := tr.endOne(rng); err != nil {
			return err
		}
	}
	for len(tr.begun) > 0 {
		if err := tr.endOne(rng); err != nil {
			return err
		}
	}
	for n := 0; ; n++ {
		c := compaction.Pick(tr.input())
		if c == nil {
			break
		}
		if n == 200 {
			return fmt.Errorf("the picker is never content: %+v", c)
		}
		if err := tr.compact(c, tr.v); err != nil {
			return err
		}
	}
	if err := tr.bounded(); err != nil {
		return err
	}
	switch rng.IntN(10) {
	case 0:
		return tr.manual(rng)
	case 1:
		return tr.files(rng)
	}
	return nil
}

// bounded holds the tree, whose pickers are content, to what its style promises of the space that it takes and of
// the sorted runs that a read looks into. It counts for itself, by other rules than the pickers'.
func (tr *tree) bounded() error {
	bytes := make([]uint64, tr.v.NumLevels())
	var runs []uint64 // sizes, the newest first
	var total uint64
	for level, files := range tr.v.Levels {
		for _, f := range files {
			bytes[level] += f.Size
			if level == 0 {
				runs = append(runs, f.Size)
			}
		}
		if level > 0 && bytes[level] > 0 {
			runs = append(runs, bytes[level])
		}
		total += bytes[level]
	}
	last := len(bytes) - 1
	switch tr.o.Style {
	case compaction.Leveled:
		if n := len(tr.v.Levels[0]); n >= tr.o.L0Trigger && last > 0 {
			return fmt.Errorf("level 0 keeps %d files, and is merged from %d on", n, tr.o.L0Trigger)
		}
		limit := tr.o.MaxBytesForLevelBase
		for level := 1; level < last; level++ {
			if !tr.o.DynamicLevelBytes && bytes[level] > limit {
				return fmt.Errorf("level %d keeps %d bytes of at most %d", level, bytes[level], limit)
			}
			limit *= 3
		}
		// Levels that each have a third of the next have half of the last in all, beside the first, which may have its base.
		above := total - bytes[0] - bytes[last]
		if tr.o.DynamicLevelBytes && above > slices.Max(bytes[1:])/2+tr.o.MaxBytesForLevelBase {
			return fmt.Errorf("%d bytes lie between level 0 and the last, which has %d: %d", above, bytes[last], bytes)
		}
	case compaction.Universal:
		// With a MaxReadAmp of zero the number follows from sizes.
		if most := max(tr.o.L0Trigger, tr.o.Universal.MaxReadAmp); len(runs) > most && tr.o.Universal.MaxReadAmp != 0 {
			return fmt.Errorf("%d sorted runs, at most %d are kept", len(runs), most)
		}
		if n := len(runs); n > 0 && n >= tr.o.L0Trigger && n > 1 {
			if upper, oldest := total-runs[n-1], runs[n-1]; upper*100 > oldest*uint64(tr.o.Universal.MaxSizeAmplificationPercent) {
				return fmt.Errorf("runs of %d bytes: %d over the oldest with %d, at most %d %% are kept", runs, upper, oldest, tr.o.Universal.MaxSizeAmplificationPercent)
			}
		}
	case compaction.FIFO:
		if total > tr.o.FIFO.MaxTableFilesSize {
			return fmt.Errorf("%d bytes are kept of at most %d", total, tr.o.FIFO.MaxTableFilesSize)
		}
	}
	return nil
}

func (tr *tree) begin(c *compaction.Choice) {
	if tr.running.Add(c); tr.running.Len() > 1 {
		tr.jobs["at once"]++
	}
	tr.begun = append(tr.begun, begun{c, tr.v})
}

func (tr *tree) endOne(rng *rand.Rand) error {
	if len(tr.begun) == 0 {
		return nil
	}
	i := rng.IntN(len(tr.begun))
	b := tr.begun[i]
	tr.begun = slices.Delete(tr.begun, i, i+1)
	err := tr.compact(b.c, b.v)
	tr.running.Remove(b.c)
	return err
}

func (tr *tree) manual(rng *rand.Rand) error {
	m := &compaction.Manual{Bottommost: compaction.BottommostPolicy(rng.IntN(4)), NextFile: tr.tables.next,
		ChangeLevel: rng.IntN(3) == 0, TargetLevel: -1}
	if rng.IntN(2) == 0 {
		m.Start, m.End = fmt.Appendf(nil, "%c", 'a'+rng.IntN(3)), fmt.Appendf(nil, "%c", 'a'+rng.IntN(3))
	}
	for range 200 {
		c, err := m.Next(tr.input())
		if c == nil || err != nil {
			if errors.Is(err, compaction.ErrRefused) {
				err = nil
			}
			return err
		}
		if err := tr.compact(c, tr.v); err != nil {
			return err
		}
		m.Done()
	}
	return errors.New("a manual compaction that does not end")
}

func (tr *tree) files(rng *rand.Rand) error {
	var numbers []uint64
	deepest := 0
	for level, files := range tr.v.Levels {
		for _, f := range files {
			if rng.IntN(4) == 0 {
				numbers, deepest = append(numbers, f.Number), level
			}
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	c, err := compaction.PickFiles(tr.input(), numbers, deepest+rng.IntN(tr.v.NumLevels()-deepest))
	if err != nil {
		return err
	}
	return tr.compact(c, tr.v)
}

func (tr *tree) compact(c *compaction.Choice, v *manifest.Version) error {
	tr.jobs[c.Reason.String()]++
	if c.Cursor != nil {
		tr.cursors[c.Cursor.Level] = c.Cursor.Key
	}
	if c.Drop {
		tr.dropped = true
		return tr.install(c.Deletions(), nil, 0)
	}
	tr.log = append(tr.log, fmt.Sprintf("%v -> L%d move %v bottommost %v", c.Deletions(), c.OutputLevel, c.TrivialMove, c.Bottommost)+" "+c.Reason.String())
	tr.jobs[fmt.Sprintf("L%d", c.Inputs[0].Level)]++
	if c.Bottommost {
		tr.jobs["bottommost"]++
	}
	if c.TrivialMove {
		tr.jobs["move"]++
		return tr.install(c.Deletions(), c.Files(), c.OutputLevel)
	}
	order := tr.h.Order
	job := &compaction.Job{Order: order, Beyond: c.Beyond(v), Bottommost: c.Bottommost, KeepSeq: c.KeepSeq, TargetFileSize: int64(c.TargetFileSize),
		StretchFileSize: int64(c.StretchFileSize), AlignOutputs: c.AlignOutputs, SplitKey: c.SplitKey,
		Grandparents: c.Grandparents, MaxGrandparentOverlap: c.MaxGrandparentOverlap, EpochNumber: manifest.MinEpoch(c.Files())}
	open := func(f *manifest.FileMetadata) (table.Iterator, error) {
		return itertest.New(order, tr.tables.written(f.Number)), nil
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
			if t := f.OldestAncestorTime; job.OldestAncestorTime == 0 || t < job.OldestAncestorTime {
				job.OldestAncestorTime = t
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
		w := tr.tables.files[f.Number]
		st := compaction.FileStats{Entries: uint64(len(w.entries) + len(w.tombstones)), RangeDeletions: uint64(len(w.tombstones)),
			Deletions: uint64(len(w.tombstones)), RawKeySize: 10, RawValueSize: 10, CreationTime: f.OldestAncestorTime}
		for _, e := range w.entries {
			if k := keys.KindOf(e.Trailer); k == keys.KindDelete || k == keys.KindSingleDelete {
				st.Deletions++
			}
		}
		tr.stats[f.Number] = st
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
	if err := tr.v.Check(); err != nil || tr.dropped {
		return err
	}
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
