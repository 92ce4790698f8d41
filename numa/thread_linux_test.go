//go:build !nonuma

package numa

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPinnedThreadStaysOnItsNode(t *testing.T) {
	topology := machine(t)
	for _, node := range topology.CPUNodes() {
		// A subtest is a goroutine of its own, locked only between pin and release.
		t.Run("node "+strconv.Itoa(node), func(t *testing.T) {
			old, err := Affinity()
			if err != nil {
				t.Fatal(err)
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			release, err := PinNode(node)
			if err != nil {
				t.Fatal(err)
			}
			for range 100 {
				cpu, on, err := Current()
				if err != nil || on != node || topology.NodeOf(cpu) != node {
					t.Fatalf("runs on cpu %d of node %d (%v), pinned to %d", cpu, on, err, node)
				}
				runtime.Gosched()
			}
			if got, err := Affinity(); err != nil || !slices.Equal(got, topology.AllowedOn(node)) {
				t.Errorf("affinity %v, %v; want %v", got, err, topology.AllowedOn(node))
			}
			must(t, release)
			must(t, release) // again does nothing
			if got, err := Affinity(); err != nil || !slices.Equal(got, old) {
				t.Errorf("affinity after release %v, %v; want %v", got, err, old)
			}
		})
	}
	checkThreads(t)
}

// A pin that is released leaves no trace on any thread of the process, however many
// goroutines pinned at once and whatever else they did in between.
func TestNoThreadKeepsAMaskAfterRelease(t *testing.T) {
	topology := machine(t)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range 8 {
				cpu := topology.AllowedCPUs[(i+j)%len(topology.AllowedCPUs)]
				release, err := Pin(cpu)
				if err != nil {
					t.Error(err)
					return
				}
				if on, _, err := Current(); err != nil || on != cpu {
					t.Errorf("runs on cpu %d, %v; pinned to %d", on, err, cpu)
				}
				runtime.Gosched()
				must(t, release)
			}
		}()
	}
	wg.Wait()
	checkThreads(t)
}

// A release unlocks: else each goroutine would cost the runtime a thread.
func TestReleasedThreadsAreUsedAgain(t *testing.T) {
	topology := machine(t)
	threads := map[int]bool{}
	const goroutines = 100
	for range goroutines {
		thread := make(chan int)
		go func() {
			release, err := Pin(topology.AllowedCPUs...)
			if err != nil {
				t.Error(err)
			} else if err := release(); err != nil {
				t.Error(err)
			}
			thread <- unix.Gettid()
		}()
		threads[<-thread] = true
	}
	if len(threads) == goroutines {
		t.Errorf("%d goroutines pinned and released, each on a thread of its own", goroutines)
	}
}

// A goroutine that ends while pinned takes its thread along: nobody inherits it.
func TestThreadOfAForgottenReleaseEnds(t *testing.T) {
	topology := machine(t)
	threads, end := make(chan int), make(chan struct{})
	var pinned []int
	for range 2 { // at most one is the process's first thread, which never ends
		go func() {
			if _, err := Pin(topology.AllowedCPUs[0]); err != nil {
				t.Error(err)
			}
			threads <- unix.Gettid()
			<-end
		}()
		if thread := <-threads; thread != os.Getpid() {
			pinned = append(pinned, thread)
		}
	}
	close(end)
	for _, thread := range pinned {
		for unix.Tgkill(os.Getpid(), thread, 0) != unix.ESRCH {
			runtime.Gosched() // the test's own timeout ends this loop if the thread never does
		}
	}
	checkThreads(t)
}

