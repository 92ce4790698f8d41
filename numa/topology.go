package numa

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Topology is what a machine has, and what this process may use of it, at the
// time of reading. It is never changed afterwards: safe for concurrent use.
type Topology struct {
	// Nodes are the online nodes, ascending by ID. IDs may have holes: a Node's
	// index here is not its ID.
	Nodes []Node

	// OnlineCPUs and OfflineCPUs are the machine's, ascending.
	OnlineCPUs, OfflineCPUs []int

	// AllowedCPUs and AllowedNodes are what the process may run on and allocate
	// from: cpuset and affinity together. Ascending. The CPUs are those of all its
	// threads taken together, so that threads that are pinned narrow nothing.
	AllowedCPUs, AllowedNodes []int

	// Limits are those of the process's control group.
	Limits Limits

	// Balancing: the kernel migrates pages and threads by itself
	// (kernel.numa_balancing). It leaves ranges with a policy alone.
	Balancing bool

	// Pseudo: the system has no NUMA (or is not Linux); Nodes is one node,
	// number 0, made up from what is known of the machine.
	Pseudo bool
}

// Node is one online node. A node may have memory and no CPUs (CXL memory, a
// high-bandwidth tier), CPUs and no memory, or, rarely, neither.
type Node struct {
	ID   int
	CPUs []int // online CPUs, ascending

	// Cores groups CPUs into physical cores: hyper-threads of one core share a
	// group. Ordered by each group's first CPU; offline siblings are left out.
	Cores [][]int

	MemTotal, MemFree int64 // bytes
	HugePages         []HugePages

	// Distances are to each of Topology.Nodes, in that order; 10 is itself,
	// 20 twice as far. A pseudo-node has {10}.
	Distances []int
}

// HugePages are the reserved huge pages of one size on one node. Transparent
// huge pages need no reserve and are not counted here.
type HugePages struct {
	PageSize             int64 // bytes
	Total, Free, Surplus int64 // pages
}

// HasMemory reports whether pages can be allocated on the node.
func (n *Node) HasMemory() bool { return n.MemTotal > 0 }

// HasCPU reports whether threads can run on the node.
func (n *Node) HasCPU() bool { return len(n.CPUs) > 0 }

// Read builds a Topology from a tree with "sys" and "proc" at its root, as
// os.DirFS("/") has. A tree without sys/devices/system/node is a kernel without
// NUMA and gives a pseudo-node; anything else that is missing or does not make
// sense is a *TreeError.
func Read(tree fs.FS) (*Topology, error) {
	r := reader{tree: tree}
	t := &Topology{}
	t.OnlineCPUs = r.list("sys/devices/system/cpu/online", true)
	t.OfflineCPUs = r.list("sys/devices/system/cpu/offline", false)
	r.status(t)
	if ids := r.nodeIDs(); ids == nil && r.err == nil {
		r.pseudo(t)
	} else {
		r.nodes(t, ids)
	}
	if t.AllowedNodes == nil { // a kernel without cpusets restricts none
		t.AllowedNodes = t.pick((*Node).HasMemory)
	}
	t.Balancing = strings.TrimSpace(r.text("proc/sys/kernel/numa_balancing", false)) == "1"
	t.Limits = r.limits()
	if r.err != nil {
		return nil, r.err
	}
	return t, nil
}

// reader reads one tree; after the first error every step is a no-op, so that
// the steps above read as a list.
type reader struct {
	tree fs.FS
	err  error
}

func (r *reader) fail(name, format string, args ...any) {
	if r.err == nil {
		r.err = &TreeError{Path: name, Reason: fmt.Sprintf(format, args...)}
	}
}

// text returns a file's content, at most 1 MiB (the longest file read here,
// mountinfo, is far below on any sane system). A missing file is "" unless must.
func (r *reader) text(name string, must bool) string {
	if r.err != nil {
		return ""
	}
	f, err := r.tree.Open(name)
	if err == nil {
		defer f.Close()
		var b []byte
		if b, err = io.ReadAll(io.LimitReader(f, 1<<20)); err == nil {
			return string(b)
		}
	}
	// Containers hide files by absence or by permission; only the files that
	// everything rests on are required.
	if must || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !threadEnded(err) {
		r.err = &TreeError{Path: name, Reason: "cannot be read", Err: err}
	}
	return ""
}

