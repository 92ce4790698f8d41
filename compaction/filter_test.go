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
	"github.com/flatrock-db/flatrock/internal/entity"
	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/iterator/itertest"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
)

// filterFunc is a compaction.Filter.
type filterFunc func(e *compaction.FilterEntry) compaction.FilterDecision

func (filterFunc) Name() string                                                 { return "test" }
func (f filterFunc) Filter(e *compaction.FilterEntry) compaction.FilterDecision { return f(e) }

// ignoring is a filter that snapshots do not stop.
type ignoring struct{ filterFunc }

func (ignoring) IgnoreSnapshots() bool { return true }

// entry parses "key#seq,kind=value": V, D, S, M or E.
func entry(text string) itertest.Entry {
	head, value, _ := strings.Cut(text, "=")
	var e itertest.Entry
	var seq uint64
	var kind string
	head = strings.NewReplacer("#", " ", ",", " ").Replace(head)
	fmt.Sscan(head, &e.Key, &seq, &kind)
	k := map[string]keys.Kind{"V": keys.KindValue, "D": keys.KindDelete, "S": keys.KindSingleDelete, "M": keys.KindMerge, "E": keys.KindEntity}[kind]
	e.Trailer, e.Value = keys.Pack(seq, k), []byte(value)
	if k == keys.KindEntity {
		e.Value, _ = entity.Append(nil, []entity.Column{{Value: []byte(value)}, {Name: []byte("c"), Value: []byte("1")}})
	}
	return e
}

func TestFilterDecisions(t *testing.T) {
	var asked []string
	decide := func(e *compaction.FilterEntry) compaction.FilterDecision {
		asked = append(asked, fmt.Sprintf("%s%d%s", e.Key, e.Kind, e.Value))
		word, arg, _ := strings.Cut(string(e.Value), "-")
		switch word {
		case "remove":
			return compaction.FilterRemove
		case "purge":
			return compaction.FilterPurge
		case "change":
			e.NewValue = []byte(arg)
			return compaction.FilterChangeValue
		case "entity":
			e.NewColumns = []entity.Column{{Value: []byte(arg)}}
			return compaction.FilterChangeEntity
		case "skip":
			e.SkipUntil = []byte(arg)
			return compaction.FilterRemoveAndSkipUntil
		case "columns":
			if c, err := e.Columns(); err != nil || len(c) != 2 || string(c[1].Name) != "c" {
				t.Errorf("columns of %s: %v, %v", e.Key, c, err)
			}
		}
		return compaction.FilterKeep
	}
	for _, c := range []struct {
		name      string
		in        string
		snapshots []uint64
		bottom    bool
		ignore    bool
		want      string
		asked     string
	}{
		{"keep asks about the newest only", "a#9,V=1 a#5,V=2 b#3,D c#2,V=3", nil, false, false, "a#9,V=1 b#3,D c#2,V=3", "a01 c03"},
		{"remove leaves a delete above deeper data", "a#9,V=remove a#5,V=2", nil, false, false, "a#9,D", "a0remove"},
		{"remove leaves nothing at the bottom", "a#9,V=remove b#8,V=1", nil, true, false, "b#0,V=1", "a0remove b01"},
		{"purge leaves a single delete", "a#9,V=purge", nil, false, false, "a#9,S", "a0purge"},
		{"change", "a#9,V=change-x b#8,V=change-", nil, false, false, "a#9,V=x b#8,V", "a0change-x b0change-"},
		{"entity from a value, value from an entity", "a#9,V=entity-x b#8,E=change-y c#7,E=columns", nil, false, false, "a#9,E=x b#8,V=y c#7,E=columns", "a0entity-x b2change-y c2columns"},
		{"a snapshot protects", "a#9,V=remove", []uint64{9}, true, false, "a#0,V=remove", ""},
		{"a snapshot protects what is older", "a#9,V=remove a#5,V=2", []uint64{6}, true, false, "a#9,D a#0,V=2", "a0remove"},
		{"unless the filter ignores it", "a#9,V=remove", []uint64{9}, true, true, "", "a0remove"},
		{"skip", "a#9,V=skip-c b#8,V=1 bb#7,D c#6,V=2", nil, false, false, "c#6,V=2", "a0skip-c c02"},
		{"skip to where no key is", "a#9,V=skip-bx b#8,V=1 c#6,V=2", nil, false, false, "c#6,V=2", "a0skip-bx c02"},
		{"skip backwards keeps", "b#9,V=skip-a c#6,V=2", nil, false, false, "b#9,V=skip-a c#6,V=2", "b0skip-a c02"},
		{"skip with a snapshot", "a#9,V=skip-c a#4,V=0 b#8,V=1 b#3,V=4 bb#9,V=5 c#6,V=2", []uint64{5}, false, false, "a#9,D a#4,V=0 b#8,D b#3,V=4 c#6,V=2", "a0skip-c c02"},
		{"skip ignoring a snapshot", "a#9,V=skip-c a#4,V=0 b#3,V=4 c#6,V=2", []uint64{5}, false, true, "c#6,V=2", "a0skip-c c02"},
		{"operands", "a#9,M=x a#8,M=remove a#7,M=change-y a#6,V=z", nil, false, false, "a#9,V=z,y,x", "a1x a1remove a1change-y"},
		{"all operands removed", "a#9,M=remove a#6,V=z", nil, false, false, "a#6,V=z", "a1remove"},
		{"operands under a snapshot", "a#9,M=x a#8,M=remove", []uint64{8}, true, false, "a#9,M=x a#0,V=remove", "a1x"},
		{"an operand skips the key", "a#9,M=x a#8,M=skip-b a#7,M=y b#6,V=1", nil, false, false, "b#6,V=1", "a1x a1skip-b b01"},
		{"nothing is asked under a delete", "a#9,D a#8,V=remove a#7,M=remove", nil, false, false, "a#9,D", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked = nil
			var r itertest.Run
			for _, e := range strings.Fields(c.in) {
				r.Entries = append(r.Entries, entry(e))
			}
			tables := newFakeTables(keys.Order{})
			job, _ := jobOf(tables, r)
			job.Operator, job.Snapshots, job.Bottommost = merge.StringAppendTest(","), c.snapshots, c.bottom
			job.Filter = filterFunc(decide)
			if c.ignore {
				job.Filter = ignoring{decide}
			}
			res, err := compaction.Run(context.Background(), job)
			must(t, err)
			var got []string
			for _, f := range res.Files {
				for _, e := range tables.files[f.Number].entries {
					value := e.Value
					if keys.KindOf(e.Trailer) == keys.KindEntity {
						value, _ = entity.Default(value)
					}
					text := fmt.Sprintf("%s#%d,%s", e.Key, keys.Seq(e.Trailer), map[keys.Kind]string{keys.KindValue: "V", keys.KindDelete: "D", keys.KindSingleDelete: "S", keys.KindMerge: "M", keys.KindEntity: "E"}[keys.KindOf(e.Trailer)])
					if len(value) > 0 {
						text += "=" + string(value)
					}
					got = append(got, text)
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("left %q, want %q", s, c.want)
			}
			if s := strings.Join(asked, " "); s != c.asked {
				t.Errorf("asked about %q, want %q", s, c.asked)
			}
		})
	}
}

