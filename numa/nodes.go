package numa

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Node returns the online node with that ID, or nil. Borrowed from t.
func (t *Topology) Node(id int) *Node {
	if i := t.index(id); i >= 0 {
		return &t.Nodes[i]
	}
	return nil
}

func (t *Topology) index(id int) int {
	return slices.IndexFunc(t.Nodes, func(n Node) bool { return n.ID == id })
}

// NodeOf returns the node of an online CPU, or -1.
func (t *Topology) NodeOf(cpu int) int {
	for i := range t.Nodes {
		if slices.Contains(t.Nodes[i].CPUs, cpu) {
			return t.Nodes[i].ID
		}
	}
	return -1
}

// CPUNodes are the nodes where this process may run a thread, ascending.
func (t *Topology) CPUNodes() []int {
	return t.pick(func(n *Node) bool { return len(t.AllowedOn(n.ID)) > 0 })
}

// MemoryNodes are the nodes where this process may allocate, ascending.
func (t *Topology) MemoryNodes() []int {
	return t.pick(func(n *Node) bool {
		// A pseudo-node's memory may be unknown, and is all there is.
		return (n.HasMemory() || t.Pseudo) && slices.Contains(t.AllowedNodes, n.ID)
	})
}

func (t *Topology) pick(keep func(*Node) bool) []int {
	var ids []int
	for i := range t.Nodes {
		if keep(&t.Nodes[i]) {
			ids = append(ids, t.Nodes[i].ID)
		}
	}
	return ids
}

// AllowedOn are the CPUs of a node that this process may run on, ascending;
// empty for a node that does not exist.
func (t *Topology) AllowedOn(node int) []int {
	n := t.Node(node)
	if n == nil {
		return nil
	}
	return intersect(n.CPUs, t.AllowedCPUs)
}

// Distance is from one node to another: 10 is local, and -1 means that one of
// them is not online.
func (t *Topology) Distance(from, to int) int {
	i, j := t.index(from), t.index(to)
	if i < 0 || j < 0 {
		return -1
	}
	return t.Nodes[i].Distances[j]
}

// Nearest returns the nodes of among by distance from node, nearest first and
// by ID where equal. It serves nodes that lack what is wanted: the memory for
// threads of a memory-less node is Nearest(node, t.MemoryNodes())[0], the CPUs
// for a CPU-less node Nearest(node, t.CPUNodes())[0]. Unknown nodes come last.
func (t *Topology) Nearest(node int, among []int) []int {
	far := func(id int) int {
		if d := t.Distance(node, id); d >= 0 {
			return d
		}
		return 1 << 30
	}
	ids := normal(among)
	slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(far(a), far(b)) })
	return ids
}

// Spread gives each of n threads a node: each node gets threads in proportion to
// its CPUs that this process may use, dealt out in turn. It serves drivers that
// start n readers and pin each (Pin or Run).
func (t *Topology) Spread(n int) []int {
	nodes := t.CPUNodes()
	left := map[int]int{}
	spread := make([]int, 0, n)
	for len(spread) < n && len(nodes) > 0 {
		dealt := false
		for _, id := range nodes {
			if left[id] > 0 && len(spread) < n {
				left[id]--
				spread = append(spread, id)
				dealt = true
			}
		}
		if !dealt { // the first round, or more threads than CPUs
			for _, id := range nodes {
				left[id] = len(t.AllowedOn(id))
			}
		}
	}
	return spread
}

// String is a report of several lines, for people and for logs.
func (t *Topology) String() string {
	var b strings.Builder
	kind := "nodes"
	if t.Pseudo {
		kind = "pseudo-node (no NUMA here)"
	} else if len(t.Nodes) == 1 {
		kind = "node"
	}
	fmt.Fprintf(&b, "%d %s; cpus online %s", len(t.Nodes), kind, FormatList(t.OnlineCPUs))
	if len(t.OfflineCPUs) > 0 {
		fmt.Fprintf(&b, ", offline %s", FormatList(t.OfflineCPUs))
	}
	fmt.Fprintf(&b, "; allowed cpus %s, nodes %s", orNone(t.AllowedCPUs), orNone(t.AllowedNodes))
	if l := t.Limits.String(); l != "" {
		fmt.Fprintf(&b, "; limits: %s", l)
	}
	if t.Balancing {
		b.WriteString("; kernel balancing on")
	}
	b.WriteByte('\n')
	for i := range t.Nodes {
		n := &t.Nodes[i]
		fmt.Fprintf(&b, "node %d: cpus %s", n.ID, orNone(n.CPUs))
		if len(n.Cores) < len(n.CPUs) {
			fmt.Fprintf(&b, " (%d cores)", len(n.Cores))
		}
		fmt.Fprintf(&b, ", memory %s, free %s", formatBytes(n.MemTotal), formatBytes(n.MemFree))
		for _, h := range n.HugePages {
			if h.Total > 0 {
				fmt.Fprintf(&b, ", huge pages of %s: %d, free %d", formatBytes(h.PageSize), h.Total, h.Free)
			}
		}
		b.WriteString(", distances")
		for j, d := range n.Distances {
			fmt.Fprintf(&b, " %d:%d", t.Nodes[j].ID, d)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func orNone(ids []int) string {
	if len(ids) == 0 {
		return "none"
	}
	return FormatList(ids)
}

// formatBytes writes a size with one decimal in the largest fitting unit.
func formatBytes(n int64) string {
	const units = "KMGTP"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[u])
}
