package mmapfs

import "fmt"

// Discard gives the memory of the whole pages inside [off, off+n) back to the system; what lies there becomes
// undefined. The address space stays, and may be written again. Where the system cannot, the memory stays too.
func (a *Arena) Discard(off, n int64) error {
	if off < 0 || n < 0 || off > int64(len(a.data)) || n > int64(len(a.data))-off {
		return fmt.Errorf("mmapfs: discard [%d, %d) of an arena of %d bytes", off, off+n, len(a.data))
	}
	lo := (off + int64(pageSize) - 1) &^ int64(pageSize-1)
	hi := (off + n) &^ int64(pageSize-1)
	if lo >= hi {
		return nil
	}
	return discardMemory(a.data[lo:hi])
}
