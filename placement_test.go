package flatrock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/numa"
	"github.com/flatrock-db/flatrock/plaintable"
)

// fakeMachine is one of the numa package's trees of system files.
func fakeMachine(t *testing.T, name string) *numa.Topology {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("numa", "testdata", "topology", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{}
	var file *fstest.MapFile
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "-- "); ok {
			file = &fstest.MapFile{Mode: 0o444}
			tree[strings.TrimSuffix(path, " --\n")] = file
		} else if file != nil {
			file.Data = append(file.Data, line...)
		}
	}
	topology, err := numa.Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// describePlacement is what is to be done, in one line.
func describePlacement(p placement) string {
	one := func(name string, m mmapfs.Placement) string {
		if m.Mode == mmapfs.PlacementDefault {
			return ""
		}
		mode := map[mmapfs.PlacementMode]string{
			mmapfs.PlacementInterleave: "interleave", mmapfs.PlacementBind: "bind", mmapfs.PlacementPrefer: "prefer",
		}[m.Mode]
		return fmt.Sprintf("%s=%s:%s ", name, mode, numa.FormatList(m.Nodes))
	}
	s := one("memtables", p.memtables) + one("cache", p.cache) + one("rows", p.tables.Rows) + one("index", p.tables.Index)
	if r := p.tables.Replicas; r != nil {
		s += fmt.Sprintf("replicas=%s rows:%t ", numa.FormatList(r.Nodes), r.Rows)
	}
	if p.loading.Mode != numa.Default {
		s += fmt.Sprintf("loading=%s home=%d ", p.loading, p.home)
	}
	if len(p.background) > 0 {
		s += "cpus=" + numa.FormatList(p.background)
	}
	return strings.TrimSpace(s)
}

func TestPlacementOnManyMachines(t *testing.T) {
	replicate := MemoryPlacement{Mode: PlaceReplicate}
	for _, c := range []struct {
		machine string
		p       Placement
		want    string
	}{
		{"two", PlaceAll(PlaceInterleave), "memtables=interleave:0-1 cache=interleave:0-1 rows=interleave:0-1 index=interleave:0-1 loading=interleave:0-1 home=-1"},
		{"two", PlaceAll(PlaceBind, 1), "memtables=bind:1 cache=bind:1 rows=bind:1 index=bind:1 loading=bind:1 home=1"},
		{"two", PlaceAll(PlacePrefer, 0), "memtables=prefer:0 cache=prefer:0 rows=prefer:0 index=prefer:0 loading=preferred:0 home=0"},
		{"two", PlaceAll(PlaceReplicate), "memtables=interleave:0-1 cache=interleave:0-1 replicas=0-1 rows:true"},
		{"two", Placement{Indexes: replicate, Tables: MemoryPlacement{Mode: PlaceInterleave}}, "rows=interleave:0-1 replicas=0-1 rows:false loading=interleave:0-1 home=-1"},
		{"two", Placement{Tables: replicate, Indexes: replicate, BackgroundNodes: []int{1}}, "replicas=0-1 rows:true cpus=1"},
		{"two", Placement{Tables: MemoryPlacement{Mode: PlaceReplicate, Nodes: []int{1}}}, "rows=prefer:1 loading=preferred:1 home=1"},
		{"two", Placement{BackgroundNodes: []int{0}}, "cpus=0"},
		{"four", Placement{Indexes: MemoryPlacement{Mode: PlaceReplicate, Nodes: []int{3, 1, 3}}}, "replicas=1,3 rows:false"},
		{"odd", Placement{Indexes: replicate}, "replicas=0,2 rows:false"}, // 1 has no memory, 3 no CPU near it
		{"one", PlaceAll(PlaceReplicate), ""},
		{"one", PlaceAll(PlaceBind, 0), ""},
		{"one", Placement{Tables: MemoryPlacement{Mode: PlaceInterleave}, BackgroundNodes: []int{0}}, ""},
		{"nonuma", PlaceAll(PlaceReplicate), ""},
	} {
		if err := c.p.validate(); err != nil {
			t.Errorf("%s: %+v: %v", c.machine, c.p, err)
			continue
		}
		topology := fakeMachine(t, c.machine)
		p, err := resolvePlacement(&c.p, topology, new(numa.Locator), slog.New(slog.DiscardHandler))
		if got := describePlacement(p); err != nil || got != c.want {
			t.Errorf("%s: %+v:\n got %s, %v\nwant %s", c.machine, c.p, got, err, c.want)
		}
	}
}

