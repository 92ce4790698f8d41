//go:build unix

package mmapfs

import "golang.org/x/sys/unix"

func discardMemory(b []byte) error { return unix.Madvise(b, unix.MADV_DONTNEED) }
