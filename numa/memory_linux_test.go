//go:build !nonuma

package numa

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	pageRange = 4 << 20
	hugeRange = 16 << 20
)

func TestBindPutsPagesOnTheNode(t *testing.T) {
	for _, node := range machine(t).MemoryNodes() {
		for _, huge := range []bool{false, true} {
			b := mapped(t, pageRange, huge)
			if err := Bind(b, Leave, node); err != nil {
				t.Fatal(err)
			}
			if got, err := RangePolicy(b); err != nil || !got.Equal(Policy{Mode: BindTo, Nodes: []int{node}}) {
				t.Errorf("policy reads back as %s, %v", got, err)
			}
			fill(b)
			wantOn(t, b, node)
		}
	}
}

func TestInterleaveSplitsPagesEvenly(t *testing.T) {
	nodes := machine(t).MemoryNodes()
	b := mapped(t, pageRange, false)
	if err := Interleave(b, Leave, nodes...); err != nil {
		t.Fatal(err)
	}
	fill(b)
	p := placement(t, b)
	fair := p.Pages / int64(len(nodes))
	for _, node := range nodes {
		if n := p.ByNode[node]; n < fair-1 || n > fair+1 {
			t.Errorf("%d of %d pages on node %d, want %d: %s", n, p.Pages, node, fair, p)
		}
	}
}

func TestInterleaveSplitsHugePagesEvenly(t *testing.T) {
	nodes := machine(t).MemoryNodes()
	b := mapped(t, hugeRange*len(nodes), true)
	if err := Interleave(b, Leave, nodes...); err != nil {
		t.Fatal(err)
	}
	fill(b)
	p := placement(t, b)
	for _, node := range nodes {
		if n, fair := p.ByNode[node], p.Pages/int64(len(nodes)); n < fair*3/4 || n > fair*5/4 {
			t.Errorf("%d of %d pages on node %d: %s", n, p.Pages, node, p)
		}
	}
}

func TestPreferPutsPagesOnTheNode(t *testing.T) {
	nodes := machine(t).MemoryNodes()
	for _, node := range nodes {
		b := mapped(t, pageRange, false)
		if err := Prefer(b, Leave, node); err != nil {
			t.Fatal(err)
		}
		fill(b)
		wantOn(t, b, node)
	}
	b := mapped(t, pageRange, false)
	if err := Prefer(b, Leave, nodes...); err != nil {
		t.Fatal(err)
	}
	fill(b)
	if p := placement(t, b); p.Elsewhere(nodes...) != 0 {
		t.Errorf("preferred %v: %s", nodes, p)
	}
}

func TestEachPolicyReadsBackFromTheRange(t *testing.T) {
	for _, p := range policies(machine(t).MemoryNodes()) {
		b := mapped(t, 1<<20, false)
		if err := Apply(b, p, Leave); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if got, err := RangePolicy(b); err != nil || !got.Equal(p) {
			t.Errorf("%s reads back as %s, %v", p, got, err)
		}
	}
}

// Leave is about pages that exist; MoveOwn brings them along.
func TestBindMovesPagesOnlyWhenAsked(t *testing.T) {
	nodes := machine(t).MemoryNodes()
	for _, from := range nodes {
		to := other(nodes, from)
		b := mapped(t, pageRange, false)
		if err := Bind(b, Leave, from); err != nil {
			t.Fatal(err)
		}
		fill(b)
		if err := Bind(b, Leave, to); err != nil {
			t.Fatal(err)
		}
		wantOn(t, b, from)
		for _, move := range []Move{MoveOwn, Leave} {
			if err := Bind(b, move, to); err != nil {
				t.Fatal(err)
			}
			wantOn(t, b, to)
		}
		checkFilled(t, b)
	}
}

// The kernel does not move a page that is on any of the nodes, so that this would
// be ignored in silence: all pages would stay on the one.
func TestInterleaveDealsOutPagesThatAreAllOnOneNode(t *testing.T) {
	nodes := machine(t).MemoryNodes()
	for _, c := range []struct {
		size int
		huge bool
	}{{pageRange, false}, {16 * len(nodes) * hugeUnit, true}} {
		b := mapped(t, c.size, c.huge)
		if err := Bind(b, Leave, nodes[0]); err != nil {
			t.Fatal(err)
		}
		fill(b)
		wantOn(t, b, nodes[0])
		if err := Interleave(b, MoveOwn, nodes...); err != nil {
			t.Fatal(err)
		}
		if p := placement(t, b); !even(p, nodes, 0.75) {
			t.Errorf("interleaved %s over %v: %s", formatBytes(int64(c.size)), nodes, p)
		}
		checkFilled(t, b)
	}
}

