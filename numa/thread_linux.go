//go:build !nonuma

package numa

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Pin locks the calling goroutine to its thread and the thread to the given CPUs.
// The mask that the kernel took is read back: CPUs that are offline or outside
// the cpuset, which the kernel drops in silence, give ErrCPU and the old mask.
//
// Memory that the thread allocates from then on comes from the node of the CPU
// it runs on, unless a policy says otherwise. Threads that the runtime starts
// later do not inherit the mask; processes started from the goroutine do.
//
// Elsewhere than on Linux it returns ErrNotSupported.
func Pin(cpus ...int) (Release, error) {
	want := normal(cpus)
	if len(want) == 0 {
		return nil, fmt.Errorf("numa: pin: no cpu given: %w", ErrCPU)
	}
	if want[0] < 0 || want[len(want)-1] >= maxID {
		return nil, fmt.Errorf("numa: pin to cpus %s: expected numbers from 0 to %d: %w", FormatList(want), maxID-1, ErrCPU)
	}
	return change(func() (func() error, error) {
		old, err := affinity()
		if err != nil {
			return nil, err
		}
		restore := func() error { return setAffinity(old) }
		if err := setAffinity(want); err != nil {
			if errors.Is(err, unix.EINVAL) {
				return nil, fmt.Errorf("numa: pin to cpus %s: none is online and allowed: %w", FormatList(want), ErrCPU)
			}
			return nil, fmt.Errorf("numa: pin to cpus %s: %w", FormatList(want), forbidden(err))
		}
		got, err := affinity()
		if err == nil {
			if lost := without(want, got); lost != nil {
				err = fmt.Errorf("numa: pin to cpus %s: cpu %s is not online and allowed: %w", FormatList(want), FormatList(lost), ErrCPU)
			}
		}
		return restore, err
	})
}

// PinNode is Pin to those CPUs of a node that this process may run on; ErrNode
// if there are none (the node has no CPUs, say). It reads the topology: callers
// that have one use Pin(t.AllowedOn(node)...).
//
// Where there is no NUMA, PinNode(0) only locks the goroutine to its thread.
func PinNode(node int) (Release, error) {
	t, err := Discover()
	if err != nil {
		return nil, err
	}
	return t.Pin(node)
}

// Pin is PinNode with a topology that has been read already.
func (t *Topology) Pin(node int) (Release, error) {
	cpus := t.AllowedOn(node)
	if len(cpus) == 0 {
		return nil, fmt.Errorf("numa: pin to node %d: it has no cpu that this process may use: %w", node, ErrNode)
	}
	return Pin(cpus...)
}

// Affinity returns the CPUs that the calling thread may run on, ascending.
// It is about the thread: meaningful on a locked goroutine, or as a guess.
// ErrNotSupported elsewhere than on Linux.
func Affinity() ([]int, error) { return affinity() }

// Current returns the CPU and node that the calling thread runs on. Unless the
// goroutine is pinned both may be out of date at once. It is a system call;
// Locator is cheaper. ErrNotSupported elsewhere than on Linux.
func Current() (cpu, node int, err error) {
	cpu, node, err = getcpu()
	if err != nil {
		return 0, 0, fmt.Errorf("numa: getcpu: %w", forbidden(err))
	}
	return cpu, node, nil
}

// SetThreadPolicy locks the calling goroutine to its thread and sets where the
// thread's allocations come from: anonymous memory it touches first, and pages of
// files that it brings into the page cache. Policies of ranges take precedence.
// The policy is read back: ErrNode if the kernel would drop one of the nodes.
//
// Go's heap is shared: memory that the runtime gets on this thread is soon used
// by any other. Use it around page faults on mapped memory, and release.
//
// Where there is no NUMA, a policy of node 0 or of no node only locks.
func SetThreadPolicy(p Policy) (Release, error) {
	p.Nodes = normal(p.Nodes)
	if err := p.check(); err != nil {
		return nil, err
	}
	return change(func() (func() error, error) {
		old, err := ThreadPolicy()
		if errors.Is(err, ErrNotSupported) && slices.Equal(intersect(p.Nodes, []int{0}), p.Nodes) {
			return func() error { return nil }, nil
		}
		if err != nil {
			return nil, err
		}
		restore := func() error { return setMempolicy(old.mode(), old.Nodes) }
		if err := usable(p); err != nil {
			return nil, err
		}
		if err := setMempolicy(p.mode(), p.Nodes); err != nil {
			return nil, fmt.Errorf("numa: thread policy %s: %w", p, explain(err))
		}
		got, err := ThreadPolicy()
		if err == nil && !got.Equal(p) {
			err = fmt.Errorf("numa: thread policy %s: the kernel made it %s: %w", p, got, ErrNode)
		}
		return restore, err
	})
}

// ThreadPolicy reads the calling thread's policy; see Affinity about threads.
// ErrNotSupported where there is no NUMA.
func ThreadPolicy() (Policy, error) {
	mode, nodes, err := getMempolicy(nil, 0)
	if err != nil {
		return Policy{}, fmt.Errorf("numa: thread policy: %w", explain(err))
	}
	return policyOf(mode, nodes), nil
}

