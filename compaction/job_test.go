package compaction_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/iterator/itertest"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/table"
)

// puts makes a run of n entries from key number first on, step apart.
func puts(first, n, step int, seq uint64) itertest.Run {
	var r itertest.Run
	for i := range n {
		r.Entries = append(r.Entries, itertest.Entry{Key: fmt.Appendf(nil, "%06d", first+i*step),
			Trailer: keys.Pack(seq, keys.KindValue), Value: []byte("0123456789")})
	}
	return r
}

func jobOf(tables *fakeTables, runs ...itertest.Run) (*compaction.Job, []*itertest.Iter) {
	job := &compaction.Job{Order: tables.order, NewOutput: tables.newOutput, EpochNumber: 7}
	var its []*itertest.Iter
	for i, r := range runs {
		it := itertest.New(tables.order, r.Entries)
		its = append(its, it)
		job.Sources = append(job.Sources, compaction.FileSource(&manifest.FileMetadata{Number: uint64(i + 1)}, it))
		job.Tombstones = append(job.Tombstones, r.Tombstones...)
	}
	return job, its
}

func TestACancelledJobStops(t *testing.T) { bothWays(t, aCancelledJobStops) }

func aCancelledJobStops(t *testing.T, beside func(func()) func()) {
	tables := newFakeTables(keys.Order{})
	job, its := jobOf(tables, puts(0, 5000, 1, 9))
	job.Beside = beside
	ctx, cancel := context.WithCancel(context.Background())
	first := job.NewOutput
	job.NewOutput = func() (compaction.Output, error) {
		cancel()
		return first()
	}
	res, err := compaction.Run(ctx, job)
	if !errors.Is(err, context.Canceled) || len(res.Files) != 0 || !slices.Equal(res.Created, []uint64{1}) || tables.abandoned != 1 {
		t.Errorf("%v, files %d, created %v, abandoned %d", err, len(res.Files), res.Created, tables.abandoned)
	}
	if !its[0].Closed || its[0].Calls > 2000 {
		t.Errorf("input closed %v after %d calls", its[0].Closed, its[0].Calls)
	}
	// Short jobs notice at their end.
	job, _ = jobOf(tables, puts(0, 5, 1, 9))
	job.Beside = beside
	if _, err := compaction.Run(ctx, job); !errors.Is(err, context.Canceled) {
		t.Errorf("a short job gives %v", err)
	}
}

func TestEveryFailureOfAnOutputAbandonsIt(t *testing.T) {
	bothWays(t, everyFailureOfAnOutputAbandonsIt)
}

func everyFailureOfAnOutputAbandonsIt(t *testing.T, beside func(func()) func()) {
	for n := 1; n <= 10; n++ {
		tables := newFakeTables(keys.Order{})
		tables.failAt = n
		job, its := jobOf(tables, puts(0, 10, 2, 9), puts(1, 5, 2, 8))
		job.Beside = beside
		job.TargetFileSize = 50
		res, err := compaction.Run(context.Background(), job)
		if !errors.Is(err, errInjected) || tables.abandoned != 1 || len(res.Created) == 0 {
			t.Errorf("add %d fails: %v, abandoned %d, created %v", n, err, tables.abandoned, res.Created)
		}
		for i, it := range its {
			if !it.Closed {
				t.Errorf("add %d fails: input %d stays open", n, i)
			}
		}
	}
	tables := newFakeTables(keys.Order{})
	job, _ := jobOf(tables, puts(0, 3, 1, 9))
	job.Beside = beside
	job.NewOutput = func() (compaction.Output, error) { return compaction.Output{}, errInjected }
	if _, err := compaction.Run(context.Background(), job); !errors.Is(err, errInjected) {
		t.Errorf("an output that does not start gives %v", err)
	}
}

func TestEveryFailureOfAnInputEndsTheJob(t *testing.T) { bothWays(t, everyFailureOfAnInputEndsTheJob) }

func everyFailureOfAnInputEndsTheJob(t *testing.T, beside func(func()) func()) {
	for n := 1; n <= 11; n++ {
		tables := newFakeTables(keys.Order{})
		job, its := jobOf(tables, puts(0, 10, 2, 9), puts(1, 10, 2, 8))
		job.Beside = beside
		its[1].FailAt, its[1].Failed = n, errInjected
		if _, err := compaction.Run(context.Background(), job); !errors.Is(err, errInjected) {
			t.Errorf("call %d fails: %v", n, err)
		}
	}
}

