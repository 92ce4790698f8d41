package numa

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
)

// PerNode holds one T for each of some nodes, and finds the one of the caller's
// node: read-only indexes, blooms, tables, caches, counters. Never changed after
// NewPerNode: safe for concurrent use as far as T is.
type PerNode[T any] struct {
	nodes   []int
	values  []T   // in the order of nodes
	index   []int // of values, by node ID: the nearest where a node has none
	locator *Locator
}

// NewPerNode builds a T on each of the nodes, all at once. Each build runs on a
// goroutine locked to a thread that prefers the node's memory and runs on the
// node's CPUs (on the nearest ones of a node without), so that mapped memory it
// touches first lies there. Go heap that it allocates need not.
//
// If a build fails or panics, those that succeeded are handed to discard, which
// may be nil, and all errors are returned.
func NewPerNode[T any](t *Topology, nodes []int, build func(node int) (T, error), discard func(T)) (*PerNode[T], error) {
	nodes = normal(nodes)
	if len(nodes) == 0 {
		return nil, fmt.Errorf("numa: one per node: no node given: %w", ErrNode)
	}
	p := &PerNode[T]{nodes: nodes, values: make([]T, len(nodes)), locator: t.NewLocator()}
	for _, id := range nodes {
		if t.Node(id) == nil {
			return nil, fmt.Errorf("numa: one per node: node %d is not online: %w", id, ErrNode)
		}
	}
	p.index = nearestIndex(t, nodes)
	errs := make([]error, len(nodes))
	done := make(chan struct{})
	for i, node := range nodes {
		go func() {
			// Receiving from done waits for this even if build ends its goroutine.
			defer func() { done <- struct{}{} }()
			errs[i] = fmt.Errorf("numa: one per node: build on node %d ended its goroutine", node)
			errs[i] = t.Run(node, func() (err error) {
				p.values[i], err = build(node)
				return err
			})
		}()
	}
	for range nodes {
		<-done
	}
	if err := errors.Join(errs...); err != nil {
		for i := range nodes {
			if errs[i] == nil && discard != nil {
				discard(p.values[i])
			}
		}
		return nil, err
	}
	return p, nil
}

// nearestIndex is, for each node number up to the last, which of nodes is nearest.
func nearestIndex(t *Topology, nodes []int) []int {
	index := make([]int, t.Nodes[len(t.Nodes)-1].ID+1)
	for id := range index {
		index[id] = slices.Index(nodes, t.Nearest(id, nodes)[0])
	}
	return index
}

// Run runs f on the calling goroutine, pinned to the node's CPUs (to the nearest
// ones of a node without) and preferring its memory, and puts the thread back
// afterwards. A panic of f is returned as a *PanicError. ErrNode if the node is not
// online.
func (t *Topology) Run(node int, f func() error) (err error) {
	if t.Node(node) == nil {
		return fmt.Errorf("numa: run on node %d: it is not online: %w", node, ErrNode)
	}
	release, err := t.settle(node)
	if err != nil {
		return err
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Node: node, Value: v, Stack: debug.Stack()}
		}
		if back := release(); err == nil {
			err = back
		}
	}()
	return f()
}

// settle pins the thread to the node's CPUs, or to the nearest ones, and makes it
// prefer the node's memory, where there is some to prefer.
func (t *Topology) settle(node int) (Release, error) {
	cpus := node
	if near := t.Nearest(node, t.CPUNodes()); len(near) > 0 {
		cpus = near[0]
	}
	pin, err := t.Pin(cpus)
	if err != nil {
		return nil, err
	}
	memory := Policy{Mode: Local}
	if !t.Pseudo && len(intersect([]int{node}, t.MemoryNodes())) > 0 {
		memory = Policy{Mode: Preferred, Nodes: []int{node}}
	}
	policy, err := SetThreadPolicy(memory)
	if errors.Is(err, ErrNotSupported) || errors.Is(err, ErrNotPermitted) {
		return pin, nil // the pin alone gives local memory, by default
	}
	if err != nil {
		return nil, joinRelease(pin, err)
	}
	return func() error {
		if err := policy(); err != nil {
			return err
		}
		return pin()
	}, nil
}

// Nodes are those with a value of their own, ascending. Borrowed: do not change.
func (p *PerNode[T]) Nodes() []int { return p.nodes }

// At is the value of a node, or of the nearest node that has one. It does not
// allocate.
func (p *PerNode[T]) At(node int) T {
	if uint(node) >= uint(len(p.index)) {
		return p.values[0] // came online after NewPerNode
	}
	return p.values[p.index[node]]
}

// Here is the value for the node that the caller runs on; see Locator on cost.
func (p *PerNode[T]) Here() T { return p.At(p.locator.Node()) }

// Each calls f with each node that has a value, ascending.
func (p *PerNode[T]) Each(f func(node int, value T)) {
	for i, id := range p.nodes {
		f(id, p.values[i])
	}
}
