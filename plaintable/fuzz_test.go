package plaintable

import (
	"bytes"
	"testing"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// part is a section of a golden file.
func (g *golden) part(t testing.TB, name string) []byte {
	t.Helper()
	foot, err := block.DecodeFooter(g.File, g.bytes[len(g.bytes)-block.FooterLen:], int64(len(g.bytes)))
	if err != nil {
		t.Fatal(err)
	}
	cut := func(h block.Handle) []byte { return g.bytes[h.Offset : h.Offset+h.Size] }
	meta, err := block.DecodeMetaIndex(g.File, 0, cut(foot.MetaIndex))
	if err != nil {
		t.Fatal(err)
	}
	if name == "rows" {
		h, _ := block.FindMeta(meta, block.MetaProperties)
		p, err := block.DecodeProperties(g.File, 0, cut(h))
		if err != nil {
			t.Fatal(err)
		}
		return g.bytes[:p.DataSize]
	}
	h, _ := block.FindMeta(meta, name)
	return cut(h)
}

// FuzzRows: rows decode to an error, or to rows that encode and decode to themselves.
func FuzzRows(f *testing.F) {
	for _, g := range loadGolden(f) {
		if b := g.part(f, "rows"); len(b) < 20000 {
			f.Add(b, uint8(g.UserKeyLen), g.Encoding == "kPrefix" && g.Prefix != "")
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, keyLen uint8, prefix bool) {
		format := rowFormat{keyLen: int(keyLen), prefix: prefix}
		v := &view{rows: b, format: format, file: "f"}
		enc := rowEncoder{rowFormat: format, fullEvery: 1}
		var out []byte
		var rows []entry
		for s := (scanner{v: v}); ; {
			ok, err := s.next()
			if !ok {
				if err != nil {
					return
				}
				break
			}
			rows = append(rows, entry{bytes.Clone(s.key), s.row.trailer, s.row.value})
			out, _ = enc.append(out, s.key, s.row.trailer, s.row.value, 0, true)
		}
		v.rows = out
		s := scanner{v: v}
		for i, want := range rows {
			ok, err := s.next()
			if !ok || !bytes.Equal(s.key, want.key) || s.row.trailer != want.trailer || !bytes.Equal(s.row.value, want.value) {
				t.Fatalf("row %d: expected %x %x %x, found %x %x %x, %v", i, want.key, want.trailer, want.value, s.key, s.row.trailer, s.row.value, err)
			}
		}
		if ok, err := s.next(); ok || err != nil {
			t.Fatalf("expected the end, found %t %v", ok, err)
		}
	})
}

// FuzzIndex: any index block gives an error or answers every hash with row
// offsets from inside it.
func FuzzIndex(f *testing.F) {
	for _, g := range loadGolden(f) {
		if g.Stored {
			f.Add(g.part(f, block.MetaPlainTableIndex), uint32(len(g.bytes)))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, h uint32) {
		x, err := decodeIndex("f", 0, b)
		if err != nil {
			return
		}
		for range 64 {
			if v := x.at(h); v&subIndexBit != 0 {
				if offsets, ok := x.record(int(v &^ subIndexBit)); ok && (len(offsets) < 4 || len(offsets)%4 != 0 || len(offsets) > len(b)) {
					t.Fatalf("expected whole offsets, found %d bytes", len(offsets))
				}
			}
			h = h*0x9e3779b1 + 1
		}
	})
}

// FuzzIndexRoundTrip: an index finds every record that it was built from.
func FuzzIndexRoundTrip(f *testing.F) {
	f.Add([]byte("abcabcabdx"), uint8(3), uint8(1))
	f.Add(bytes.Repeat([]byte("ab"), 200), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, hashes []byte, buckets, sparse uint8) {
		b := indexBuilder{sparseness: int(sparse)}
		for i, h := range hashes {
			if i == 0 || h != hashes[i-1] {
				b.begins()
			}
			b.row(uint32(h)*0x01010101, uint32(i), true)
		}
		n := uint32(buckets) + 1
		encoded := b.build(make([]byte, b.sizeBound(n)), n)
		x, err := decodeIndex("f", 0, encoded)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i := range n {
			v := x.slots.At(i)
			offsets := []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}
			if v == emptyBucket {
				continue
			}
			if v&subIndexBit != 0 {
				var ok bool
				if offsets, ok = x.record(int(v &^ subIndexBit)); !ok {
					t.Fatalf("bucket %d: expected a record, found none", i)
				}
			}
			for last := -1; len(offsets) > 0; offsets = offsets[4:] {
				off := rowIndex(offsets).at(0)
				if off <= last || x.bucket.Of(uint32(hashes[off])*0x01010101) != i {
					t.Fatalf("bucket %d: offset %d after %d does not belong there", i, off, last)
				}
				last = off
				found++
			}
		}
		if found != b.records.n {
			t.Fatalf("expected %d records, found %d", b.records.n, found)
		}
		lines := make(lineIndex, linesSize(b.prefixes))
		lines.fill(b.records.all())
		for i, h := range hashes {
			if i > 0 && h == hashes[i-1] {
				continue
			}
			off, f := lines.find(uint32(h) * 0x01010101)
			if f == foundNone || f != foundAsk && (off >= len(hashes) || hashes[off] != h || f == foundRow && bytes.IndexByte(hashes, h) != off) {
				t.Fatalf("prefix %d at %d: the lines say %d, %d", h, i, f, off)
			}
		}
	})
}