func (r *reader) list(name string, must bool) []int {
	ids, err := ParseList(r.text(name, must))
	if err != nil {
		r.fail(name, "%v", err)
	}
	return ids
}

func (r *reader) count(name string) int64 {
	s := strings.TrimSpace(r.text(name, true))
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		r.fail(name, "expected a count, found %q", clip(s))
	}
	return n
}

const nodeDir = "sys/devices/system/node"

// nodeIDs returns the online nodes, or nil where the kernel has no NUMA.
func (r *reader) nodeIDs() []int {
	name := nodeDir + "/online"
	if _, err := fs.Stat(r.tree, nodeDir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ids := r.list(name, true)
	if r.err == nil && len(ids) == 0 {
		r.fail(name, "expected at least one node, found none")
	}
	return ids
}

func (r *reader) nodes(t *Topology, ids []int) {
	owner := map[int]int{}
	for _, id := range ids {
		dir := nodeDir + "/node" + strconv.Itoa(id)
		n := Node{ID: id, CPUs: r.list(dir+"/cpulist", true)}
		for _, cpu := range n.CPUs {
			if other, taken := owner[cpu]; taken {
				r.fail(dir+"/cpulist", "cpu %d is also on node %d", cpu, other)
			}
			owner[cpu] = id
		}
		if far := without(n.CPUs, t.OnlineCPUs); far != nil {
			r.fail(dir+"/cpulist", "cpu %s is not online", FormatList(far))
		}
		n.Cores = r.cores(n.CPUs)
		r.meminfo(dir+"/meminfo", &n)
		n.HugePages = r.hugePages(dir + "/hugepages")
		n.Distances = r.distances(dir+"/distance", len(ids))
		if r.err != nil {
			return
		}
		t.Nodes = append(t.Nodes, n)
	}
	if len(owner) == 0 {
		r.fail(nodeDir, "expected a node with CPUs, found none")
	}
}

// distances reads one row. The kernel writes a number for each *online* node,
// so that with holes in the numbering a column is not a node's ID.
func (r *reader) distances(name string, nodes int) []int {
	fields := strings.Fields(r.text(name, true))
	if r.err != nil {
		return nil
	}
	if len(fields) != nodes {
		r.fail(name, "expected %d distances, found %d", nodes, len(fields))
		return nil
	}
	row := make([]int, nodes)
	for i, f := range fields {
		d, err := strconv.Atoi(f)
		if err != nil || d < 1 || d > 255 {
			r.fail(name, "expected a distance from 1 to 255, found %q", clip(f))
		}
		row[i] = d
	}
	return row
}

// meminfo reads "Node 0 MemTotal:  4286240 kB" lines.
func (r *reader) meminfo(name string, n *Node) {
	want := map[string]*int64{"MemTotal:": &n.MemTotal, "MemFree:": &n.MemFree}
	for line := range strings.Lines(r.text(name, true)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] != "Node" || want[f[2]] == nil {
			continue
		}
		*want[f[2]] = r.kilobytes(name, f[3:])
		delete(want, f[2])
	}
	if r.err == nil && len(want) > 0 {
		r.fail(name, "expected MemTotal and MemFree, found neither or only one")
	}
}

func (r *reader) kilobytes(name string, f []string) int64 {
	kb, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil || kb < 0 || kb > 1<<52 || len(f) != 2 || f[1] != "kB" {
		r.fail(name, "expected a size in kB, found %q", clip(strings.Join(f, " ")))
		return 0
	}
	return kb << 10
}

