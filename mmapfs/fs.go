package mmapfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

var (
	// ErrNotSupported matches errors of what this system or file system cannot do.
	ErrNotSupported = errors.New("mmapfs: not supported here")
	// ErrMapWriteUnsupported is MapWrite's refusal where blocks cannot be reserved for good; write plainly instead.
	// It matches ErrNotSupported too.
	ErrMapWriteUnsupported = fmt.Errorf("mmapfs: no safe writable mapping on this file system: %w", ErrNotSupported)
	// ErrLocked matches a *LockError: another owner holds the lock.
	ErrLocked = errors.New("mmapfs: locked")
	// ErrFault matches a *FaultError.
	ErrFault = errors.New("mmapfs: fault on a mapping")
)

// FS is a file system. Names are paths as the operating system understands them.
// Errors wrap fs.ErrNotExist, fs.ErrExist and the like. All methods are safe for concurrent use.
type FS interface {
	// Create opens name for reading and writing, empty: an existing file is truncated.
	// A symbolic link in its place is an error: what it points to is not touched.
	// The new directory entry survives a crash of the machine only after SyncDir.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing, its content untouched.
	OpenReadWrite(name string) (File, error)
	// Remove removes a file or an empty directory. Open files and mappings of it stay readable.
	Remove(name string) error
	// Rename moves old to new, and replaces a file that has that name, atomically.
	Rename(old, new string) error
	// Link makes new a second name of the file old; fs.ErrExist if new exists.
	Link(old, new string) error
	// MkdirAll makes dir and what is missing above it, and syncs the directory of each one made, so that dir
	// itself survives a crash. Nothing happens when it exists.
	MkdirAll(dir string) error
	// RemoveAll removes dir and all below it; no error when it does not exist.
	RemoveAll(dir string) error
	// List returns the base names in dir, sorted, owned by the caller.
	List(dir string) ([]string, error)
	// Stat describes a file or directory.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the entries of dir survive a crash of the machine.
	SyncDir(dir string) error
	// Lock takes name, which it creates when missing, for this owner alone until the closer is closed or the
	// process ends. A second owner, in this process or another (RocksDB and its tools included), gets an error
	// that matches ErrLocked. On Unix do not open and close the file by other means meanwhile: that releases
	// the lock, by POSIX's rule.
	Lock(name string) (io.Closer, error)
	// Free returns how many bytes an unprivileged owner may still write on dir's file system.
	Free(dir string) (uint64, error)
}

// File is an open file. ReadAt and Sync may run beside anything but Close; the methods that write or move the read
// position need one caller at a time.
type File interface {
	io.Reader   // from a position of its own, which starts at 0
	io.ReaderAt // any position
	io.Writer   // appends at the end; no other File may change the file's size meanwhile
	io.WriterAt // any position; the end moves when it is passed
	io.Closer   // mappings stay valid

	// Name returns the name that the file was opened by.
	Name() string
	// Size returns the current size in bytes.
	Size() (int64, error)
	// Sync makes content and size survive a crash of the machine (fsync). Writes through a WriteMapping count.
	Sync() error
	// SyncData is Sync without the times (fdatasync).
	SyncData() error
	// Truncate sets the size; new bytes are zero. Never shrink a file that is mapped.
	Truncate(size int64) error
	// Preallocate asks for blocks for n bytes at off without changing the size, and returns nil where the file
	// system cannot. A full disk is an error that IsNoSpace knows.
	Preallocate(off, n int64) error
	// Map maps the first size bytes for reading. A file that is shorter is a CorruptionError that names it.
	// The mapping is the caller's to close, and outlives the file.
	Map(size int64, o MapOptions) (*Mapping, error)
	// MapWrite reserves blocks for n bytes at off, extends the file to hold them (zero where it grew), and maps
	// them for writing. It returns ErrMapWriteUnsupported where the reservation would not be for good, and an
	// error that IsNoSpace knows on a full disk, with the size unchanged. The mapping outlives the file. It may run
	// beside Sync and beside writes through earlier mappings.
	MapWrite(off, n int64) (*WriteMapping, error)
}

// Memory says how a mapping gets its pages.
type Memory int

const (
	MemoryNone     Memory = iota // pages are read when first touched
	MemoryWillNeed               // the kernel is asked to read ahead; returns at once
	MemoryPopulate               // all pages are read and mapped before Map returns; they may be evicted later
	MemoryLock                   // populated, and locked into memory (mlock)
	MemoryResident               // copied into anonymous memory on huge pages, and dropped from the page cache
)

var memoryNames = [...]string{"none", "willneed", "populate", "lock", "resident"}

// String returns the name that ParseMemory reads.
func (m Memory) String() string {
	if m < 0 || int(m) >= len(memoryNames) {
		return fmt.Sprintf("Memory(%d)", int(m))
	}
	return memoryNames[m]
}

// ParseMemory reads none, willneed, populate, lock or resident.
func ParseMemory(s string) (Memory, error) {
	for i, name := range memoryNames {
		if s == name {
			return Memory(i), nil
		}
	}
	return MemoryNone, fmt.Errorf("mmapfs: unknown memory policy %q: expected none, willneed, populate, lock or resident", s)
}

// MapOptions chooses how File.Map maps. The zero value maps and reads nothing.
type MapOptions struct {
	Memory Memory
	// Placement is applied to MemoryResident's copy. The page cache's pages land on the node of the thread
	// that reads them, whatever a mapping asks for: for the other policies it is ignored.
	Placement Placement
	// HugePages asks the kernel to move the file's pages to huge pages once MemoryPopulate or MemoryLock has read
	// them: tmpfs from Linux 6.1 on; elsewhere nothing happens. It takes about a copy of the file in time, and no memory more.
	// A read then misses the TLB as seldom as in a resident copy.
	HugePages bool
}

// PlacementMode is a NUMA policy of memory.
type PlacementMode int

const (
	PlacementDefault    PlacementMode = iota // the node of the thread that touches a page first
	PlacementBind                            // only Nodes
	PlacementInterleave                      // round robin over Nodes, page by page
	PlacementPrefer                          // Nodes[0] while it has room
)

// Placement says on which NUMA nodes anonymous memory lies. It has an effect on Linux only.
type Placement struct {
	Mode  PlacementMode
	Nodes []int
}

// IsNoSpace reports whether err says that the disk, or a quota, is full.
func IsNoSpace(err error) bool { return isNoSpace(err) }

// LockError says who holds a lock. errors.Is(err, ErrLocked) is true.
type LockError struct {
	File   string
	Holder string // "this process", "process 123", "another process"
}

func (e *LockError) Error() string {
	return fmt.Sprintf("lock %s: held by %s: is the database open already?", e.File, e.Holder)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockError) Is(target error) bool { return target == ErrLocked }

// FaultError says where reading or writing a mapping failed. errors.Is(err, ErrFault) is true.
type FaultError struct {
	File   string
	Offset int64 // of the address that faulted, in bytes from the start of File
}

func (e *FaultError) Error() string {
	return fmt.Sprintf("%s: fault on the mapping at offset %d: the page could not be read or written (I/O error, or the file was truncated)",
		e.File, e.Offset)
}

// Is makes errors.Is(err, ErrFault) true.
func (e *FaultError) Is(target error) bool { return target == ErrFault }