func TestReleaseOutOfOrderIsRefused(t *testing.T) {
	topology := machine(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpus := topology.AllowedCPUs
	outer, err := Pin(cpus[0])
	if err != nil {
		t.Fatal(err)
	}
	inner, err := Pin(cpus[len(cpus)-1])
	if err != nil {
		t.Fatal(err)
	}
	policy, err := SetThreadPolicy(Policy{Mode: Local})
	if err != nil {
		t.Fatal(err)
	}
	for _, early := range []Release{outer, inner} {
		if err := early(); !errors.Is(err, ErrThread) {
			t.Errorf("release before the last pin: %v, want ErrThread", err)
		}
	}
	if got, _ := Affinity(); !slices.Equal(got, cpus[len(cpus)-1:]) {
		t.Errorf("a refused release changed the mask to %v", got)
	}
	must(t, policy)
	must(t, inner)
	if got, _ := Affinity(); !slices.Equal(got, cpus[:1]) {
		t.Errorf("inner release restored %v, want %v", got, cpus[:1])
	}
	must(t, outer)
	checkThreads(t)
}

func TestReleaseOnAnotherThreadIsRefused(t *testing.T) {
	topology := machine(t)
	runtime.LockOSThread() // this goroutine keeps its thread, so that the other's differs
	defer runtime.UnlockOSThread()
	pinned, refused, done := make(chan Release), make(chan error), make(chan error)
	go func() {
		release, err := Pin(topology.AllowedCPUs[0])
		if err != nil {
			done <- err
			return
		}
		pinned <- release
		<-refused
		done <- release()
	}()
	select {
	case release := <-pinned:
		err := release()
		if !errors.Is(err, ErrThread) {
			t.Errorf("release elsewhere: %v, want ErrThread", err)
		}
		refused <- err
	case err := <-done:
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("release where it belongs, after a refused one: %v", err)
	}
	checkThreads(t)
}

// The kernel drops unusable CPUs from a mask and says nothing.
func TestPinToUnusableCPUsIsAnErrorAndChangesNothing(t *testing.T) {
	topology := machine(t)
	usable := topology.AllowedCPUs[0]
	bad := [][]int{{}, {-1}, {maxID}, {maxID - 1}, {usable, maxID - 1}}
	for _, cpu := range topology.OfflineCPUs {
		bad = append(bad, []int{usable, cpu})
	}
	for _, cpus := range bad {
		if release, err := Pin(cpus...); !errors.Is(err, ErrCPU) || release != nil {
			t.Errorf("Pin(%v) = %v, want ErrCPU", cpus, err)
		}
	}
	for _, node := range []int{-1, maxNodes} {
		if _, err := PinNode(node); !errors.Is(err, ErrNode) {
			t.Errorf("PinNode(%d) = %v, want ErrNode", node, err)
		}
	}
	for _, n := range topology.Nodes {
		if n.HasCPU() {
			continue
		}
		if _, err := PinNode(n.ID); !errors.Is(err, ErrNode) {
			t.Errorf("PinNode(%d) = %v on a node without CPUs, want ErrNode", n.ID, err)
		}
	}
	checkThreads(t)
}

// policies are all that this machine's nodes allow.
func policies(nodes []int) []Policy {
	all := []Policy{{}, {Mode: Local}, {Mode: InterleaveOver, Nodes: nodes}, {Mode: BindTo, Nodes: nodes}, {Mode: PreferredMany, Nodes: nodes}}
	for _, n := range nodes {
		all = append(all, Policy{Mode: Preferred, Nodes: []int{n}}, Policy{Mode: BindTo, Nodes: []int{n}})
	}
	return all
}

func TestThreadPolicyIsSetReadBackAndRestored(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	nodes := machine(t).MemoryNodes()
	outer := Policy{Mode: InterleaveOver, Nodes: nodes}
	releaseOuter, err := SetThreadPolicy(outer)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range policies(nodes) {
		release, err := SetThreadPolicy(p)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		if got, err := ThreadPolicy(); err != nil || !got.Equal(p) {
			t.Errorf("policy %s reads back as %s, %v", p, got, err)
		}
		must(t, release)
		if got, err := ThreadPolicy(); err != nil || !got.Equal(outer) {
			t.Errorf("after %s: %s, %v; want %s", p, got, err, outer)
		}
	}
	must(t, releaseOuter)
	if got, err := ThreadPolicy(); err != nil || !got.Equal(Policy{}) {
		t.Errorf("in the end %s, %v; want default", got, err)
	}
}

// A policy that this package cannot make, such as one with mode flags set by a
// parent process, is put back as it was.
func TestForeignThreadPolicyIsRestoredWithItsFlags(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with its policy
		nodes := machine(t).MemoryNodes()
		foreign := unix.MPOL_INTERLEAVE | unix.MPOL_F_STATIC_NODES
		if err := setMempolicy(foreign, nodes); err != nil {
			t.Error(err)
			return
		}
		release, err := SetThreadPolicy(Policy{Mode: Local})
		if err != nil {
			t.Error(err)
			return
		}
		must(t, release)
		if mode, got, err := getMempolicy(nil, 0); err != nil || mode != foreign || !slices.Equal(got, nodes) {
			t.Errorf("restored mode %#x nodes %v, %v; want %#x %v", mode, got, err, foreign, nodes)
		}
	}()
	<-done
}