// FuzzBloom: any block gives an error, or a filter that finds what is added.
func FuzzBloom(f *testing.F) {
	for _, g := range loadGolden(f) {
		if g.Stored && g.Bloom > 0 {
			b := g.part(f, block.MetaPlainTableBloom)
			lines := 0
			if g.Locality > 0 {
				lines = len(b) / 64
			}
			f.Add(b, uint64(lines), uint32(len(b)))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, lines uint64, h uint32) {
		filter, err := decodeBloom("f", 0, b, lines)
		if err != nil {
			return
		}
		filter.mayContain(h)
		filter.data = bytes.Clone(b)
		filter.add(h)
		if !filter.mayContain(h) {
			t.Fatalf("expected %#x to be found", h)
		}
	})
}

// FuzzChecksums: any block gives an error, or encodes to itself.
func FuzzChecksums(f *testing.F) {
	b, _, _ := ourFile(f)
	r := openReader(f, "000007.sst", b, ReaderOptions{Options: Options{FullScanMode: true}})
	h, _ := block.FindMeta(r.layout.meta, metaChecksums)
	f.Add(b[h.Offset : h.Offset+h.Size])
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeChecksums("f", 0, b, 1<<40)
		if err == nil && !bytes.Equal(c.append(nil), b) {
			t.Fatalf("expected %x, found %x", b, c.append(nil))
		}
	})
}

// FuzzTombstones: any block gives an error, or tombstones that decode to themselves.
func FuzzTombstones(f *testing.F) {
	f.Add([]byte("\x01a\x02bc\x05\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeTombstones("f", 0, b)
		if err != nil {
			return
		}
		again, err := decodeTombstones("f", 0, appendTombstones(nil, list))
		if err != nil || len(again) != len(list) {
			t.Fatalf("expected %d tombstones, found %d, %v", len(list), len(again), err)
		}
	})
}

// Whole files are long seeds: run with -fuzzminimizetime 1x, or the time goes
// into shortening them.

// FuzzFile: a whole file of any bytes gives an error or works, and never panics.
func FuzzFile(f *testing.F) {
	for _, g := range loadGolden(f) {
		if len(g.bytes) < 13000 {
			f.Add(g.bytes, g.Prefix, uint8(g.Sparseness))
		}
	}
	b, _, _ := ourFile(f)
	f.Add(b, "fixed:4", uint8(16))
	f.Fuzz(func(t *testing.T, b []byte, extractor string, sparse uint8) {
		e, err := prefixhash.Parse(extractor)
		if err != nil {
			return
		}
		o := ReaderOptions{Options: DefaultOptions(), Extractor: e, AnyExtractor: sparse&1 != 0}
		o.IndexSparseness = int(sparse)
		if e == nil {
			o.HashTableRatio = 0
		}
		looks := []keys.Lookup{{Seq: keys.MaxSeq}, {UserKey: []byte("k011"), Seq: 5}, {UserKey: []byte("aaaa:aaaa"), Seq: keys.MaxSeq}}
		if len(b) > 20 {
			looks = append(looks, keys.Lookup{UserKey: b[1:9], Seq: keys.MaxSeq}, keys.Lookup{UserKey: b[:16], Seq: keys.MaxSeq})
		}
		_ = exercise(t, b, "000009.sst", o, looks) // fails the test itself
	})
}
