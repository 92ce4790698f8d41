package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// dash stands for the standard input where a file is read, and for the standard output
// where one is written.
const dash = "-"

// input is the standard input, whose reads end with the context: a pipe or a terminal may
// have nothing to say for long.
type input struct {
	ctx  context.Context
	from io.Reader
	more chan piece
	left []byte
	err  error
}

type piece struct {
	b   []byte
	err error
}

// interruptible is in, so that Ctrl-C ends a command that waits for it. Files are read as they are.
func interruptible(ctx context.Context, in io.Reader) io.Reader {
	f, ok := in.(*os.File)
	if !ok {
		return in
	}
	if info, err := f.Stat(); err != nil || info.Mode().IsRegular() {
		return in
	}
	return &input{ctx: ctx, from: f}
}

func (i *input) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	if i.more == nil {
		i.more = make(chan piece)
		go i.pump(i.more)
	}
	if len(i.left) == 0 && i.err == nil {
		select {
		case next := <-i.more:
			i.left, i.err = next.b, next.err
		case <-i.ctx.Done():
			return 0, i.ctx.Err()
		}
	}
	n := copy(p, i.left)
	if i.left = i.left[n:]; n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, i.err
}

// pump reads on until the end; the process may end before.
func (i *input) pump(to chan<- piece) {
	for {
		b := make([]byte, 64<<10)
		n, err := i.from.Read(b)
		select {
		case to <- piece{b[:n], err}:
		case <-i.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// readFrom opens the file of that name, or the standard input for "-".
func (a *app) readFrom(name string) (io.ReadCloser, error) {
	if name == dash {
		return io.NopCloser(a.in), nil
	}
	return os.Open(name)
}

// spooled is name, or for "-" a file of that base name that holds the standard input until it is
// removed: for what is not read from the front to the end.
func (a *app) spooled(name, base string) (path string, remove func() error, err error) {
	if name != dash {
		return name, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "flatrock-")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, base)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = io.Copy(f, &cancelled{a.ctx, io.NopCloser(a.in)})
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return path, func() error { return os.RemoveAll(dir) }, nil
}
