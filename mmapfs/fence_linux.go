package mmapfs

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Commands of membarrier(2) (linux/membarrier.h), since Linux 4.14.
const (
	membarrierPrivateExpedited         = 1 << 3
	membarrierRegisterPrivateExpedited = 1 << 4
)

var registerFence = sync.OnceValue(func() bool { return membarrier(membarrierRegisterPrivateExpedited) })

func membarrier(command uintptr) bool {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, command, 0, 0)
	return errno == 0
}

// CanFenceAll reports whether FenceAll works here. The first call registers the process
// with the kernel.
func CanFenceAll() bool { return registerFence() }

// FenceAll makes every thread of the process execute a full memory barrier between
// call and return. So those who read often need no barrier of their own against
// those who change something seldom and call this. It takes microseconds. It reports
// whether it did: it always does where CanFenceAll is true.
func FenceAll() bool { return registerFence() && membarrier(membarrierPrivateExpedited) }