// TestReadersUseTheNearestReplica: node 1 of the odd machine has CPUs and no memory.
func TestReadersUseTheNearestReplica(t *testing.T) {
	r := replicasOn([]int{0, 2}, fakeMachine(t, "odd"), new(numa.Locator), false)
	if got := r.Here(); got != 0 { // the zero Locator is on node 0
		t.Errorf("a reader on node 0 uses replica %d", got)
	}
	eight := fakeMachine(t, "eight")
	if r := replicasOn([]int{5}, eight, new(numa.Locator), false); r.Here() != 0 {
		t.Error("a single replica is not the nearest")
	}
	if r := replicasOn([]int{2, 7}, eight, new(numa.Locator), false); r.Here() != 1 {
		t.Error("on a ring of eight, 7 is nearer to 0 than 2 is")
	}
}

// TestNoReplicasWhereTheNodeIsCostlyToAsk: the read path makes no system call.
func TestNoReplicasWhereTheNodeIsCostlyToAsk(t *testing.T) {
	four := fakeMachine(t, "four")
	costly := four.NewLocator() // the processor here knows nothing of that machine
	if costly.Cheap() {
		t.Fatal("expected a locator that needs the system call")
	}
	p := PlaceAll(PlaceReplicate)
	got, err := resolvePlacement(&p, four, costly, slog.New(slog.DiscardHandler))
	want := "memtables=interleave:0-3 cache=interleave:0-3 rows=interleave:0-3 index=interleave:0-3 loading=interleave:0-3 home=-1"
	if err != nil || describePlacement(got) != want {
		t.Errorf("got %s, %v, want %s", describePlacement(got), err, want)
	}
}

func TestPlacementsThatAreRefused(t *testing.T) {
	for want, p := range map[string]Placement{
		"MemTables: memory that changes":  {MemTables: MemoryPlacement{Mode: PlaceReplicate}},
		"BlockCache: memory that changes": {BlockCache: MemoryPlacement{Mode: PlaceReplicate}},
		"Tables: unknown mode 9":          {Tables: MemoryPlacement{Mode: 9}},
		"nodes [1] without a mode":        {Tables: MemoryPlacement{Nodes: []int{1}}},
		"prefer takes one node":           {Indexes: MemoryPlacement{Mode: PlacePrefer, Nodes: []int{0, 1}}},
		"take their indexes along":        {Tables: MemoryPlacement{Mode: PlaceReplicate}, Indexes: MemoryPlacement{Mode: PlaceBind}},
		"node 4711 has no memory":         {MemTables: MemoryPlacement{Mode: PlaceBind, Nodes: []int{4711}}},
		"node 4712 has no CPUs":           {BackgroundNodes: []int{4712}},
	} {
		_, err := Open(t.TempDir(), &Options{CreateIfMissing: true, Placement: p})
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: expected a refusal with %q, found %v", p, want, err)
		}
	}
}

