package mmapfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// MemFS is a file system in memory that knows what a crash of the machine would lose:
//
//	M1 A file's bytes and size are durable as of its last Sync or SyncData. Writes through a WriteMapping are writes.
//	M2 A directory's entries (create, rename, remove, link) are durable as of its last SyncDir. Syncing a file does not
//	   sync its entry. Directories that MkdirAll made are durable at once, as its contract says.
//	M3 A rename is one change: after a crash both of its entries have changed or neither, unless a SyncDir of one of
//	   two directories came between.
//	M4 Locks vanish with the crash.
//
// Crash and Kill make the file systems that a restart would find. Paths are slash-separated from one root, and relative
// ones begin at it. Safe for concurrent use.
type MemFS struct {
	mu      sync.RWMutex // guards everything below, nodes included: a crash image is of one instant
	root    *memNode
	pending []memChange // changes of entries that no SyncDir has made durable yet, oldest first
	locks   map[string]bool
}

// memNode is a file or a directory.
type memNode struct {
	mod time.Time

	// of a file
	data     []byte
	synced   []byte // content that survives a crash
	dirty    []span // where data may differ from synced, sorted and disjoint
	borrowed int    // mappings read data[:borrowed], so that it is never changed in place

	// of a directory (entries is not nil)
	entries, durable map[string]*memNode
}

// span is [lo, hi) in bytes.
type span struct{ lo, hi int }

// memChange is one operation on directories, which a crash keeps or drops as a whole.
type memChange []memEntry

type memEntry struct {
	dir  *memNode
	name string
	node *memNode // nil: removed
}

var _ FS = (*MemFS)(nil)

// NewMem returns an empty file system, its root directory apart.
func NewMem() *MemFS {
	return &MemFS{root: newMemDir(), locks: make(map[string]bool)}
}

func newMemDir() *memNode {
	return &memNode{mod: time.Now(), entries: make(map[string]*memNode), durable: make(map[string]*memNode)}
}

func (n *memNode) isDir() bool { return n.entries != nil }

func cleanMem(name string) string { return path.Clean("/" + filepath.ToSlash(name)) }

// find returns the node at name. Under mu.
func (m *MemFS) find(name string) (*memNode, error) {
	n := m.root
	for part := range strings.SplitSeq(cleanMem(name), "/") {
		if part == "" {
			continue
		}
		if !n.isDir() {
			return nil, errNotDir
		}
		if n = n.entries[part]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

// parent returns the directory that holds, or would hold, name. Under mu.
func (m *MemFS) parent(name string) (dir *memNode, base string, err error) {
	d, base := path.Split(cleanMem(name))
	if base == "" {
		return nil, "", fs.ErrInvalid // the root
	}
	dir, err = m.find(d)
	if err != nil {
		return nil, "", err
	}
	if !dir.isDir() {
		return nil, "", errNotDir
	}
	return dir, base, nil
}

// change applies entries now, and remembers them until they are durable. Under mu.
func (m *MemFS) change(c ...memEntry) {
	for _, e := range c {
		e.apply(e.dir.entries)
		e.dir.mod = time.Now()
	}
	m.pending = append(m.pending, c)
}

func (e memEntry) apply(entries map[string]*memNode) {
	if e.node == nil {
		delete(entries, e.name)
	} else {
		entries[e.name] = e.node
	}
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Create implements FS.
func (m *MemFS) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.createNode(name)
	if err != nil {
		return nil, pathError("create", name, err)
	}
	n.resize(0)
	return &memFile{fs: m, node: n, name: name, writable: true}, nil
}

// createNode finds or makes the file at name. Under mu.
func (m *MemFS) createNode(name string) (*memNode, error) {
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, err
	}
	n := dir.entries[base]
	if n == nil {
		n = &memNode{mod: time.Now()}
		m.change(memEntry{dir, base, n})
	}
	if n.isDir() {
		return nil, errIsDir
	}
	return n, nil
}

// Open implements FS.
func (m *MemFS) Open(name string) (File, error) { return m.open(name, false) }

// OpenReadWrite implements FS.
func (m *MemFS) OpenReadWrite(name string) (File, error) { return m.open(name, true) }

func (m *MemFS) open(name string, writable bool) (File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(name)
	if err == nil && n.isDir() {
		err = errIsDir
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &memFile{fs: m, node: n, name: name, writable: writable}, nil
}

// Remove implements FS.
func (m *MemFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err == nil {
		switch n := dir.entries[base]; {
		case n == nil:
			err = fs.ErrNotExist
		case n.isDir() && len(n.entries) > 0:
			err = syscall.ENOTEMPTY
		default:
			m.change(memEntry{dir, base, nil})
		}
	}
	return pathError("remove", name, err)
}

// Rename implements FS.
func (m *MemFS) Rename(old, new string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return pathError("rename", old, m.rename(old, new))
}

func (m *MemFS) rename(old, new string) error {
	from, oldBase, err := m.parent(old)
	if err != nil {
		return err
	}
	to, newBase, err := m.parent(new)
	if err != nil {
		return err
	}
	n := from.entries[oldBase]
	if n == nil {
		return fs.ErrNotExist
	}
	target := to.entries[newBase]
	switch {
	case target != nil && target.isDir(): // os.Rename says so, for itself too
		return fs.ErrExist
	case target == n: // two links of one file, or the same name: nothing happens, says POSIX
		return nil
	case target != nil && n.isDir():
		return errNotDir
	case n.isDir() && strings.HasPrefix(cleanMem(new)+"/", cleanMem(old)+"/"):
		return fs.ErrInvalid // into itself
	}
	m.change(memEntry{to, newBase, n}, memEntry{from, oldBase, nil})
	return nil
}

// Link implements FS.
func (m *MemFS) Link(old, new string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(old)
	if err != nil {
		return pathError("link", old, err)
	}
	dir, base, err := m.parent(new)
	switch {
	case err != nil:
	case dir.entries[base] != nil:
		err = fs.ErrExist
	case n.isDir():
		err = fs.ErrPermission
	default:
		m.change(memEntry{dir, base, n})
	}
	return pathError("link", new, err)
}

// MkdirAll implements FS.
func (m *MemFS) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for part := range strings.SplitSeq(cleanMem(dir), "/") {
		if part == "" {
			continue
		}
		next := n.entries[part]
		if next == nil {
			next = newMemDir()
			n.entries[part] = next
			n.mod = next.mod
			n.durable[part] = next
			// A removal of that name which no sync has seen yet is overtaken.
			m.settle(n, part)
		}
		if !next.isDir() {
			return pathError("mkdir", dir, errNotDir)
		}
		n = next
	}
	return nil
}

// RemoveAll implements FS.
func (m *MemFS) RemoveAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, base, err := m.parent(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathError("removeall", dir, err)
	}
	if n := parent.entries[base]; n != nil {
		m.removeTree(parent, base, n)
	}
	return nil
}

