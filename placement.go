package flatrock

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/numa"
	"github.com/flatrock-db/flatrock/plaintable"
)

// PlacementMode is how the pages of a structure are spread over NUMA nodes.
type PlacementMode int8

const (
	// PlaceDefault leaves pages on the node of the thread that touches them first.
	PlaceDefault PlacementMode = iota
	// PlaceInterleave deals pages over the nodes in turn.
	PlaceInterleave
	// PlaceBind uses memory of the nodes only. When they are full the kernel reclaims
	// and in the end kills the process, even if other nodes have room.
	PlaceBind
	// PlacePrefer uses memory of its one node while that has room.
	PlacePrefer
	// PlaceReplicate keeps a copy on each node, and every read uses the copy of the
	// node that it runs on. It takes the memory once per node.
	PlaceReplicate
)

var placementNames = [...]string{"default", "interleave", "bind", "prefer", "replicate"}

// String is the name that ParsePlacementMode reads.
func (m PlacementMode) String() string {
	if m < 0 || int(m) >= len(placementNames) {
		return fmt.Sprintf("PlacementMode(%d)", int8(m))
	}
	return placementNames[m]
}

// ParsePlacementMode reads default, interleave, bind, prefer or replicate.
func ParsePlacementMode(s string) (PlacementMode, error) {
	if i := slices.Index(placementNames[:], s); i >= 0 {
		return PlacementMode(i), nil
	}
	return 0, fmt.Errorf("%w: placement %q: want default, interleave, bind, prefer or replicate", ErrInvalidArgument, s)
}

// MemoryPlacement says on which NUMA nodes a structure lies.
type MemoryPlacement struct {
	Mode PlacementMode
	// Nodes are numbers of nodes. Empty means every node with memory that the process
	// may use, and for PlaceReplicate every such node that is the nearest to some CPU.
	// PlacePrefer takes exactly one.
	Nodes []int
}

// Placement says on which NUMA nodes the database's memory lies and where its
// background work runs. The zero value leaves both to the system, and costs
// nothing. On a machine with one node every placement is the zero value.
//
// Nodes that do not exist or that the process may not use make Open fail.
// It is not stored in the OPTIONS file.
type Placement struct {
	// MemTables is for the arenas of memtables. PlaceReplicate is refused: what is
	// written all the time has no copies.
	MemTables MemoryPlacement

	// Tables is for the files of plain tables. The copies that MemoryResident makes are
	// placed exactly, and can be replicated, with index and bloom filter.
	//
	// Other policies read the page cache, whose pages lie where the thread ran that
	// brought them in. Flushes, compactions and loading therefore run under this
	// placement; pages that are in the page cache already stay where they are, except
	// that placing on one node moves those that no other process maps. The page cache
	// has no replicas: PlaceReplicate leaves its rows alone, and copies index and bloom filter.
	Tables MemoryPlacement

	// Indexes is for indexes and bloom filters of plain tables: small, and read by
	// every Get, hence worth a replica on each node where the rows are not. The
	// default leaves them with the rows.
	Indexes MemoryPlacement

	// BlockCache is for the block cache of block-based tables. PlaceReplicate is refused.
	BlockCache MemoryPlacement

	// BackgroundNodes are the nodes on whose CPUs flushes, compactions and loading run.
	// Empty means any.
	BackgroundNodes []int
}

// PlaceAll is the Placement that treats all structures alike. For PlaceReplicate,
// memtables and the block cache, which change, are interleaved.
func PlaceAll(mode PlacementMode, nodes ...int) Placement {
	m := MemoryPlacement{Mode: mode, Nodes: nodes}
	p := Placement{MemTables: m, Tables: m, Indexes: m, BlockCache: m}
	if mode == PlaceReplicate {
		p.MemTables.Mode, p.BlockCache.Mode = PlaceInterleave, PlaceInterleave
	}
	return p
}

func (p *Placement) isDefault() bool {
	for _, m := range []MemoryPlacement{p.MemTables, p.Tables, p.Indexes, p.BlockCache} {
		if m.Mode != PlaceDefault {
			return false
		}
	}
	return len(p.BackgroundNodes) == 0
}

