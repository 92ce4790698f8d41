//go:build !linux

package mmapfs

// CanFenceAll reports whether FenceAll works here: only on Linux.
func CanFenceAll() bool { return false }

// FenceAll needs Linux's membarrier; elsewhere it does nothing, and reports so.
func FenceAll() bool { return false }
