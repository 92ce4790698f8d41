package mmapfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// lockTable remembers the locks that this process holds: fcntl's locks belong to the process, and would be granted a
// second time. It is the process's, as the locks are.
type lockTable struct {
	mu   sync.Mutex
	held []*osLock
}

var locks lockTable

type osLock struct {
	table *lockTable
	path  string
	info  os.FileInfo
	file  *os.File
}

func (t *lockTable) lock(name string, mode fs.FileMode) (io.Closer, error) {
	path := name
	if abs, err := filepath.Abs(name); err == nil {
		path = abs
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// Ask before opening: closing any descriptor of the file would release the lock that is held on it.
	info, statErr := os.Stat(name)
	for _, l := range t.held {
		if l.path == path || statErr == nil && os.SameFile(l.info, info) {
			return nil, &LockError{File: name, Holder: "this process"}
		}
	}
	f, err := lockFile(name, mode)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = checkKind(f, false)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	l := &osLock{table: t, path: path, info: info, file: f}
	t.held = append(t.held, l)
	return l, nil
}

// Close releases the lock; the file stays. A second Close does nothing.
func (l *osLock) Close() error {
	t := l.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, h := range t.held {
		if h == l {
			t.held = append(t.held[:i], t.held[i+1:]...)
			return l.file.Close() // releases the lock
		}
	}
	return nil
}
