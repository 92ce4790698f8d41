// Package leaks tells what a process still holds beyond the Go heap: mappings and arenas, goroutines and
// descriptors. Harnesses compare what was held before Open
// with what is held after Close, and leaktest compares for whole test binaries.
package leaks

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// Holdings are what a process holds beyond the Go heap.
type Holdings struct {
	usage       mmapfs.Usage
	goroutines  int
	descriptors []string // what they are of, sorted; none where the system does not tell
}

// Now is what is held now.
func Now() Holdings {
	h := Holdings{usage: mmapfs.OffHeap(), goroutines: runtime.NumGoroutine()}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		for _, fd := range fds { // but for those of the runtime's poller, which stay once there
			if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && !strings.HasPrefix(to, "anon_inode:") {
				h.descriptors = append(h.descriptors, to)
			}
		}
	}
	slices.Sort(h.descriptors)
	return h
}

// looks is how often Leaked looks, 5 ms apart.
var looks = 1000

// Leaked is an error if more is held now than h says. Goroutines end a
// moment after they said that they are done, so it looks again before it complains.
func (h Holdings) Leaked() error {
	var err error
	for range looks {
		now := Now()
		switch {
		case now.usage.Mapped != h.usage.Mapped || now.usage.Resident != h.usage.Resident || now.usage.Locked != h.usage.Locked:
			err = fmt.Errorf("mapped %d, resident %d, locked %d bytes now; %d, %d, %d before", now.usage.Mapped, now.usage.Resident, now.usage.Locked,
				h.usage.Mapped, h.usage.Resident, h.usage.Locked)
		case now.usage.ArenaReserved != h.usage.ArenaReserved:
			err = fmt.Errorf("arenas now: %v; before: %v", now.usage.Arenas, h.usage.Arenas)
		case now.goroutines > h.goroutines:
			buf := make([]byte, 16<<10)
			err = fmt.Errorf("%d goroutines now, %d before:\n%s", now.goroutines, h.goroutines, buf[:runtime.Stack(buf, true)])
		case len(now.descriptors) > len(h.descriptors):
			err = fmt.Errorf("%d descriptors now, %d before: %q", len(now.descriptors), len(h.descriptors), without(now.descriptors, h.descriptors))
		default:
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("leaked: %w", err)
}

// without is what of all is not in some; both are sorted.
func without(all, some []string) (rest []string) {
	for _, a := range all {
		if len(some) > 0 && some[0] == a {
			some = some[1:]
			continue
		}
		rest = append(rest, a)
	}
	return rest
}