func TestMigrateMovesPagesAndKeepsContent(t *testing.T) {
	nodes := machine(t).MemoryNodes()
	for _, huge := range []bool{false, true} {
		b := mapped(t, pageRange, huge)
		fill(b)
		for _, node := range append(slices.Clone(nodes), nodes[0]) {
			p, err := Migrate(b, node)
			if err != nil {
				t.Fatal(err)
			}
			if p.ByNode[node] != p.Pages {
				t.Errorf("Migrate to %d reports %s", node, p)
			}
			wantOn(t, b, node)
			checkFilled(t, b)
		}
		if got, err := RangePolicy(b); err != nil || !got.Equal(Policy{}) {
			t.Errorf("Migrate changed the policy to %s, %v", got, err)
		}
	}
}

func TestMigrateOfAbsentPagesDoesNothing(t *testing.T) {
	node := machine(t).MemoryNodes()[0]
	b := mapped(t, pageRange, false)
	p, err := Migrate(b, node)
	if err != nil || p.NotPresent != p.Pages {
		t.Errorf("Migrate of untouched memory: %s, %v", p, err)
	}
	for _, bad := range []int{-1, maxNodes, maxNodes - 1} {
		if _, err := Migrate(b, bad); !errors.Is(err, ErrNode) {
			t.Errorf("Migrate to node %d: %v, want ErrNode", bad, err)
		}
	}
}

// A page that two mappings share does not move for MoveOwn, and mbind says nothing.
func TestPagesThatCannotMoveAreReported(t *testing.T) {
	nodes := machine(t).MemoryNodes()
	from, to := nodes[0], other(nodes, nodes[0])
	f := memoryFile(t, pageRange)
	b := mapOf(t, int(f.Fd()), pageRange, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, false)
	twin := mapOf(t, int(f.Fd()), pageRange, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, false)
	if err := Bind(b, Leave, from); err != nil {
		t.Fatal(err)
	}
	fill(b)
	checkFilled(t, twin)
	wantOn(t, twin, from)

	err := Bind(b, MoveOwn, to)
	var misplaced *MisplacedError
	switch {
	case from == to && err != nil:
		t.Errorf("one node: %v", err)
	case from != to && (!errors.As(err, &misplaced) || !errors.Is(err, ErrMisplaced)):
		t.Errorf("Bind with shared pages: %v, want a MisplacedError", err)
	case from != to && (misplaced.Pages != misplaced.Found.Pages || misplaced.Found.ByNode[from] != misplaced.Pages):
		t.Errorf("%+v: want all pages misplaced, on node %d", misplaced, from)
	}
	if _, err := Migrate(b, to); from != to && !errors.Is(err, ErrMisplaced) {
		t.Errorf("Migrate with shared pages: %v, want ErrMisplaced", err)
	}
	if err := Bind(b, MoveAll, to); err != nil {
		if !errors.Is(err, ErrNotPermitted) || os.Geteuid() == 0 {
			t.Errorf("MoveAll: %v", err)
		}
		return
	}
	wantOn(t, twin, to)
}

func TestPlacementCountsEachKindOfPage(t *testing.T) {
	topology := machine(t)
	node := topology.MemoryNodes()[0]
	page := os.Getpagesize()
	b := mapped(t, 100*page, false)
	if err := Bind(b, Leave, node); err != nil {
		t.Fatal(err)
	}
	if p := placement(t, b); p.NotPresent != 100 || p.Present() != 0 || p.PageSize != int64(page) {
		t.Errorf("untouched: %+v", p)
	}
	fill(b[:30*page])
	if touch(b[30*page:50*page], page) != 0 {
		t.Error("untouched memory is not zero")
	}
	p := placement(t, b)
	if p.ByNode[node] != 30 || p.NotPresent != 70 || p.BytesOn(node) != int64(30*page) {
		t.Errorf("30 written, 20 read, 50 untouched: %+v", p)
	}
	// A range whose end is inside a page counts that page.
	if p := placement(t, b[:30*page-1]); p.ByNode[node] != 30 {
		t.Errorf("without the last byte: %+v", p)
	}
	if p, err := PlacementOf(nil); err != nil || p.Pages != 0 {
		t.Errorf("nothing: %+v, %v", p, err)
	}
}