func TestThreadPolicyPlacesFirstTouch(t *testing.T) {
	for _, node := range machine(t).MemoryNodes() {
		for _, mode := range []Mode{BindTo, Preferred} {
			b := mapped(t, 2<<20, false)
			release, err := SetThreadPolicy(Policy{Mode: mode, Nodes: []int{node}})
			if err != nil {
				t.Fatal(err)
			}
			fill(b)
			must(t, release)
			wantOn(t, b, node)
		}
	}
}

// The default: memory comes from the node of the CPU that touches it first.
func TestPinnedThreadTouchesLocalMemory(t *testing.T) {
	topology := machine(t)
	for _, node := range topology.CPUNodes() {
		b := mapped(t, 2<<20, false)
		release, err := topology.Pin(node)
		if err != nil {
			t.Fatal(err)
		}
		fill(b)
		must(t, release)
		// Several nodes may be as near to one without memory.
		p := placement(t, b)
		near := topology.Distance(node, topology.Nearest(node, topology.MemoryNodes())[0])
		for _, on := range p.Nodes() {
			if topology.Distance(node, on) != near {
				t.Errorf("touched from node %d: %s; want memory at distance %d", node, p, near)
			}
		}
		if p.Present() != p.Pages {
			t.Errorf("touched from node %d: %s", node, p)
		}
	}
}

func TestPoliciesThatCannotBeAreRefused(t *testing.T) {
	topology := machine(t)
	node := topology.MemoryNodes()[0]
	bad := []Policy{
		{Mode: BindTo}, {Mode: Preferred}, {Mode: InterleaveOver}, {Mode: PreferredMany},
		{Mode: Local, Nodes: []int{node}}, {Mode: Default, Nodes: []int{node}},
		{Mode: BindTo, Nodes: []int{-1}}, {Mode: BindTo, Nodes: []int{maxNodes}},
		{Mode: BindTo, Nodes: []int{node, maxNodes - 1}}, {Mode: InterleaveOver, Nodes: []int{node, maxNodes - 1}},
		{Mode: Preferred, Nodes: []int{maxNodes - 1}},
	}
	for _, n := range topology.Nodes {
		if !n.HasMemory() { // the kernel would drop it and keep the other
			bad = append(bad, Policy{Mode: BindTo, Nodes: []int{node, n.ID}})
		}
	}
	b := mapped(t, 1<<20, false)
	for _, p := range bad {
		if _, err := SetThreadPolicy(p); !errors.Is(err, ErrNode) {
			t.Errorf("SetThreadPolicy(%s) = %v, want ErrNode", p, err)
		}
		if err := Apply(b, p, Leave); !errors.Is(err, ErrNode) {
			t.Errorf("Apply(%s) = %v, want ErrNode", p, err)
		}
	}
	if got, err := RangePolicy(b); err != nil || !got.Equal(Policy{}) {
		t.Errorf("a refused policy left %s, %v", got, err)
	}
	if err := Apply(b, Policy{Mode: 77, Nodes: []int{node}}, Leave); err == nil || !strings.Contains(err.Error(), "no such mode") {
		t.Errorf("mode 77: %v", err)
	}
	if err := Bind(b, Move(9), node); err == nil {
		t.Error("Move 9 is accepted")
	}
}

func TestLocatorAgreesWithTheKernel(t *testing.T) {
	topology := machine(t)
	l := topology.NewLocator()
	slow := &Locator{only: -1}
	if runtime.GOARCH == "amd64" && !l.Cheap() {
		t.Error("the processor's answer is not used on amd64")
	}
	for _, node := range topology.CPUNodes() {
		release, err := topology.Pin(node)
		if err != nil {
			t.Fatal(err)
		}
		fast := &Locator{only: -1, fast: topology.cpuNodeAgrees()}
		for _, l := range []*Locator{l, slow, fast} {
			if got := l.Node(); got != node {
				t.Errorf("Locator %+v says node %d, pinned to %d", *l, got, node)
			}
			if n := testing.AllocsPerRun(100, func() { l.Node() }); n != 0 {
				t.Errorf("Locator.Node allocates %v times", n)
			}
		}
		must(t, release)
	}
}

func BenchmarkLocator(b *testing.B) {
	topology := machine(b)
	for name, l := range map[string]*Locator{
		"default": topology.NewLocator(), "processor": {only: -1, fast: true}, "syscall": {only: -1},
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				l.Node()
			}
		})
	}
}