func (r *reader) hugePages(dir string) []HugePages {
	entries, err := fs.ReadDir(r.tree, dir)
	if err != nil {
		return nil // a kernel without hugetlbfs
	}
	var all []HugePages
	for _, e := range entries {
		s, ok := strings.CutPrefix(e.Name(), "hugepages-")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(s, "kB"), 10, 64)
		if err != nil || kb <= 0 || kb > 1<<40 {
			r.fail(path.Join(dir, e.Name()), "expected hugepages-<n>kB")
			return nil
		}
		p := path.Join(dir, e.Name())
		all = append(all, HugePages{
			PageSize: kb << 10,
			Total:    r.count(p + "/nr_hugepages"),
			Free:     r.count(p + "/free_hugepages"),
			Surplus:  r.count(p + "/surplus_hugepages"),
		})
	}
	slices.SortFunc(all, func(a, b HugePages) int { return int(min(1, max(-1, a.PageSize-b.PageSize))) })
	return all
}

func (r *reader) cores(cpus []int) [][]int {
	var cores [][]int
	seen := map[int]bool{}
	for _, cpu := range cpus {
		if seen[cpu] {
			continue
		}
		name := "sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/topology/thread_siblings_list"
		core := intersect(r.list(name, false), cpus)
		if !slices.Contains(core, cpu) {
			core = []int{cpu} // the file is missing: a CPU by itself
		}
		for _, c := range core {
			seen[c] = true
		}
		cores = append(cores, core)
	}
	return cores
}

// status reads what each thread may use. The process's own status file is that of
// its first thread, which may be pinned; the runtime's own threads never are.
func (r *reader) status(t *Topology) {
	const name = "proc/self/status"
	cpus, nodes := r.allowed(name, true)
	if r.err == nil && cpus == nil && nodes == nil {
		r.fail(name, "expected Cpus_allowed_list and Mems_allowed_list, found neither")
	}
	if without(t.OnlineCPUs, cpus) != nil {
		threads, _ := fs.Glob(r.tree, "proc/self/task/*/status")
		for _, name := range threads {
			more, _ := r.allowed(name, false) // a thread may have ended by now
			cpus = append(cpus, without(more, cpus)...)
		}
	}
	if cpus == nil {
		cpus = t.OnlineCPUs
	}
	// The mask may name CPUs that are offline or were never there. A kernel
	// without cpusets names no nodes.
	t.AllowedCPUs, t.AllowedNodes = intersect(normal(cpus), t.OnlineCPUs), nodes
}

func (r *reader) allowed(name string, must bool) (cpus, nodes []int) {
	for line := range strings.Lines(r.text(name, must)) {
		key, value, _ := strings.Cut(line, ":")
		if key != "Cpus_allowed_list" && key != "Mems_allowed_list" {
			continue
		}
		ids, err := ParseList(value)
		if err != nil {
			r.fail(name, "%s: %v", key, err)
		}
		if key == "Cpus_allowed_list" {
			cpus = ids
		} else {
			nodes = ids
		}
	}
	return cpus, nodes
}

// pseudo makes the only node of a kernel without NUMA.
func (r *reader) pseudo(t *Topology) {
	n := Node{CPUs: t.OnlineCPUs, Cores: r.cores(t.OnlineCPUs), Distances: []int{10}}
	const name = "proc/meminfo"
	for line := range strings.Lines(r.text(name, true)) {
		f := strings.Fields(line)
		switch {
		case len(f) < 2:
		case f[0] == "MemTotal:":
			n.MemTotal = r.kilobytes(name, f[1:])
		case f[0] == "MemFree:":
			n.MemFree = r.kilobytes(name, f[1:])
		}
	}
	t.Nodes = []Node{n}
	t.AllowedNodes = []int{0}
	t.Pseudo = true
}

// pseudoTopology is the topology where there is no tree to read.
func pseudoTopology() *Topology {
	cpus := make([]int, runtime.NumCPU())
	cores := make([][]int, len(cpus))
	for i := range cpus {
		cpus[i] = i
		cores[i] = cpus[i : i+1]
	}
	return &Topology{
		Nodes:        []Node{{CPUs: cpus, Cores: cores, Distances: []int{10}}},
		OnlineCPUs:   cpus,
		AllowedCPUs:  cpus,
		AllowedNodes: []int{0},
		Limits:       Limits{Memory: Unlimited},
		Pseudo:       true,
	}
}