func TestFilterMistakesEndTheJob(t *testing.T) {
	for name, f := range map[string]filterFunc{
		"unknown decision": func(*compaction.FilterEntry) compaction.FilterDecision { return 77 },
		"name": func(e *compaction.FilterEntry) compaction.FilterDecision { // columns out of order
			e.NewColumns = []entity.Column{{Name: []byte("b")}, {Name: []byte("a")}}
			return compaction.FilterChangeEntity
		},
	} {
		job, its := jobOf(newFakeTables(keys.Order{}), puts(0, 3, 1, 9))
		job.Filter = f
		if _, err := compaction.Run(context.Background(), job); err == nil || !strings.Contains(err.Error(), "compaction filter test") {
			t.Errorf("%s: %v", name, err)
		}
		if !its[0].Closed {
			t.Errorf("%s: the input stays open", name)
		}
	}
	job, _ := jobOf(newFakeTables(keys.Order{}), itertest.Run{Entries: []itertest.Entry{{Key: []byte("k"), Trailer: keys.Pack(2, keys.KindEntity), Value: []byte{9}}}})
	job.Filter = filterFunc(func(*compaction.FilterEntry) compaction.FilterDecision { return compaction.FilterKeep })
	if _, err := compaction.Run(context.Background(), job); err == nil {
		t.Error("a damaged entity went through the filter")
	}
}

