package dbbench

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// freeMemory is how many bytes the system could give without swapping, within the
// limit of the control group; -1 where that is not known.
func freeMemory() int64 {
	free := procField("/proc/meminfo", "MemAvailable:")
	if free < 0 {
		return -1
	}
	limit, err := readNumber("/sys/fs/cgroup/memory.max")
	used, err2 := readNumber("/sys/fs/cgroup/memory.current")
	if err == nil && err2 == nil {
		free = min(free, max(limit-used, 0))
	}
	return free
}

// residentSize is the process's resident set in bytes; -1 where that is not known.
func residentSize() int64 { return procField("/proc/self/status", "VmRSS:") }

// procField reads a line "name 123 kB".
func procField(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return n << 10
			}
		}
	}
	return -1
}

func readNumber(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
}

// gcShare measures the garbage collector's share of CPU time between two moments.
type gcShare struct{ gc, idle, total float64 } // CPU seconds since the program began

// readGC collects once, since the runtime brings its figures up to date only then. The
// cost of that collection counts as the collector's.
func readGC() gcShare {
	runtime.GC()
	s := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/idle:cpu-seconds"},
		{Name: "/cpu/classes/total:cpu-seconds"},
	}
	metrics.Read(s)
	return gcShare{s[0].Value.Float64(), s[1].Value.Float64(), s[2].Value.Float64()}
}

// since is what happened from earlier to g.
func (g gcShare) since(earlier gcShare) gcShare {
	return gcShare{g.gc - earlier.gc, g.idle - earlier.idle, g.total - earlier.total}
}

// String gives the share of all CPU time, and of that which the program used.
func (g gcShare) String() string {
	percent := func(of float64) float64 {
		if of <= 0 {
			return 0
		}
		return math.Max(100*g.gc/of, 0)
	}
	return fmt.Sprintf("%.3f%% of CPU (%.3f%% of the CPU time that was used)", percent(g.total), percent(g.total-g.idle))
}

// heapUse is the Go heap.
type heapUse struct{ live, system, cycles uint64 }

func readHeap() heapUse {
	s := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(s)
	return heapUse{s[0].Value.Uint64(), s[1].Value.Uint64(), s[2].Value.Uint64()}
}

// describeOffHeap says what lies beside the Go heap.
func describeOffHeap(u mmapfs.Usage) string {
	var parts []string
	add := func(n int64, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%.1f MB %s", mb(n), what))
		}
	}
	add(u.Resident, "resident tables")
	names := make([]string, 0, len(u.Arenas))
	for name := range u.Arenas {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add(u.Arenas[name].Used, "arenas of "+name)
	}
	add(u.Mapped-u.Locked, "mapped files")
	add(u.Locked, "locked files")
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// offHeapTotal is the memory in use beside the heap, mapped files included.
func offHeapTotal(u mmapfs.Usage) int64 { return u.Resident + u.ArenaUsed + u.Mapped }

func readFileString(file string) (string, error) {
	text, err := os.ReadFile(file)
	return string(text), err
}
