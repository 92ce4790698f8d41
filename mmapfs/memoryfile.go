package mmapfs

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
)

// On a file system in memory (tmpfs, ramfs) the pages of a file are in RAM already, and no read can fail. There
// pread only adds a system call and the kernel's work for each page to the copy, and takes two to four times as long as
// the copy from a mapping alone.

// MapMemory returns f with a ReadAt that copies the first size bytes from a mapping, if f is one of OS's plain
// files on a file system in memory; otherwise f itself: on disks, off Linux, in a 32-bit address space, for files of
// other file systems (MemFS, FaultFS, whatever wraps OS) and those that OpenDirect opened, and once a quarter of the
// mappings that the kernel grants a process (vm.max_map_count) are taken. Nothing else changes: what ReadAt returns is the caller's
// own copy, and a page that cannot be read, because the file became shorter, is left to pread, which says so.
// Closing the file ends the mapping.
func MapMemory(f File, size int64) File {
	o, ok := f.(*osFile)
	if !ok || size <= 0 || bits.UintSize < 64 || !onMemoryFS(o.file) {
		return f
	}
	if memoryFiles.Add(1) > memoryFileLimit() {
		memoryFiles.Add(-1)
		return f
	}
	m, err := mapFile(o.file, o.Name(), size, MapOptions{})
	if err != nil { // pread works without
		memoryFiles.Add(-1)
		return f
	}
	return &memoryFile{osFile: o, mapping: m, data: m.Bytes(), asked: make([]atomic.Bool, (size+populateStep-1)/populateStep)}
}

// InMemory reports whether f is what MapMemory made: reading it costs a copy and no system call, so that nothing is
// won by reading ahead, or from several goroutines.
func InMemory(f File) bool {
	_, ok := f.(*memoryFile)
	return ok
}

// ApproachStep is a good n for Approach.
const ApproachStep = populateStep

// Approach says that a reader is about to come to [off, off+n) of a file that MapMemory made. A goroutine then
// maps these pages and touches them, so that the reader does not wait for the kernel, nor for a
// hypervisor that backs pages at their first use, which can take ten times as long as the copy.
// It does nothing for other files, and on a single processor. Not to be called beside Close.
func Approach(f File, off, n int64) {
	m, ok := f.(*memoryFile)
	if !ok || off < 0 || n <= 0 || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	end := min(off+n, int64(len(m.data)))
	if off < end {
		m.ahead.Go(func() { m.touch(int(off), int(end)) })
	}
}

func (f *memoryFile) touch(off, end int) {
	f.populateAll(off, end)
	_ = touchLines(f.data[off:end]) // what cannot be read shows when it is read
}

// touchLines reads one byte of each cache line, under the guard.
func touchLines(b []byte) (err error) {
	old := Guard()
	defer Unguard(old, &err)
	var sum byte
	for i := 0; i < len(b); i += 64 {
		sum += b[i]
	}
	touched.Store(uint32(sum))
	return nil
}

// memoryFiles counts the process's.
var memoryFiles atomic.Int64

// memoryFile is a file whose ReadAt copies from a mapping.
type memoryFile struct {
	*osFile
	mapping *Mapping
	data    []byte
	asked   []atomic.Bool // which steps the kernel has been asked to map
	ahead   sync.WaitGroup
}

// populateStep is how much is mapped at once. One system call for it costs as much as the fault that maps an eighth.
const populateStep = 256 << 10

// ReadAt implements io.ReaderAt. No allocation, and no system call but the first time.
func (f *memoryFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(f.data)) || len(p) == 0 || int64(len(p)) > int64(len(f.data))-off {
		return f.osFile.ReadAt(p, off)
	}
	end := int(off) + len(p)
	f.populateAll(int(off), end)
	if f.copyTo(p, f.data[off:end]) != nil {
		return f.osFile.ReadAt(p, off)
	}
	return len(p), nil
}

// Borrow returns [off, off+n) of a file that MapMemory made as a view of its mapping, valid until the file is closed; nil
// for other files. Reading it can fault, if the file becomes shorter: the caller has a Guard.
func Borrow(f File, off, n int64) []byte {
	m, ok := f.(*memoryFile)
	if !ok || off < 0 || n <= 0 || off >= int64(len(m.data)) || n > int64(len(m.data))-off {
		return nil
	}
	m.populateAll(int(off), int(off+n))
	return m.data[off : off+n : off+n]
}

// populateAll maps the steps of [off, end) that were not mapped before.
func (f *memoryFile) populateAll(off, end int) {
	for i := off / populateStep; i <= (end-1)/populateStep; i++ {
		if !f.asked[i].Load() {
			f.populate(i)
		}
	}
}

// populate maps a step; what cannot be mapped shows when it is copied.
func (f *memoryFile) populate(i int) {
	f.asked[i].Store(true)
	_ = populateRead(f.data[i*populateStep : min((i+1)*populateStep, len(f.data))])
}

func (f *memoryFile) copyTo(p, from []byte) (err error) {
	old := Guard()
	defer Unguard(old, &err)
	copy(p, from)
	return nil
}

// Close implements File.
func (f *memoryFile) Close() error {
	f.ahead.Wait()
	err := f.osFile.Close()
	if uerr := f.mapping.Close(); err == nil {
		err = uerr
	}
	f.data = nil
	memoryFiles.Add(-1)
	return err
}
