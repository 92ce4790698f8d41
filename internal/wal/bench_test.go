package wal

import (
	"path/filepath"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

func benchmarkAppend(b *testing.B, o WriterOptions, head, body int, sync bool) {
	path := filepath.Join(b.TempDir(), "000001.log")
	w, err := Create(mmapfs.OS, path, 1, o)
	if err != nil {
		b.Fatal(err)
	}
	h, p := make([]byte, head), make([]byte, body)
	b.SetBytes(int64(head + body))
	b.ReportAllocs()
	for b.Loop() {
		if w.Size() > 256<<20 { // as a database would switch logs
			b.StopTimer()
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			if w, err = Create(mmapfs.OS, path, 1, o); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		if err := w.Append(h, p); err != nil {
			b.Fatal(err)
		}
		if sync {
			if err := w.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, mode := range []struct {
		name string
		o    WriterOptions
	}{
		{"auto", WriterOptions{}},
		{"plain", WriterOptions{Mode: Plain}},
		{"zstd", WriterOptions{Compression: ZSTD}},
	} {
		b.Run(mode.name+"/140", func(b *testing.B) { benchmarkAppend(b, mode.o, 12, 128, false) })
		b.Run(mode.name+"/16K", func(b *testing.B) { benchmarkAppend(b, mode.o, 12, 16<<10, false) })
	}
	b.Run("auto/140/sync", func(b *testing.B) { benchmarkAppend(b, WriterOptions{}, 12, 128, true) })
	b.Run("plain/140/sync", func(b *testing.B) { benchmarkAppend(b, WriterOptions{Mode: Plain}, 12, 128, true) })
}

func BenchmarkBatchPut(b *testing.B) {
	var batch Batch
	key, value := make([]byte, 20), make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		batch.Reset()
		batch.Put(0, key, value)
	}
}

func BenchmarkDecode(b *testing.B) {
	var batch Batch
	key, value := make([]byte, 20), make([]byte, 100)
	for range 1000 {
		batch.Put(1, key, value)
	}
	p := batch.Bytes()
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if Validate(p) != nil {
			b.Fatal("bad batch")
		}
	}
}

// BenchmarkAppendMapped is the cost of an Append alone: it stays in the first
// chunk, so that no page is reserved or faulted in meanwhile.
func BenchmarkAppendMapped(b *testing.B) {
	path := filepath.Join(b.TempDir(), "000001.log")
	h, p := make([]byte, 12), make([]byte, 128)
	var w *Writer
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%800 == 0 {
			b.StopTimer()
			var err error
			if w != nil {
				err = w.Close()
			}
			if err != nil {
				b.Fatal(err)
			}
			if w, err = Create(mmapfs.OS, path, 1, WriterOptions{}); err != nil {
				b.Fatal(err)
			}
			for range 50 { // through the warm-up of caches
				w.Append(h, p)
			}
			b.StartTimer()
		}
		if err := w.Append(h, p); err != nil {
			b.Fatal(err)
		}
	}
	w.Close()
}