func TestSampleScalesToTheWholeRange(t *testing.T) {
	node := machine(t).MemoryNodes()[0]
	page := os.Getpagesize()
	pages := 2*batch + 17 // several calls, the last one short
	b := mapped(t, pages*page, false)
	if err := Bind(b, Leave, node); err != nil {
		t.Fatal(err)
	}
	fill(b[:pages/2*page])
	whole := placement(t, b)
	if whole.ByNode[node] != int64(pages/2) || whole.NotPresent != int64(pages-pages/2) {
		t.Fatalf("half filled: %+v", whole)
	}
	for _, n := range []int{1, 2, 7, 1000, batch, batch + 1, pages, pages + 1} {
		p, err := SamplePlacement(b, n)
		if err != nil {
			t.Fatal(err)
		}
		if p.Pages != int64(pages) || p.Present()+p.NotPresent != int64(pages) {
			t.Errorf("sample of %d does not add up to %d: %+v", n, pages, p)
		}
		if off := p.ByNode[node] - whole.ByNode[node]; n >= 1000 && (off > 40 || off < -40) {
			t.Errorf("sample of %d is off by %d: %+v", n, off, p)
		}
	}
}

func TestRangesMustBeginOnAPage(t *testing.T) {
	node := machine(t).MemoryNodes()[0]
	b := mapped(t, 1<<20, false)
	for _, bad := range [][]byte{nil, b[:0], b[1:], b[8:4096]} {
		if err := Bind(bad, Leave, node); !errors.Is(err, ErrRange) {
			t.Errorf("Bind of %d bytes: %v, want ErrRange", len(bad), err)
		}
		if _, err := Migrate(bad, node); !errors.Is(err, ErrRange) {
			t.Errorf("Migrate of %d bytes: %v, want ErrRange", len(bad), err)
		}
		if err := Populate(bad, Policy{}, false); !errors.Is(err, ErrRange) {
			t.Errorf("Populate of %d bytes: %v, want ErrRange", len(bad), err)
		}
		if _, err := RangePolicy(bad); !errors.Is(err, ErrRange) {
			t.Errorf("RangePolicy of %d bytes: %v, want ErrRange", len(bad), err)
		}
	}
	if _, err := PlacementOf(b[1:]); !errors.Is(err, ErrRange) {
		t.Errorf("PlacementOf: %v, want ErrRange", err)
	}
}

// What the package says about ordinary files is so: the kernel takes the policy,
// reads it back, and puts the pages where the touching thread's policy says.
func TestKernelIgnoresPoliciesOfOrdinaryFiles(t *testing.T) {
	nodes := machine(t).MemoryNodes()
	asked, thread := nodes[0], other(nodes, nodes[0])
	f := ordinaryFile(t, pageRange)
	b := mapOf(t, int(f.Fd()), pageRange, unix.PROT_READ, unix.MAP_SHARED, false)
	if err := mbind(b, unix.MPOL_BIND, []int{asked}, 0); err != nil {
		t.Fatalf("the kernel refuses, and this package need not: %v", err)
	}
	if got, err := RangePolicy(b); err != nil || !got.Equal(Policy{Mode: BindTo, Nodes: []int{asked}}) {
		t.Errorf("reads back as %s, %v", got, err)
	}
	if err := Populate(b, Policy{Mode: BindTo, Nodes: []int{thread}}, false); err != nil {
		t.Fatal(err)
	}
	wantOn(t, b, thread)
}

func TestPolicyThatWouldBeIgnoredIsAnError(t *testing.T) {
	node := machine(t).MemoryNodes()[0]
	f := ordinaryFile(t, pageRange)
	for name, b := range map[string][]byte{
		"shared":           mapOf(t, int(f.Fd()), pageRange, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, false),
		"shared read-only": mapOf(t, int(f.Fd()), pageRange, unix.PROT_READ, unix.MAP_SHARED, false),
		"private":          mapOf(t, int(f.Fd()), pageRange, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE, false),
		"private of memfd": mapOf(t, int(memoryFile(t, pageRange).Fd()), pageRange, unix.PROT_READ, unix.MAP_PRIVATE, false),
	} {
		for _, move := range []Move{Leave, MoveOwn} {
			if err := Bind(b, move, node); !errors.Is(err, ErrIgnored) {
				t.Errorf("%s: Bind = %v, want ErrIgnored", name, err)
			}
		}
		if got, err := RangePolicy(b); err != nil || !got.Equal(Policy{}) {
			t.Errorf("%s: a refused policy left %s, %v", name, got, err)
		}
	}
}

