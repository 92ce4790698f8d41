package numa

import (
	"errors"
	"testing"
)

func mustShards(t testing.TB, nodes ...int) *Shards {
	t.Helper()
	s, err := NewShards(nodes...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Data is laid out by the assignment, so that it must not change between versions.
func TestShardsNeverChange(t *testing.T) {
	s := mustShards(t, 3, 0, 2, 1, 3)
	var got []int
	for hash := range uint64(24) {
		got = append(got, s.Node(hash*0x01000193))
	}
	want := []int{2, 0, 2, 3, 2, 2, 3, 2, 3, 2, 2, 2, 0, 2, 1, 1, 3, 0, 1, 2, 2, 1, 1, 1}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("assignment %v, want %v", got, want)
		}
	}
}

func TestShardsAreEven(t *testing.T) {
	const keys = 40000
	for nodes := 1; nodes <= 8; nodes++ {
		var ids []int
		for id := range nodes {
			ids = append(ids, id*3)
		}
		s := mustShards(t, ids...)
		for _, step := range []uint64{1, 1 << 12, 1 << 32, 0x9e3779b1} { // weak hashes, too
			counts := map[int]int{}
			for i := range uint64(keys) {
				counts[s.Node(i*step)]++
			}
			for _, id := range ids {
				if fair := keys / nodes; counts[id] < fair*94/100 || counts[id] > fair*106/100 {
					t.Errorf("%d nodes, step %#x: node %d has %d keys, want about %d", nodes, step, id, counts[id], fair)
				}
			}
		}
	}
}

func TestRemovingANodeMovesOnlyItsKeys(t *testing.T) {
	all, fewer := mustShards(t, 0, 1, 2, 5), mustShards(t, 0, 1, 5)
	for hash := range uint64(10000) {
		before, after := all.Node(hash), fewer.Node(hash)
		if before != after && before != 2 {
			t.Fatalf("hash %d moved from node %d, which stayed, to %d", hash, before, after)
		}
		if all.Nodes()[all.Index(hash)] != before {
			t.Fatal("Index and Node differ")
		}
	}
}

func TestShardsOfNoNodeAreAnError(t *testing.T) {
	for _, nodes := range [][]int{{}, {-1}, {0, maxNodes}} {
		if _, err := NewShards(nodes...); !errors.Is(err, ErrNode) {
			t.Errorf("NewShards(%v) = %v, want ErrNode", nodes, err)
		}
	}
}

func TestShardsDoNotAllocate(t *testing.T) {
	s := mustShards(t, 0, 1, 2, 3)
	var sum int
	if n := testing.AllocsPerRun(100, func() { sum += s.Node(uint64(sum)) }); n != 0 {
		t.Errorf("Node allocates %v times", n)
	}
}

func BenchmarkShards(b *testing.B) {
	s := mustShards(b, 0, 1, 2, 3)
	var sum int
	for i := range b.N {
		sum += s.Node(uint64(i))
	}
	_ = sum
}
