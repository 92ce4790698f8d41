package mmapfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/edsrzf/mmap-go"

	"github.com/flatrock-db/flatrock/internal/keys"
)

var pageSize = os.Getpagesize()

// Mapping is the content of a file as memory, read-only. Its methods are safe for concurrent use, Close excepted.
type Mapping struct {
	data   []byte
	file   string
	mapped mmap.MMap // of the file, or nil
	region region    // the anonymous copy of MemoryResident, or what holds the aligned mapping, or zero
	backed bool      // data is the file's: by mapped, or by region
	locked bool
	closed atomic.Bool
}

// Bytes returns the mapped bytes, borrowed until Close. Unless Anonymous, reads of them may fault and run under Guard.
// Writing to them kills the process.
func (m *Mapping) Bytes() []byte { return m.data }

// Anonymous reports whether the bytes are a copy in memory, which cannot fault.
func (m *Mapping) Anonymous() bool { return !m.backed }

// Resident returns how many of the bytes are in memory now. The kernel tells the truth to those who may write the
// file, and says "all" to others. It matches ErrNotSupported where the system cannot tell.
func (m *Mapping) Resident() (int64, error) {
	if m.mapped == nil && m.region.raw == nil {
		return int64(len(m.data)), nil
	}
	n, err := residentBytes(m.data)
	if err != nil {
		return 0, fmt.Errorf("mincore %s: %w", m.file, err)
	}
	return n, nil
}

// Close unmaps. The caller guarantees that nobody reads the bytes any more. A second Close does nothing.
func (m *Mapping) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	n := int64(len(m.data))
	data := m.data
	m.data = nil
	if !m.backed {
		if m.region.raw != nil {
			usage.add(0, 0, -n)
			m.region.release()
		}
		return nil
	}
	mappings.remove(data)
	if m.locked {
		usage.add(-n, -n, 0)
	} else {
		usage.add(-n, 0, 0)
	}
	if m.mapped == nil {
		m.region.release()
		return nil
	}
	if err := m.mapped.Unmap(); err != nil {
		return fmt.Errorf("unmap %s: %w", m.file, err)
	}
	return nil
}

// mapFile is Map of the OS's files.
func mapFile(f *os.File, name string, size int64, o MapOptions) (*Mapping, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkMapSize(name, size, info.Size()); err != nil {
		return nil, err
	}
	m := &Mapping{file: name}
	if size == 0 { // mmap refuses it
		return m, nil
	}
	if o.Memory == MemoryResident {
		if err := m.loadResident(f, size, o.Placement); err != nil {
			return nil, err
		}
		return m, nil
	}
	if err := m.mapShared(f, int(size), o); err != nil {
		return nil, &fs.PathError{Op: "mmap", Path: name, Err: err}
	}
	m.backed = true
	mappings.add(m.data, name, 0)
	usage.add(size, 0, 0)
	if err := m.prefault(o); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// mapShared maps the file: anywhere, or where huge pages can serve it.
func (m *Mapping) mapShared(f *os.File, size int, o MapOptions) (err error) {
	if o.wantsHuge(size) {
		if m.region, err = reserveRegion(size, true, Placement{}); err != nil {
			return err
		}
		m.data = m.region.data[:size:size]
		if err = mapOver(f, m.data); err != nil {
			m.region.release()
		}
		return err
	}
	m.mapped, err = mmap.MapRegion(f, size, mmap.RDONLY, 0, 0)
	m.data = m.mapped
	return err
}

func (o *MapOptions) wantsHuge(size int) bool {
	return canCollapse && o.HugePages && size >= hugePageSize && (o.Memory == MemoryPopulate || o.Memory == MemoryLock)
}

func checkMapSize(name string, size, found int64) error {
	if size < 0 || size > math.MaxInt-2*hugePageSize {
		return fmt.Errorf("mmapfs: map %d bytes of %s: not a size that can be mapped", size, name)
	}
	if found < size {
		return keys.Corruptf(filepath.Base(name), found, "expected a file of at least %d bytes, found %d", size, found)
	}
	return nil
}

func (m *Mapping) prefault(o MapOptions) error {
	switch o.Memory {
	case MemoryNone:
	case MemoryWillNeed:
		adviseWillNeed(m.data) // advice: a refusal changes nothing that a reader could see
	case MemoryPopulate:
		return m.populate(o)
	case MemoryLock:
		// Populate first: its errors say more than mlock's.
		if err := m.populate(o); err != nil {
			return err
		}
		if err := lockMemory(m.data); err != nil {
			return lockMemoryError(m.file, int64(len(m.data)), err)
		}
		m.locked = true
		usage.add(0, int64(len(m.data)), 0)
	default:
		return fmt.Errorf("mmapfs: map %s: unknown memory policy %d", m.file, o.Memory)
	}
	return nil
}

func (m *Mapping) populate(o MapOptions) error {
	err := populateRead(m.data)
	switch {
	case err == nil:
		if o.wantsHuge(len(m.data)) {
			collapse(m.data)
		}
		return nil
	case errors.Is(err, ErrNotSupported):
		return touchPages(m.data)
	case isAddressFault(err):
		// The kernel does not say which page it was; touching finds out. If the page has come back since, all is well.
		return touchPages(m.data)
	}
	return &fs.PathError{Op: "populate", Path: m.file, Err: err}
}

// lockMemory is mlock.
func lockMemory(b []byte) error { m := mmap.MMap(b); return m.Lock() }

// touched keeps the compiler from dropping the reads of touchPages.
var touched atomic.Uint32

// touchPages reads one byte of each page, under the guard.
func touchPages(b []byte) (err error) {
	old := Guard()
	defer Unguard(old, &err)
	var sum byte
	for i := 0; i < len(b); i += pageSize {
		sum += b[i]
	}
	touched.Store(uint32(sum))
	return nil
}

// residentStep is how much is read before its page cache is dropped: the file is never in memory twice.
const residentStep = 16 << 20

func (m *Mapping) loadResident(f *os.File, size int64, p Placement) error {
	r, err := reserveRegion(int(size), true, p)
	if err != nil {
		return fmt.Errorf("mmapfs: memory for %d bytes of %s: %w", size, m.file, err)
	}
	for off := int64(0); off < size; off += residentStep {
		b := r.data[off:min(off+residentStep, size)]
		if n, err := f.ReadAt(b, off); n < len(b) {
			r.release()
			if err == io.EOF {
				return keys.Corruptf(filepath.Base(m.file), off+int64(n), "expected a file of at least %d bytes, found its end", size)
			}
			return err
		}
		dropPageCache(f, off, int64(len(b)))
	}
	protectReadOnly(r.raw) // a stray write is found where it happens
	m.region, m.data = r, r.data[:size:size]
	usage.add(0, 0, size)
	return nil
}