// Part of the range is a file: the policy would hold for the rest only.
func TestPolicyOnARangeThatHoldsAFileInTheMiddleIsAnError(t *testing.T) {
	node := machine(t).MemoryNodes()[0]
	page := os.Getpagesize()
	f := ordinaryFile(t, page)
	b := mapped(t, 3*page, false)
	_, _, e := unix.Syscall6(unix.SYS_MMAP, address(b)+uintptr(page), uintptr(page), unix.PROT_READ,
		unix.MAP_SHARED|unix.MAP_FIXED, f.Fd(), 0)
	if e != 0 {
		t.Fatal(e)
	}
	err := Bind(b, Leave, node)
	if !errors.Is(err, ErrIgnored) || !strings.Contains(err.Error(), "shared mapping of file") {
		t.Errorf("Bind = %v, want ErrIgnored about the file", err)
	}
	if err := Bind(b[:page], Leave, node); err != nil {
		t.Errorf("Bind of the part before the file: %v", err)
	}
	if err := Bind(b[2*page:], Leave, node); err != nil {
		t.Errorf("Bind of the part after the file: %v", err)
	}
}

func TestSharedMemoryFollowsItsPolicy(t *testing.T) {
	for _, node := range machine(t).MemoryNodes() {
		shm, err := os.CreateTemp("/dev/shm", "numa-test-*")
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(shm.Name())
		defer shm.Close()
		if err := shm.Truncate(pageRange); err != nil {
			t.Fatal(err)
		}
		const rw = unix.PROT_READ | unix.PROT_WRITE
		for name, b := range map[string][]byte{
			"memfd":     mapOf(t, int(memoryFile(t, pageRange).Fd()), pageRange, rw, unix.MAP_SHARED, false),
			"tmpfs":     mapOf(t, int(shm.Fd()), pageRange, rw, unix.MAP_SHARED, false),
			"anonymous": mapOf(t, -1, pageRange, rw, unix.MAP_SHARED|unix.MAP_ANON, false),
		} {
			if err := Bind(b, Leave, node); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			fill(b)
			wantOn(t, b, node)
		}
	}
}

func TestGoHeapIsRefusedWhereTheKernelNamesIt(t *testing.T) {
	for line, want := range map[string]bool{
		"c000000000-c000400000 rw-p 00000000 00:00 0                              [anon: Go: heap]":                true,
		"c000400000-c004000000 ---p 00000000 00:00 0                              [anon: Go: heap reservation]":    true,
		"7f0000000000-7f0000400000 rw-p 00000000 00:00 0 ":                                                         false,
		"7f0000000000-7f0000400000 rw-p 00000000 00:00 0                          [anon: Go: immortal metadata]":   false,
		"7f0000000000-7f0000400000 rw-p 00000000 00:00 0                          [heap]":                          false,
		"7f0000000000-7f0000400000 rw-s 00000000 00:01 2054                       /memfd:a b (deleted)":            false,
		"7f0000000000-7f0000400000 rw-s 00000000 00:01 2054                       /dev/zero (deleted)":             false,
		"7f0000000000-7f0000400000 rw-s 00000000 00:0f 33                         /anon_hugepage (deleted)":        false,
		"7f0000000000-7f0000400000 rw-s 00000000 00:01 5                          /SYSV00000000 (deleted)":         false,
		"7f0000000000-7f0000400000 r--s 00000000 fe:01 99                         /nowhere/000007.sst (deleted)":   true,
		"7f0000000000-7f0000400000 r--p 00000000 fe:01 99                         /nowhere/with two spaces/7.sst":  true,
		"7f0000000000-7f0000400000 rw-p 00000000 00:01 2054                       /memfd:written privately (gone)": true,
	} {
		m, ok := parseMapping(line)
		if !ok {
			t.Errorf("%s: not read", line)
			continue
		}
		if err := m.follows(); errors.Is(err, ErrIgnored) != want || !want && err != nil {
			t.Errorf("%s: %v, want refused %v", line, err, want)
		}
	}
}

