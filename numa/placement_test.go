package numa

import (
	"slices"
	"testing"
)

func on(pages map[int]int64) Placement {
	p := Placement{PageSize: 4096, ByNode: pages}
	p.Pages = p.Present()
	return p
}

func TestRemoteShare(t *testing.T) {
	p := on(map[int]int64{0: 75, 2: 25, 3: 0})
	for node, want := range map[int]float64{0: 0.25, 2: 0.75, 3: 1, 7: 1} {
		if got := p.Remote(node); got != want {
			t.Errorf("Remote(%d) = %v, want %v", node, got, want)
		}
	}
	if got := (Placement{}).Remote(0); got != 0 {
		t.Errorf("an empty range is %v remote", got)
	}
	if !slices.Equal(p.Nodes(), []int{0, 2}) || p.BytesOn(2) != 25*4096 || p.Elsewhere(0, 2, 2) != 0 || p.Elsewhere(0) != 25 {
		t.Errorf("%+v: nodes %v", p, p.Nodes())
	}
}

func TestPlacementText(t *testing.T) {
	p := on(map[int]int64{2: 256, 0: 1})
	p.NotPresent = 3
	if got, want := p.String(), "node 0: 4.0 KiB, node 2: 1.0 MiB, not present: 12.0 KiB"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (Placement{}).String(); got != "no pages" {
		t.Errorf("%q", got)
	}
}

func TestAddStartsFromZero(t *testing.T) {
	var sum Placement
	sum.Add(on(map[int]int64{0: 1}))
	sum.Add(Placement{PageSize: 4096, Pages: 4, NotPresent: 3, ByNode: map[int]int64{1: 1}})
	if sum.PageSize != 4096 || sum.Pages != 5 || sum.NotPresent != 3 || sum.ByNode[0] != 1 || sum.ByNode[1] != 1 {
		t.Errorf("%+v", sum)
	}
}

func TestEven(t *testing.T) {
	nodes := []int{0, 1}
	for _, c := range []struct {
		p    Placement
		want bool
	}{
		{on(map[int]int64{0: 500, 1: 500}), true},
		{on(map[int]int64{0: 560, 1: 440}), false},
		{on(map[int]int64{0: 530, 1: 470}), true},
		{on(map[int]int64{0: 1000}), false},
		{on(map[int]int64{0: 10}), true}, // too few to tell
		{on(map[int]int64{0: 500, 1: 500, 2: 1}), false},
		{Placement{}, true},
	} {
		if got := even(c.p, nodes, 0.9); got != c.want {
			t.Errorf("even(%s) = %v", c.p, got)
		}
	}
}

func TestReportTable(t *testing.T) {
	var r Report
	r.Add("memtable arenas", on(map[int]int64{0: 128, 1: 128}))
	r.Add("plain tables", Placement{PageSize: 4096, Pages: 512, NotPresent: 256, ByNode: map[int]int64{1: 256}})
	r.AddCopies("plain-table indexes", on(map[int]int64{0: 64, 1: 64}))
	r.Add("memtable arenas", on(map[int]int64{0: 256}))
	want := `structure                node 0      node 1      absent    remote@0    remote@1
memtable arenas         1.5 MiB   512.0 KiB         0 B       25.0%       75.0%
plain tables                0 B     1.0 MiB     1.0 MiB      100.0%        0.0%
plain-table indexes   256.0 KiB   256.0 KiB         0 B        0.0%        0.0%
total                   1.8 MiB     1.8 MiB     1.0 MiB       46.2%       46.2%
`
	if got := r.Format([]int{0, 1}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// A reader on a node without a copy reads some other node's.
	if got := r.Rows[2].Remote(5); got != 1 {
		t.Errorf("remote from a node without a copy: %v", got)
	}
	if got := (&Report{}).Format([]int{0}); got != "structure      node 0      absent    remote@0\ntotal             0 B         0 B        0.0%\n" {
		t.Errorf("an empty report: %q", got)
	}
}
