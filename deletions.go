package flatrock

import (
	"errors"
	"io/fs"
	"sync"
)

// deletions holds the removal of obsolete files back while somebody copies or
// links what was live a moment ago.
type deletions struct {
	mu      sync.Mutex
	held    int
	waiting []func()
}

// DisableFileDeletions keeps obsolete files (tables, blobs, logs) until
// EnableFileDeletions was called as often: what GetLiveFiles and
// GetSortedWalFiles name can be copied meanwhile. RocksDB: DisableFileDeletions.
func (db *DB) DisableFileDeletions() error {
	if db.closed.Load() {
		return ErrClosed
	}
	d := &db.deletions
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held++
	return nil
}

// EnableFileDeletions undoes one DisableFileDeletions. The last one removes what
// became obsolete meanwhile. RocksDB: EnableFileDeletions.
func (db *DB) EnableFileDeletions() error {
	d := &db.deletions
	d.mu.Lock()
	var due []func()
	if d.held > 0 {
		if d.held--; d.held == 0 {
			due, d.waiting = d.waiting, nil
		}
	}
	d.mu.Unlock()
	if db.closed.Load() {
		return ErrClosed // the next Open finds what is left
	}
	for _, remove := range due {
		remove()
	}
	return nil
}

func (d *deletions) areHeld() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held > 0
}

// whenDeletable calls remove now, or when deletions are enabled again.
func (db *DB) whenDeletable(remove func()) {
	d := &db.deletions
	d.mu.Lock()
	if d.held > 0 {
		d.waiting = append(d.waiting, remove)
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	remove()
}

// removeFile deletes a file that nothing needs, under the first of its possible
// names that exists.
func (db *DB) removeFile(names ...string) {
	db.whenDeletable(func() {
		for _, name := range names {
			err := db.fs.Remove(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			db.fileRemoved(name, err)
			if err != nil {
				// The next Open finds it unreferenced and deletes it.
				db.log.Warn("deleting an obsolete file", "file", name, "err", err)
			}
			return
		}
	})
}