func TestPlacementModesHaveNames(t *testing.T) {
	for m := PlaceDefault; m <= PlaceReplicate; m++ {
		if got, err := ParsePlacementMode(m.String()); err != nil || got != m {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParsePlacementMode("everywhere"); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("everywhere: %v", err)
	}
}

// TestNothingIsPlacedByDefault: neither by default nor on one node is anything left
// that a read could ask.
func TestNothingIsPlacedByDefault(t *testing.T) {
	options := []Placement{{}}
	if topology, err := numa.Discover(); err != nil {
		t.Fatal(err)
	} else if len(topology.MemoryNodes()) == 1 {
		options = append(options, PlaceAll(PlaceReplicate), PlaceAll(PlaceInterleave))
	}
	for _, p := range options {
		db, err := Open(t.TempDir(), &Options{CreateIfMissing: true, Placement: p})
		if err != nil {
			t.Fatal(err)
		}
		if got := db.placed; got.topology != nil || got.tables.Replicas != nil || describePlacement(got) != "" {
			t.Errorf("%+v: placed %s", p, describePlacement(got))
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadsThroughReplicas reads from replicas that change their place at every read,
// while flushes and compactions make and free them.
func TestReadsThroughReplicas(t *testing.T) {
	db, err := Open(t.TempDir(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
		PrefixExtractor: FixedPrefix(4), Table: PlainTableOptions{Memory: MemoryResident}, MemTable: MemTableOptions{Kind: HashSkipList, BucketCount: 100},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var reads atomic.Uint64
	db.placed.tables.Replicas = &plaintable.Replicas{ // three on the one node that every machine has
		Nodes: []int{0, 0, 0}, Rows: true,
		Run:  func(_ int, f func() error) error { return f() },
		Here: func() int { return int(reads.Add(1) % 3) },
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
	const keys = 500
	write := func(round int) {
		for i := range keys {
			if err := db.Put(nil, key(i), fmt.Appendf(nil, "%d of round %d", i, round)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			var p PinnedValue
			var results []GetResult
			for i := g; ; i = (i + 7) % keys {
				select {
				case <-stop:
					return
				default:
				}
				want := fmt.Sprintf("%d of round ", i)
				v, err := db.Get(nil, key(i), nil)
				if err != nil || !strings.HasPrefix(string(v), want) {
					t.Errorf("Get %d: %q, %v", i, v, err)
					return
				}
				if err := db.GetPinned(nil, key(i), &p); err != nil || !strings.HasPrefix(string(p.Value()), want) {
					t.Errorf("GetPinned %d: %q, %v", i, p.Value(), err)
					return
				}
				p.Release()
				if results, err = db.MultiGet(nil, [][]byte{key(i)}, results); err != nil || !strings.HasPrefix(string(results[0].Value), want) {
					t.Errorf("MultiGet %d: %v, %v", i, results, err)
					return
				}
				it, err := db.NewIterator(nil)
				if err != nil || !it.SeekGE(key(i)) || !strings.HasPrefix(string(it.Value()), want) {
					t.Errorf("SeekGE %d: %v, %v", i, it, err)
					return
				}
				it.Close()
			}
		})
	}
	for round := 1; round < 6; round++ {
		write(round)
		if err := db.Flush(context.Background(), nil); err != nil {
			t.Error(err)
		}
		if round%2 == 0 {
			if err := db.CompactRange(context.Background(), &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	if reads.Load() == 0 {
		t.Error("no read has asked for a replica")
	}
	if err := db.VerifyChecksum(context.Background()); err != nil {
		t.Error(err)
	}
	r, err := db.Placement()
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(r.Rows, func(r numa.ReportRow) bool { return r.Name == "plain tables, resident" && r.Copies }); i < 0 {
		t.Errorf("the report has no copies:\n%s", r)
	}
}

func TestReportOfPlacement(t *testing.T) {
	page := int64(4096)
	r := &PlacementReport{Nodes: []int{0, 1}}
	r.Add("memtables", numa.Placement{PageSize: page, Pages: 4, ByNode: map[int]int64{0: 4}})
	r.AddCopies("plain table indexes", numa.Placement{PageSize: page, Pages: 8, ByNode: map[int]int64{0: 4, 1: 4}})
	if got := []float64{r.Remote(0), r.Remote(1)}; !slices.Equal(got, []float64{0, 0.5}) {
		t.Errorf("remote shares %v", got)
	}
	if s := r.String(); strings.Contains(s, "one NUMA node") || !strings.Contains(s, "remote@1") {
		t.Errorf("report of two nodes:\n%s", s)
	}
	r.Nodes = []int{0}
	if s := r.String(); !strings.Contains(s, "one NUMA node") {
		t.Errorf("report of one node:\n%s", s)
	}
}
