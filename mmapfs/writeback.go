package mmapfs

// Writebacker is a file that can begin to write its dirty pages to the device before it is synced.
type Writebacker interface {
	// Writeback starts to write [off, off+n), and with wait first waits for what was started
	// before. It promises nothing about a crash: that takes Sync.
	Writeback(off, n int64, wait bool) error
}

// Writeback starts to write part of a file to the device, so that a later Sync has less to do and the writes come
// evenly instead of in bursts: sync_file_range on Linux. Elsewhere, and for files that are not the
// operating system's, nothing happens.
func Writeback(f File, off, n int64, wait bool) error {
	if w, ok := f.(Writebacker); ok && n > 0 {
		return w.Writeback(off, n, wait)
	}
	return nil
}

func (f *osFile) Writeback(off, n int64, wait bool) error { return writeback(f.file, off, n, wait) }

// Writeback passes on to the file below.
func (f *faultFile) Writeback(off, n int64, wait bool) error { return Writeback(f.File, off, n, wait) }
