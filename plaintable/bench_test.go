package plaintable

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

const (
	benchRows  = 2_000_000
	benchBatch = 32
)

// scramble spreads a counter, so that neighbours in the benchmark are not in the file.
func scramble(i uint64) uint64 { return (i*0x9e3779b97f4a7c15 ^ i>>29) % benchRows }

func benchKey(dst []byte, i uint64) []byte {
	dst = append(dst[:0], "user00000000"...)
	return binary.BigEndian.AppendUint64(dst, i)
}

// The numbers of a file's keys, all even: in a series, or in none.
func counted(i uint64) uint64   { return 2 * i }
func scattered(i uint64) uint64 { return 4*i + i*0x9e3779b97f4a7c15>>63<<1 }

// benchFile writes rows of 20-byte keys and 100-byte values.
func benchFile(b *testing.B, o WriterOptions, number func(uint64) uint64) string {
	path := filepath.Join(b.TempDir(), "000001.sst")
	f, err := mmapfs.OS.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w, err := NewWriter(f, o)
	if err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 100)
	var key []byte
	for i := range uint64(benchRows) {
		key = benchKey(key, number(i)) // odd ones are absent
		if err := w.Add(key, keys.Pack(i+1, keys.KindValue), value); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		b.Fatal(err)
	}
	return path
}

func BenchmarkGet(b *testing.B) {
	for _, c := range []struct {
		name   string
		change func(*WriterOptions)
	}{
		{"noop/fixed", func(o *WriterOptions) { o.Extractor = prefixhash.Noop(); o.UserKeyLen = 20 }},
		{"noop/fixed/series", func(o *WriterOptions) { o.Extractor = prefixhash.Noop(); o.UserKeyLen = 20 }},
		{"noop/fixed/ratio0.3", func(o *WriterOptions) { o.Extractor = prefixhash.Noop(); o.UserKeyLen = 20; o.HashTableRatio = 0.3 }},
		{"noop/fixed/nobloom", func(o *WriterOptions) { o.Extractor = prefixhash.Noop(); o.UserKeyLen = 20; o.BloomBitsPerKey = 0 }},
		{"noop/variable/locality", func(o *WriterOptions) { o.Extractor = prefixhash.Noop(); o.BloomLocality = 1 }},
		{"prefix16/fixed", func(o *WriterOptions) { o.Extractor = prefixhash.Fixed(19); o.UserKeyLen = 20 }},
		{"prefix16/kPrefix", func(o *WriterOptions) { o.Extractor = prefixhash.Fixed(19); o.EncodingType = Prefix }},
	} {
		o := WriterOptions{Options: DefaultOptions()}
		c.change(&o)
		number := scattered
		if strings.HasSuffix(c.name, "series") {
			number = counted
		}
		path := benchFile(b, o, number)
		for _, memory := range []mmapfs.Memory{mmapfs.MemoryResident, mmapfs.MemoryPopulate} {
			r := benchOpen(b, path, o, memory)
			b.Run(fmt.Sprintf("%s/%v/hit", c.name, memory), func(b *testing.B) { benchGet(b, r, number, 0) })
			b.Run(fmt.Sprintf("%s/%v/miss", c.name, memory), func(b *testing.B) { benchGet(b, r, number, 1) })
			b.Run(fmt.Sprintf("%s/%v/staged", c.name, memory), func(b *testing.B) { benchStaged(b, r, number) })
		}
		os.Remove(path)
	}
}

func benchOpen(b *testing.B, path string, o WriterOptions, memory mmapfs.Memory) *Reader {
	f, err := mmapfs.OS.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	r, err := Open(f, ReaderOptions{Options: o.Options, Extractor: o.Extractor, Memory: memory})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close() })
	return r
}

func benchGet(b *testing.B, r *Reader, number func(uint64) uint64, odd uint64) {
	var key, dst []byte
	rng := rand.New(rand.NewPCG(1, 2))
	hits := 0
	b.ReportAllocs()
	for b.Loop() {
		key = benchKey(key, number(rng.Uint64N(benchRows))+odd)
		look := keys.Lookup{UserKey: key, Seq: keys.MaxSeq}
		r.o.Extractor.Prepare(&look)
		value, _, ok, err := r.Get(&look, nil)
		if err != nil {
			b.Fatal(err)
		}
		if ok {
			dst = append(dst[:0], value...)
			hits++
		}
	}
	if (hits == 0) != (odd == 1) {
		b.Fatalf("%d hits", hits)
	}
}

func benchStaged(b *testing.B, r *Reader, number func(uint64) uint64) {
	var looks [benchBatch]keys.Lookup
	var cursors [benchBatch]Cursor
	var dst []byte
	rng := rand.New(rand.NewPCG(1, 2))
	var err error
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%benchBatch != 0 {
			continue // ns/op is per key
		}
		func() {
			old := mmapfs.Guard()
			defer mmapfs.Unguard(old, &err)
			for j := range looks {
				looks[j] = keys.Lookup{UserKey: benchKey(looks[j].UserKey, number(rng.Uint64N(benchRows))), Seq: keys.MaxSeq}
				r.o.Extractor.Prepare(&looks[j])
				r.StageBucket(&looks[j], &cursors[j])
			}
			for again := true; again; {
				again = false
				for j := range cursors {
					again = r.StageRow(&cursors[j]) || again
				}
			}
			for j := range cursors {
				value, _, ok, err := r.Finish(&looks[j], &cursors[j])
				if !ok || err != nil {
					b.Fatal(ok, err)
				}
				dst = append(dst[:0], value...)
			}
		}()
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIterator(b *testing.B) {
	o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(19)}
	o.UserKeyLen = 20
	r := benchOpen(b, benchFile(b, o, scattered), o, mmapfs.MemoryResident)
	it := r.NewIterator(table.IterOptions{})
	b.Run("next", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !it.Valid() || !it.Next() {
				it.First()
			}
		}
	})
	b.Run("prev", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !it.Valid() || !it.Prev() {
				it.Last()
			}
		}
	})
	b.Run("seek", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 2))
		var key []byte
		b.ReportAllocs()
		for b.Loop() {
			key = benchKey(key, rng.Uint64N(4*benchRows))
			it.SeekGE(key, keys.Pack(keys.MaxSeq, keys.KindSeek))
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	f, err := mmapfs.OS.Create(filepath.Join(b.TempDir(), "000001.sst"))
	if err != nil {
		b.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Noop(), ChunkChecksums: true})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Abandon()
	value := make([]byte, 100)
	var key []byte
	i := uint64(0)
	b.SetBytes(120)
	b.ReportAllocs()
	for b.Loop() {
		i++
		key = benchKey(key, i)
		if err := w.Add(key, keys.Pack(i, keys.KindValue), value); err != nil {
			b.Fatal(err)
		}
	}
}
