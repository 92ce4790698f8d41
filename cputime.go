package flatrock

import (
	"runtime"
	"time"

	"github.com/flatrock-db/flatrock/numa"
)

// startCPU keeps the goroutine on its thread until the function that it returns is called, on the same
// goroutine, which tells the CPU time in between: zero where the system does not know it.
func startCPU() func() time.Duration {
	runtime.LockOSThread()
	start := numa.ThreadCPUTime()
	return func() time.Duration {
		took := numa.ThreadCPUTime() - start
		runtime.UnlockOSThread()
		return max(took, 0)
	}
}