func TestDamagedEntitiesEndTheJob(t *testing.T) {
	tables := newFakeTables(keys.Order{})
	job, _ := jobOf(tables, itertest.Run{Entries: []itertest.Entry{
		{Key: []byte("k"), Trailer: keys.Pack(2, keys.KindMerge)}, {Key: []byte("k"), Trailer: keys.Pack(1, keys.KindEntity), Value: []byte{9}}}})
	job.Operator = merge.StringAppend(",")
	if _, err := compaction.Run(context.Background(), job); !errors.Is(err, keys.ErrCorruption) {
		t.Errorf("got %v, want a corruption", err)
	}
}

func TestAnOutputEndsWhenItOverlapsTooManyGrandparents(t *testing.T) {
	bothWays(t, anOutputEndsWhenItOverlapsTooManyGrandparents)
}

func anOutputEndsWhenItOverlapsTooManyGrandparents(t *testing.T, beside func(func()) func()) {
	tables := newFakeTables(keys.Order{})
	job, _ := jobOf(tables, puts(0, 100, 1, 9))
	job.Beside = beside
	for i := range 10 {
		job.Grandparents = append(job.Grandparents, &manifest.FileMetadata{Number: uint64(i), Size: 1e6,
			SmallestKey: fmt.Appendf(nil, "%06d", i*10), LargestKey: fmt.Appendf(nil, "%06d", i*10+8)})
	}
	job.MaxGrandparentOverlap = 2.5e6
	res, err := compaction.Run(context.Background(), job)
	must(t, err)
	if len(res.Files) != 5 {
		t.Errorf("%d outputs over 10 grandparents of 1 MB with a limit of 2.5, want 5", len(res.Files))
	}
	must(t, checkFiles(keys.Order{}, res.Files, tables))
}

func TestMetadataOfOutputs(t *testing.T) { bothWays(t, metadataOfOutputs) }

func metadataOfOutputs(t *testing.T, beside func(func()) func()) {
	tables := newFakeTables(keys.Order{})
	job, _ := jobOf(tables, puts(0, 2, 1, 9))
	job.Beside = beside
	job.Tombstones = []table.Tombstone{{Start: []byte("b"), End: []byte("c"), Seq: 5}}
	job.OldestAncestorTime, job.FileCreationTime = 11, 12
	start := job.NewOutput
	job.NewOutput = func() (compaction.Output, error) {
		out, err := start()
		out.PathID, out.UniqueID = 2, []byte("unique id of 16b")
		return out, err
	}
	res, err := compaction.Run(context.Background(), job)
	must(t, err)
	f := res.Files[0]
	if f.Number != 1 || f.PathID != 2 || f.Size == 0 || f.EpochNumber != 7 || f.OldestAncestorTime != 11 || f.FileCreationTime != 12 ||
		!bytes.Equal(f.UniqueID, []byte("unique id of 16b")) || f.SmallestSeq != 5 || f.LargestSeq != 9 ||
		string(f.SmallestKey) != "000000" || string(f.LargestKey) != "c" || !f.LargestIsExclusive() {
		t.Errorf("%+v", f)
	}
}

func TestLevelSourceNamesTheFileOfAnError(t *testing.T) {
	contents := map[uint64]itertest.Run{7: puts(0, 3, 1, 9), 8: puts(10, 3, 1, 9)}
	contents[8].Entries[2].Key = []byte("000011")
	var files []*manifest.FileMetadata
	for _, n := range []uint64{7, 8} {
		e := contents[n].Entries
		files = append(files, &manifest.FileMetadata{Number: n, SmallestKey: e[0].Key, SmallestTrailer: e[0].Trailer,
			LargestKey: []byte("000012"), LargestTrailer: e[2].Trailer})
	}
	tables := newFakeTables(keys.Order{})
	job, _ := jobOf(tables)
	job.Sources = []compaction.Source{compaction.LevelSource(keys.Order{}, files, func(f *manifest.FileMetadata) (table.Iterator, error) {
		return itertest.New(keys.Order{}, contents[f.Number].Entries), nil
	})}
	_, err := compaction.Run(context.Background(), job)
	var c *keys.CorruptionError
	if !errors.As(err, &c) || c.File != "000008.sst" {
		t.Errorf("got %v, want a corruption of 000008.sst", err)
	}
}

