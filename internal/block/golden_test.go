package block

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/flatrock-db/flatrock/internal/hash"
)

// goldenTables returns every table file that RocksDB wrote, both formats.
func goldenTables(t testing.TB) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for _, dir := range []string{"block", "block11", "plain"} {
		names, err := filepath.Glob(filepath.Join("../../testdata/golden", dir, "*.sst"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			b, err := os.ReadFile(n)
			if err != nil {
				t.Fatal(err)
			}
			files[dir+"/"+filepath.Base(n)] = b
		}
	}
	if len(files) < 150 {
		t.Fatalf("expected at least 150 golden tables, found %d", len(files))
	}
	return files
}

// contents returns the block of h, with its checksum checked if it has one.
func contents(t *testing.T, name string, f Footer, b []byte, h Handle) []byte {
	t.Helper()
	c := b[h.Offset : h.Offset+h.Size]
	if !f.Plain() && f.Checksum != hash.ChecksumNone {
		tr := b[h.Offset+h.Size:][:TrailerLen]
		want := binary.LittleEndian.Uint32(tr[1:])
		if got := hash.Checksum(f.Checksum, c, tr[0]) + f.Modifier(h.Offset); got != want {
			if off, n, ok := PropertyOffset(c, PropGlobalSeqno); ok {
				c2 := bytes.Clone(c)
				clear(c2[off : off+n])
				got = hash.Checksum(f.Checksum, c2, tr[0]) + f.Modifier(h.Offset)
			}
			if got != want {
				t.Errorf("%s: block %v: checksum %#x, stored %#x", name, h, got, want)
			}
		}
	}
	return c
}

func TestGoldenFootersMetaIndexesAndPropertiesComeOutByteEqual(t *testing.T) {
	for name, b := range goldenTables(t) {
		f, err := DecodeFooter(name, b[max(0, len(b)-FooterLen):], int64(len(b)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, want := f.Append(nil), b[len(b)-f.Len():]; !bytes.Equal(got, want) {
			t.Errorf("%s: footer\n% x, RocksDB wrote\n% x", name, got, want)
		}
		mb := contents(t, name, f, b, f.MetaIndex)
		meta, err := DecodeMetaIndex(name, int64(f.MetaIndex.Offset), mb)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := EncodeMetaIndex(meta); !bytes.Equal(got, mb) {
			t.Errorf("%s: metaindex\n%q, RocksDB wrote\n%q", name, got, mb)
		}
		h, ok := FindMeta(meta, MetaProperties)
		if !ok {
			t.Errorf("%s: no properties block", name)
			continue
		}
		pb := contents(t, name, f, b, h)
		p, err := DecodeProperties(name, int64(h.Offset), pb)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := EncodeProperties(p); !bytes.Equal(got, pb) {
			t.Errorf("%s: properties\n%q, RocksDB wrote\n%q", name, got, pb)
		}
	}
}

func TestFlippedFooterBitNeverPassesForAnother(t *testing.T) {
	for name, b := range goldenTables(t) {
		f, err := DecodeFooter(name, b[len(b)-min(len(b), FooterLen):], int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if f.Version < 6 || f.Checksum == hash.ChecksumNone {
			continue // the footer carries no checksum
		}
		tail := bytes.Clone(b[len(b)-FooterLen:])
		for i := range tail {
			if i >= 17 && i < 33 {
				continue // reserved, and covered by the checksum only
			}
			tail[i] ^= 1
			if g, err := DecodeFooter(name, tail, int64(len(b))); err == nil {
				t.Errorf("%s: footer byte %d flipped gives %+v", name, i, g)
			}
			tail[i] ^= 1
		}
	}
}

func FuzzFooter(f *testing.F) {
	for _, b := range goldenTables(f) {
		f.Add(b[len(b)-min(len(b), FooterLen):], int64(len(b)))
	}
	f.Fuzz(func(t *testing.T, tail []byte, size int64) {
		ft, err := DecodeFooter("f", tail, size)
		if err != nil {
			return
		}
		if end, ok := ft.MetaIndex.End(0); !ok || end > uint64(size) {
			t.Fatalf("metaindex %v outside a file of %d", ft.MetaIndex, size)
		}
		again, err := DecodeFooter("f", ft.Append(nil), size)
		if err != nil || again != ft {
			t.Fatalf("%+v became %+v, %v", ft, again, err)
		}
	})
}

func FuzzMetaIndex(f *testing.F) {
	for _, b := range goldenTables(f) {
		ft, err := DecodeFooter("f", b[len(b)-min(len(b), FooterLen):], int64(len(b)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[ft.MetaIndex.Offset : ft.MetaIndex.Offset+ft.MetaIndex.Size])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := DecodeMetaIndex("f", 0, b)
		if err == nil {
			if len(entries) > len(b) {
				t.Fatalf("%d entries from %d bytes", len(entries), len(b))
			}
		}
	})
}

func FuzzProperties(f *testing.F) {
	for _, b := range goldenTables(f) {
		ft, err := DecodeFooter("f", b[len(b)-min(len(b), FooterLen):], int64(len(b)))
		if err != nil {
			f.Fatal(err)
		}
		meta, err := DecodeMetaIndex("f", 0, b[ft.MetaIndex.Offset:ft.MetaIndex.Offset+ft.MetaIndex.Size])
		if err != nil {
			f.Fatal(err)
		}
		if h, ok := FindMeta(meta, MetaProperties); ok {
			f.Add(b[h.Offset : h.Offset+h.Size])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodeProperties("f", 0, b)
		if err != nil {
			return
		}
		again, err := DecodeProperties("f", 0, EncodeProperties(p))
		if err != nil {
			t.Fatal(err)
		}
		for name := range p.Present {
			if !again.Present[name] && len(p.User[name]) > 0 {
				t.Fatalf("property %q was lost", name)
			}
		}
	})
}
