package plaintable

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// exercise uses everything a reader has, and returns the first error. Only
// corruption, and refusals at Open, are allowed.
func exercise(t testing.TB, b []byte, path string, o ReaderOptions, looks []keys.Lookup) error {
	t.Helper()
	r, err := Open(memoryFile(t, path, b), o)
	if err != nil {
		if !errors.Is(err, keys.ErrCorruption) && !errors.Is(err, ErrInvalidArgument) && !errors.Is(err, ErrNotSupported) {
			t.Fatalf("Open: expected corruption or a refusal, found %v", err)
		}
		if errors.Is(err, keys.ErrCorruption) && !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Fatalf("Open: expected an error that names the file, found %v", err)
		}
		return err
	}
	defer r.Close()
	var first error
	note := func(what string, err error) {
		if err == nil {
			return
		}
		var c *keys.CorruptionError
		if !errors.As(err, &c) || c.File != filepath.Base(path) {
			t.Fatalf("%s: expected corruption of %s, found %v", what, path, err)
		}
		if first == nil {
			first = err
		}
	}
	note("VerifyChecksums", r.VerifyChecksums(context.Background()))
	var c Cursor
	for i := range looks {
		o.Extractor.Prepare(&looks[i])
		_, _, _, err := r.Get(&looks[i], nil)
		note("Get", err)
		r.StageBucket(&looks[i], &c)
		for r.StageRow(&c) {
		}
		_, _, _, err2 := r.Finish(&looks[i], &c)
		note("Finish", err2)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("expected Get and Finish to agree, found %v and %v", err, err2)
		}
	}
	it := r.NewIterator(table.IterOptions{})
	limit := len(b)
	for ok := it.First(); ok && limit > 0; ok = it.Next() {
		limit--
	}
	note("Next", it.Err())
	limit = min(len(b), 50)
	for ok := it.Last(); ok && limit > 0; ok = it.Prev() {
		limit--
	}
	note("Prev", it.Err())
	for i := range looks {
		it.SeekGE(looks[i].UserKey, looks[i].Trailer())
		note("SeekGE", it.Err())
		it.SeekLT(looks[i].UserKey, looks[i].Trailer())
		note("SeekLT", it.Err())
		if looks[i].PrefixLen >= 0 {
			it.SeekPrefixGE(&looks[i], looks[i].Trailer())
			note("SeekPrefixGE", it.Err())
		}
	}
	_ = it.Close()
	return first
}

// memoryFile is b as a file of an in-memory file system.
func memoryFile(t testing.TB, name string, b []byte) mmapfs.File {
	t.Helper()
	f, err := mmapfs.NewMem().Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f
}

func smallGolden(t testing.TB) []*golden {
	var list []*golden
	for _, g := range loadGolden(t) {
		if len(g.bytes) <= 4000 {
			list = append(list, g)
		}
	}
	if len(list) < 4 {
		t.Fatalf("expected at least 4 small golden files, found %d", len(list))
	}
	return list
}

func someLookups(g *golden, n int) []keys.Lookup {
	rng := rand.New(rand.NewPCG(7, 8))
	list := []keys.Lookup{{UserKey: nil, Seq: keys.MaxSeq}, {UserKey: []byte("zzzz"), Seq: 3}}
	for range n {
		r := g.rows[rng.IntN(len(g.rows))]
		list = append(list, keys.Lookup{UserKey: r.key, Seq: r.Seq})
	}
	return list
}

func TestFlippedBytesGiveCorruptionNeverAPanic(t *testing.T) {
	const path = "000009.sst"
	caught := 0
	for _, g := range smallGolden(t) {
		o := g.readerOptions(t)
		looks := someLookups(g, 6)
		if err := exercise(t, g.bytes, path, o, looks); err != nil {
			t.Fatalf("%s: expected no error before damage, found %v", g.File, err)
		}
		b := bytes.Clone(g.bytes)
		for i := range b {
			for _, x := range []byte{0xff, 0x80, 0x01} {
				b[i] ^= x
				if exercise(t, b, path, o, looks) != nil {
					caught++
				}
				b[i] ^= x
			}
		}
	}
	if caught < 1000 {
		t.Fatalf("expected damage to be found a thousand times, found %d", caught)
	}
}

