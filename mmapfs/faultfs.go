package mmapfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"syscall"
)

// ErrInjected matches every error that a FaultFS injects.
var ErrInjected = errors.New("mmapfs: injected fault")

// Op is a set of kinds of operations.
type Op uint32

const (
	OpCreate      Op = 1 << iota // FS.Create
	OpOpen                       // FS.Open and FS.OpenReadWrite
	OpRead                       // File.Read and File.ReadAt
	OpWrite                      // File.Write and File.WriteAt
	OpSync                       // File.Sync and File.SyncData
	OpSyncDir                    // FS.SyncDir
	OpRename                     // FS.Rename
	OpRemove                     // FS.Remove and FS.RemoveAll
	OpLink                       // FS.Link
	OpTruncate                   // File.Truncate
	OpPreallocate                // File.Preallocate
	OpMap                        // File.Map
	OpMapWrite                   // File.MapWrite
	OpMappedWrite                // WriteMapping.WriteAt
	OpList                       // FS.List
	OpStat                       // FS.Stat and File.Size
	OpLock                       // FS.Lock
	OpMkdir                      // FS.MkdirAll
	OpFree                       // FS.Free
	OpClose                      // File.Close and WriteMapping.Close; the thing is closed all the same

	opEnd

	// OpAll is every kind.
	OpAll = opEnd - 1
	// OpMutate is every kind that changes what a restart would find, or makes it durable.
	OpMutate = OpCreate | OpWrite | OpSync | OpSyncDir | OpRename | OpRemove | OpLink | OpTruncate | OpPreallocate |
		OpMapWrite | OpMappedWrite | OpMkdir
)

var opNames = [...]string{"create", "open", "read", "write", "sync", "syncdir", "rename", "remove", "link", "truncate",
	"preallocate", "map", "mapwrite", "mappedwrite", "list", "stat", "lock", "mkdir", "free", "close"}

