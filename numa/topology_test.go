package numa

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/topology/*.want anew; read the diff")

// readTree reads a file of "-- path --" lines, each followed by that file's
// content; what comes before the first is a comment.
func readTree(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "topology", name+".txt"))
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
	return tree
}

func mustRead(t testing.TB, name string) *Topology {
	t.Helper()
	topology, err := Read(readTree(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// describe is the report and what follows from it for each node.
func describe(t *Topology) string {
	var b strings.Builder
	b.WriteString(t.String())
	fmt.Fprintf(&b, "threads on %s, memory on %s\n", orNone(t.CPUNodes()), orNone(t.MemoryNodes()))
	for _, n := range t.Nodes {
		fmt.Fprintf(&b, "node %d: allowed cpus %s, cores %v (%d usable), nearest memory %v, nearest cpus %v\n", n.ID,
			orNone(t.AllowedOn(n.ID)), n.Cores, t.allowedCores(n.ID), t.Nearest(n.ID, t.MemoryNodes()), t.Nearest(n.ID, t.CPUNodes()))
	}
	return b.String()
}

func TestTopologiesOfRealTrees(t *testing.T) {
	trees, err := filepath.Glob(filepath.Join("testdata", "topology", "*.txt"))
	if err != nil || len(trees) < 10 {
		t.Fatalf("found %d trees, %v", len(trees), err)
	}
	for _, tree := range trees {
		name := strings.TrimSuffix(filepath.Base(tree), ".txt")
		t.Run(name, func(t *testing.T) {
			got := describe(mustRead(t, name))
			file := filepath.Join("testdata", "topology", name+".want")
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestDistancesFollowOnlineNodesNotNumbers(t *testing.T) {
	topology := mustRead(t, "holes")
	for _, c := range []struct{ from, to, want int }{{0, 0, 10}, {0, 2, 20}, {0, 5, 30}, {2, 7, 30}, {7, 0, 20}, {0, 1, -1}, {3, 0, -1}} {
		if got := topology.Distance(c.from, c.to); got != c.want {
			t.Errorf("Distance(%d, %d) = %d, want %d", c.from, c.to, got, c.want)
		}
	}
	if topology.Node(1) != nil || topology.Node(5).ID != 5 {
		t.Error("Node takes an index for an ID")
	}
	if topology.NodeOf(2) != 5 || topology.NodeOf(4) != -1 {
		t.Errorf("NodeOf(2) = %d, NodeOf(4) = %d; want 5, -1", topology.NodeOf(2), topology.NodeOf(4))
	}
}

func TestSpreadFollowsTheCPUs(t *testing.T) {
	for name, want := range map[string][]int{
		"four":    {0, 1, 2, 3, 0, 1, 2, 3, 0, 1},
		"odd":     {0, 1, 2, 0, 1, 2, 0, 1, 2, 0}, // node 3 has no CPU
		"holes":   {2, 5, 2, 5, 2, 5, 2, 5, 2, 5},
		"offline": {0, 1, 0, 1, 0, 0, 0, 1, 0, 1}, // four CPUs on one, two on the other
		"nonuma":  {0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		if got := mustRead(t, name).Spread(10); !slices.Equal(got, want) {
			t.Errorf("%s: Spread = %v, want %v", name, got, want)
		}
	}
	if got := mustRead(t, "two").Spread(0); len(got) != 0 {
		t.Errorf("Spread(0) = %v", got)
	}
}

func TestPinnedThreadsNarrowNothing(t *testing.T) {
	tree := readTree(t, "four")
	tree["proc/self/status"] = &fstest.MapFile{Data: []byte("Cpus_allowed_list:\t2\nMems_allowed_list:\t0-3\n")}
	tree["proc/self/task/10/status"] = tree["proc/self/status"]
	tree["proc/self/task/11/status"] = &fstest.MapFile{Data: []byte("Cpus_allowed_list:\t0-2\nMems_allowed_list:\t0-3\n")}
	topology, err := Read(tree)
	if err != nil || !slices.Equal(topology.AllowedCPUs, []int{0, 1, 2}) {
		t.Errorf("allowed cpus %v, %v; want 0 to 2, as one thread may", topology.AllowedCPUs, err)
	}
}

func TestMalformedTreesNameTheFile(t *testing.T) {
	const node0, node1 = "sys/devices/system/node/node0/", "sys/devices/system/node/node1/"
	for _, c := range []struct{ file, content, want string }{
		{"sys/devices/system/node/online", "", "at least one node"},
		{"sys/devices/system/node/online", "0-x\n", "expected a number"},
		{"sys/devices/system/node/online", "0-4294967295\n", "below 8192"},
		{"sys/devices/system/node/online", "-", "cannot be read"}, // "-" removes the file
		{"sys/devices/system/cpu/online", "1-0\n", "ascending"},
		{"sys/devices/system/cpu/online", "-", "cannot be read"},
		{node0 + "cpulist", "-", "cannot be read"},
		{node1 + "cpulist", "0\n", "cpu 0 is also on node 0"},
		{node1 + "cpulist", "1,7\n", "cpu 7 is not online"},
		{node0 + "distance", "10\n", "expected 2 distances, found 1"},
		{node0 + "distance", "10 20 30\n", "expected 2 distances, found 3"},
		{node0 + "distance", "10 -1\n", "from 1 to 255"},
		{node0 + "distance", "10 twenty\n", "from 1 to 255"},
		{node0 + "distance", "-", "cannot be read"},
		{node0 + "meminfo", "Node 0 MemTotal: 12 kB\n", "expected MemTotal and MemFree"},
		{node0 + "meminfo", "Node 0 MemTotal: many kB\nNode 0 MemFree: 1 kB\n", "size in kB"},
		{node0 + "meminfo", "Node 0 MemTotal: 99999999999999999999 kB\nNode 0 MemFree: 1 kB\n", "size in kB"},
		{node0 + "meminfo", "Node 0 MemTotal: 12 MB\nNode 0 MemFree: 1 kB\n", "size in kB"},
		{node0 + "meminfo", "-", "cannot be read"},
		{node0 + "hugepages/hugepages-2048kB/nr_hugepages", "-1\n", "expected a count"},
		{node0 + "hugepages/hugepages-2048kB/free_hugepages", "-", "cannot be read"},
		{node0 + "hugepages/hugepages-zkB/nr_hugepages", "1\n", "hugepages-<n>kB"},
		{"proc/self/status", "Name:\tx\n", "found neither"},
		{"proc/self/status", "Cpus_allowed_list:\tall\n", "expected a number"},
		{"proc/self/status", "-", "cannot be read"},
		{"proc/self/cgroup", "nonsense\n", "id:controllers:path"},
		{"sys/fs/cgroup/system.slice/cpu.max", "lots 100000\n", "expected a number"},
		{"sys/fs/cgroup/system.slice/cache.service/memory.max", "-5\n", "expected a number"},
		{"sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,0\n", "ascending"},
	} {
		tree := readTree(t, "cgroup2")
		if c.content == "-" {
			delete(tree, c.file)
		} else {
			tree[c.file] = &fstest.MapFile{Data: []byte(c.content)}
		}
		topology, err := Read(tree)
		var where *TreeError
		if !errors.Is(err, ErrMalformed) || !errors.As(err, &where) {
			t.Errorf("%s = %q: got %v, %v; want a TreeError", c.file, c.content, topology, err)
			continue
		}
		if !strings.HasPrefix(c.file, where.Path) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %q: %v; want %q about that file", c.file, c.content, err, c.want)
		}
	}
}

func TestNoCPUAtAllIsMalformed(t *testing.T) {
	tree := readTree(t, "two")
	for _, name := range []string{"0", "1"} {
		tree["sys/devices/system/node/node"+name+"/cpulist"] = &fstest.MapFile{Data: []byte("\n")}
	}
	if _, err := Read(tree); !errors.Is(err, ErrMalformed) {
		t.Errorf("Read = %v, want ErrMalformed", err)
	}
}

// Containers deny files by permission; what is optional stays optional then.
func TestForbiddenOptionalFilesAreAsIfAbsent(t *testing.T) {
	tree := readTree(t, "cgroup2")
	got, err := Read(denyFS{tree, []string{"proc/self/cgroup", "proc/sys/kernel/numa_balancing", "sys/devices/system/cpu/offline"}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Limits.CPUs != 0 || got.Limits.Memory != Unlimited {
		t.Errorf("limits = %+v from a file that was denied", got.Limits)
	}
	_, err = Read(denyFS{tree, []string{"proc/self/status"}})
	if !errors.Is(err, ErrMalformed) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without status: %v, want a TreeError around ErrPermission", err)
	}
}

type denyFS struct {
	fs.FS
	deny []string
}

func (d denyFS) Open(name string) (fs.File, error) {
	if slices.Contains(d.deny, name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}

func TestPseudoTopologyIsWhole(t *testing.T) {
	topology := pseudoTopology()
	if !topology.Pseudo || !slices.Equal(topology.CPUNodes(), []int{0}) || !slices.Equal(topology.MemoryNodes(), []int{0}) {
		t.Errorf("pseudo-node: %s", describe(topology))
	}
	if topology.Distance(0, 0) != 10 || len(topology.AllowedOn(0)) == 0 || topology.allowedCores(0) != len(topology.OnlineCPUs) {
		t.Errorf("pseudo-node: %s", describe(topology))
	}
}

// FuzzRead changes one file of a real tree: an error or a topology whose parts agree.
func FuzzRead(f *testing.F) {
	trees := []string{"two", "odd", "holes", "cgroup2", "cgroup1"}
	for i, name := range trees {
		for file, content := range readTree(f, name) {
			f.Add(uint8(i), file, content.Data)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, file string, content []byte) {
		if !fs.ValidPath(file) || file == "." {
			return
		}
		tree := readTree(t, trees[int(which)%len(trees)])
		tree[file] = &fstest.MapFile{Data: content}
		topology, err := Read(tree)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("Read: %v does not match ErrMalformed", err)
			}
			return
		}
		_ = describe(topology)
		for _, n := range topology.Nodes {
			if len(n.Distances) != len(topology.Nodes) || n.MemTotal < 0 || n.MemFree < 0 {
				t.Fatalf("node %d of %d: %+v", n.ID, len(topology.Nodes), n)
			}
			for _, cpu := range n.CPUs {
				if topology.NodeOf(cpu) != n.ID {
					t.Fatalf("cpu %d is on node %d and on node %d", cpu, n.ID, topology.NodeOf(cpu))
				}
			}
		}
	})
}
