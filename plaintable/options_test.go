package plaintable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

func newTestWriter(t testing.TB, o WriterOptions) (*Writer, error) {
	t.Helper()
	f, err := mmapfs.OS.Create(filepath.Join(t.TempDir(), "000001.sst"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, o)
	if err != nil {
		f.Close()
		return nil, err
	}
	t.Cleanup(w.Abandon)
	return w, nil
}

func TestWriterRefusesOptionsThatNoTableServes(t *testing.T) {
	good := func() WriterOptions { return WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4)} }
	for _, c := range []struct {
		name   string
		change func(*WriterOptions)
		want   error
		text   string
	}{
		{"no extractor", func(o *WriterOptions) { o.Extractor = nil }, ErrNotSupported, "PlainTable requires a prefix extractor enable prefix hash mode"},
		{"ratio", func(o *WriterOptions) { o.HashTableRatio = math.NaN() }, ErrInvalidArgument, "hash_table_ratio NaN"},
		{"bloom", func(o *WriterOptions) { o.BloomBitsPerKey = -1 }, ErrInvalidArgument, "bloom_bits_per_key -1"},
		{"sparseness", func(o *WriterOptions) { o.IndexSparseness = -1 }, ErrInvalidArgument, "index_sparseness -1"},
		{"encoding", func(o *WriterOptions) { o.EncodingType = 2 }, ErrInvalidArgument, "encoding type 2"},
		{"key length", func(o *WriterOptions) { o.UserKeyLen = 1 << 31 }, ErrInvalidArgument, "user_key_len 2147483648"},
		{"file size", func(o *WriterOptions) { o.MaxFileSize = 1 << 31 }, ErrInvalidArgument, "2147483648 bytes"},
	} {
		o := good()
		c.change(&o)
		_, err := newTestWriter(t, o)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: expected %v with %q, found %v", c.name, c.want, c.text, err)
		}
	}
	if _, err := newTestWriter(t, good()); err != nil {
		t.Fatal(err)
	}
}

func TestWriterRefusesRowsThatWouldSpoilTheFile(t *testing.T) {
	o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4)}
	o.UserKeyLen = 6
	w, err := newTestWriter(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add([]byte("key001"), keys.Pack(5, keys.KindValue), nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		key     string
		trailer uint64
		want    error
	}{
		{"length", "key0022", keys.Pack(5, keys.KindValue), ErrInvalidArgument},
		{"order of keys", "key000", keys.Pack(5, keys.KindValue), ErrInvalidArgument},
		{"order of versions", "key001", keys.Pack(6, keys.KindValue), ErrInvalidArgument},
		{"twice", "key001", keys.Pack(5, keys.KindValue), ErrInvalidArgument},
		{"kind", "key002", keys.Pack(5, 0x33), ErrInvalidArgument},
		{"range delete", "key002", keys.Pack(5, keys.KindRangeDelete), ErrNotSupported},
	} {
		if err := w.Add([]byte(c.key), c.trailer, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: expected %v, found %v", c.name, c.want, err)
		}
	}
	if err := w.AddTombstone(table.Tombstone{Start: []byte("a"), End: []byte("b"), Seq: 1}); !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), "Range deletion unsupported") {
		t.Errorf("expected RocksDB's refusal of a range delete, found %v", err)
	}
	if err := w.Add([]byte("key002"), keys.Pack(5, keys.KindValue), nil); err != nil {
		t.Errorf("expected the writer to go on after refusals, found %v", err)
	}
	w, err = newTestWriter(t, WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4)})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add([]byte("abc"), 257, nil); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "domain") {
		t.Errorf("expected a key outside the domain to be refused, found %v", err)
	}
}

