package dbbench

import (
	"fmt"
	"slices"
	"strings"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/numa"
)

// parsePlacement reads --numa_placement: a mode, or a mode and nodes as in "bind:1".
func parsePlacement(s string) (mode flatrock.PlacementMode, nodes []int, err error) {
	name, list, hasNodes := strings.Cut(s, ":")
	if mode, err = flatrock.ParsePlacementMode(name); err != nil {
		return 0, nil, fmt.Errorf("--numa_placement=%s: want default, interleave, bind, prefer or replicate", s)
	}
	if hasNodes {
		if nodes, err = numa.ParseList(list); err != nil || len(nodes) == 0 {
			return 0, nil, fmt.Errorf("--numa_placement=%s: want nodes after the colon, as in bind:0 or interleave:0-1", s)
		}
	}
	return mode, nodes, nil
}

// placement is what --numa_placement asks of the database. One node, where none is
// given, is the first that has memory.
func (c *config) placement() (flatrock.Placement, error) {
	mode, nodes, err := parsePlacement(c.numaPlacement)
	if err != nil || mode == flatrock.PlaceDefault {
		return flatrock.Placement{}, err
	}
	if len(nodes) == 0 && (mode == flatrock.PlaceBind || mode == flatrock.PlacePrefer) {
		t, err := numa.Discover()
		if err != nil {
			return flatrock.Placement{}, err
		}
		nodes = t.MemoryNodes()[:1]
	}
	return flatrock.PlaceAll(mode, nodes...), nil
}

// spread gives each of n threads its node for --enable_numa, and the machine that
// pins them there. Without the flag, or where there is one node to run on, nobody is pinned.
func (b *bench) spread(n int) ([]int, *numa.Topology, error) {
	if !b.c.enableNUMA {
		return nil, nil, nil
	}
	t, err := numa.Discover()
	if err != nil {
		return nil, nil, err
	}
	if len(t.CPUNodes()) < 2 {
		return nil, nil, nil
	}
	return t.Spread(n), t, nil
}

// nodeShare is what the threads on one node did together.
type nodeShare struct {
	node    int
	threads int
	rate    float64 // operations a second
}

// byNode adds up the threads of a benchmark, its writer aside, by the node that they
// are pinned to.
func byNode(threads []*thread) []nodeShare {
	var all []nodeShare
	for _, t := range threads {
		if t.stats.excluded || t.node < 0 {
			continue
		}
		i := slices.IndexFunc(all, func(s nodeShare) bool { return s.node == t.node })
		if i < 0 {
			i = len(all)
			all = append(all, nodeShare{node: t.node})
		}
		all[i].threads++
		all[i].rate += perSecond(float64(t.stats.done), t.stats.seconds)
	}
	slices.SortFunc(all, func(a, b nodeShare) int { return a.node - b.node })
	return all
}

// printNodes writes a line for each node that threads were pinned to.
func (r *result) printNodes(b *bench) {
	for _, s := range r.nodes {
		fmt.Fprintf(b.out, "  NUMA node %d: %d threads, %d ops/sec\n", s.node, s.threads, int64(s.rate))
	}
}

// printPlacement says on which nodes the database's memory lies.
func (b *bench) printPlacement() error {
	r, err := b.db.Placement()
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "NUMA placement (--enable_numa=%t --numa_placement=%s):\n%s", b.c.enableNUMA, b.c.numaPlacement, r)
	return nil
}

// wantsPlacement tells whether the report at the end has a reader.
func (c *config) wantsPlacement() bool { return c.enableNUMA || c.numaPlacement != "default" }