// TestFilterModel compacts the whole of random histories of values and deletes with a
// filter that decides by the value's bytes, and compares with a model: snapshots
// read what they did, and the newest state is that of before, filtered.
func TestFilterModel(t *testing.T) {
	rounds := uint64(1500)
	if testing.Short() {
		rounds = 150
	}
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(seed, 3))
		var order keys.Order
		shape := itertest.Shape{Ops: 1 + rng.IntN(200), Keys: 1 + rng.IntN(40), Deletes: rng.IntN(30), Ranges: rng.IntN(2) * rng.IntN(4)}
		h := itertest.Random(rng, order, shape)
		runs := h.Runs(rng, 1+rng.IntN(5))
		last := uint64(shape.Ops + 1)
		var snapshots []uint64
		for range rng.IntN(4) {
			snapshots = append(snapshots, uint64(rng.IntN(int(last)+1)))
		}
		slices.Sort(snapshots)
		snapshots = slices.Compact(snapshots)
		skip := rng.IntN(2) == 0
		decide := func(key, value []byte) (compaction.FilterDecision, []byte) {
			n := 0
			for _, b := range append(slices.Clone(key), value...) {
				n = n*31 + int(b)
			}
			switch n % 7 {
			case 0:
				return compaction.FilterRemove, nil
			case 1:
				return compaction.FilterChangeValue, append([]byte("new"), value...)
			case 2:
				if skip {
					return compaction.FilterRemoveAndSkipUntil, append(slices.Clone(key), '0')
				}
			}
			return compaction.FilterKeep, nil
		}
		// newest sequence numbers, to know which entries snapshots protect
		protected := map[string]bool{}
		newest := map[string]uint64{}
		for _, r := range runs {
			for _, e := range r.Entries {
				newest[string(e.Key)] = max(newest[string(e.Key)], keys.Seq(e.Trailer))
			}
		}
		for k, seq := range newest {
			protected[k] = len(snapshots) > 0 && seq <= snapshots[len(snapshots)-1]
		}
		var want []itertest.Entry
		skipTo := ""
		for _, e := range h.At(last) {
			if protected[string(e.Key)] {
				want = append(want, itertest.Entry{Key: e.Key, Value: e.Value})
				continue
			}
			if string(e.Key) < skipTo {
				continue
			}
			switch d, arg := decide(e.Key, e.Value); d {
			case compaction.FilterKeep:
				want = append(want, itertest.Entry{Key: e.Key, Value: e.Value})
			case compaction.FilterChangeValue:
				want = append(want, itertest.Entry{Key: e.Key, Value: arg})
			case compaction.FilterRemoveAndSkipUntil:
				skipTo = string(arg)
			}
		}
		tables := newFakeTables(order)
		job := &compaction.Job{Order: order, Snapshots: snapshots, NewOutput: tables.newOutput, Bottommost: true, EpochNumber: 7}
		job.TargetFileSize = int64(50 + rng.IntN(400))
		if rng.IntN(2) == 0 {
			job.Beside = beside
		}
		job.Filter = filterFunc(func(e *compaction.FilterEntry) compaction.FilterDecision {
			d, arg := decide(e.Key, e.Value)
			e.NewValue, e.SkipUntil = arg, arg
			return d
		})
		for i, r := range runs {
			job.Sources = append(job.Sources, source(order, fmt.Sprintf("%06d.sst", i), r))
			job.Tombstones = append(job.Tombstones, r.Tombstones...)
		}
		res, err := compaction.Run(context.Background(), job)
		must(t, err)
		must(t, checkFiles(order, res.Files, tables))
		for _, seq := range snapshots {
			if problem := readBack(order, h, seq, nil, res.Files, tables, nil); problem != "" {
				t.Fatalf("seed %d, snapshot %d: %s", seed, seq, problem)
			}
		}
		got := readAll(t, order, last, res.Files, tables)
		if !slices.EqualFunc(got, want, func(a, b itertest.Entry) bool { return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) }) {
			t.Fatalf("seed %d: read %v, want %v\nsnapshots %v\nhistory:\n%s", seed, got, want, snapshots, h)
		}
	}
}

// readAll reads the newest state of the files.
func readAll(t *testing.T, order keys.Order, seq uint64, files []*manifest.FileMetadata, tables *fakeTables) (all []itertest.Entry) {
	t.Helper()
	o := iterator.Options{Order: order, Seq: seq}
	var sources []table.Iterator
	for i, f := range files {
		w := tables.files[f.Number]
		o.Tombstones = append(o.Tombstones, iterator.SourceTombstones{Source: i, List: rangedel.New(order, w.tombstones)})
		sources = append(sources, itertest.New(order, w.entries))
	}
	var u iterator.User
	u.Reset(&o, sources)
	defer u.Close()
	for u.First(); u.Valid(); u.Next() {
		all = append(all, itertest.Entry{Key: bytes.Clone(u.Key()), Value: bytes.Clone(u.Value())})
	}
	must(t, u.Err())
	return all
}
