package blocktable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

func TestParallelCompressionMakesTheSameFile(t *testing.T) {
	for _, c := range []compress.Type{compress.LZ4, compress.ZSTD, compress.Snappy, compress.Zlib, compress.LZ4HC, compress.None} {
		for _, dict := range []int{0, 4096} {
			var files [][]byte
			for _, threads := range []int{1, 2, 5} {
				f := benchTable(t, 3000, func(o *WriterOptions) {
					o.Compression = c
					o.CompressionOptions.ParallelThreads, o.CompressionOptions.MaxDictBytes = threads, dict
					o.CompressionOptions.ZstdMaxTrainBytes = 10 * dict
					o.CompressionOptions.MaxDictBufferBytes = 100 << 10 // the rest comes after the dictionary
					o.IndexType, o.FilterPolicy, o.PartitionFilters, o.MetadataBlockSize = TwoLevelIndexSearch, Bloom(10), true, 512
				})
				files = append(files, contents(t, f))
				r, err := Open(f, ReaderOptions{VerifyChecksums: true})
				if err != nil {
					t.Fatal(err)
				}
				it := r.Iterate(table.IterOptions{})
				n := 0
				for ok := it.First(); ok; ok = it.Next() {
					n++
				}
				if n != 3000 || it.Err() != nil {
					t.Errorf("%v, dictionary %d, %d threads: %d entries, %v", c, dict, threads, n, it.Err())
				}
				it.Close()
				r.Close()
			}
			if !bytes.Equal(files[0], files[1]) || !bytes.Equal(files[0], files[2]) {
				t.Errorf("%v, dictionary %d: files of %d, %d and %d bytes differ", c, dict, len(files[0]), len(files[1]), len(files[2]))
			}
		}
	}
}

