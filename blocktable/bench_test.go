package blocktable

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/race"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// benchKey is key i of the benchmark tables: 32 bytes.
func benchKey(dst []byte, i uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst[:0], i*2)
	return append(dst, "0000000000000000-tail-xx"...)
}

// benchTable writes n entries of 32 and 200 bytes.
func benchTable(t testing.TB, n int, change func(*WriterOptions)) mmapfs.File {
	t.Helper()
	fs := mmapfs.NewMem()
	if err := fs.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("d/000009.sst")
	if err != nil {
		t.Fatal(err)
	}
	o := WriterOptions{Options: DefaultOptions(), CompressionOptions: DefaultCompressionOptions()}
	if change != nil {
		change(&o)
	}
	w, err := NewWriter(f, o)
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 200)
	var key []byte
	for i := range n {
		key = benchKey(key, uint64(i))
		binary.LittleEndian.PutUint64(value, uint64(i))
		if err := w.Add(key, keys.Pack(uint64(i)+1, keys.KindValue), value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if f, err = fs.Open("d/000009.sst"); err != nil {
		t.Fatal(err)
	}
	return f
}

func benchCache(t testing.TB, capacity int64) *blockcache.Cache {
	c, err := blockcache.New(blockcache.Options{Capacity: capacity, HugePages: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// expectNoAllocs runs f n times and counts. Under the race detector the pools that reads
// take their state from forget at random: f still runs there, for what the detector sees.
func expectNoAllocs(t *testing.T, what string, n int, f func()) {
	t.Helper()
	if a := testing.AllocsPerRun(n, f); a != 0 && !race.Enabled {
		t.Errorf("%s allocates %v times", what, a)
	}
}

// TestCachedReadsAllocateNothing covers Get, found and not found, and iterator steps.
func TestCachedReadsAllocateNothing(t *testing.T) {
	const n = 20000
	for name, change := range map[string]func(*WriterOptions){
		"plain": nil,
		"bloom": func(o *WriterOptions) { o.FilterPolicy = Bloom(10) },
		"partitioned": func(o *WriterOptions) {
			o.FilterPolicy, o.PartitionFilters, o.IndexType = Ribbon(10), true, TwoLevelIndexSearch
		},
		"lz4, hash": func(o *WriterOptions) { o.Compression, o.DataBlockIndexType = compress.LZ4, DataBlockBinaryAndHash },
	} {
		r, err := Open(benchTable(t, n, change), ReaderOptions{Cache: benchCache(t, 64<<20)})
		if err != nil {
			t.Fatal(err)
		}
		var key []byte
		i := uint64(0)
		get := func() {
			i = (i*31 + 7) % n
			key = benchKey(key, i)
			look := keys.Lookup{UserKey: key, Seq: keys.MaxSeq, PrefixLen: -1}
			var pin table.Pin
			value, _, ok, err := r.Get(&look, &pin)
			if err != nil || !ok || binary.LittleEndian.Uint64(value) != i {
				t.Fatalf("%s: get %d: %v, %v", name, i, ok, err)
			}
			pin.Release()
			key[7]++ // an odd key is absent
			if _, _, ok, _ := r.Get(&look, &pin); ok {
				t.Fatalf("%s: found an absent key", name)
			}
		}
		for range n {
			get()
		}
		expectNoAllocs(t, name+": Get", 500, get)
		it := r.Iterate(table.IterOptions{})
		step := func() {
			if !it.Next() && !it.First() {
				t.Fatal(it.Err())
			}
		}
		for it.First(); it.Next(); {
		}
		expectNoAllocs(t, name+": Next", 2*n, step)
		back := func() {
			if !it.Prev() && !it.Last() {
				t.Fatal(it.Err())
			}
		}
		for it.Last(); it.Prev(); {
		}
		it.Last()
		expectNoAllocs(t, name+": Prev", 2*n, back)
		seek := func() {
			i = (i*31 + 7) % n
			key = benchKey(key, i)
			if !it.SeekGE(key, keys.Pack(keys.MaxSeq, keys.KindSeek)) {
				t.Fatal(it.Err())
			}
		}
		expectNoAllocs(t, name+": SeekGE", 500, seek)
		it.Close()
		r.Close()
	}
}

func BenchmarkGet(b *testing.B) {
	const n = 200000
	for _, v := range []struct {
		name  string
		cache int64
		write func(*WriterOptions)
	}{
		{"cached", 256 << 20, nil},
		{"cached-bloom", 256 << 20, func(o *WriterOptions) { o.FilterPolicy = Bloom(10) }},
		{"half-cached", 24 << 20, nil},
		{"8MB", 8 << 20, nil},
	} {
		b.Run(v.name, func(b *testing.B) {
			r, err := Open(benchTable(b, n, v.write), ReaderOptions{Cache: benchCache(b, v.cache)})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			var key []byte
			x := uint64(1)
			get := func() {
				x = x*6364136223846793005 + 1442695040888963407
				key = benchKey(key, x>>33%n)
				look := keys.Lookup{UserKey: key, Seq: keys.MaxSeq, PrefixLen: -1}
				var pin table.Pin
				if _, _, ok, err := r.Get(&look, &pin); !ok {
					b.Fatal(err)
				}
				pin.Release()
			}
			for range n {
				get()
			}
			b.ReportAllocs()
			for b.Loop() {
				get()
			}
		})
	}
}

func BenchmarkIterate(b *testing.B) {
	const n = 200000
	for _, v := range []struct {
		name string
		o    table.IterOptions
	}{{"cached", table.IterOptions{}}, {"nofill", table.IterOptions{NoFill: true, ReadaheadSize: 2 << 20}}} {
		b.Run(v.name, func(b *testing.B) {
			r, err := Open(benchTable(b, n, nil), ReaderOptions{Cache: benchCache(b, 256<<20)})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			it := r.Iterate(v.o)
			b.ReportAllocs()
			for b.Loop() {
				if !it.Valid() {
					if !it.First() {
						b.Fatal(it.Err())
					}
				}
				it.Next()
			}
			it.Close()
		})
	}
}

func BenchmarkSeek10Nexts(b *testing.B) {
	const n = 200000
	r, err := Open(benchTable(b, n, nil), ReaderOptions{Cache: benchCache(b, 256<<20)})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	it := r.Iterate(table.IterOptions{})
	defer it.Close()
	var key []byte
	x := uint64(1)
	b.ReportAllocs()
	for b.Loop() {
		x = x*6364136223846793005 + 1442695040888963407
		key = benchKey(key, x>>33%(n-20))
		if !it.SeekGE(key, keys.Pack(keys.MaxSeq, keys.KindSeek)) {
			b.Fatal(it.Err())
		}
		for range 10 {
			it.Next()
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	const n = 100000
	for _, c := range []compress.Type{compress.None, compress.LZ4, compress.Snappy, compress.ZSTD} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%v-%d", c, threads), func(b *testing.B) {
				b.SetBytes(n * 232)
				b.ReportAllocs()
				for b.Loop() {
					benchTable(b, n, func(o *WriterOptions) {
						o.Compression, o.FilterPolicy = c, Bloom(10)
						o.CompressionOptions.ParallelThreads = threads
					})
				}
			})
		}
	}
}
