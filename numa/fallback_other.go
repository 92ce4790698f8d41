//go:build !linux || nonuma

package numa

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
)

// What Linux does in thread_linux.go, memory_linux.go, migrate_linux.go and
// populate_linux.go, on one pseudo-node. The contracts are documented there.

// Pin needs the kernel: ErrNotSupported.
func Pin(cpus ...int) (Release, error) {
	return nil, fmt.Errorf("numa: pin to cpus %s: %w", FormatList(cpus), ErrNotSupported)
}

// PinNode locks the goroutine to its thread for node 0; ErrNode for others.
func PinNode(node int) (Release, error) { return pseudoTopology().Pin(node) }

// Pin is PinNode.
func (t *Topology) Pin(node int) (Release, error) {
	if node != 0 {
		return nil, fmt.Errorf("numa: pin to node %d: there is only node 0: %w", node, ErrNode)
	}
	return lock(), nil
}

func lock() Release {
	runtime.LockOSThread()
	var once sync.Once
	return func() error {
		once.Do(runtime.UnlockOSThread)
		return nil
	}
}

// Affinity needs the kernel: ErrNotSupported.
func Affinity() ([]int, error) { return nil, ErrNotSupported }

// Current needs the kernel: ErrNotSupported.
func Current() (cpu, node int, err error) { return 0, 0, ErrNotSupported }

// SetThreadPolicy only locks, for a policy of node 0 or of no node.
func SetThreadPolicy(p Policy) (Release, error) {
	if err := pseudoCheck(p); err != nil {
		return nil, err
	}
	return lock(), nil
}

// ThreadPolicy needs the kernel: ErrNotSupported.
func ThreadPolicy() (Policy, error) { return Policy{}, ErrNotSupported }

// Apply succeeds for a policy of node 0 or of no node.
func Apply(b []byte, p Policy, move Move) error {
	if move < Leave || move > MoveAll {
		return fmt.Errorf("numa: move %d: no such value", move)
	}
	if err := pseudoCheck(p); err != nil {
		return err
	}
	return checkRange(b)
}

func pseudoCheck(p Policy) error {
	p.Nodes = normal(p.Nodes)
	if err := p.check(); err != nil {
		return err
	}
	if p.Mode.takesNodes() && !slices.Equal(p.Nodes, []int{0}) {
		return fmt.Errorf("numa: policy %s: there is only node 0: %w", p, ErrNode)
	}
	return nil
}

// RangePolicy needs the kernel: ErrNotSupported.
func RangePolicy(b []byte) (Policy, error) { return Policy{}, ErrNotSupported }

// PlacementOf needs the kernel: ErrNotSupported.
func PlacementOf(b []byte) (Placement, error) { return Placement{}, ErrNotSupported }

// SamplePlacement needs the kernel: ErrNotSupported.
func SamplePlacement(b []byte, n int) (Placement, error) { return Placement{}, ErrNotSupported }

// Migrate needs the kernel: ErrNotSupported.
func Migrate(b []byte, node int) (Placement, error) { return Placement{}, ErrNotSupported }

// checkRange asks less than Linux does: memory need not begin on a page, since
// nothing is done with it.
func checkRange(b []byte) error {
	if len(b) == 0 {
		return ErrRange
	}
	return nil
}

func checkOn([]byte, []int) error { return nil }

// populate reads each page: for writing too, since no other node could get it.
func populate(b []byte, write bool) error {
	touch(b, os.Getpagesize())
	return nil
}
