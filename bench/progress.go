package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// isTerminal tells whether a person looks at the file.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// startProgress shows how far the threads are, on a terminal, until the function that
// it returns is called.
func (b *bench) startProgress(name string, threads []*thread) (end func()) {
	if !b.show || !b.c.progressReports || b.c.statsInterval > 0 || b.c.statsIntervalSeconds > 0 {
		return func() {}
	}
	start := time.Now()
	return showProgress(b.log, func() string {
		done := int64(0)
		for _, t := range threads {
			if !t.stats.excluded {
				done += t.stats.published.Load()
			}
		}
		return fmt.Sprintf("%s: finished %d ops, %.0f ops/sec", name, done, perSecond(float64(done), time.Since(start).Seconds()))
	})
}

// showProgress rewrites one line of a terminal a few times a second. Calling end
// wipes the line.
func showProgress(w io.Writer, line func() string) (end func()) {
	const width = 78
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				fmt.Fprintf(w, "\r%s\r", strings.Repeat(" ", width))
				return
			case <-ticker.C:
				fmt.Fprintf(w, "\r%-*.*s", width, width, line())
			}
		}
	}()
	return func() { close(stop); <-stopped }
}
