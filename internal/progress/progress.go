// Package progress shows a person at a terminal how far long work is, and tells where
// colour is welcome.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Terminal tells whether a person looks at what is written to w, on a terminal that can
// go back in a line.
func Terminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// Colour tells whether what is written to w may have colours: on a terminal, unless
// NO_COLOR is set (no-color.org).
func Colour(w any) bool { return os.Getenv("NO_COLOR") == "" && Terminal(w) }

// width is what a line is cut or filled to.
const width = 78

// Interval is the time between two lines.
const Interval = 200 * time.Millisecond

// Show rewrites one line of a terminal a few times a second, for the first time after a
// while: short work shows nothing. Calling end wipes the line; until then line is called by
// another goroutine, and may return "" for no line yet.
func Show(w io.Writer, after time.Duration, line func() string) (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		timer := time.NewTimer(after)
		defer timer.Stop()
		shown := false
		for {
			select {
			case <-stop:
				if shown {
					fmt.Fprintf(w, "\r%s\r", strings.Repeat(" ", width))
				}
				return
			case <-timer.C:
				if s := line(); s != "" {
					fmt.Fprintf(w, "\r%-*.*s", width, width, s)
					shown = true
				}
				timer.Reset(Interval)
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// Part is "done of total", in percent where the total is known.
func Part(done, total int64) string {
	if total <= 0 {
		return ""
	}
	return fmt.Sprintf("%3d%%", 100*min(done, total)/total)
}
