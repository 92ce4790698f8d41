//go:build !nonuma

package numa

import (
	"encoding/binary"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// The kernel's own balancing samples who uses a page by making it fault. While a
// page waits for that fault, kernels before 6.6 answer move_pages as if it were not
// there: it is not counted, and not moved. The page table, as /proc/self/pagemap
// shows it, knows better, and a harmless fault brings the page back.

// balancing reports whether the kernel samples pages now.
func balancing() bool {
	text, err := os.ReadFile("/proc/sys/kernel/numa_balancing")
	return err == nil && strings.TrimSpace(string(text)) != "0"
}

// present is the bit of a pagemap entry that says that a page is mapped.
const present = 1 << 63

// reveal makes the pages visible that are mapped although move_pages says no, and
// returns their addresses (those of the shared zero page among them). Pages that
// are not mapped are left alone: nothing is read in. Where the kernel cannot do it,
// or does no balancing, none are returned.
func reveal(addrs []uintptr) []uintptr {
	if len(addrs) == 0 || !balancing() {
		return nil
	}
	return revealMapped(addrs)
}

func revealMapped(addrs []uintptr) []uintptr {
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	defer pagemap.Close()
	page := uintptr(os.Getpagesize())
	var hidden []uintptr
	for len(addrs) > 0 {
		run := 1
		for run < len(addrs) && addrs[run] == addrs[0]+uintptr(run)*page {
			run++
		}
		entries := make([]byte, 8*run)
		if _, err := pagemap.ReadAt(entries, int64(addrs[0]/page*8)); err != nil {
			return nil
		}
		for i := range run {
			// madvise rather than a read: a page without access rights is an error
			// then, and not a fault of ours.
			if binary.NativeEndian.Uint64(entries[8*i:])&present != 0 && populateAt(addrs[i], page) == nil {
				hidden = append(hidden, addrs[i])
			}
		}
		addrs = addrs[run:]
	}
	return hidden
}

// populateAt reads one page in as MADV_POPULATE_READ does.
func populateAt(addr, size uintptr) error {
	_, _, e := unix.Syscall(unix.SYS_MADVISE, addr, size, unix.MADV_POPULATE_READ)
	return errno(e)
}