// removeTree removes leaves first, each by a change of its own: a crash may come between any two.
func (m *MemFS) removeTree(parent *memNode, base string, n *memNode) {
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		m.removeTree(n, name, n.entries[name])
	}
	m.change(memEntry{parent, base, nil})
}

// List implements FS.
func (m *MemFS) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(dir)
	if err == nil && !n.isDir() {
		err = errNotDir
	}
	if err != nil {
		return nil, pathError("list", dir, err)
	}
	return slices.Sorted(maps.Keys(n.entries)), nil
}

// Stat implements FS.
func (m *MemFS) Stat(name string) (fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return memInfo{path.Base(cleanMem(name)), int64(len(n.data)), n.isDir(), n.mod}, nil
}

type memInfo struct {
	name string
	size int64
	dir  bool
	mod  time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) ModTime() time.Time { return i.mod }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

// SyncDir implements FS.
func (m *MemFS) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(dir)
	if err == nil && !n.isDir() {
		err = errNotDir
	}
	if err != nil {
		return pathError("syncdir", dir, err)
	}
	n.durable = maps.Clone(n.entries)
	m.settle(n, "")
	return nil
}

// settle forgets the pending changes of dir's entry name, or of all its entries. Under mu.
func (m *MemFS) settle(dir *memNode, name string) {
	for i, c := range m.pending {
		// The other half of a rename between directories stays pending.
		m.pending[i] = slices.DeleteFunc(c, func(e memEntry) bool {
			return e.dir == dir && (name == "" || e.name == name)
		})
	}
	m.pending = slices.DeleteFunc(m.pending, func(c memChange) bool { return len(c) == 0 })
}

// Lock implements FS.
func (m *MemFS) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := cleanMem(name)
	if m.locks[key] {
		return nil, &LockError{File: name, Holder: "this process"}
	}
	if _, err := m.createNode(name); err != nil {
		return nil, pathError("lock", name, err)
	}
	m.locks[key] = true
	return &memLock{fs: m, key: key}, nil
}

type memLock struct {
	fs   *MemFS
	key  string
	once sync.Once
}

func (l *memLock) Close() error {
	l.once.Do(func() {
		l.fs.mu.Lock()
		delete(l.fs.locks, l.key)
		l.fs.mu.Unlock()
	})
	return nil
}

// Free implements FS: a tebibyte, always. FaultFS makes a small disk.
func (m *MemFS) Free(dir string) (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, err := m.find(dir)
	return 1 << 40, pathError("statfs", dir, err)
}