func TestReaderRefusesAsRocksDBDoes(t *testing.T) {
	byPrefix := map[string]*golden{}
	for _, g := range loadGolden(t) {
		byPrefix[g.Prefix] = g
	}
	fixed, none := byPrefix["fixed:4"], byPrefix[""]
	for _, c := range []struct {
		name   string
		g      *golden
		change func(*ReaderOptions)
		want   error
		text   string
	}{
		{"missing extractor", fixed, func(o *ReaderOptions) { o.Extractor = nil }, ErrInvalidArgument, "Prefix extractor is missing when opening a PlainTable built using a prefix extractor"},
		{"missing extractor, ratio 0", fixed, func(o *ReaderOptions) { o.Extractor = nil; o.HashTableRatio = 0 }, ErrInvalidArgument, "Prefix extractor is missing"},
		{"other extractor", fixed, func(o *ReaderOptions) { o.Extractor = prefixhash.Fixed(5) }, ErrInvalidArgument, "Prefix extractor given doesn't match the one used to build PlainTable"},
		{"ratio", fixed, func(o *ReaderOptions) { o.HashTableRatio = math.NaN() }, ErrInvalidArgument, "hash_table_ratio NaN"},
		{"hash mode without extractor", none, func(o *ReaderOptions) { o.HashTableRatio = 0.75 }, ErrNotSupported, "PlainTable requires a prefix extractor enable prefix hash mode"},
	} {
		o := c.g.readerOptions(t)
		c.change(&o)
		_, err := Open(openBytes(t, "000001.sst", c.g.bytes), o)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: expected %v with %q, found %v", c.name, c.want, c.text, err)
		}
	}
	o := fixed.readerOptions(t)
	o.FileSize = MaxFileSize + 1
	if _, err := Open(openBytes(t, "000001.sst", fixed.bytes), o); !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), "File size 2147483648 exceeds PlainTableReader max file size 2147483647") {
		t.Errorf("expected RocksDB's refusal of a large file, found %v", err)
	}
	b := bytes.Clone(fixed.bytes)
	binary.LittleEndian.PutUint64(b[len(b)-8:], 0x88e241b785f4cff7)
	if _, err := Open(openBytes(t, "000001.sst", b), fixed.readerOptions(t)); !errors.Is(err, keys.ErrCorruption) {
		t.Errorf("expected a block-based table to be refused, found %v", err)
	}
}

// TestFilesOfAnotherExtractorOpenWhenAskedTo also opens files without an
// extractor in a family that has one, and the reverse.
func TestFilesOfAnotherExtractorOpenWhenAskedTo(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, g := range loadGolden(t) {
		for _, e := range []*prefixhash.Extractor{nil, prefixhash.Fixed(2), prefixhash.Fixed(7), prefixhash.Capped(3), prefixhash.Noop()} {
			o := g.readerOptions(t)
			o.Extractor, o.AnyExtractor = e, true
			if e == nil {
				o.HashTableRatio = 0
			}
			r := openReader(t, g.File, g.bytes, o)
			rows := collect(t, r)
			checkGets(t, g.File+" read with "+e.Name(), r, rows, lookups(rng, rows[:min(len(rows), 60)]))
			walkRandomly(t, g.File+" read with "+e.Name(), r, o.Order, rows, rng, 300)
		}
	}
}

func TestFullScanModeOnlyScans(t *testing.T) {
	for _, g := range loadGolden(t) {
		o := g.readerOptions(t)
		o.FullScanMode, o.Extractor = true, nil
		r := openReader(t, g.File, g.bytes, o)
		rows := collect(t, r)
		if len(rows) != len(g.rows) {
			t.Fatalf("%s: expected %d rows, found %d", g.File, len(g.rows), len(rows))
		}
		look := keys.Lookup{UserKey: rows[0].key, Seq: keys.MaxSeq, PrefixLen: -1}
		var c Cursor
		_, _, _, err := r.Get(&look, nil)
		r.StageBucket(&look, &c)
		r.StageRow(&c)
		_, _, _, err2 := r.Finish(&look, &c)
		for _, err := range []error{err, err2} {
			if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "Get() is not allowed in full scan mode") {
				t.Fatalf("%s: expected Get to be refused, found %v", g.File, err)
			}
		}
		it := r.NewIterator(table.IterOptions{})
		if it.SeekGE(look.UserKey, look.Trailer()) || !errors.Is(it.Err(), ErrInvalidArgument) || !strings.Contains(it.Err().Error(), "Seek() is not allowed in full scan mode") {
			t.Fatalf("%s: expected Seek to be refused, found %v", g.File, it.Err())
		}
		i := len(rows) - 1
		for ok := it.Last(); ok; ok = it.Prev() {
			checkPosition(t, g.File, it, true, rows, i)
			i--
		}
		if i != -1 || it.Err() != nil {
			t.Fatalf("%s: expected a scan backward to end at the first row, found row %d, %v", g.File, i, it.Err())
		}
	}
}

func TestAFullFileRefusesTheRowAndCanBeFinished(t *testing.T) {
	for _, stored := range []bool{true, false} {
		o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Capped(5), MaxFileSize: 100 << 10, ChunkChecksums: true}
		o.StoreIndexInFile = stored
		path := filepath.Join(t.TempDir(), "000001.sst")
		f, err := mmapfs.OS.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWriter(f, o)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; ; n++ {
			err = w.Add(fmt.Appendf(nil, "k%08d", n), 257, []byte("value"))
			if err != nil {
				break
			}
		}
		if !errors.Is(err, ErrFileFull) {
			t.Fatalf("expected ErrFileFull, found %v", err)
		}
		sum, err := w.Finish()
		if err != nil || sum.Size > o.MaxFileSize || sum.Size < o.MaxFileSize*8/10 || sum.Entries != uint64(n) {
			t.Fatalf("expected a file of nearly %d bytes with %d rows, found %+v, %v", o.MaxFileSize, n, sum, err)
		}
		r := openReader(t, "000001.sst", readFile(t, path), ReaderOptions{Options: o.Options, Extractor: o.Extractor, Verify: VerifyAtOpen})
		if rows := collect(t, r); len(rows) != n {
			t.Fatalf("expected %d rows, found %d", n, len(rows))
		}
	}
}

