package mmapfs

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// onMemoryFS reports whether a file's pages have no device behind them.
func onMemoryFS(f *os.File) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return true
	}
	return false
}

// memoryFileLimit is how many files MapMemory maps at most.
var memoryFileLimit = sync.OnceValue(func() int64 {
	const usual = 65530
	b, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return usual / 4
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return usual / 4
	}
	return n / 4
})