// validate checks what does not depend on the machine.
func (p *Placement) validate() error {
	for _, c := range []struct {
		what      string
		p         MemoryPlacement
		replicate bool
	}{
		{"MemTables", p.MemTables, false},
		{"Tables", p.Tables, true},
		{"Indexes", p.Indexes, true},
		{"BlockCache", p.BlockCache, false},
	} {
		switch {
		case c.p.Mode < 0 || int(c.p.Mode) >= len(placementNames):
			return fmt.Errorf("%w: Placement.%s: unknown mode %d", ErrInvalidArgument, c.what, c.p.Mode)
		case c.p.Mode == PlaceReplicate && !c.replicate:
			return fmt.Errorf("%w: Placement.%s: memory that changes cannot be replicated", ErrInvalidArgument, c.what)
		case c.p.Mode == PlaceDefault && len(c.p.Nodes) > 0:
			return fmt.Errorf("%w: Placement.%s: nodes %v without a mode", ErrInvalidArgument, c.what, c.p.Nodes)
		case c.p.Mode == PlacePrefer && len(c.p.Nodes) != 1:
			return fmt.Errorf("%w: Placement.%s: %v takes one node, found %v", ErrInvalidArgument, c.what, c.p.Mode, c.p.Nodes)
		}
	}
	t, x := p.Tables, p.Indexes
	if t.Mode == PlaceReplicate && x.Mode != PlaceDefault && (x.Mode != PlaceReplicate || !sameNodes(t.Nodes, x.Nodes)) {
		return fmt.Errorf("%w: Placement: replicated tables take their indexes along; Indexes must be the default or the same", ErrInvalidArgument)
	}
	return nil
}

func sameNodes(a, b []int) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// placement is a Placement made out for a machine. The zero value is the default:
// nothing asks it more than whether it is.
type placement struct {
	memtables, cache mmapfs.Placement
	tables           plaintable.Placement
	// loading is the policy of threads that bring table files in; home is the one node
	// that it names, or -1.
	loading numa.Policy
	home    int
	// background are CPUs; empty for any.
	background []int
	topology   *numa.Topology // nil for the default
}

// place makes the options' placement out for this machine. It looks at the machine
// only if there is something to place.
func (db *DB) place() error {
	db.placed.home = -1
	p := &db.opts.Placement
	if err := p.validate(); err != nil {
		return err
	}
	if p.isDefault() {
		return nil
	}
	t, err := numa.Discover()
	if err != nil {
		return err
	}
	db.placed, err = resolvePlacement(p, t, t.NewLocator(), db.log)
	return err
}

// resolvePlacement makes a valid Placement out for a machine. here tells which node
// a read is on, if that is cheap.
func resolvePlacement(p *Placement, t *numa.Topology, here *numa.Locator, log *slog.Logger) (placement, error) {
	out := placement{home: -1}
	memory := t.MemoryNodes()
	for _, m := range []*MemoryPlacement{&p.MemTables, &p.Tables, &p.Indexes, &p.BlockCache} {
		if err := nodesAmong(m.Nodes, memory, "memory"); err != nil {
			return out, err
		}
	}
	if err := nodesAmong(p.BackgroundNodes, t.CPUNodes(), "CPUs"); err != nil {
		return out, err
	}
	if len(t.CPUNodes()) > 1 {
		for _, n := range p.BackgroundNodes {
			out.background = append(out.background, t.AllowedOn(n)...)
		}
	}
	if len(memory) < 2 {
		log.Info("one NUMA node with memory: there is nothing to place")
		memory = nil
	}
	if len(memory) == 0 && len(out.background) == 0 {
		return out, nil
	}
	out.topology = t
	if len(memory) == 0 {
		return out, nil
	}
	tables, indexes := p.Tables, p.Indexes
	if tables.Mode == PlaceReplicate || indexes.Mode == PlaceReplicate {
		nodes := orNodes(indexes.Nodes, readerNodes(t))
		if tables.Mode == PlaceReplicate {
			nodes = orNodes(tables.Nodes, readerNodes(t))
		}
		switch {
		case len(nodes) < 2:
			one := MemoryPlacement{Mode: PlacePrefer, Nodes: nodes}
			tables, indexes = replaced(tables, one), replaced(indexes, one)
		case !here.Cheap():
			// A read must not make a system call to learn where it is.
			log.Warn("this processor does not tell cheaply which node a thread is on: interleaving instead of replicas", "nodes", nodes)
			all := MemoryPlacement{Mode: PlaceInterleave, Nodes: nodes}
			tables, indexes = replaced(tables, all), replaced(indexes, all)
		default:
			out.tables.Replicas = replicasOn(nodes, t, here, tables.Mode == PlaceReplicate)
			tables, indexes = replaced(tables, MemoryPlacement{}), replaced(indexes, MemoryPlacement{})
		}
	}
	out.memtables = p.MemTables.on(memory)
	out.cache = p.BlockCache.on(memory)
	out.tables.Rows = tables.on(memory)
	out.tables.Index = indexes.on(memory)
	out.loading = threadPolicy(out.tables.Rows)
	if len(out.loading.Nodes) == 1 {
		out.home = out.loading.Nodes[0]
	}
	return out, nil
}