func TestEmptyTables(t *testing.T) {
	for _, e := range []*prefixhash.Extractor{nil, prefixhash.Fixed(4)} {
		for _, plain := range []bool{true, false} {
			o := WriterOptions{Options: DefaultOptions(), Extractor: e, RocksDBLayout: plain, ChunkChecksums: !plain}
			if e == nil {
				o.HashTableRatio = 0
			}
			b, _ := writeTable(t, o, nil)
			r := openReader(t, "000001.sst", b, ReaderOptions{Options: o.Options, Extractor: e, Verify: VerifyAtOpen})
			walkRandomly(t, "empty", r, keys.Order{}, nil, rand.New(rand.NewPCG(1, 1)), 100)
			look := keys.Lookup{UserKey: []byte("some key"), Seq: 9}
			e.Prepare(&look)
			if _, _, ok, err := r.Get(&look, nil); ok || err != nil {
				t.Fatalf("expected nothing, found %t %v", ok, err)
			}
		}
	}
}

// TestIndexMatchesAPlainTableOfTwoBuckets is the fact sheet's worked example.
func TestIndexMatchesTheFactSheet(t *testing.T) {
	b := indexBuilder{sparseness: 16}
	b.begins()
	b.row(0x9476e1e6, 0, true)
	buckets := bucketsFor(1, 0.75)
	got := b.build(make([]byte, b.sizeBound(buckets)), buckets)
	if want := []byte{2, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f}; !bytes.Equal(got, want) {
		t.Fatalf("expected % x, found % x", want, got)
	}
}

func TestBloomProbesMatchTheFactSheet(t *testing.T) {
	for _, c := range []struct {
		hash        uint32
		flat16      []uint32
		flat2136    []uint32
		line        uint32
		bitsOfLines []uint32
	}{
		{0x9476e1e6, []uint32{6, 1, 12, 7, 2, 13}, []uint32{1678, 113, 1708, 1167, 1738, 1197}, 9, []uint32{486, 427, 253, 239, 393, 453}},
		{0xa26d9f29, []uint32{9, 15, 5, 11, 1, 7}, []uint32{1449, 95, 877, 1659, 1329, 2111}, 10, []uint32{297, 5, 58, 184, 48, 222}},
		{0xc911c865, []uint32{5, 13, 5, 13, 5, 13}, []uint32{1029, 1925, 685, 1581, 341, 1237}, 3, []uint32{101, 364, 62, 448, 137, 218}},
	} {
		expect := func(name string, f bloomFilter, base uint32, bits []uint32) {
			want := make([]byte, len(f.data))
			for _, b := range bits {
				b += base
				want[b/8] |= 1 << (b % 8)
			}
			f.add(c.hash)
			if !bytes.Equal(f.data, want) {
				t.Errorf("%s of %#x: expected % x, found % x", name, c.hash, want, f.data)
			}
			if !f.mayContain(c.hash) {
				t.Errorf("%s: expected %#x to be found", name, c.hash)
			}
			for _, b := range bits {
				b += base
				f.data[b/8] &^= 1 << (b % 8)
				if f.mayContain(c.hash) {
					t.Errorf("%s: expected %#x to be missed without bit %d", name, c.hash, b)
				}
				f.data[b/8] |= 1 << (b % 8)
			}
		}
		expect("flat 16", newFlatBloom(make([]byte, 2)), 0, c.flat16)
		expect("flat 2136", newFlatBloom(make([]byte, 267)), 0, c.flat2136)
		expect("11 lines", newLinesBloom(make([]byte, 11*64), 11, 9), c.line*512, c.bitsOfLines)
	}
}

// TestMemoryBloomHasTheBitsOfTheFilesBloom ties the library's filter to RocksDB's.
func TestMemoryBloomHasTheBitsOfTheFilesBloom(t *testing.T) {
	mem := make([]byte, 1000)
	flat := newFlatBloom(make([]byte, 1000))
	memory := newMemoryBloom(words(mem), 1000)
	rng := rand.New(rand.NewPCG(15, 16))
	for range 500 {
		h := rng.Uint32()
		flat.add(h)
		memory.add(h)
	}
	if !bytes.Equal(mem, flat.data) {
		t.Fatal("expected the same bits")
	}
	for range 10000 {
		if h := rng.Uint32(); flat.mayContain(h) != memory.mayContain(h) {
			t.Fatalf("expected the same answer for %#x", h)
		}
	}
}
