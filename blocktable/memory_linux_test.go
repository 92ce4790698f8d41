package blocktable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// memoryFile makes a file of tmpfs, wherever that is mounted.
func memoryFile(t testing.TB, content []byte) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("table", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "table")
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f
}

func reopen(t testing.TB, f *os.File) mmapfs.File {
	t.Helper()
	g, err := mmapfs.OS.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// memoryCopies are those of golden files, kept open.
var memoryCopies sync.Map

func init() {
	releases = append(releases, func() {
		memoryCopies.Range(func(_, f any) bool { return f.(*os.File).Close() == nil })
	})
}

// inMemory opens a copy of the file on tmpfs.
func inMemory(t testing.TB, path string) mmapfs.File {
	t.Helper()
	f, ok := memoryCopies.Load(path)
	if !ok {
		b, err := os.ReadFile(filepath.Clean(path))
		if err != nil {
			t.Fatal(err)
		}
		f, _ = memoryCopies.LoadOrStore(path, memoryFile(t, b))
	}
	return reopen(t, f.(*os.File))
}

// memoryTable is a table of n entries as benchTable makes it, on tmpfs.
func memoryTable(t *testing.T, n int, change func(*WriterOptions)) *os.File {
	t.Helper()
	f := benchTable(t, n, change)
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	m := memoryFile(t, b)
	t.Cleanup(func() { m.Close() })
	return m
}

// A reader that copies from a mapping keeps the semantics of one that reads: blocks go to the cache, nothing that it
// returns can fault, and scans that leave the cache alone allocate no blocks.
func TestReadsOfMemoryFilesGoThroughTheCache(t *testing.T) {
	const n = 20000
	for name, change := range map[string]func(*WriterOptions){
		"plain":      nil,
		"compressed": func(o *WriterOptions) { o.Compression = compress.LZ4 },
	} {
		f := memoryTable(t, n, change)
		cache := benchCache(t, 32<<20)
		r, err := Open(reopen(t, f), ReaderOptions{CopyFromMapping: true, Cache: cache, VerifyChecksums: true})
		if err != nil {
			t.Fatal(err)
		}
		if !mmapfs.InMemory(r.file) || r.Faultable() {
			t.Fatalf("%s: in memory: %v, may fault: %v", name, mmapfs.InMemory(r.file), r.Faultable())
		}
		scan := func(o table.IterOptions) (entries int) {
			it := r.Iterate(o)
			for ok := it.First(); ok; ok = it.Next() {
				entries++
			}
			if err := it.Err(); err != nil {
				t.Fatal(err)
			}
			it.Close()
			return entries
		}
		compacting := table.IterOptions{NoFill: true, VerifyChecksums: true, ReadaheadSize: 2 << 20}
		if got := scan(compacting); got != n || cache.Stats().Blocks != 0 {
			t.Errorf("%s: %d entries, %d blocks in the cache after a scan that fills nothing", name, got, cache.Stats().Blocks)
		}
		if a := testing.AllocsPerRun(3, func() { scan(compacting) }); a > 10 { // buffers of the iterator; there are a thousand blocks
			t.Errorf("%s: a scan that fills nothing allocates %v times", name, a)
		}
		paced := 0
		if got := scan(table.IterOptions{NoFill: true, ReadaheadSize: 1 << 20, Pace: func(n int) { paced += n }}); got != n || paced < 100<<10 {
			t.Errorf("%s: %d entries, a limiter was asked for %d bytes", name, got, paced)
		}
		if got := scan(table.IterOptions{}); got != n || cache.Stats().Blocks < 100 {
			t.Errorf("%s: %d entries, %d blocks in the cache after a scan", name, got, cache.Stats().Blocks)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTruncatedMemoryFileIsCorruption(t *testing.T) {
	const n = 20000
	f := memoryTable(t, n, nil)
	cache := benchCache(t, 1<<20)
	r, err := Open(reopen(t, f), ReaderOptions{CopyFromMapping: true, Cache: cache, VerifyChecksums: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := f.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	check := func(what string, err error) {
		t.Helper()
		var c *keys.CorruptionError
		if !errors.As(err, &c) || c.File != r.name || c.Offset < 1<<20-4096 || c.Offset > r.footerStart {
			t.Errorf("%s of a truncated file: %v", what, err)
		}
	}
	var pin table.Pin
	key := benchKey(nil, n-100)
	_, _, _, err = r.Get(&keys.Lookup{UserKey: key, Seq: keys.MaxSeq}, &pin)
	check("Get", err)
	reqs := []Request{{Look: &keys.Lookup{UserKey: key, Seq: keys.MaxSeq}}, {Look: &keys.Lookup{UserKey: benchKey(nil, n-5000), Seq: keys.MaxSeq}}}
	r.MultiGet(reqs)
	for i := range reqs {
		check("MultiGet", reqs[i].Err)
	}
	for _, o := range []table.IterOptions{{}, {NoFill: true, ReadaheadSize: 2 << 20, VerifyChecksums: true}} {
		it := r.Iterate(o)
		entries := 0
		for ok := it.First(); ok; ok = it.Next() {
			entries++
		}
		check("a scan", it.Err())
		if entries < 1000 || entries >= n {
			t.Errorf("%d entries before the error", entries)
		}
		it.Close()
	}
	if p := cache.Stats().PinnedUsage; p != 0 {
		t.Errorf("%d bytes are held", p)
	}
}

// What is flipped in the file is found by the checksum, as with any other way of reading.
func TestFlippedBitsOfMemoryFilesAreFound(t *testing.T) {
	f := memoryTable(t, 3000, nil)
	for _, cache := range []*blockcache.Cache{nil, benchCache(t, 16<<20)} {
		r, err := Open(reopen(t, f), ReaderOptions{CopyFromMapping: true, Cache: cache, VerifyChecksums: true})
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		flip := func() {
			f.ReadAt(b[:], 1000)
			b[0] ^= 4
			if _, err := f.WriteAt(b[:], 1000); err != nil {
				t.Fatal(err)
			}
		}
		flip()
		var pin table.Pin
		_, _, _, err = r.Get(&keys.Lookup{UserKey: benchKey(nil, 1), Seq: keys.MaxSeq}, &pin)
		if !errors.Is(err, keys.ErrCorruption) || !bytes.Contains([]byte(err.Error()), []byte("checksum")) {
			t.Errorf("a flipped bit gives %v", err)
		}
		flip()
		if _, _, ok, err := r.Get(&keys.Lookup{UserKey: benchKey(nil, 1), Seq: keys.MaxSeq}, &pin); !ok || err != nil {
			t.Errorf("the mended file gives %v, %v", ok, err)
		}
		pin.Release()
		r.Close()
	}
}

// Long scans approach each part of the file once, in order, up to their end; short ones and those backward, none.
func TestScansOfMemoryFilesApproachWhatComes(t *testing.T) {
	const n = 20000
	f := memoryTable(t, n, nil)
	r, err := Open(reopen(t, f), ReaderOptions{CopyFromMapping: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, o := range []table.IterOptions{{}, {NoFill: true, ReadaheadSize: 2 << 20}} {
		it := r.Iterate(o)
		steps, last := 0, uint64(0)
		for ok := it.First(); ok; ok = it.Next() {
			if near := it.ahead.near; near != last {
				if near < last || near > last+mmapfs.ApproachStep+1<<18 || near > uint64(r.footerStart) {
					t.Fatalf("%+v: from %d to %d", o, last, near)
				}
				last = near
				steps++
			}
		}
		if least := int(r.footerStart/mmapfs.ApproachStep) - 1; steps < least || steps > least+3 {
			t.Errorf("%+v: approached %d times in a file of %d bytes", o, steps, r.footerStart)
		}
		it.Close()
	}
	it := r.Iterate(table.IterOptions{})
	defer it.Close()
	for ok := it.Last(); ok; ok = it.Prev() {
	}
	for i := range uint64(100) {
		it.SeekGE(benchKey(nil, i*150), keys.Pack(keys.MaxSeq, keys.KindSeek))
	}
	if it.ahead.near != 0 {
		t.Errorf("approached up to %d", it.ahead.near)
	}
}

// TestGuardedScansReadMemoryFilesInPlace: they find what others find, damage included, and a file that becomes shorter
// beneath them is an error of the guard.
func TestGuardedScansReadMemoryFilesInPlace(t *testing.T) {
	const n = 20000
	for name, change := range map[string]func(*WriterOptions){
		"plain":      nil,
		"compressed": func(o *WriterOptions) { o.Compression = compress.LZ4 },
	} {
		t.Run(name, func(t *testing.T) {
			f := memoryTable(t, n, change)
			r, err := Open(reopen(t, f), ReaderOptions{CopyFromMapping: true})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			scan := func(guarded bool, at func(n int)) (sum uint64, entries int, err error) {
				old := mmapfs.Guard()
				defer mmapfs.Unguard(old, &err)
				it := r.Iterate(table.IterOptions{NoFill: true, VerifyChecksums: true, ReadaheadSize: 2 << 20, Guarded: guarded})
				defer it.Close()
				for ok := it.First(); ok; ok = it.Next() {
					sum = sum*31 + uint64(len(it.UserKey())) + uint64(it.Value()[0]) + it.Trailer()
					if entries++; at != nil {
						at(entries)
					}
				}
				return sum, entries, it.Err()
			}
			want, entries, err := scan(false, nil)
			if err != nil || entries != n {
				t.Fatal(entries, err)
			}
			if got, entries, err := scan(true, nil); got != want || entries != n || err != nil {
				t.Errorf("in place: sum %d of %d entries, %v; want %d of %d", got, entries, err, want, n)
			}
			if a := testing.AllocsPerRun(3, func() { scan(true, nil) }); a > 10 {
				t.Errorf("%v allocations a scan", a)
			}
			var b [1]byte
			at := int64(r.footerStart / 3)
			if _, err := f.ReadAt(b[:], at); err != nil {
				t.Fatal(err)
			}
			b[0] ^= 4
			if _, err := f.WriteAt(b[:], at); err != nil {
				t.Fatal(err)
			}
			if _, _, err := scan(true, nil); !errors.Is(err, keys.ErrCorruption) {
				t.Errorf("a bit that flipped: %v", err)
			}
			b[0] ^= 4
			if _, err := f.WriteAt(b[:], at); err != nil {
				t.Fatal(err)
			}
			var fault *mmapfs.FaultError
			if _, _, err := scan(true, func(n int) {
				if n == 100 {
					if err := f.Truncate(at); err != nil {
						t.Fatal(err)
					}
				}
			}); !errors.As(err, &fault) && !errors.Is(err, keys.ErrCorruption) { // the last page ends in zeros
				t.Errorf("a file that became shorter: %v", err)
			}
		})
	}
}
