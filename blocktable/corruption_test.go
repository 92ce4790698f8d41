package blocktable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// memFile puts b into a file in memory.
func memFile(t testing.TB, b []byte) mmapfs.File {
	t.Helper()
	fs := mmapfs.NewMem()
	if err := fs.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("d/000007.sst")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return keepOpen{f}
}

// keepOpen survives Close, so that a test can open the file again and again.
type keepOpen struct{ mmapfs.File }

func (keepOpen) Close() error { return nil }

// readAll reads a table in every way; it returns the first error, or says that
// something other than want came out.
func readAll(t *testing.T, what string, f mmapfs.File, o ReaderOptions, want []entry, tombs []table.Tombstone) error {
	r, err := Open(f, o)
	if err != nil {
		return err
	}
	defer r.Close()
	var first error
	it := r.Iterate(table.IterOptions{})
	i := 0
	for ok := it.First(); ok; ok = it.Next() {
		if i >= len(want) || !bytes.Equal(it.UserKey(), want[i].key) || it.Trailer() != want[i].trailer || !want[i].equal(it.Value()) {
			t.Fatalf("%s: entry %d is wrong and no error says so: %x #%x", what, i, it.UserKey(), it.Trailer())
		}
		i++
	}
	if first = it.Err(); first == nil && i != len(want) {
		t.Fatalf("%s: %d of %d entries, and no error says so", what, i, len(want))
	}
	it.Close()
	if len(r.Tombstones()) != len(tombs) {
		t.Fatalf("%s: %d of %d tombstones, and no error says so", what, len(r.Tombstones()), len(tombs))
	}
	for i := 0; i < len(want); i += 1 + len(want)/8 {
		look := keys.Lookup{UserKey: want[i].key, Seq: keys.Seq(want[i].trailer)}
		o.Extractor.Prepare(&look)
		var pin table.Pin
		value, trailer, ok, err := r.Get(&look, &pin)
		if err == nil && (!ok || trailer != want[i].trailer || !want[i].equal(value)) {
			t.Fatalf("%s: get %x: wrong, and no error says so", what, want[i].key)
		}
		if first == nil {
			first = err
		}
		pin.Release()
	}
	if err := r.VerifyChecksums(context.Background()); first == nil {
		first = err
	} else if err == nil {
		t.Fatalf("%s: VerifyChecksums misses %v", what, first)
	}
	return first
}

// placed makes sure that a damage error says where.
func placed(err error) bool {
	var c *keys.CorruptionError
	return errors.As(err, &c) && c.File == "000007.sst" && c.Offset >= 0
}

func TestFlippedBitIsFoundOrChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	whole := map[string]bool{
		"block/single_entry": true, "block/idx_one_block": true, "block/rdel_external_only": true, "block/db_only_rangedel": true,
		"block11/v6_rdel_only": true, "block/comp_zstd_fv2": true, "block/fv5_crc32c": true, "block/keys_empty": true,
	}
	for _, g := range goldens(t) {
		if g.recipe["cks"] == "none" || g.recipe["mode"] == "db:gseq" {
			continue // nothing checks them, or not all of the properties
		}
		g.load(t)
		b, err := os.ReadFile(g.path)
		if err != nil {
			t.Fatal(err)
		}
		f := memFile(t, b)
		o := ReaderOptions{Order: g.order(), Extractor: g.extractor(t), VerifyChecksums: true, HasManifestLargestSeq: true}
		r := g.open(t, nil)
		tombs := r.Tombstones()
		r.Close()
		flips := 16
		if testing.Short() {
			flips = 2
		} else if whole[g.name] {
			flips = len(b)
		}
		found := 0
		for i := range flips {
			at := i
			if flips != len(b) {
				at = rng.IntN(len(b))
			}
			bit := byte(1) << rng.IntN(8)
			f.WriteAt([]byte{b[at] ^ bit}, int64(at))
			what := fmt.Sprintf("%s, byte %d of %d, bit %#x", g.name, at, len(b), bit)
			if err := readAll(t, what, f, o, g.entries, tombs); err != nil {
				found++
				if !placed(err) && !strings.Contains(err.Error(), "is a plain table") {
					t.Errorf("%s: the error does not say where: %v", what, err)
				}
			}
			f.WriteAt(b[at:at+1], int64(at))
		}
		if found < flips/2 {
			t.Errorf("%s: only %d of %d flips were found", g.name, found, flips)
		}
	}
}