// nodesAmong refuses nodes that the process cannot use.
func nodesAmong(nodes, have []int, what string) error {
	for _, n := range nodes {
		if !slices.Contains(have, n) {
			return fmt.Errorf("%w: Placement: node %d has no %s that this process may use; nodes %s have: %w",
				ErrInvalidArgument, n, what, numa.FormatList(have), numa.ErrNode)
		}
	}
	return nil
}

func orNodes(nodes, all []int) []int {
	if len(nodes) == 0 {
		return all
	}
	nodes = slices.Sorted(slices.Values(nodes))
	return slices.Compact(nodes)
}

// replaced is what stands in for a replicated placement.
func replaced(m, by MemoryPlacement) MemoryPlacement {
	if m.Mode == PlaceReplicate {
		return by
	}
	return m
}

// on is the placement for mmapfs, with nodes that memory has.
func (m MemoryPlacement) on(memory []int) mmapfs.Placement {
	modes := map[PlacementMode]mmapfs.PlacementMode{
		PlaceInterleave: mmapfs.PlacementInterleave, PlaceBind: mmapfs.PlacementBind, PlacePrefer: mmapfs.PlacementPrefer,
	}
	mode, ok := modes[m.Mode]
	if !ok {
		return mmapfs.Placement{}
	}
	return mmapfs.Placement{Mode: mode, Nodes: orNodes(m.Nodes, memory)}
}

// threadPolicy is the same for what a thread allocates.
func threadPolicy(p mmapfs.Placement) numa.Policy {
	switch p.Mode {
	case mmapfs.PlacementInterleave:
		return numa.Policy{Mode: numa.InterleaveOver, Nodes: p.Nodes}
	case mmapfs.PlacementBind:
		return numa.Policy{Mode: numa.BindTo, Nodes: p.Nodes}
	case mmapfs.PlacementPrefer:
		return numa.Policy{Mode: numa.Preferred, Nodes: p.Nodes[:1]}
	}
	return numa.Policy{}
}

// replicasOn describes a replica on each of the nodes. Readers on other nodes use the
// nearest one.
func replicasOn(nodes []int, t *numa.Topology, here *numa.Locator, rows bool) *plaintable.Replicas {
	at := make([]int, t.Nodes[len(t.Nodes)-1].ID+1) // by node
	for id := range at {
		at[id] = slices.Index(nodes, t.Nearest(id, nodes)[0])
	}
	return &plaintable.Replicas{Nodes: nodes, Rows: rows, Run: t.Run, Here: func() int {
		if node := here.Node(); uint(node) < uint(len(at)) {
			return at[node]
		}
		return 0 // a node that came online later
	}}
}

// readerNodes are those whose memory is the nearest to some CPU: where replicas are
// of use.
func readerNodes(t *numa.Topology) []int {
	var nodes []int
	for _, n := range t.CPUNodes() {
		nodes = append(nodes, t.Nearest(n, t.MemoryNodes())[0])
	}
	return orNodes(nodes, nil)
}

// whileLoading runs f, which brings a table file into memory, on a thread whose
// allocations lie where tables belong.
func (p *placement) whileLoading(f func() error) (err error) {
	switch {
	case p.loading.Mode == numa.Default:
		return f()
	case p.home >= 0:
		return p.topology.Run(p.home, f)
	}
	release, err := numa.SetThreadPolicy(p.loading)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	return f()
}

// settle moves the calling goroutine, one of the background's, to its CPUs, and makes
// the pages of files that it writes lie where tables belong. The returned function
// undoes it, on the same goroutine.
func (p *placement) settle(log *slog.Logger) (undo func()) {
	var releases []numa.Release
	keep := func(r numa.Release, err error) {
		if err != nil {
			log.Warn("background work runs anywhere", "err", err)
			return
		}
		releases = append(releases, r)
	}
	if len(p.background) > 0 {
		keep(numa.Pin(p.background...))
	}
	if p.loading.Mode != numa.Default {
		keep(numa.SetThreadPolicy(p.loading))
	}
	return func() {
		for i := len(releases) - 1; i >= 0; i-- {
			if err := releases[i](); err != nil {
				log.Warn("a background thread ends with its goroutine", "err", err)
			}
		}
	}
}

// gather moves what a mapped file has in memory to the one node where tables
// belong, if there is one. What does not move is read from where it is.
func (p *placement) gather(r *plaintable.Reader, log *slog.Logger) {
	if p.home < 0 {
		return
	}
	r.EachMemory(func(part plaintable.Part, b []byte, _ bool) {
		if part != plaintable.PartMapped {
			return
		}
		if _, err := numa.Migrate(b, p.home); err != nil {
			log.Info("pages of a table file stay on another node", "node", p.home, "err", err)
		}
	})
}
