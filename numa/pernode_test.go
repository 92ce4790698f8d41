package numa

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestPerNodeFindsTheNearestValue(t *testing.T) {
	topology := mustRead(t, "eight") // a ring, of which three have a value
	nodes := []int{1, 2, 5}
	index := nearestIndex(topology, nodes)
	for node, want := range []int{1, 1, 2, 2, 5, 5, 5, 1} {
		if got := nodes[index[node]]; got != want {
			t.Errorf("node %d uses the value of node %d, want %d", node, got, want)
		}
	}
	holes := mustRead(t, "holes")
	if index := nearestIndex(holes, []int{2, 7}); len(index) != 8 || index[0] != 0 || index[5] != 0 || index[7] != 1 {
		t.Errorf("with holes: %v", index)
	}
}

func TestPerNodeBuildsOnEachNode(t *testing.T) {
	topology, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	nodes := topology.CPUNodes()
	p, err := NewPerNode(topology, nodes, func(node int) (int, error) {
		if _, on, err := Current(); !errors.Is(err, ErrNotSupported) && (err != nil || on != node) {
			t.Errorf("built on node %d, %v; want %d", on, err, node)
		}
		return node + 100, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Nodes(), nodes) {
		t.Errorf("values on %v, want %v", p.Nodes(), nodes)
	}
	p.Each(func(node, value int) {
		if value != node+100 || p.At(node) != value {
			t.Errorf("node %d has %d, At gives %d", node, value, p.At(node))
		}
		release, err := topology.Pin(node)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Here(); got != value {
			t.Errorf("pinned to node %d, Here gives %d", node, got)
		}
		if n := testing.AllocsPerRun(100, func() { p.Here() }); n != 0 {
			t.Errorf("Here allocates %v times", n)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	if got := p.At(maxNodes + 5); got != p.At(nodes[0]) {
		t.Errorf("a node that came later gets %d", got)
	}
}

func TestPerNodeDiscardsWhatItBuiltWhenOneFails(t *testing.T) {
	topology, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	nodes := topology.CPUNodes()
	cause := errors.New("the cause")
	last := nodes[len(nodes)-1]
	for name, fail := range map[string]func() (int, error){
		"error":  func() (int, error) { return 0, cause },
		"panic":  func() (int, error) { panic(cause) },
		"goexit": func() (int, error) { runtime.Goexit(); return 0, nil },
	} {
		var mu sync.Mutex
		var discarded []int
		_, err := NewPerNode(topology, nodes, func(node int) (int, error) {
			if node == last {
				return fail()
			}
			return node, nil
		}, func(value int) {
			mu.Lock()
			defer mu.Unlock()
			discarded = append(discarded, value)
		})
		if err == nil || name != "goexit" && !errors.Is(err, cause) || name == "goexit" && !strings.Contains(err.Error(), "ended its goroutine") {
			t.Errorf("%s: %v", name, err)
		}
		slices.Sort(discarded)
		if !slices.Equal(discarded, nodes[:len(nodes)-1]) {
			t.Errorf("%s: discarded %v, want %v", name, discarded, nodes[:len(nodes)-1])
		}
	}
	for _, bad := range [][]int{nil, {maxNodes - 1}} {
		if _, err := NewPerNode(topology, bad, func(int) (int, error) { return 0, nil }, nil); !errors.Is(err, ErrNode) {
			t.Errorf("on nodes %v: %v, want ErrNode", bad, err)
		}
	}
}

func TestRunReturnsErrorsAndPanics(t *testing.T) {
	topology, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("the cause")
	for _, node := range topology.CPUNodes() {
		var panicked *PanicError
		if err := topology.Run(node, func() error { panic(cause) }); !errors.As(err, &panicked) || !errors.Is(err, cause) || panicked.Node != node {
			t.Errorf("Run of a panic: %v", err)
		}
		if err := topology.Run(node, func() error { return cause }); err != cause {
			t.Errorf("Run = %v, want the function's error", err)
		}
		if err := topology.Run(node, func() error { return nil }); err != nil {
			t.Errorf("Run = %v", err)
		}
	}
	if err := topology.Run(maxNodes-1, func() error { return nil }); !errors.Is(err, ErrNode) {
		t.Errorf("Run on a node that is not there: %v, want ErrNode", err)
	}
}

func TestReplicasAreEqualAndOnTheirNodes(t *testing.T) {
	topology, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	nodes := topology.MemoryNodes()
	for _, size := range []int{0, 1, 4096, 100_001, 9 << 20} {
		src := make([]byte, size)
		for i := range src {
			src[i] = byte(i * 7)
		}
		r, err := Replicate(topology, src, nodes...)
		if err != nil {
			t.Fatal(err)
		}
		r.Each(func(node int, copied []byte) {
			if !bytes.Equal(copied, src) {
				t.Errorf("the copy of %d bytes on node %d differs", size, node)
			}
			if size == 0 {
				return
			}
			p, err := PlacementOf(copied)
			if errors.Is(err, ErrNotSupported) {
				return
			}
			if err != nil || p.ByNode[node] != p.Pages {
				t.Errorf("the copy of %d bytes on node %d is at %s, %v", size, node, p, err)
			}
		})
		if p, err := r.Placement(); !errors.Is(err, ErrNotSupported) {
			if err != nil || len(p.Nodes()) != len(nodes) && size > 0 {
				t.Errorf("%d bytes on %v: %s, %v", size, nodes, p, err)
			}
		}
		if err := r.Free(); err != nil {
			t.Error(err)
		}
		if err := r.Free(); err != nil {
			t.Errorf("second Free: %v", err)
		}
	}
}

// Each pinned reader gets the copy that lies on its own node.
func TestPinnedReadersReadTheirOwnReplica(t *testing.T) {
	topology, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Replicate(topology, bytes.Repeat([]byte("index"), 100_000), topology.MemoryNodes()...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	p := newPool(t, PoolOptions{Workers: 1})
	defer p.Close()
	for _, node := range p.Nodes() {
		err := p.Do(t.Context(), node, func() error {
			own := r.Here()
			where, err := PlacementOf(own)
			if errors.Is(err, ErrNotSupported) {
				return nil
			}
			if err != nil {
				return err
			}
			nearest := topology.Nearest(node, topology.MemoryNodes())[0]
			if topology.Distance(node, nearest) < topology.Distance(node, where.Nodes()[0]) || where.Remote(where.Nodes()[0]) != 0 {
				t.Errorf("a reader on node %d reads %s", node, where)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestReplicateRefusesNodesWithoutRoom(t *testing.T) {
	topology := mustRead(t, "odd") // node 1 has no memory
	for _, nodes := range [][]int{{0, 1}, {77}} {
		if _, err := Replicate(topology, make([]byte, 10), nodes...); !errors.Is(err, ErrNode) {
			t.Errorf("on %v: %v, want ErrNode", nodes, err)
		}
	}
	small := mustRead(t, "one")
	small.Nodes[0].MemTotal = 5
	if _, err := Replicate(small, make([]byte, 6), 0); !errors.Is(err, ErrNode) {
		t.Errorf("6 bytes on a node of 5: %v, want ErrNode", err)
	}
}
