package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/internal/progress"
)

// showAfter is how long work takes before a person is told how far it is.
const showAfter = time.Second

// showProgress shows line on the terminal that errors go to, if it is one, until end is
// called. Commands whose results may scroll by on the same terminal say so, and show nothing then.
func (a *app) showProgress(prints bool, line func() string) (end func()) {
	if !progress.Terminal(a.err) || prints && progress.Terminal(a.to) {
		return func() {}
	}
	return progress.Show(a.err, showAfter, line)
}

// counted is what a command has done of something, for showProgress.
type counted struct {
	what  string // such as "keys"
	start time.Time
	done  atomic.Int64
	total int64 // zero if it is not known
}

func (c *counted) line() string {
	n := c.done.Load()
	return fmt.Sprintf("%s %d %s, %.0f/s", progress.Part(n, c.total), n, c.what, float64(n)/max(time.Since(c.start).Seconds(), 0.001))
}

// count shows how many of something, out of about total, are done.
func (a *app) count(prints bool, what string, total int64) (c *counted, end func()) {
	c = &counted{what: what, start: time.Now(), total: total}
	return c, a.showProgress(prints, c.line)
}

// amount shows how many bytes, out of total, are done.
func (a *app) amount(prints bool, what string, done func() int64, total int64) (end func()) {
	start := time.Now()
	return a.showProgress(prints, func() string {
		n := done()
		text := bytesText(uint64(max(n, 0)))
		if total > 0 {
			text += " of " + bytesText(uint64(total))
		}
		return fmt.Sprintf("%s %s: %s, %.0f s", progress.Part(n, total), what, text, time.Since(start).Seconds())
	})
}

// filesShown is progress in files of known sizes.
type filesShown struct {
	mu          sync.Mutex
	file        string
	done, total int64
}

// at says which file comes next.
func (f *filesShown) at(file string, done, total int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file, f.done, f.total = file, done, total
}

func (f *filesShown) line() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == "" {
		return ""
	}
	return fmt.Sprintf("%s %s of %s, %s", progress.Part(f.done, f.total), bytesText(uint64(f.done)), bytesText(uint64(f.total)), f.file)
}

// treeBytes is what the files below dir hold, as far as can be seen.
func treeBytes(dir string) (n int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// inputBytes is the size of the first that is a file, or zero if none is.
func inputBytes(inputs ...any) int64 {
	for _, in := range inputs {
		if f, ok := in.(*os.File); ok {
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				return info.Size()
			}
		}
	}
	return 0
}
