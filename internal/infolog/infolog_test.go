package infolog

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

func open(t *testing.T, fs mmapfs.FS, o Options) *File {
	t.Helper()
	f, err := Open(fs, "/db/LOG", o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func read(t *testing.T, fs mmapfs.FS, name string) string {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLines(t *testing.T) {
	fs := mmapfs.NewMem()
	f := open(t, fs, Options{Level: slog.LevelInfo, Process: 17})
	l := slog.New(f.Handler())
	l.Debug("not shown")
	l.Info("flush", "family", "default", "bytes", 12, "text", "two words", "none", "")
	l.With("db", "x").WithGroup("g").Warn("careful\n", "err", errors.New("bad"), slog.Group("in", "a", 1))
	l.Error("failed")
	f.Text("several\nlines")
	f.Event([]Field{{"job", 3}, {"event", "flush_started"}, {"files", []uint64{1, 2}}, {"object", []Field{{"a", "b,c"}, {"f", 1.5}}}})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	l.Info("after close")
	stamp := regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d-\d\d:\d\d:\d\d\.\d{6} 17 `)
	text := read(t, fs, "/db/LOG")
	got := stamp.ReplaceAllString(text, "@ ")
	micros := regexp.MustCompile(`"time_micros": \d+`)
	got = micros.ReplaceAllString(got, `"time_micros": 0`)
	want := `@ flush family=default bytes=12 text="two words" none=""
@ [WARN] careful
 db=x g.err=bad g.in.a=1
@ [ERROR] failed
@ several
lines
@ EVENT_LOG_v1 {"time_micros": 0, "job": 3, "event": "flush_started", "files": [1, 2], "object": {"a": "b,c", "f": 1.5}}
`
	if got != want {
		t.Errorf("log:\n%s\nwant:\n%s", got, want)
	}
	_, object, _ := strings.Cut(text, "EVENT_LOG_v1 ")
	if !json.Valid([]byte(object)) {
		t.Errorf("no JSON: %s", object)
	}
}

func TestOldFilesAreRenamedAndPruned(t *testing.T) {
	fs := mmapfs.NewMem()
	for i := range 6 {
		f := open(t, fs, Options{Keep: 3})
		f.Text(strings.Repeat("x", i+1))
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	names, err := fs.List("/db")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 3 || names[0] != "LOG" || !strings.HasSuffix(read(t, fs, "/db/LOG"), " xxxxxx\n") {
		t.Fatalf("files %v", names)
	}
	if last := slices.Max(names[1:]); !strings.HasSuffix(read(t, fs, "/db/"+last), " xxxxx\n") {
		t.Errorf("%s is not the one before", last)
	}
	f := open(t, fs, Options{Keep: 100, MaxSize: 100})
	for range 10 {
		f.Text(strings.Repeat("y", 60))
	}
	f.o.MaxSize, f.o.MaxAge = 0, time.Nanosecond
	f.begun = f.begun.Add(-time.Second)
	f.Text("old age")
	f.Close()
	if names, _ = fs.List("/db"); len(names) < 8 {
		t.Errorf("a log that is full goes on: %v", names)
	}
	if text := read(t, fs, "/db/LOG"); !strings.HasSuffix(text, " old age\n") || strings.Count(text, "\n") != 1 {
		t.Errorf("the log after its age: %q", text)
	}
}

func TestNames(t *testing.T) {
	if got := Name("/a/b", ""); got != "/a/b/LOG" {
		t.Error(got)
	}
	if got := Name("/a/b.c d", "/logs"); got != "/logs/a_b.c_d_LOG" {
		t.Error(got)
	}
}

func TestFailuresAreNobodysError(t *testing.T) {
	f := open(t, mmapfs.NewMem(), Options{MaxSize: 1})
	f.fs = failing{f.fs}
	f.Text("one")
	f.Text("two cannot begin a new file")
	f.Text("three")
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(failing{mmapfs.NewMem()}, "/db/LOG", Options{}); err == nil {
		t.Error("a log that cannot be made was opened")
	}
}

type failing struct{ mmapfs.FS }

func (failing) Create(string) (mmapfs.File, error) { return nil, errors.New("no space") }
