//go:build !nonuma

package numa

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The tests of *_linux_test.go run on the machine's real nodes, however many it
// has: with one they check calls and counts, and with several (numa/vmtest) where
// threads and pages truly are.

func machine(t testing.TB) *Topology {
	t.Helper()
	topology, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// mapped returns anonymous memory of small or of huge pages, unmapped at the end.
func mapped(t testing.TB, size int, huge bool) []byte {
	t.Helper()
	return mapOf(t, -1, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON, huge)
}

func mapOf(t testing.TB, fd, size, prot, flags int, huge bool) []byte {
	t.Helper()
	b, err := unix.Mmap(fd, 0, size, prot, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	advice := unix.MADV_NOHUGEPAGE
	if huge {
		advice = unix.MADV_HUGEPAGE
	}
	if fd < 0 {
		if err := unix.Madvise(b, advice); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Fatal(err)
		}
	}
	return b
}

// fill writes a byte of each page that depends on the page.
func fill(b []byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = byte(i/os.Getpagesize()) | 1
	}
}

func checkFilled(t *testing.T, b []byte) {
	t.Helper()
	for i := 0; i < len(b); i += os.Getpagesize() {
		if b[i] != byte(i/os.Getpagesize())|1 {
			t.Fatalf("page %d reads %d: its content was lost", i/os.Getpagesize(), b[i])
		}
	}
}

func placement(t testing.TB, b []byte) Placement {
	t.Helper()
	p, err := PlacementOf(b)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, n := range p.ByNode {
		sum += n
	}
	if want := int64(len(b)+os.Getpagesize()-1) / int64(os.Getpagesize()); sum+p.NotPresent != want || p.Pages != want {
		t.Fatalf("placement of %d pages does not add up: %+v", want, p)
	}
	return p
}

// wantOn checks that all pages of b are present, and on that node.
func wantOn(t *testing.T, b []byte, node int) {
	t.Helper()
	if p := placement(t, b); p.ByNode[node] != p.Pages {
		t.Errorf("of %d pages %d are on node %d: %s", p.Pages, p.ByNode[node], node, p)
	}
}

// ordinaryFile creates a file of holes in a directory whose files are not on tmpfs.
func ordinaryFile(t *testing.T, size int) *os.File {
	t.Helper()
	for _, dir := range []string{t.TempDir(), ".", "/var/tmp"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) != nil || st.Type == unix.TMPFS_MAGIC {
			continue
		}
		f, err := os.CreateTemp(dir, "numa-test-*")
		if err != nil {
			continue
		}
		t.Cleanup(func() { f.Close(); os.Remove(f.Name()) })
		if err := f.Truncate(int64(size)); err != nil {
			t.Fatal(err)
		}
		return f
	}
	t.Fatal("no writable directory outside tmpfs")
	return nil
}

func memoryFile(t *testing.T, size int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("numa test", 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	return f
}

// other is a memory node that is not the given one, or the same on one node.
func other(nodes []int, node int) int {
	for _, n := range nodes {
		if n != node {
			return n
		}
	}
	return node
}

func TestTopologyIsThisMachine(t *testing.T) {
	topology := machine(t)
	t.Logf("\n%s", topology)
	if want := os.Getenv("FLATROCK_NUMA_NODES"); want != "" && strconv.Itoa(len(topology.Nodes)) != want {
		t.Errorf("%d nodes, want %s", len(topology.Nodes), want)
	}
	if len(topology.CPUNodes()) == 0 || len(topology.MemoryNodes()) == 0 {
		t.Errorf("nothing to run on or allocate from: %s", describe(topology))
	}
	for _, cpu := range topology.AllowedCPUs {
		if topology.NodeOf(cpu) < 0 {
			t.Errorf("cpu %d is allowed and on no node", cpu)
		}
	}
	allowed, err := allowedNodes()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(allowed, topology.MemoryNodes()) {
		t.Errorf("memory nodes %v, and the kernel allows %v", topology.MemoryNodes(), allowed)
	}
}

// checkThreads finds a thread that may not run on all of the process's CPUs. The
// first thread is left out: the runtime cannot end it, and parks it for good if a
// test ended a pinned goroutine there.
func checkThreads(t *testing.T) {
	t.Helper()
	topology := machine(t)
	want := FormatList(topology.AllowedCPUs)
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d threads, %v", len(files), err)
	}
	for _, file := range files {
		thread := filepath.Base(filepath.Dir(file))
		text, err := os.ReadFile(file)
		if err != nil || thread == strconv.Itoa(os.Getpid()) {
			continue // ended, or the first
		}
		for line := range strings.Lines(string(text)) {
			if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
				if cpus, err := ParseList(list); err != nil || FormatList(intersect(cpus, topology.OnlineCPUs)) != want {
					t.Errorf("thread %s may run on cpus %s, want %s (%v): it went back with a changed mask", thread, list, want, err)
				}
			}
		}
	}
}

func must(t *testing.T, release Release) {
	t.Helper()
	if err := release(); err != nil {
		t.Error(err)
	}
}