// pinned holds, for each thread with an unreleased change, how many it has.
// Thread numbers are facts of the process; that is why this is package state.
var pinned struct {
	sync.Mutex
	depth map[int]int
}

// change locks the goroutine to its thread, makes a change by set, and returns
// the release that undoes it in last-in, first-out order. A set that fails after
// it changed something returns both the restore and the error.
func change(set func() (restore func() error, err error)) (Release, error) {
	// The lock comes first: the runtime starts new threads from a clean one while
	// this one is locked, so that none inherits the mask.
	runtime.LockOSThread()
	restore, err := set()
	if err != nil {
		if restore != nil {
			if back := restore(); back != nil {
				return nil, stuck(errors.Join(err, back))
			}
		}
		runtime.UnlockOSThread()
		return nil, err
	}
	thread := unix.Gettid()
	pinned.Lock()
	if pinned.depth == nil {
		pinned.depth = map[int]int{}
	}
	pinned.depth[thread]++
	depth := pinned.depth[thread]
	pinned.Unlock()

	done := false
	return func() error {
		pinned.Lock()
		defer pinned.Unlock()
		switch {
		case done:
			return nil
		case unix.Gettid() != thread:
			return fmt.Errorf("numa: release on thread %d, pinned on %d: %w", unix.Gettid(), thread, ErrThread)
		case pinned.depth[thread] != depth:
			return fmt.Errorf("numa: release of pin %d before pin %d: %w", depth, pinned.depth[thread], ErrThread)
		}
		done = true
		pinned.depth[thread]--
		if depth == 1 {
			delete(pinned.depth, thread)
		}
		if err := restore(); err != nil {
			return stuck(err)
		}
		runtime.UnlockOSThread()
		return nil
	}, nil
}

// stuck words the error of a thread that could not be put back and stays locked.
func stuck(err error) error {
	return fmt.Errorf("numa: the thread keeps its changed state and stays locked to this goroutine: %w", err)
}

func affinity() ([]int, error) {
	set := unix.NewCPUSet(maxID)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		return nil, fmt.Errorf("numa: read affinity: %w", forbidden(err))
	}
	var cpus []int
	for cpu := range maxID {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

func setAffinity(cpus []int) error {
	set := unix.NewCPUSet(maxID)
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return unix.SchedSetaffinityDynamic(0, set)
}

// allowedNodes are those that the kernel lets this thread allocate from.
func allowedNodes() ([]int, error) {
	_, nodes, err := getMempolicy(nil, unix.MPOL_F_MEMS_ALLOWED)
	if err != nil {
		return nil, fmt.Errorf("numa: allowed nodes: %w", explain(err))
	}
	return nodes, nil
}

// usable finds the nodes that the kernel would drop from a policy in silence.
func usable(p Policy) error {
	if len(p.Nodes) == 0 {
		return nil
	}
	allowed, err := allowedNodes()
	if err != nil {
		return err
	}
	if lost := without(p.Nodes, allowed); lost != nil {
		return fmt.Errorf("numa: policy %s: node %s has no memory or is outside the process's nodes %s: %w",
			p, FormatList(lost), FormatList(allowed), ErrNode)
	}
	return nil
}

var kernelModes = [...]int{
	Default: unix.MPOL_DEFAULT, Preferred: unix.MPOL_PREFERRED, BindTo: unix.MPOL_BIND,
	InterleaveOver: unix.MPOL_INTERLEAVE, Local: unix.MPOL_LOCAL, PreferredMany: unix.MPOL_PREFERRED_MANY,
}

// mode is the policy's mode and flags as the kernel takes them.
func (p Policy) mode() int {
	if p.Mode == unknownMode {
		return p.flags
	}
	return kernelModes[p.Mode] | p.flags
}

// unknownMode is a policy that this package does not make (weighted interleave);
// flags then hold all that the kernel said, for the restore.
const unknownMode Mode = -1

func policyOf(mode int, nodes []int) Policy {
	p := Policy{Nodes: nodes, flags: mode & unix.MPOL_MODE_FLAGS}
	p.Mode = Mode(slices.Index(kernelModes[:], mode&^unix.MPOL_MODE_FLAGS))
	switch {
	case p.Mode == unknownMode:
		p.flags = mode
	case p.Mode == Preferred && len(nodes) == 0:
		// Kernels before 5.14 wrote local so.
		p.Mode = Local
	}
	return p
}

// explain words the errors of the memory policy calls.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: a kernel without NUMA", ErrNotSupported)
	case errors.Is(err, unix.EPERM):
		return forbidden(err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: a mode or flag that this kernel does not know: %w", ErrNotSupported, err)
	}
	return err
}

func forbidden(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: %w (a container's seccomp profile may forbid it; CAP_SYS_NICE lifts Docker's)", ErrNotPermitted, err)
	}
	return err
}
