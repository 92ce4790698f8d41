//go:build windows

package mmapfs

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// reserveMemory returns committed memory: Windows charges it at once, and pages in what is touched. The address is
// VirtualAlloc's, outside the Go heap: it does not move, and stays valid until releaseMemory.
func reserveMemory(n int) ([]byte, error) {
	addr, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, os.NewSyscallError("VirtualAlloc", err)
	}
	// Read the pointer out of the variable that holds it: the rules for unsafe.Pointer know no conversion from a
	// number that was never a pointer of Go's.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n), nil
}

func releaseMemory(b []byte) {
	if err := windows.VirtualFree(addressOf(b), 0, windows.MEM_RELEASE); err != nil {
		panic("mmapfs: VirtualFree of a region of ours: " + err.Error())
	}
}
