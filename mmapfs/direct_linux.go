package mmapfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func (osFS) openDirect(name string) (File, error) {
	f, err := openOS(name, unix.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("open %s for direct reads: the file system refuses O_DIRECT: %w", name, ErrNotSupported)
	}
	if err != nil {
		return nil, err
	}
	d := &directFile{File: f, align: minDirectAlign}
	var st unix.Statx_t
	if err := unix.Statx(int(f.(*osFile).file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st); err == nil && st.Mask&unix.STATX_DIOALIGN != 0 {
		for _, a := range []uint32{st.Dio_mem_align, st.Dio_offset_align} {
			if a > minDirectAlign && a&(a-1) == 0 {
				d.align = max(d.align, int64(a))
			}
		}
	}
	return d, nil
}