func TestMalformedMapsNameTheFile(t *testing.T) {
	for _, line := range []string{"x", "1-2 rw-p 0", "1 rw-p 0 0:0 0", "g-h rw-p 0 00:00 0", "1-2 rw 0 00:00 0", "1-2 rw-p 0 00:00 x"} {
		err := mappings(strings.NewReader(line+"\n"), 0, 10, func(mapping) error { return nil })
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v, want ErrMalformed", line, err)
		}
	}
}

func TestDeviceNumbersAreDecimalHereAndHexadecimalThere(t *testing.T) {
	for _, c := range []struct {
		decimal, hex string
		want         bool
	}{{"0:26", "00:1a", true}, {"8:1", "08:01", true}, {"259:16", "103:10", true}, {"0:26", "00:26", false}, {"x:1", "x:1", false}, {"", "", false}} {
		if got := sameDevice(c.decimal, c.hex); got != c.want {
			t.Errorf("sameDevice(%q, %q) = %v", c.decimal, c.hex, got)
		}
	}
}

func TestPopulatePutsFilePagesOnTheNode(t *testing.T) {
	for _, node := range machine(t).MemoryNodes() {
		f := ordinaryFile(t, pageRange)
		b := mapOf(t, int(f.Fd()), pageRange, unix.PROT_READ, unix.MAP_SHARED, false)
		if err := Populate(b, Policy{Mode: BindTo, Nodes: []int{node}}, false); err != nil {
			t.Fatal(err)
		}
		wantOn(t, b, node)
	}
}

func TestPopulateSpreadsFilePages(t *testing.T) {
	nodes := machine(t).MemoryNodes()
	f := ordinaryFile(t, pageRange)
	b := mapOf(t, int(f.Fd()), pageRange, unix.PROT_READ, unix.MAP_SHARED, false)
	if err := Populate(b, Policy{Mode: InterleaveOver, Nodes: nodes}, false); err != nil {
		t.Fatal(err)
	}
	if p := placement(t, b); p.Present() != p.Pages || !even(p, nodes, 0.75) {
		t.Errorf("interleaved over %v: %s", nodes, p)
	}
}

// Pages in the page cache stay where they are; Populate says so, and Migrate helps.
func TestPopulateReportsPagesThatWereElsewhere(t *testing.T) {
	nodes := machine(t).MemoryNodes()
	from, to := nodes[0], other(nodes, nodes[0])
	f := ordinaryFile(t, pageRange)
	b := mapOf(t, int(f.Fd()), pageRange, unix.PROT_READ, unix.MAP_SHARED, false)
	if err := Populate(b, Policy{Mode: BindTo, Nodes: []int{from}}, false); err != nil {
		t.Fatal(err)
	}
	err := Populate(b, Policy{Mode: BindTo, Nodes: []int{to}}, false)
	if errors.Is(err, ErrMisplaced) != (from != to) || from == to && err != nil {
		t.Errorf("Populate on %d of pages that are on %d: %v", to, from, err)
	}
	if _, err := Migrate(b, to); err != nil {
		t.Fatal(err)
	}
	wantOn(t, b, to)
}

func TestPopulateForWritingKeepsContent(t *testing.T) {
	for _, node := range machine(t).MemoryNodes() {
		b := mapped(t, pageRange, false)
		fill(b[:pageRange/2])
		if _, err := Migrate(b, node); err != nil {
			t.Fatal(err)
		}
		if err := Populate(b, Policy{Mode: BindTo, Nodes: []int{node}}, true); err != nil {
			t.Fatal(err)
		}
		wantOn(t, b, node)
		checkFilled(t, b[:pageRange/2])
		if touch(b[pageRange/2:], os.Getpagesize()) != 0 {
			t.Error("populating changed memory")
		}
		// What kernels without the system call get.
		c := mapped(t, pageRange, false)
		fill(c[:pageRange/2])
		touchForWrite(c, os.Getpagesize())
		checkFilled(t, c[:pageRange/2])
		if p := placement(t, c); p.Present() != p.Pages {
			t.Errorf("touched for writing: %s", p)
		}
	}
}

func TestPopulatePastTheEndOfAFileIsAnError(t *testing.T) {
	f := ordinaryFile(t, pageRange)
	b := mapOf(t, int(f.Fd()), pageRange, unix.PROT_READ, unix.MAP_SHARED, false)
	if err := f.Truncate(pageRange / 2); err != nil {
		t.Fatal(err)
	}
	if err := Populate(b, Policy{}, false); err == nil {
		t.Error("populated what is not there")
	}
}
