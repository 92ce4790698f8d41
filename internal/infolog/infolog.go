// Package infolog is RocksDB's LOG file as the handler of a slog.Logger.
//
//	line  := YYYY/MM/DD-HH:MM:SS.micros SP process SP level? message attributes LF
//	level := "[DEBUG] " | "[WARN] " | "[ERROR] "        none for Info, as in RocksDB
//
// An attribute is written as " key=value". Events, which programs read, are lines with a message of
// EVENT_LOG_v1 and a JSON object. A new log begins with each Open of a database,
// and when the file or its age has passed a limit; the one before is renamed to
// LOG.old.<time in microseconds>, and the oldest of those are removed.
//
// The log is for people: an error of writing it is nobody's error, and what was written
// last may be lost with the machine.
package infolog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// Options configures a File.
type Options struct {
	Level   slog.Level    // lines below it are left out
	Keep    int           // files, the current one included
	MaxSize int64         // bytes after which a new file begins; zero for no limit
	MaxAge  time.Duration // the same by time; zero for no limit
	Process int           // what stands where RocksDB has the thread
}

// File is a LOG file and those before it. Safe for concurrent use.
type File struct {
	fs   mmapfs.FS
	path string
	o    Options

	mu    sync.Mutex
	file  mmapfs.File // nil: closed, or it could not be made
	size  int64
	begun time.Time
	buf   []byte
}

// Name is the path of a database's LOG: in its own directory, or in logDir under a name
// that tells databases apart.
func Name(dir, logDir string) string {
	if logDir == "" {
		return filepath.Join(dir, "LOG")
	}
	return filepath.Join(logDir, prefix(dir)+"LOG")
}

// prefix is a directory's path with what is not a letter, digit, dot, dash or
// underscore between names as underscores. RocksDB: GetInfoLogPrefix.
func prefix(dir string) string {
	var b strings.Builder
	for i, c := range []byte(filepath.ToSlash(dir)) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
			b.WriteByte(c)
		case i > 0:
			b.WriteByte('_')
		}
	}
	b.WriteByte('_')
	return b.String()
}

// Open begins a new log at path.
func Open(fs mmapfs.FS, path string, o Options) (*File, error) {
	f := &File{fs: fs, path: path, o: o}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := fs.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := f.begin(time.Now()); err != nil {
		return nil, err
	}
	return f, nil
}

// begin renames the current file and makes a new one.
func (f *File) begin(now time.Time) error {
	if _, err := f.fs.Stat(f.path); err == nil {
		if err := f.fs.Rename(f.path, fmt.Sprintf("%s.old.%d", f.path, now.UnixMicro())); err != nil {
			return err
		}
		f.prune()
	}
	file, err := f.fs.Create(f.path)
	if err != nil {
		return err
	}
	f.file, f.size, f.begun = file, 0, now
	return nil
}

// prune removes old files beyond those to keep.
func (f *File) prune() {
	names, err := f.fs.List(filepath.Dir(f.path))
	if err != nil {
		return
	}
	var old []int64
	for _, name := range names {
		if digits, ok := strings.CutPrefix(name, filepath.Base(f.path)+".old."); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				old = append(old, n)
			}
		}
	}
	slices.Sort(old)
	for len(old) > max(f.o.Keep-1, 0) {
		_ = f.fs.Remove(fmt.Sprintf("%s.old.%d", f.path, old[0]))
		old = old[1:]
	}
}

// Close ends the log.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// write adds a line that fill appends.
func (f *File) write(t time.Time, fill func([]byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return
	}
	if f.o.MaxSize > 0 && f.size >= f.o.MaxSize || f.o.MaxAge > 0 && t.Sub(f.begun) >= f.o.MaxAge {
		_ = f.file.Close()
		f.file = nil
		if f.begin(t) != nil {
			return
		}
	}
	b := t.AppendFormat(f.buf[:0], "2006/01/02-15:04:05.000000 ")
	b = strconv.AppendInt(b, int64(f.o.Process), 10)
	b = fill(append(b, ' '))
	b = append(bytes.TrimRight(b, "\n"), '\n')
	f.buf = b
	if cap(f.buf) > maxKept {
		f.buf = nil
	}
	n, _ := f.file.Write(b)
	f.size += int64(n)
}

// maxKept is how large a buffer is kept.
const maxKept = 64 << 10

// Text adds a line, or several, without level or attributes.
func (f *File) Text(text string) {
	if slog.LevelInfo >= f.o.Level {
		f.write(time.Now(), func(b []byte) []byte { return append(b, text...) })
	}
}

// Field is a member of an event.
type Field struct {
	Key   string
	Value any // what encoding/json takes, or []Field
}

// Event adds a line that programs read.
func (f *File) Event(fields []Field) {
	if slog.LevelInfo < f.o.Level {
		return
	}
	now := time.Now()
	f.write(now, func(b []byte) []byte {
		b = append(b, `EVENT_LOG_v1 {"time_micros": `...)
		b = strconv.AppendInt(b, now.UnixMicro(), 10)
		for _, m := range fields {
			b = append(b, ", "...)
			b = m.append(b)
		}
		return append(b, '}')
	})
}

func (m Field) append(b []byte) []byte {
	b = strconv.AppendQuote(b, m.Key)
	b = append(b, ": "...)
	if object, ok := m.Value.([]Field); ok {
		b = append(b, '{')
		for i, o := range object {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = o.append(b)
		}
		return append(b, '}')
	}
	text, err := json.Marshal(m.Value)
	if err != nil {
		text = strconv.AppendQuote(nil, err.Error())
	}
	if len(text) > 0 && text[0] == '[' { // as RocksDB spaces lists
		text = bytes.ReplaceAll(text, []byte(","), []byte(", "))
	}
	return append(b, text...)
}

// Handler gives a slog.Logger the file to write to.
func (f *File) Handler() slog.Handler { return handler{file: f} }

type handler struct {
	file   *File
	prefix string // of keys: the groups
	attrs  string // written for each line
}

func (h handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.file.o.Level }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	t := r.Time
	if t.IsZero() {
		t = time.Now()
	}
	h.file.write(t, func(b []byte) []byte {
		switch {
		case r.Level >= slog.LevelError:
			b = append(b, "[ERROR] "...)
		case r.Level >= slog.LevelWarn:
			b = append(b, "[WARN] "...)
		case r.Level < slog.LevelInfo:
			b = append(b, "[DEBUG] "...)
		}
		b = append(b, r.Message...)
		b = append(b, h.attrs...)
		r.Attrs(func(a slog.Attr) bool {
			b = appendAttr(b, h.prefix, a)
			return true
		})
		return b
	})
	return nil
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	b := []byte(h.attrs)
	for _, a := range attrs {
		b = appendAttr(b, h.prefix, a)
	}
	h.attrs = string(b)
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	if name != "" {
		h.prefix += name + "."
	}
	return h
}

func appendAttr(b []byte, prefix string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return b
	}
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, g := range v.Group() {
			b = appendAttr(b, prefix, g)
		}
		return b
	}
	b = append(b, ' ')
	b = append(b, prefix...)
	b = append(b, a.Key...)
	b = append(b, '=')
	s := v.String()
	if strings.ContainsAny(s, " \t\n\r\"=") || s == "" {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}