func TestTruncatedFileIsFound(t *testing.T) {
	for _, name := range []string{"fv5_xxh3", "comp_zstd_fv5", "idx_twolevel_fv5"} {
		b, err := os.ReadFile(goldenDir + "/block/" + name + ".sst")
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(b); n += 1 + n/40 {
			r, err := Open(memFile(t, b[:n]), ReaderOptions{})
			if err == nil {
				r.Close()
				t.Errorf("%s cut to %d of %d bytes opens", name, n, len(b))
			} else if !placed(err) {
				t.Errorf("%s cut to %d bytes: %v", name, n, err)
			}
		}
		// A file that shrinks after it was opened: reading meets its end.
		f := memFile(t, b)
		r, err := Open(f, ReaderOptions{VerifyChecksums: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(100); err != nil {
			t.Fatal(err)
		}
		it := r.Iterate(table.IterOptions{})
		if it.First() || !placed(it.Err()) {
			t.Errorf("%s: a truncated file is read: %v", name, it.Err())
		}
		it.Close()
		r.Close()
	}
}

func TestReadErrorsComeThrough(t *testing.T) {
	g := goldens(t)[0]
	b, err := os.ReadFile(g.path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		f := &failingFile{File: memFile(t, b), left: n}
		r, err := Open(f, ReaderOptions{VerifyChecksums: true})
		if err != nil {
			if !errors.Is(err, errRead) {
				t.Errorf("read %d of Open: %v", n, err)
			}
			continue
		}
		it := r.Iterate(table.IterOptions{})
		entries := 0
		for ok := it.First(); ok; ok = it.Next() {
			entries++
		}
		if f.left < 0 && !errors.Is(it.Err(), errRead) {
			t.Errorf("read %d: %v after %d entries", n, it.Err(), entries)
		}
		it.Close()
		r.Close()
	}
}

var errRead = errors.New("injected")

type failingFile struct {
	mmapfs.File
	left int
}

func (f *failingFile) ReadAt(b []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errRead
	}
	return f.File.ReadAt(b, off)
}

// resealed is a table whose block at off has other bytes and a right checksum:
// what a fuzzer cannot reach through checksums.
func resealed(b []byte, off, n int, cks hash.ChecksumType) []byte {
	c := bytes.Clone(b)
	sum := hash.Checksum(cks, c[off:off+n], c[off+n])
	for i := range 4 {
		c[off+n+1+i] = byte(sum >> (8 * i))
	}
	return c
}

func TestHostileBlocksWithRightChecksumsGiveErrorsNotPanics(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	rounds := 60
	if testing.Short() { // under the race detector; nothing here runs at once
		rounds = 5
	}
	c, err := blockcache.New(blockcache.Options{Capacity: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, g := range goldens(t) {
		if strings.HasPrefix(g.name, "block11/v") && g.recipe["fv"] != "5" && g.recipe["fv"] != "2" || g.recipe["fv"] == "0" {
			continue // context checksums; another footer
		}
		b, err := os.ReadFile(g.path)
		if err != nil {
			t.Fatal(err)
		}
		r := g.open(t, nil)
		footer := r.Footer()
		handles := append(r.filter.partitions(), footer.Index, footer.MetaIndex)
		for _, m := range r.metas {
			handles = append(handles, m.Handle)
		}
		for i := range min(r.index.n, 4) {
			handles = append(handles, r.index.handle(i))
		}
		r.Close()
		for range rounds {
			h := handles[rng.IntN(len(handles))]
			if h.Size == 0 {
				continue
			}
			d := bytes.Clone(b)
			for range 1 + rng.IntN(3) {
				d[h.Offset+rng.Uint64N(h.Size)] = byte(rng.Uint32())
			}
			d = resealed(d, int(h.Offset), int(h.Size), footer.Checksum)
			r, err := Open(memFile(t, d), ReaderOptions{Order: g.order(), Extractor: g.extractor(t), VerifyChecksums: true, Cache: c})
			if err != nil {
				continue
			}
			g.load(t)
			it := r.Iterate(table.IterOptions{})
			n := 0
			for ok := it.First(); ok && n < 1<<20; ok = it.Next() {
				n++
			}
			for ok := it.Last(); ok && n < 1<<21; ok = it.Prev() {
				n++
			}
			for _, e := range g.entries[:min(len(g.entries), 10)] {
				it.SeekGE(e.key, e.trailer)
				it.SeekLT(e.key, e.trailer)
				look := keys.Lookup{UserKey: e.key, Seq: keys.MaxSeq}
				var pin table.Pin
				r.Get(&look, &pin)
				pin.Release()
			}
			it.Close()
			r.VerifyChecksums(context.Background())
			r.Close()
		}
	}
	if p := c.Stats().PinnedUsage; p != 0 {
		t.Errorf("%d bytes are still pinned", p)
	}
}

func FuzzDataBlock(f *testing.F) {
	for _, g := range goldens(f) {
		r := g.open(f, nil)
		if r.index.n > 0 {
			if ref, err := r.fetch(r.index.handle(0), fetchOptions{}); err == nil && len(ref.data) < 2048 {
				f.Add(bytes.Clone(ref.data), []byte("key000050"))
			}
		}
		r.Close()
	}
	f.Fuzz(func(t *testing.T, b, key []byte) {
		var d dataIter
		if !d.init(b, 0) {
			return
		}
		var forward, backward int
		for ok := d.first(); ok; ok = d.forward() {
			if forward++; forward > len(b) {
				t.Fatal("more entries than bytes")
			}
		}
		bad := d.err != nil
		d.err = nil
		for ok := d.last(); ok; ok = d.backward() {
			if backward++; backward > len(b)+1 {
				t.Fatal("more entries backward than bytes")
			}
		}
		_ = bad
		d.err = nil
		d.seekGE(key, 1<<8)
		d.err = nil
		d.seekLT(key, 1<<8)
		d.err = nil
		d.get(key, 1<<8, true)
	})
}

func FuzzIndexBlock(f *testing.F) {
	for _, g := range goldens(f) {
		r := g.open(f, nil)
		if h := r.footer.Index; h.Size < 2048 && !h.IsZero() {
			if b, err := r.metaBlock(h, &readahead{fixed: 1}); err == nil {
				f.Add(bytes.Clone(b), []byte("key000050"), r.indexFormat.userKeys, r.indexFormat.delta, r.indexFormat.firstKey)
			}
		}
		r.Close()
	}
	f.Fuzz(func(t *testing.T, b, key []byte, userKeys, delta, firstKey bool) {
		x := indexIter{f: indexFormat{userKeys, delta, firstKey}}
		if !x.init(b, 0) {
			return
		}
		n := 0
		for ok := x.first(); ok; ok = x.next() {
			if n++; n > len(b) {
				t.Fatal("more entries than bytes")
			}
		}
		x.err = nil
		n = 0
		for ok := x.last(); ok; ok = x.prev() {
			if n++; n > len(b)+1 {
				break // a damaged block may go in circles; the caller checks handles
			}
		}
		x.err = nil
		x.seekGE(key, 1<<8)
		var fb flatBuilder
		x.err = nil
		if fb.add(&x) == nil {
			flat, err := fb.build(x.order, userKeys, 0)
			if err != nil {
				t.Fatal(err)
			}
			flat.seek(key, 1<<8)
			flat.mem.free()
		}
	})
}

func FuzzWholeTable(f *testing.F) {
	for _, name := range []string{"block/single_entry", "block/fv5_none", "block/rdel_external_only", "block11/v6_none"} {
		b, err := os.ReadFile(goldenDir + "/" + name + ".sst")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Open(memFile(t, b), ReaderOptions{})
		if err != nil {
			return
		}
		defer r.Close()
		it := r.Iterate(table.IterOptions{})
		defer it.Close()
		for n, ok := 0, it.First(); ok && n < 1<<16; ok = it.Next() {
			n++
		}
		r.VerifyChecksums(context.Background())
	})
}