func TestWriterRefusesWhatCannotBe(t *testing.T) {
	for what, change := range map[string]func(*WriterOptions){
		"format version 1":         func(o *WriterOptions) { o.FormatVersion = 1 },
		"format version 8":         func(o *WriterOptions) { o.FormatVersion = 8 },
		"checksum 9":               func(o *WriterOptions) { o.Checksum = 9 },
		"bzip2":                    func(o *WriterOptions) { o.Compression = compress.BZip2 },
		"align and compression":    func(o *WriterOptions) { o.BlockAlign, o.Compression = true, compress.LZ4 },
		"align and odd block size": func(o *WriterOptions) { o.BlockAlign, o.BlockSize = true, 5000 },
		"hash without extractor":   func(o *WriterOptions) { o.IndexType = HashSearch },
		"index type 7":             func(o *WriterOptions) { o.IndexType = 7 },
		"negative block size":      func(o *WriterOptions) { o.BlockSize = -1 },
	} {
		o := WriterOptions{Options: DefaultOptions()}
		change(&o)
		if w, err := NewWriter(memFile(t, nil), o); err == nil {
			w.Abandon()
			t.Errorf("%s is accepted", what)
		}
	}
	o := WriterOptions{Options: DefaultOptions()}
	for what, add := range map[string]func(w *Writer) error{
		"a key twice":   func(w *Writer) error { return w.Add([]byte("k"), keys.Pack(5, keys.KindValue), nil) },
		"a newer entry": func(w *Writer) error { return w.Add([]byte("k"), keys.Pack(6, keys.KindValue), nil) },
		"a smaller key": func(w *Writer) error { return w.Add([]byte("a"), keys.Pack(1, keys.KindValue), nil) },
		"a range kind":  func(w *Writer) error { return w.Add([]byte("z"), keys.Pack(1, keys.KindRangeDelete), nil) },
	} {
		w, err := NewWriter(memFile(t, nil), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add([]byte("k"), keys.Pack(5, keys.KindValue), nil); err != nil {
			t.Fatal(err)
		}
		if err := add(w); err == nil {
			t.Errorf("%s is accepted", what)
		}
		if _, err := w.Finish(); err == nil {
			t.Errorf("%s: Finish succeeds after the error", what)
		}
	}
}

func TestWriteErrorsStopTheWriter(t *testing.T) {
	for n := 1; ; n++ {
		base := mmapfs.NewMem()
		if err := base.MkdirAll("d"); err != nil {
			t.Fatal(err)
		}
		fs := mmapfs.NewFault(base)
		f, err := fs.Create("d/000001.sst")
		if err != nil {
			t.Fatal(err)
		}
		fs.FailNth(n, mmapfs.OpWrite|mmapfs.OpSync, true)
		failed := false
		for _, threads := range []int{1, 3} {
			if threads == 3 {
				if f, err = fs.Create("d/000002.sst"); err != nil {
					t.Fatal(err)
				}
				fs.FailNth(n, mmapfs.OpWrite|mmapfs.OpSync, true)
			}
			o := WriterOptions{Options: DefaultOptions(), CompressionOptions: DefaultCompressionOptions(), Compression: compress.Snappy}
			o.CompressionOptions.ParallelThreads = threads
			w, err := NewWriter(f, o)
			if err != nil {
				t.Fatal(err)
			}
			value := make([]byte, 3000)
			for i := range 400 {
				for j := range value {
					value[j] = byte(i * j * 7919 >> 3)
				}
				if err = w.Add(fmt.Appendf(nil, "key%06d", i), keys.Pack(1, keys.KindValue), value); err != nil {
					break
				}
			}
			if err == nil {
				_, err = w.Finish()
			} else {
				w.Abandon()
			}
			if err != nil {
				failed = true
				if !errors.Is(err, mmapfs.ErrInjected) {
					t.Errorf("operation %d, %d threads: %v", n, threads, err)
				}
			}
		}
		if !failed {
			if n < 3 {
				t.Errorf("only %d operations could fail", n-1)
			}
			return
		}
	}
}

func TestSummaryCoversPointsAndTombstones(t *testing.T) {
	w, err := NewWriter(memFile(t, nil), WriterOptions{Options: DefaultOptions()})
	if err != nil {
		t.Fatal(err)
	}
	add := func(k string, seq uint64, kind keys.Kind, v string) {
		t.Helper()
		if err := w.Add([]byte(k), keys.Pack(seq, kind), []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	add("c", 9, keys.KindValue, "v")
	add("c", 4, keys.KindDelete, "")
	add("d", 7, keys.KindBlobIndex, "\x01\x0c\x00\x01\x00")
	add("e", 7, keys.KindMerge, "mm")
	before := w.EstimatedSize()
	for _, ts := range []table.Tombstone{{Start: []byte("b"), End: []byte("d"), Seq: 3}, {Start: []byte("d"), End: []byte("x"), Seq: 11}} {
		if err := w.AddTombstone(ts); err != nil {
			t.Fatal(err)
		}
	}
	s, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if string(s.SmallestUserKey) != "b" || s.SmallestTrailer != keys.Pack(3, keys.KindRangeDelete) ||
		string(s.LargestUserKey) != "x" || s.LargestTrailer != keys.Pack(keys.MaxSeq, keys.KindRangeDelete) {
		t.Errorf("bounds %q #%x to %q #%x", s.SmallestUserKey, s.SmallestTrailer, s.LargestUserKey, s.LargestTrailer)
	}
	if s.Entries != 6 || s.Deletes != 3 || s.Tombstones != 2 || s.SmallestSeq != 3 || s.LargestSeq != 11 || s.OldestBlobNumber != 12 {
		t.Errorf("%+v", s)
	}
	if s.Size <= before || s.TailSize <= 0 || s.TailSize >= s.Size {
		t.Errorf("size %d, tail %d, estimated %d before", s.Size, s.TailSize, before)
	}
}

func TestEveryFormatVersionAndOptionReadsBack(t *testing.T) {
	type variant struct {
		name   string
		change func(*WriterOptions)
	}
	variants := []variant{
		{"defaults", func(*WriterOptions) {}},
		{"two-level, partitioned ribbon", func(o *WriterOptions) {
			o.IndexType, o.PartitionFilters, o.FilterPolicy, o.MetadataBlockSize = TwoLevelIndexSearch, true, Ribbon(10), 300
		}},
		{"first key, interval 4", func(o *WriterOptions) { o.IndexType, o.IndexBlockRestartInterval = BinarySearchWithFirstKey, 4 }},
		{"hash", func(o *WriterOptions) { o.IndexType, o.FilterPolicy = HashSearch, Bloom(8) }},
		{"data hash, no delta", func(o *WriterOptions) { o.DataBlockIndexType, o.UseDeltaEncoding = DataBlockBinaryAndHash, false }},
		{"aligned", func(o *WriterOptions) { o.BlockAlign, o.BlockSize = true, 2048 }},
		{"prefix filter only", func(o *WriterOptions) { o.WholeKeyFiltering, o.FilterPolicy = false, Bloom(12) }},
		{"shortest", func(o *WriterOptions) { o.IndexShortening = ShortenSeparatorsAndSuccessor }},
		{"lz4 with dictionary", func(o *WriterOptions) {
			o.Compression = compress.LZ4
			o.CompressionOptions = DefaultCompressionOptions()
			o.CompressionOptions.MaxDictBytes = 2048
		}},
		{"zstd, index plain", func(o *WriterOptions) { o.Compression, o.EnableIndexCompression = compress.ZSTD, false }},
	}
	for version := 2; version <= 7; version++ {
		for _, order := range []keys.Order{keys.NewOrder(nil), keys.NewOrder(keys.ReverseBytewise)} {
			for _, v := range variants {
				what := fmt.Sprintf("version %d, %s, %s", version, order.Comparator().Name(), v.name)
				o := WriterOptions{Options: DefaultOptions(), Order: order, Extractor: prefixhash.Fixed(3)}
				o.FormatVersion, o.BlockSize = version, 600
				v.change(&o)
				var want []entry
				for i := range 400 {
					n := i
					if !order.Bytewise() {
						n = 399 - i
					}
					for seq := 1 + i%3; seq > 0; seq-- {
						want = append(want, entry{key: fmt.Appendf(nil, "%05d/key", n*7), trailer: keys.Pack(uint64(seq), keys.KindValue), value: bytes.Repeat([]byte{byte(i)}, i%90)})
					}
				}
				f := memFile(t, nil)
				w, err := NewWriter(f, o)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				for _, e := range want {
					if err := w.Add(e.key, e.trailer, e.value); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
				}
				if _, err := w.Finish(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				r, err := Open(f, ReaderOptions{Order: order, Extractor: o.Extractor, VerifyChecksums: true})
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if err := r.VerifyChecksums(context.Background()); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				checkScan(t, what, r, want, table.IterOptions{})
				for _, e := range want {
					look := keys.Lookup{UserKey: e.key, Seq: keys.Seq(e.trailer)}
					o.Extractor.Prepare(&look)
					var pin table.Pin
					if value, trailer, ok, err := r.Get(&look, &pin); !ok || err != nil || trailer != e.trailer || !bytes.Equal(value, e.value) {
						t.Errorf("%s: get %s #%x: #%x, %v, %v", what, e.key, e.trailer, trailer, ok, err)
					}
				}
				r.Close()
			}
		}
	}
}
