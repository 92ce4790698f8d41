//go:build !nonuma

package numa

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func copyTo(src []byte, node int) (b []byte, err error) {
	if len(src) == 0 {
		return nil, nil
	}
	b, err = unix.Mmap(-1, 0, len(src), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("numa: copy of %s on node %d: %w", formatBytes(int64(len(src))), node, err)
	}
	defer func() {
		if err != nil {
			unix.Munmap(b)
			b = nil
		}
	}()
	// A kernel without huge pages refuses; small pages do.
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	if err := Bind(b, Leave, node); err != nil {
		return nil, err
	}
	copy(b, src)
	if err := checkOn(b, []int{node}); err != nil {
		return nil, err
	}
	if err := unix.Mprotect(b, unix.PROT_READ); err != nil {
		return nil, fmt.Errorf("numa: copy on node %d: %w", node, err)
	}
	return b, nil
}

func freeCopy(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return unix.Munmap(b)
}
