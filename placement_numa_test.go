package flatrock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/numa"
	"github.com/flatrock-db/flatrock/plaintable"
)

// The tests named TestNUMA check on which nodes a database really lies. They take the
// machine as it is: with one node there is little to find, and numa/vmtest runs them
// in virtual machines that have several (make test-numa).

// realMachine is this machine, with as many nodes as the test's surroundings promise.
func realMachine(t *testing.T) *numa.Topology {
	t.Helper()
	topology, err := numa.Discover()
	if err != nil {
		t.Fatal(err)
	}
	if want := os.Getenv("FLATROCK_NUMA_NODES"); want != "" && strconv.Itoa(len(topology.Nodes)) != want {
		t.Fatalf("%d nodes, want %s", len(topology.Nodes), want)
	}
	return topology
}

// numaKeys make a file of less than a huge page, so that it is interleaved evenly.
// An emulated machine takes its time for more.
const numaKeys = 15_000

// numaTable is a database of one file in a deep level, some 1.8 MB, and a tenth of
// that in the memtable.
func numaTable(t *testing.T, p Placement, table PlainTableOptions) *DB {
	t.Helper()
	return openNUMA(t, t.TempDir(), p, table, nil)
}

func openNUMA(t *testing.T, dir string, p Placement, table PlainTableOptions, log *slog.Logger) *DB {
	t.Helper()
	db, err := Open(dir, &Options{CreateIfMissing: true, Placement: p, Logger: log, BlockCacheSize: 1 << 20, ColumnFamily: &ColumnFamilyOptions{
		PrefixExtractor: FixedPrefix(8), Table: table, WriteBufferSize: 64 << 20,
		MemTable: MemTableOptions{Kind: HashSkipList, BucketCount: 10_000},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	put := func(from, to int) {
		for i := from; i < to; i++ {
			if err := db.Put(nil, numaKey(i), numaValue(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(0, numaKeys)
	if err := db.CompactRange(context.Background(), &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
		t.Fatal(err)
	}
	put(numaKeys, numaKeys*11/10)
	return db
}

func numaKey(i int) []byte   { return fmt.Appendf(nil, "key%09d", i) }
func numaValue(i int) []byte { return fmt.Appendf(nil, "value %0100d", i) }

func placementRows(t *testing.T, db *DB) map[string]numa.ReportRow {
	t.Helper()
	r, err := db.Placement()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", r)
	rows := map[string]numa.ReportRow{}
	for _, row := range r.Rows {
		rows[row.Name] = row
	}
	return rows
}

// expectOn checks that a structure has memory, and all of it on the nodes; evenly where that
// is asked: huge pages make parts of a small structure uneven, to a third of the fair share.
func expectOn(t *testing.T, rows map[string]numa.ReportRow, name string, evenly bool, nodes ...int) {
	t.Helper()
	row := rows[name]
	if row.Present() == 0 {
		t.Errorf("%s: no memory is found", name)
		return
	}
	if n := row.Elsewhere(nodes...); n > 0 {
		t.Errorf("%s: %d pages of %d are not on nodes %v: %v", name, n, row.Present(), nodes, row.Placement)
	}
	for _, node := range nodes {
		if fair := row.Present() / int64(len(nodes)); evenly && row.ByNode[node] < fair/3 {
			t.Errorf("%s: %d pages on node %d, of a fair share of %d", name, row.ByNode[node], node, fair)
		}
	}
}

// TestNUMAInterleave deals memtable, resident table and index over the nodes.
func TestNUMAInterleave(t *testing.T) {
	nodes := realMachine(t).MemoryNodes()
	db := numaTable(t, PlaceAll(PlaceInterleave), PlainTableOptions{Memory: MemoryResident})
	for i := range 5000 { // 16 MB: memtables are of huge pages
		if err := db.Put(nil, numaKey(i), make([]byte, 3200)); err != nil {
			t.Fatal(err)
		}
	}
	rows := placementRows(t, db)
	expectOn(t, rows, "memtables", true, nodes...)
	expectOn(t, rows, "plain tables, resident", true, nodes...)
	if len(nodes) > 1 {
		expectOn(t, rows, "plain table indexes", false, nodes...)
	}
}

// ends are the first and the last of the nodes, or the only one.
func ends(nodes []int) []int { return slices.Compact([]int{nodes[0], nodes[len(nodes)-1]}) }

// TestNUMABind puts everything on one node.
func TestNUMABind(t *testing.T) {
	for _, node := range ends(realMachine(t).MemoryNodes()) {
		db := numaTable(t, PlaceAll(PlaceBind, node), PlainTableOptions{Memory: MemoryResident, StoreIndexInFile: Off})
		rows := placementRows(t, db)
		for _, name := range []string{"memtables", "plain tables, resident", "plain table indexes"} {
			expectOn(t, rows, name, false, node)
		}
		r, err := db.Placement()
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range r.Nodes {
			want := 1.0
			if other == node {
				want = 0
			}
			if got := r.Remote(other); got != want {
				t.Errorf("bound to node %d: a reader on node %d reads %.2f remotely, want %v", node, other, got, want)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNUMABlockCache places the cache's memory, with blocks in it.
func TestNUMABlockCache(t *testing.T) {
	nodes := realMachine(t).MemoryNodes()
	node := nodes[len(nodes)-1]
	db, err := Open(t.TempDir(), &Options{CreateIfMissing: true, Placement: PlaceAll(PlaceBind, node), BlockCacheSize: 32 << 20,
		ColumnFamily: &ColumnFamilyOptions{Table: BlockBasedTableOptions{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range numaKeys {
		if err := db.Put(nil, numaKey(i), numaValue(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	var buf []byte
	for i := range numaKeys {
		if buf, err = db.Get(nil, numaKey(i), buf[:0]); err != nil {
			t.Fatal(err)
		}
	}
	rows := placementRows(t, db)
	expectOn(t, rows, "block cache", false, node)
	if n := rows["block cache"].BytesOn(node); n < numaKeys*100 {
		t.Errorf("%d bytes of the cache are found, and the values alone have %d", n, numaKeys*100)
	}
}

// atNode runs f on a thread of the node, which the goroutine has to itself.
func atNode(t *testing.T, topology *numa.Topology, node int, f func()) {
	t.Helper()
	release, err := topology.Pin(node)
	if errors.Is(err, numa.ErrNotSupported) {
		f()
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	}()
	f()
}

// nodeOf finds the node of the page that holds b's first byte, in a plain table of
// the database.
func nodeOf(t *testing.T, db *DB, b []byte) int {
	t.Helper()
	address := reflect.ValueOf(&b[0]).Pointer()
	node := -1
	each(db, func(r *plaintable.Reader) {
		r.EachMemory(func(_ plaintable.Part, memory []byte, _ bool) {
			off := int(address - reflect.ValueOf(&memory[0]).Pointer())
			if off < 0 || off >= len(memory) {
				return
			}
			page := off / os.Getpagesize() * os.Getpagesize()
			p, err := numa.PlacementOf(memory[page : page+1])
			if errors.Is(err, numa.ErrNotSupported) {
				node = 0
			} else if err != nil || len(p.Nodes()) != 1 {
				t.Errorf("where a value is: %v, %v", p, err)
			} else {
				node = p.Nodes()[0]
			}
		})
	})
	return node
}

// each calls f with every open plain table of the default family.
func each(db *DB, f func(*plaintable.Reader)) {
	s, reader := db.defaultCF.acquire()
	defer s.release(reader)
	for _, level := range s.files.levels {
		for _, r := range level {
			f(r.handle.plain)
		}
	}
}

// TestNUMAReplicate copies the resident table to each node with CPUs, and a pinned reader's
// values, wherever it is, come from the nearest copy. A copy outlives neither a
// compaction nor Close.
func TestNUMAReplicate(t *testing.T) {
	topology := realMachine(t)
	nodes := readerNodes(topology)
	db := numaTable(t, PlaceAll(PlaceReplicate), PlainTableOptions{Memory: MemoryResident})
	for round := range 2 {
		rows := placementRows(t, db)
		expectOn(t, rows, "plain tables, resident", false, nodes...)
		row := rows["plain tables, resident"]
		if row.Copies != (len(nodes) > 1) {
			t.Errorf("copies: %t, with replicas on %v", row.Copies, nodes)
		}
		for _, n := range nodes {
			if got := row.BytesOn(n); got < numaKeys*(12+106) {
				t.Errorf("node %d has %d bytes of a table of at least %d", n, got, numaKeys*(12+106))
			}
			if got := row.Remote(n); got != 0 {
				t.Errorf("a reader on node %d reads %.2f of the table remotely", n, got)
			}
		}
		for _, n := range topology.CPUNodes() {
			atNode(t, topology, n, func() { readReplica(t, db, n, topology.Nearest(n, nodes)[0]) })
		}
		if round == 0 {
			if err := db.CompactRange(context.Background(), &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// readReplica reads some keys on node n, in all ways, and expects them from memory of the node from.
func readReplica(t *testing.T, db *DB, n, from int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	var p PinnedValue
	defer p.Release()
	for range 100 {
		i := rng.IntN(numaKeys)
		if err := db.GetPinned(nil, numaKey(i), &p); err != nil || string(p.Value()) != string(numaValue(i)) {
			t.Fatalf("key %d on node %d: %q, %v", i, n, p.Value(), err)
		}
		if got := nodeOf(t, db, p.Value()); got != from {
			t.Fatalf("key %d, read on node %d, comes from node %d, want %d", i, n, got, from)
		}
	}
	it, err := db.NewIterator(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	results, err := db.MultiGet(nil, [][]byte{numaKey(7), numaKey(8)}, nil)
	if err != nil || string(results[1].Value) != string(numaValue(8)) {
		t.Fatalf("MultiGet on node %d: %v, %v", n, results, err)
	}
	if !it.SeekGE(numaKey(7)) || string(it.Value()) != string(numaValue(7)) {
		t.Fatalf("SeekGE on node %d: %v", n, it.Err())
	}
}

// TestNUMAReplicatedIndexes copies the index alone, of mapped files and of resident ones that
// are interleaved; also when they are loaded after Open.
func TestNUMAReplicatedIndexes(t *testing.T) {
	topology := realMachine(t)
	nodes := readerNodes(topology)
	p := Placement{Tables: MemoryPlacement{Mode: PlaceInterleave}, Indexes: MemoryPlacement{Mode: PlaceReplicate}}
	for _, table := range []PlainTableOptions{
		{Memory: MemoryResident}, {Memory: MemoryPopulate}, {Memory: MemoryResident, StoreIndexInFile: Off},
	} {
		dir := t.TempDir()
		if err := openNUMA(t, dir, p, table, nil).Close(); err != nil {
			t.Fatal(err)
		}
		db, err := Open(dir, &Options{Placement: p, ColumnFamily: &ColumnFamilyOptions{PrefixExtractor: FixedPrefix(8), Table: table}})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.WaitLoaded(context.Background()); err != nil {
			t.Fatal(err)
		}
		rows := placementRows(t, db)
		if len(nodes) > 1 {
			row := rows["plain table indexes"]
			expectOn(t, rows, row.Name, true, nodes...)
			if !row.Copies || len(row.Nodes()) != len(nodes) {
				t.Errorf("%v: expected copies on nodes %v, found %v", table.Memory, nodes, row.Placement)
			}
		}
		for _, n := range topology.CPUNodes() {
			atNode(t, topology, n, func() {
				if r := db.placed.tables.Replicas; r != nil && r.Nodes[r.Here()] != topology.Nearest(n, nodes)[0] {
					t.Errorf("a reader on node %d uses the index on node %d", n, r.Nodes[r.Here()])
				}
				for i := 0; i < numaKeys; i += 997 {
					if v, err := db.Get(nil, numaKey(i), nil); err != nil || string(v) != string(numaValue(i)) {
						t.Fatalf("key %d on node %d: %q, %v", i, n, v, err)
					}
				}
			})
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNUMAMappedFiles puts the page cache of new files on the wanted node, since the
// flush writes it there.
func TestNUMAMappedFiles(t *testing.T) {
	for _, node := range ends(realMachine(t).MemoryNodes()) {
		db := numaTable(t, Placement{Tables: MemoryPlacement{Mode: PlaceBind, Nodes: []int{node}}}, PlainTableOptions{Memory: MemoryPopulate})
		expectOn(t, placementRows(t, db), "plain tables, mapped", false, node)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNUMAMappedFilesMove moves the page cache of old files when they are opened, and
// replays the log onto the node. In a machine of numa/vmtest that needs tmpfs:
// the kernel moves no dirty page of ramfs.
func TestNUMAMappedFilesMove(t *testing.T) {
	nodes := realMachine(t).MemoryNodes()
	dir, err := os.MkdirTemp("/dev/shm", "flatrock-numa-")
	if err != nil {
		dir = t.TempDir()
	}
	defer os.RemoveAll(dir)
	table := PlainTableOptions{Memory: MemoryPopulate}
	family := &ColumnFamilyOptions{PrefixExtractor: FixedPrefix(8), Table: table}
	first := openNUMA(t, dir, Placement{Tables: MemoryPlacement{Mode: PlaceBind, Nodes: nodes[:1]}}, table, nil)
	expectOn(t, placementRows(t, first), "plain tables, mapped", false, nodes[0])
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	last := nodes[len(nodes)-1]
	db, err := Open(dir, &Options{ColumnFamily: family, Placement: Placement{Tables: MemoryPlacement{Mode: PlacePrefer, Nodes: []int{last}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.WaitLoaded(context.Background()); err != nil {
		t.Fatal(err)
	}
	expectOn(t, placementRows(t, db), "plain tables, mapped", false, last)
}

// whereabouts is a log that notes on which node each message is logged: by the
// goroutine that does the work.
type whereabouts struct {
	slog.Handler
	mu   sync.Mutex
	seen map[string][]int
}

func (w *whereabouts) Enabled(context.Context, slog.Level) bool { return true }

func (w *whereabouts) Handle(_ context.Context, r slog.Record) error {
	_, node, err := numa.Current()
	if errors.Is(err, numa.ErrNotSupported) {
		node, err = 0, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[r.Message] = append(w.seen[r.Message], node)
	return err
}

// TestNUMABackground runs flushes and compactions on the CPUs of one node.
func TestNUMABackground(t *testing.T) {
	for _, node := range ends(realMachine(t).CPUNodes()) {
		w := &whereabouts{Handler: slog.NewTextHandler(io.Discard, nil), seen: map[string][]int{}}
		db := openNUMA(t, t.TempDir(), Placement{BackgroundNodes: []int{node}}, PlainTableOptions{}, slog.New(w))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for _, what := range []string{"flush", "compaction"} {
			if at := w.seen[what]; len(at) == 0 || slices.ContainsFunc(at, func(n int) bool { return n != node }) {
				t.Errorf("%s ran on nodes %v, want %d", what, at, node)
			}
		}
	}
}