// String lists the kinds, as in "write|sync".
func (o Op) String() string {
	var names []string
	for i, name := range opNames {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if rest := o &^ OpAll; rest != 0 {
		names = append(names, fmt.Sprintf("Op(%#x)", uint32(rest)))
	}
	return strings.Join(names, "|")
}

// FaultFS passes everything to another file system, counts the operations, and makes some of them fail:
//
//	for n := 1; ; n++ {
//		f := mmapfs.NewFault(mmapfs.NewMem())
//		f.FailNth(n, mmapfs.OpAll, true)
//		... the workload, which must report the error or survive it ...
//		if f.Injected() == 0 {
//			break // the workload has fewer than n operations
//		}
//	}
//
// An operation that fails has done nothing, except that a write over FailWritesAfter's budget writes what fits, as
// the kernel does. Safe for concurrent use.
type FaultFS struct {
	base FS

	mu       sync.Mutex
	ops      Op
	left     int64 // operations of ops until one fails; 0: none will
	once     bool
	broken   bool // failing for good
	count    [len(opNames)]int64
	injected int64
	budget   int64 // bytes until the disk is full; negative: no limit
	hook     func(op Op, name string) error
	onRead   func(name string, p []byte)
}

var _ FS = (*FaultFS)(nil)

// NewFault wraps base. No operation fails until it is told to.
func NewFault(base FS) *FaultFS { return &FaultFS{base: base, budget: -1} }

// FailNth makes the n-th operation from now, of those in ops, fail: n = 1 is the next one. Once: it alone; otherwise
// all of ops that follow too. n = 0 ends all such failing. It replaces an earlier FailNth, and sets Injected to 0.
func (f *FaultFS) FailNth(n int, ops Op, once bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops, f.left, f.once, f.broken, f.injected = ops, int64(n), once, false, 0
}

// FailWritesAfter makes a disk that is full after so many more bytes: then Write, WriteAt, Preallocate, MapWrite and
// Truncate that need more get an error that matches ErrInjected and that IsNoSpace knows. Bytes are charged where a
// file grows: what MapWrite reserved can be written for nothing, and Preallocate only asks. Negative: no limit. Removing files gives nothing back; call it again instead.
func (f *FaultFS) FailWritesAfter(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.budget = bytes
}

// SetHook calls hook before every operation, with the name of the file or directory. An error that it returns is
// injected. It runs on the operation's goroutine without a lock, and may use the file systems. nil removes it.
func (f *FaultFS) SetHook(hook func(op Op, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// SetReadHook calls hook with what each Read and ReadAt got, which it may change: bits that flip on their way from the
// disk. Mappings show what is there. It runs on the operation's goroutine without a lock. nil removes it.
func (f *FaultFS) SetReadHook(hook func(name string, p []byte)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onRead = hook
}

// got passes what was read to the hook.
func (f *FaultFS) got(name string, p []byte) {
	f.mu.Lock()
	hook := f.onRead
	f.mu.Unlock()
	if hook != nil && len(p) > 0 {
		hook(name, p)
	}
}

// Count returns how many operations of the kinds in ops were asked for so far, those that failed included.
func (f *FaultFS) Count(ops Op) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := int64(0)
	for i, c := range f.count {
		if ops&(1<<i) != 0 {
			n += c
		}
	}
	return n
}

// Injected returns how many operations were made to fail since the last FailNth.
func (f *FaultFS) Injected() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.injected
}

// injectedError is a cause of an error that matches ErrInjected as well.
type injectedError struct{ cause error }

func (e injectedError) Error() string   { return e.cause.Error() + " (injected)" }
func (e injectedError) Unwrap() []error { return []error{ErrInjected, e.cause} }

// step counts one operation, and returns the error that it must fail with.
func (f *FaultFS) step(op Op, name string) error {
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	var err error
	if hook != nil {
		err = hook(op, name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.count {
		if op == 1<<i {
			f.count[i]++
		}
	}
	if err != nil {
		f.injected++
		return pathError(op.String(), name, injectedError{err})
	}
	if op&f.ops != 0 {
		fail := f.broken
		if f.left > 0 {
			f.left--
			fail = fail || f.left == 0
			f.broken = f.left == 0 && !f.once
		}
		if fail {
			f.injected++
			return pathError(op.String(), name, ErrInjected)
		}
	}
	return nil
}

// take charges n bytes of disk. It returns how many there are.
func (f *FaultFS) take(n int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.budget < 0 || n <= 0 {
		return n
	}
	n = min(n, f.budget)
	f.budget -= n
	return n
}

// giveBack returns bytes that take charged and that no file holds.
func (f *FaultFS) giveBack(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.budget >= 0 {
		f.budget += n
	}
}

func (f *FaultFS) noSpace(op Op, name string) error {
	f.mu.Lock()
	f.injected++
	f.mu.Unlock()
	return pathError(op.String(), name, injectedError{syscall.ENOSPC})
}

func (f *FaultFS) wrap(file File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fs: f}, nil
}

// Create implements FS.
func (f *FaultFS) Create(name string) (File, error) {
	if err := f.step(OpCreate, name); err != nil {
		return nil, err
	}
	return f.wrap(f.base.Create(name))
}

// Open implements FS.
func (f *FaultFS) Open(name string) (File, error) {
	if err := f.step(OpOpen, name); err != nil {
		return nil, err
	}
	return f.wrap(f.base.Open(name))
}

// OpenReadWrite implements FS.
func (f *FaultFS) OpenReadWrite(name string) (File, error) {
	if err := f.step(OpOpen, name); err != nil {
		return nil, err
	}
	return f.wrap(f.base.OpenReadWrite(name))
}

// Remove implements FS.
func (f *FaultFS) Remove(name string) error {
	if err := f.step(OpRemove, name); err != nil {
		return err
	}
	return f.base.Remove(name)
}

// RemoveAll implements FS.
func (f *FaultFS) RemoveAll(dir string) error {
	if err := f.step(OpRemove, dir); err != nil {
		return err
	}
	return f.base.RemoveAll(dir)
}

// Rename implements FS. The hook gets the new name.
func (f *FaultFS) Rename(old, new string) error {
	if err := f.step(OpRename, new); err != nil {
		return err
	}
	return f.base.Rename(old, new)
}

// Link implements FS. The hook gets the new name.
func (f *FaultFS) Link(old, new string) error {
	if err := f.step(OpLink, new); err != nil {
		return err
	}
	return f.base.Link(old, new)
}

// MkdirAll implements FS.
func (f *FaultFS) MkdirAll(dir string) error {
	if err := f.step(OpMkdir, dir); err != nil {
		return err
	}
	return f.base.MkdirAll(dir)
}

// List implements FS.
func (f *FaultFS) List(dir string) ([]string, error) {
	if err := f.step(OpList, dir); err != nil {
		return nil, err
	}
	return f.base.List(dir)
}

// Stat implements FS.
func (f *FaultFS) Stat(name string) (fs.FileInfo, error) {
	if err := f.step(OpStat, name); err != nil {
		return nil, err
	}
	return f.base.Stat(name)
}

// SyncDir implements FS.
func (f *FaultFS) SyncDir(dir string) error {
	if err := f.step(OpSyncDir, dir); err != nil {
		return err
	}
	return f.base.SyncDir(dir)
}

// Lock implements FS. Closing the lock does not fail.
func (f *FaultFS) Lock(name string) (io.Closer, error) {
	if err := f.step(OpLock, name); err != nil {
		return nil, err
	}
	return f.base.Lock(name)
}

// Free implements FS. It knows FailWritesAfter's budget.
func (f *FaultFS) Free(dir string) (uint64, error) {
	if err := f.step(OpFree, dir); err != nil {
		return 0, err
	}
	n, err := f.base.Free(dir)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.budget >= 0 {
		n = min(n, uint64(f.budget))
	}
	return n, err
}