func TestTruncatedFilesAreCorruption(t *testing.T) {
	const path = "000009.sst"
	for _, g := range smallGolden(t) {
		o := g.readerOptions(t)
		for n := range len(g.bytes) {
			if err := exercise(t, g.bytes[:n], path, o, nil); !errors.Is(err, keys.ErrCorruption) {
				t.Fatalf("%s cut to %d bytes: expected corruption, found %v", g.File, n, err)
			}
		}
		o.FileSize = int64(len(g.bytes)) + 1 // as the MANIFEST would say
		if err := exercise(t, g.bytes, path, o, nil); !errors.Is(err, keys.ErrCorruption) {
			t.Fatalf("%s: expected a file shorter than the MANIFEST says to be corruption, found %v", g.File, err)
		}
	}
}

// ourFile is a small file with everything that Flatrock adds.
func ourFile(t testing.TB) ([]byte, ReaderOptions, []entry) {
	rng := rand.New(rand.NewPCG(9, 10))
	o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4), ChunkChecksums: true, RangeTombstones: true}
	o.EncodingType = Prefix
	rows := randomRows(rng, o, 60)
	for i := range rows {
		rows[i].value = rows[i].value[:min(len(rows[i].value), 20)]
	}
	path := filepath.Join(t.TempDir(), "000007.sst")
	f, err := mmapfs.OS.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		if i == 10 {
			if err := w.AddTombstone(table.Tombstone{Start: []byte("aa"), End: []byte("ab"), Seq: 77}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Add(r.key, r.trailer, r.value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return readFile(t, path), ReaderOptions{Options: o.Options, Extractor: o.Extractor, Memory: mmapfs.MemoryResident}, rows
}

func TestChecksumsFindEveryFlippedBit(t *testing.T) {
	b, o, rows := ourFile(t)
	const path = "000009.sst"
	looks := []keys.Lookup{{UserKey: rows[3].key, Seq: 80}, {UserKey: rows[40].key, Seq: keys.MaxSeq}}
	if err := exercise(t, b, path, o, looks); err != nil {
		t.Fatal(err)
	}
	c := bytes.Clone(b)
	for i := range c {
		for bit := i % 2; bit < 8; bit += 2 {
			c[i] ^= 1 << bit
			r, err := Open(memoryFile(t, path, c), o)
			if err == nil {
				err = r.VerifyChecksums(context.Background())
				r.Close()
			}
			if err == nil {
				t.Fatalf("expected the flip of bit %d of byte %d of %d to be found", bit, i, len(c))
			}
			c[i] ^= 1 << bit
		}
	}
	o.Verify = VerifyAtOpen
	c[100] ^= 4 // a row
	if _, err := Open(openBytes(t, "000009.sst", c), o); !errors.Is(err, keys.ErrCorruption) {
		t.Fatalf("expected Open to verify, found %v", err)
	}
}

func TestTombstonesComeBack(t *testing.T) {
	b, o, _ := ourFile(t)
	r := openReader(t, "000007.sst", b, o)
	list := r.Tombstones()
	if len(list) != 1 || string(list[0].Start) != "aa" || string(list[0].End) != "ab" || list[0].Seq != 77 {
		t.Fatalf("expected [aa, ab)#77, found %+v", list)
	}
	if r.Properties().NumRangeDeletions != 1 {
		t.Fatalf("expected one range deletion in the properties, found %d", r.Properties().NumRangeDeletions)
	}
}

// TestDamagedIndexesAreCorruption aims at what a flipped byte rarely hits.
func TestDamagedIndexesAreCorruption(t *testing.T) {
	b, o, rows := ourFile(t)
	const path = "000009.sst"
	r := openReader(t, "000007.sst", b, o)
	idx, _ := block.FindMeta(r.layout.meta, block.MetaPlainTableIndex)
	rowIdx, _ := block.FindMeta(r.layout.meta, metaRowIndex)
	slots := int(idx.Offset) + int(idx.Size) - len(r.view.Load().index.sub) - len(r.view.Load().index.slots)
	var looks []keys.Lookup
	for _, row := range rows {
		looks = append(looks, keys.Lookup{UserKey: row.key, Seq: keys.MaxSeq})
	}
	for _, v := range []uint32{0, 1, 7, 0x7ffffffe, 0x80000000, 0x80000001, 0x80000005, 0xffffffff, 0xfffffffe, uint32(r.layout.rows), uint32(r.layout.rows) - 1} {
		c := bytes.Clone(b)
		for i := range int(r.view.Load().index.bucket.Count()) {
			binary.LittleEndian.PutUint32(c[slots+4*i:], v)
		}
		if err := exercise(t, c, path, o, looks); err == nil {
			t.Errorf("expected buckets of %#x to be found", v)
		}
		c = bytes.Clone(b)
		for i := range int(rowIdx.Size) / 4 {
			binary.LittleEndian.PutUint32(c[int(rowIdx.Offset)+4*i:], v)
		}
		if err := exercise(t, c, path, o, looks); err == nil {
			t.Errorf("expected a row index of %#x to be found", v)
		}
	}
}

func TestAFileTruncatedUnderTheMappingGivesAFaultThatNamesIt(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4)}
	rows := randomRows(rng, o, 2000)
	b, _ := writeTable(t, o, rows)
	for _, index := range []IndexMemory{IndexCopy, IndexInPlace} {
		path := filepath.Join(t.TempDir(), "000042.sst")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := mmapfs.OS.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(f, ReaderOptions{Options: o.Options, Extractor: o.Extractor, Memory: mmapfs.MemoryNone, Index: index})
		if err != nil {
			t.Fatal(err)
		}
		it := r.NewIterator(table.IterOptions{})
		if !it.First() {
			t.Fatal(it.Err())
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		look := keys.Lookup{UserKey: bytes.Clone(rows[1500].key), Seq: keys.MaxSeq}
		o.Extractor.Prepare(&look)
		checkFault := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, mmapfs.ErrFault) || !strings.Contains(err.Error(), "000042.sst") {
				t.Errorf("%s: expected a fault that names the file, found %v", what, err)
			}
		}
		_, _, _, err = r.Get(&look, nil)
		checkFault("Get", err)
		it.Next()
		checkFault("Next", it.Err())
		if it.Valid() {
			t.Error("expected an iterator that failed to be invalid")
		}
		it.Last()
		checkFault("Last", it.Err())
		it.SeekGE(look.UserKey, look.Trailer())
		checkFault("SeekGE", it.Err())
		it.SeekLT(look.UserKey, look.Trailer())
		checkFault("SeekLT", it.Err())
		it.SeekPrefixGE(&look, look.Trailer())
		checkFault("SeekPrefixGE", it.Err())
		checkFault("VerifyChecksums", r.VerifyChecksums(context.Background()))
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWriteErrorsAreSticky(t *testing.T) {
	path := filepath.Join(t.TempDir(), "000001.sst")
	f, err := mmapfs.OS.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(failingFile{f}, WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4)})
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, flushSize)
	if err := w.Add([]byte("aaaa"), 257, value); !errors.Is(err, errDisk) {
		t.Fatalf("expected %v, found %v", errDisk, err)
	}
	if err := w.Add([]byte("bbbb"), 257, nil); !errors.Is(err, errDisk) {
		t.Fatalf("expected the error to stay, found %v", err)
	}
	if _, err := w.Finish(); !errors.Is(err, errDisk) {
		t.Fatalf("expected Finish to fail, found %v", err)
	}
}

var errDisk = errors.New("disk on fire")

type failingFile struct{ mmapfs.File }

func (failingFile) Write([]byte) (int, error) { return 0, errDisk }
