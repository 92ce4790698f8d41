package progress

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// shownLines collects what is written, and tells of it.
type shownLines struct {
	bytes.Buffer
	wrote chan struct{}
}

func (s *shownLines) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return n, err
}

func TestShowWritesAndWipes(t *testing.T) {
	w := &shownLines{wrote: make(chan struct{})}
	calls := 0
	end := Show(w, 0, func() string {
		if calls++; calls == 1 {
			return "" // nothing to say yet
		}
		return strings.Repeat("half way ", 20)
	})
	<-w.wrote
	end()
	const want = width + 1
	lines := strings.Split(w.String(), "\r")
	if len(w.String()) < 2*want || !strings.HasPrefix(lines[1], "half way half") || len(lines[1]) != width {
		t.Errorf("wrote %q", w.String())
	}
	if last := lines[len(lines)-2]; last != strings.Repeat(" ", width) || lines[len(lines)-1] != "" {
		t.Errorf("not wiped: %q", w.String())
	}
	w = &shownLines{}
	Show(w, time.Hour, func() string { return "late" })()
	if w.Len() > 0 {
		t.Errorf("short work showed %q", w.String())
	}
}

func TestTerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, w := range []any{&bytes.Buffer{}, f, null} {
		if Terminal(w) || Colour(w) {
			t.Errorf("%T is taken for a terminal", w)
		}
	}
}

func TestTerminalColour(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0) // a terminal of the test's own
	if err != nil {
		t.Logf("no terminal to be had here: %v", err)
		return
	}
	defer f.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !Terminal(f) || !Colour(f) {
		t.Error("a terminal is not taken for one")
	}
	t.Setenv("NO_COLOR", "1")
	if !Terminal(f) || Colour(f) {
		t.Error("NO_COLOR does not count")
	}
	t.Setenv("TERM", "dumb")
	if Terminal(f) {
		t.Error("a dumb terminal can go back in a line")
	}
}

func TestPart(t *testing.T) {
	if got := Part(1, 3) + Part(5, 3) + Part(1, 0); got != " 33%100%" {
		t.Errorf("got %q", got)
	}
}