func TestBeyondGoesByTheBoundsOfDeeperFiles(t *testing.T) {
	s := &scripted{t: t}
	s.run3(t)
	for _, level := range []int{0, 1, 2} {
		choice := compaction.Choice{OutputLevel: level}
		b := choice.Beyond(s.v)
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "k", "z"} {
			want := level > 0 && !(level < 2 && key >= "b" && key <= "d") && !(key >= "f" && key < "h")
			if got := b.LacksKey([]byte(key)); got != want {
				t.Errorf("below L%d: LacksKey(%s) = %v, want %v", level, key, got, want)
			}
		}
		if got := b.LacksRange([]byte("h"), []byte("k")); got != (level > 0) {
			t.Errorf("below L%d: LacksRange(h, k) = %v", level, got)
		}
		if b.LacksRange([]byte("e"), []byte("g")) {
			t.Errorf("below L%d: LacksRange(e, g)", level)
		}
	}
}

// run3 sets up a version with files in L2 and L3.
func (s *scripted) run3(t *testing.T) {
	v := manifest.NewVersion(keys.Order{}, 4)
	file := func(n uint64, small, large string, trailer uint64) *manifest.FileMetadata {
		return &manifest.FileMetadata{Number: n, SmallestKey: []byte(small), SmallestTrailer: keys.Pack(9, keys.KindValue),
			LargestKey: []byte(large), LargestTrailer: trailer}
	}
	v.Levels[2] = []*manifest.FileMetadata{file(1, "b", "d", keys.Pack(9, keys.KindValue))}
	v.Levels[3] = []*manifest.FileMetadata{file(2, "f", "h", keys.Pack(keys.MaxSeq, keys.KindRangeDelete))}
	must(t, v.Check())
	s.v = v
}

// discard is a table.Writer that keeps nothing, to see what Run itself costs.
type discard struct{ size int64 }

func (d *discard) Add(k []byte, _ uint64, v []byte) error {
	d.size += int64(len(k) + len(v))
	return nil
}
func (d *discard) AddTombstone(table.Tombstone) error { return nil }
func (d *discard) EstimatedSize() int64               { return d.size }
func (d *discard) Finish() (table.Summary, error)     { return table.Summary{Size: d.size}, nil }
func (d *discard) Abandon()                           {}

func discardJob(runs []itertest.Run) *compaction.Job {
	job := &compaction.Job{Bottommost: true, NewOutput: func() (compaction.Output, error) {
		return compaction.Output{Number: 1, Writer: &discard{}}, nil
	}}
	for _, r := range runs {
		it := itertest.New(keys.Order{}, r.Entries)
		it.Kind = true
		job.Sources = append(job.Sources, compaction.FileSource(&manifest.FileMetadata{Number: 1}, it))
	}
	return job
}

func TestRunDoesNotAllocateByEntry(t *testing.T) {
	small := []itertest.Run{puts(0, 100, 2, 9), puts(1, 100, 1, 8)}
	large := []itertest.Run{puts(0, 5000, 2, 9), puts(1, 5000, 1, 8)}
	count := func(runs []itertest.Run) float64 {
		return testing.AllocsPerRun(5, func() {
			if _, err := compaction.Run(context.Background(), discardJob(runs)); err != nil {
				t.Fatal(err)
			}
		})
	}
	if s, l := count(small), count(large); l > s+5 {
		t.Errorf("%v allocations for 200 entries, %v for 10000", s, l)
	}
}

func BenchmarkRun(b *testing.B) {
	for _, n := range []int{1, 2, 5} {
		b.Run(fmt.Sprintf("runs-%d", n), func(b *testing.B) {
			var runs []itertest.Run
			const entries = 20000
			for i := range n {
				runs = append(runs, puts(i, entries/n, n, uint64(9-i)))
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := compaction.Run(context.Background(), discardJob(runs)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/entry")
		})
	}
}
