package mmapfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/edsrzf/mmap-go"
)

// OS is the machine's file system. New files get mode 0644 and new directories 0755, less the umask;
// see WithFileMode.
var OS FS = osFS{mode: 0o644}

type osFS struct{ mode fs.FileMode }

func (o osFS) Create(name string) (File, error) {
	if err := refuseLink("create", name); err != nil {
		return nil, err
	}
	f, err := openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC|noFollow, o.mode)
	return f, linkError("create", name, err)
}
func (osFS) Open(name string) (File, error)          { return openOS(name, os.O_RDONLY, 0) }
func (osFS) OpenReadWrite(name string) (File, error) { return openOS(name, os.O_RDWR, 0) }
func (osFS) Remove(name string) error                { return os.Remove(name) }
func (osFS) Rename(old, new string) error            { return os.Rename(old, new) }
func (osFS) Link(old, new string) error              { return os.Link(old, new) }
func (osFS) RemoveAll(dir string) error              { return os.RemoveAll(dir) }
func (osFS) Stat(name string) (fs.FileInfo, error)   { return os.Stat(name) }
func (osFS) SyncDir(dir string) error                { return syncDir(dir) }
func (osFS) Free(dir string) (uint64, error)         { return freeBytes(dir) }
func (o osFS) Lock(name string) (io.Closer, error)   { return locks.lock(name, o.mode) }

func (o osFS) MkdirAll(dir string) error {
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errNotDir}
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if parent != dir {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, searchable(o.mode)); err != nil {
		if errors.Is(err, fs.ErrExist) { // somebody else was faster
			return nil
		}
		return err
	}
	return syncDir(parent)
}

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// osFile hides the rest of os.File's methods: io.Copy would find ReadFrom, which writes at the kernel's position.
type osFile struct {
	file *os.File
	// end is where Write appends. The kernel's own position serves Read alone, and O_APPEND would forbid WriteAt.
	end atomic.Int64
}

func openOS(name string, flag int, mode fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag|noWait, mode)
	if err != nil {
		return nil, err
	}
	if err := checkKind(f, flag&os.O_CREATE != 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	o := &osFile{file: f}
	if flag&os.O_RDWR != 0 && flag&os.O_TRUNC == 0 {
		size, err := o.Size()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		o.end.Store(size)
	}
	return o, nil
}

func (o *osFile) Name() string                            { return o.file.Name() }
func (o *osFile) Read(p []byte) (int, error)              { return o.file.Read(p) }
func (o *osFile) ReadAt(p []byte, off int64) (int, error) { return o.file.ReadAt(p, off) }
func (o *osFile) Sync() error                             { return o.file.Sync() }
func (o *osFile) Close() error                            { return o.file.Close() }

func (o *osFile) Write(p []byte) (int, error) {
	end := o.end.Load()
	n, err := o.file.WriteAt(p, end)
	if err != nil {
		// os.File.WriteAt forgets what was written before the error; the size tells.
		if size, serr := o.Size(); serr == nil {
			n = int(min(max(size-end, int64(n)), int64(len(p))))
		}
	}
	o.end.Store(end + int64(n))
	return n, err
}

func (o *osFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := o.file.WriteAt(p, off)
	o.end.Store(max(o.end.Load(), off+int64(n)))
	return n, err
}

func (o *osFile) Truncate(size int64) error {
	if err := o.file.Truncate(size); err != nil {
		return err
	}
	o.end.Store(size)
	return nil
}

func (o *osFile) Size() (int64, error) {
	info, err := o.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (o *osFile) SyncData() error {
	if err := syncData(o.file); err != nil {
		return &fs.PathError{Op: "fdatasync", Path: o.Name(), Err: err}
	}
	return nil
}

func (o *osFile) Preallocate(off, n int64) error {
	if n == 0 {
		return nil
	}
	err := allocate(o.file, off, n, true)
	if err == nil || errors.Is(err, ErrNotSupported) {
		return nil
	}
	return &fs.PathError{Op: "fallocate", Path: o.Name(), Err: err}
}

func (o *osFile) Map(size int64, mo MapOptions) (*Mapping, error) {
	return mapFile(o.file, o.Name(), size, mo)
}

func (o *osFile) MapWrite(off, n int64) (*WriteMapping, error) {
	if off < 0 || n <= 0 || n > math.MaxInt-int64(pageSize) || off > math.MaxInt64-n {
		return nil, &fs.PathError{Op: "mapwrite", Path: o.Name(), Err: fs.ErrInvalid}
	}
	if !reservesForGood(o.file) {
		return nil, ErrMapWriteUnsupported
	}
	size, err := o.Size()
	if err != nil {
		return nil, err
	}
	if err := allocate(o.file, off, n, false); err != nil {
		// A full disk may have left part of the blocks, and a larger size.
		err = errors.Join(err, o.shrinkTo(size))
		if errors.Is(err, ErrNotSupported) {
			return nil, ErrMapWriteUnsupported
		}
		return nil, &fs.PathError{Op: "fallocate", Path: o.Name(), Err: err}
	}
	skip := off & int64(pageSize-1)
	mapped, err := mmap.MapRegion(o.file, int(skip+n), mmap.RDWR, 0, off-skip)
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "mmap", Path: o.Name(), Err: err}, o.shrinkTo(size))
	}
	o.end.Store(max(o.end.Load(), off+n))
	mappings.add(mapped, o.Name(), off-skip)
	usage.add(n, 0, 0)
	return &WriteMapping{data: mapped[skip:], n: int(n), file: o.Name(), offset: off, mapped: mapped}, nil
}

// shrinkTo takes back an extension of MapWrite that failed half-way.
func (o *osFile) shrinkTo(size int64) error {
	now, err := o.Size()
	if err != nil || now <= size {
		return err
	}
	return o.file.Truncate(size)
}
