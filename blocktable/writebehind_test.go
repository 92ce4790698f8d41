package blocktable

import (
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

var errWrite = errors.New("injected: write")

// brokenFile fails from a write on, counted from zero; closed says that Close came after the last write.
type brokenFile struct {
	mmapfs.File
	failAt, writes int
	closed         bool
}

func (f *brokenFile) Write(b []byte) (int, error) {
	if f.closed {
		panic("a write after Close")
	}
	if f.writes++; f.failAt >= 0 && f.writes > f.failAt {
		return 0, errWrite
	}
	return f.File.Write(b)
}

func (f *brokenFile) Close() error {
	f.closed = true
	return f.File.Close()
}

// writeTable adds entries of about 1 KiB until an error, and tells how many went in.
func writeTable(t *testing.T, f mmapfs.File, n int, finish bool) (added int, err error) {
	t.Helper()
	w, err := NewWriter(f, WriterOptions{Options: DefaultOptions(), CompressionOptions: DefaultCompressionOptions()})
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 1000)
	rng := rand.New(rand.NewPCG(3, 4))
	for ; added < n; added++ {
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		if err := w.Add(benchKey(nil, uint64(added)), keys.Pack(1, keys.KindValue), value); err != nil {
			w.Abandon()
			return added, err
		}
	}
	if !finish {
		w.Abandon()
		return added, nil
	}
	_, err = w.Finish()
	return added, err
}

func TestFailedWritesBehindComeBack(t *testing.T) {
	const n = 3000 // 12 buffers
	for _, procs := range []int{1, 2} {
		old := runtime.GOMAXPROCS(procs)
		for failAt := range 14 {
			fs := mmapfs.NewMem()
			base, err := fs.Create("/000001.sst")
			if err != nil {
				t.Fatal(err)
			}
			f := &brokenFile{File: base, failAt: failAt}
			added, err := writeTable(t, f, n, true)
			wantErr := f.writes > failAt
			if wantErr != errors.Is(err, errWrite) || !f.closed {
				t.Errorf("write %d of %d fails: %v after %d entries; closed: %v", failAt, f.writes, err, added, f.closed)
			}
			if wantErr && f.writes != failAt+1 {
				t.Errorf("%d writes came after the one that failed", f.writes-failAt-1)
			}
			if wantErr && failAt < 5 && added == n {
				t.Errorf("an error of write %d showed only at the end", failAt)
			}
		}
		runtime.GOMAXPROCS(old)
	}
}

func TestAbandonEndsWritesBehind(t *testing.T) {
	fs := mmapfs.NewMem()
	base, err := fs.Create("/000001.sst")
	if err != nil {
		t.Fatal(err)
	}
	f := &brokenFile{File: base, failAt: -1}
	if added, err := writeTable(t, f, 2000, false); added != 2000 || err != nil || !f.closed {
		t.Errorf("%d entries, %v, closed: %v", added, err, f.closed)
	}
}

// The bytes do not depend on who writes them.
func TestWritesBehindMakeTheSameFile(t *testing.T) {
	var files [2][]byte
	for i := range files {
		old := runtime.GOMAXPROCS(1 + i)
		fs := mmapfs.NewMem()
		f, err := fs.Create("/000001.sst")
		if err == nil {
			_, err = writeTable(t, f, 3000, true)
		}
		if err == nil {
			f, err = fs.Open("/000001.sst")
		}
		runtime.GOMAXPROCS(old)
		if err != nil {
			t.Fatal(err)
		}
		if files[i], err = io.ReadAll(f); err != nil {
			t.Fatal(err)
		}
	}
	if len(files[0]) < 3_000_000 || string(files[0]) != string(files[1]) {
		t.Errorf("files of %d and %d bytes, which differ", len(files[0]), len(files[1]))
	}
}
