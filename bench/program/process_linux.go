package program

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// awaitWrites waits for the end of a child, and asks the kernel what it wrote while it is dead
// but not yet buried.
func awaitWrites(pid int) int64 {
	var info unix.Siginfo
	for {
		switch err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err {
		case nil:
			return ProcNumber(fmt.Sprintf("/proc/%d/io", pid), "wchar:")
		case unix.EINTR:
		default:
			return 0
		}
	}
}

func maxRSS(p *os.ProcessState) int64 {
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}

// ProcNumber finds "name 123" in a file of /proc; zero if it is not there.
func ProcNumber(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64) // zero for what is no number
			return n
		}
	}
	return 0
}
