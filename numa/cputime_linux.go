package numa

import (
	"time"

	"golang.org/x/sys/unix"
)

// ThreadCPUTime is the CPU time that the calling thread has taken so far, user and system, zero
// where the system does not tell. The caller keeps its goroutine on the thread
// (runtime.LockOSThread) between two calls that it compares.
func ThreadCPUTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
