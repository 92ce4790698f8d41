package dbbench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/numa"
)

// checkNUMAReport looks for the report of placement and for each node's throughput, if wanted.
func checkNUMAReport(t *testing.T, out string, wanted bool) {
	t.Helper()
	topology, err := numa.Discover()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "NUMA placement") != wanted {
		t.Fatalf("a report of placement: want %t, found\n%s", wanted, out)
	}
	if one := len(topology.Nodes) == 1; strings.Contains(out, "one NUMA node") != (wanted && one) {
		t.Errorf("the machine has %d nodes, and the report says\n%s", len(topology.Nodes), out)
	}
	nodes := topology.CPUNodes()
	for _, n := range nodes {
		line := fmt.Sprintf("NUMA node %d: ", n)
		if strings.Contains(out, line) != (wanted && len(nodes) > 1) {
			t.Errorf("%q, with threads on nodes %v, in\n%s", line, nodes, out)
		}
	}
}

// TestNUMAPlacementFlag runs each placement, which on one node is none, with pinned threads.
func TestNUMAPlacementFlag(t *testing.T) {
	for _, p := range []string{"default", "interleave", "bind", "bind:0", "prefer", "replicate"} {
		out := mustRun(t, plainArgs(t.TempDir(), "--numa_placement="+p, "--enable_numa", "--threads=4", "--benchmarks=fillseq,flush,readrandom,placement")...)
		checkNUMAReport(t, out, true)
		if n := strings.Count(out, "NUMA placement (--enable_numa=true --numa_placement="+p+")"); n != 2 {
			t.Errorf("%s: %d reports, want that of the benchmark and that of the end:\n%s", p, n, out)
		}
	}
	for _, bad := range []string{"everywhere", "bind:", "bind:x", "bind:4711"} {
		if out, errs, code := runProgram(t, plainArgs(t.TempDir(), "--numa_placement="+bad, "--benchmarks=fillseq")...); code == 0 {
			t.Errorf("--numa_placement=%s is accepted:\n%s%s", bad, out, errs)
		}
	}
}

func TestThroughputByNode(t *testing.T) {
	at := func(node int, done int64, excluded bool) *thread {
		t := &thread{node: node}
		t.stats.done, t.stats.seconds, t.stats.excluded = done, 2, excluded
		return t
	}
	got := byNode([]*thread{at(1, 10, false), at(0, 4, false), at(1, 30, false), at(0, 99, true), at(-1, 99, false)})
	if want := []nodeShare{{0, 1, 2}, {1, 2, 20}}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
