package stress

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// holdings are what a process holds beyond the Go heap.
type holdings struct {
	usage       mmapfs.Usage
	goroutines  int
	descriptors int // 0 where the system does not tell
}

func holdingsNow() holdings {
	h := holdings{usage: mmapfs.OffHeap(), goroutines: runtime.NumGoroutine()}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.descriptors = len(fds)
	}
	return h
}

// leaked compares with what was held before the database was opened. Goroutines end a
// moment after they said that they are done, so it looks again before it complains.
func (h holdings) leaked() error {
	var err error
	for range 200 {
		now := holdingsNow()
		switch {
		case now.usage.Mapped != h.usage.Mapped || now.usage.Resident != h.usage.Resident || now.usage.Locked != h.usage.Locked:
			err = fmt.Errorf("mapped %d, resident %d, locked %d bytes after Close; %d, %d, %d before Open", now.usage.Mapped, now.usage.Resident, now.usage.Locked,
				h.usage.Mapped, h.usage.Resident, h.usage.Locked)
		case now.usage.ArenaReserved != h.usage.ArenaReserved:
			err = fmt.Errorf("arenas after Close: %v; before Open: %v", now.usage.Arenas, h.usage.Arenas)
		case now.goroutines > h.goroutines:
			buf := make([]byte, 16<<10)
			err = fmt.Errorf("%d goroutines after Close, %d before Open:\n%s", now.goroutines, h.goroutines, buf[:runtime.Stack(buf, true)])
		case now.descriptors > h.descriptors:
			err = fmt.Errorf("%d descriptors after Close, %d before Open", now.descriptors, h.descriptors)
		default:
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("leaked: %w", err)
}
