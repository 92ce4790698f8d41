package main

import (
	"fmt"
	"strconv"
	"strings"
)

// machine is the hardware of one run.
type machine struct {
	name    string
	nodes   []node
	threads int    // CPUs a core, where not 1
	boot    string // more for the kernel's command line
}

type node struct {
	cpus   int
	memory int // MiB
}

// nodeMemory holds what Linux needs on node 0, and the tests' ranges on each.
const nodeMemory = 384

// machines by the name that -machines takes.
var machines = []machine{
	{name: "1", nodes: uniform(1, 2)},
	{name: "2", nodes: uniform(2, 1)},
	{name: "4", nodes: uniform(4, 1)},
	{name: "8", nodes: uniform(8, 1)},
	// One node has CPUs and no memory, one memory and no CPUs, as CXL has.
	{name: "odd", nodes: []node{{1, nodeMemory}, {1, 0}, {0, nodeMemory}, {1, nodeMemory}}},
	// Two hyper-threads a core, and the last two CPUs stay offline.
	{name: "offline", nodes: uniform(2, 4), threads: 2, boot: "maxcpus=6"},
}

func uniform(nodes, cpus int) []node {
	all := make([]node, nodes)
	for i := range all {
		all[i] = node{cpus, nodeMemory}
	}
	return all
}

func machineNamed(name string) (machine, error) {
	var names []string
	for _, m := range machines {
		if m.name == name {
			return m, nil
		}
		names = append(names, m.name)
	}
	return machine{}, fmt.Errorf("machine %q: expected one of %s", name, strings.Join(names, ", "))
}

// args are QEMU's arguments for the hardware. Each node with CPUs is a socket.
// Distances are those of a ring, so that they differ and are symmetric.
func (m machine) args() []string {
	var memory, cpus int
	var objects, numa []string
	for id, n := range m.nodes {
		arg := fmt.Sprintf("node,nodeid=%d", id)
		if n.cpus > 0 {
			arg += fmt.Sprintf(",cpus=%d", cpus)
			if n.cpus > 1 {
				arg += fmt.Sprintf("-%d", cpus+n.cpus-1)
			}
		}
		if n.memory > 0 {
			arg += fmt.Sprintf(",memdev=m%d", id)
			objects = append(objects, "-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM", id, n.memory))
		}
		numa = append(numa, "-numa", arg)
		memory += n.memory
		cpus += n.cpus
	}
	for from := range m.nodes {
		for to := range m.nodes {
			if from != to {
				numa = append(numa, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", from, to, m.distance(from, to)))
			}
		}
	}
	threads := max(1, m.threads)
	smp := fmt.Sprintf("cpus=%d,sockets=%d,threads=%d", cpus, m.sockets(), threads)
	args := []string{"-m", strconv.Itoa(memory) + "M", "-smp", smp}
	if threads > 1 {
		args = append(args, "-cpu", "Haswell-noTSX,enforce=off") // the default model has no hyper-threads
	}
	return append(append(args, objects...), numa...)
}

func (m machine) sockets() int {
	var sockets int
	for _, n := range m.nodes {
		sockets += min(1, n.cpus)
	}
	return sockets
}

func (m machine) distance(from, to int) int {
	hops := (to - from + len(m.nodes)) % len(m.nodes)
	return 10 + 10*min(hops, len(m.nodes)-hops)
}
