package compress

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// samples are blocks of several kinds and sizes.
func samples() map[string][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	var text []byte
	for i := range 400 {
		text = fmt.Appendf(text, "user%06d=the %d quick foxes;", rng.IntN(1e6), i%17)
	}
	var half []byte
	for i := range 40 {
		half = append(append(half, noise[i*50:i*50+50]...), text[i*20:i*20+60]...)
	}
	return map[string][]byte{
		"empty": {}, "one": {7}, "twelve": []byte("abcabcabcabc"), "thirteen": bytes.Repeat([]byte{9}, 13),
		"zeros": make([]byte, 70000), "noise": noise, "text": text, "half": half, "long": bytes.Repeat(text, 20),
	}
}

func dictionaries() map[string][]byte {
	s := samples()
	return map[string][]byte{"none": nil, "text": s["text"][:4000], "long": append(bytes.Clone(s["noise"]), s["long"]...)}
}

var written = []Type{Snappy, Zlib, LZ4, LZ4HC, ZSTD, ZSTDNotFinal}

func TestEveryTypeRoundTrips(t *testing.T) {
	for _, typ := range written {
		for dictName, dict := range dictionaries() {
			for _, level := range []int{DefaultLevel, 1, 9, -3} {
				e, err := NewEncoder(typ, level, dict)
				if err != nil {
					t.Fatal(err)
				}
				d := NewDecoder(true, dict)
				for name, src := range samples() {
					what := fmt.Sprintf("%v level %d dict %s of %s", typ, level, dictName, name)
					out, ok := e.Encode([]byte("head"), src)
					if !ok {
						if typ != LZ4 && typ != LZ4HC || string(out) != "head" {
							t.Errorf("%s: not encoded", what)
						}
						continue
					}
					size, body, err := d.Size(typ, out[4:])
					if err != nil || size != len(src) {
						t.Errorf("%s: size %d of %d: %v", what, size, len(src), err)
						continue
					}
					dst := make([]byte, size, size+100)
					copy(dst[size:cap(dst)], "untouched")
					if err := d.Decode(dst, typ, body); err != nil || !bytes.Equal(dst, src) {
						t.Errorf("%s: %v", what, err)
					}
					if !bytes.HasPrefix(dst[size:cap(dst)], []byte("untouched")) {
						t.Errorf("%s: wrote past the block", what)
					}
				}
				e.Close()
				d.Close()
			}
		}
	}
}

func TestDictionaryMakesSimilarBlocksSmaller(t *testing.T) {
	text := samples()["text"]
	for _, typ := range []Type{Zlib, LZ4, LZ4HC, ZSTD} {
		var sizes [2]int
		for i, dict := range [][]byte{nil, text[:8000]} {
			e, err := NewEncoder(typ, DefaultLevel, dict)
			if err != nil {
				t.Fatal(err)
			}
			out, ok := e.Encode(nil, text[4000:4600])
			if !ok {
				t.Fatalf("%v: not encoded", typ)
			}
			sizes[i] = len(out)
			e.Close()
		}
		if sizes[1] > sizes[0]/4 {
			t.Errorf("%v: %d bytes with a dictionary that holds the block, %d without", typ, sizes[1], sizes[0])
		}
	}
}

func TestClaimsBeyondTheDataAreRefusedBeforeAllocation(t *testing.T) {
	d := NewDecoder(true, nil)
	old := NewDecoder(false, nil)
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x07, 1, 2, 3}
	for _, typ := range []Type{Snappy, Zlib, BZip2, LZ4, LZ4HC, ZSTD, ZSTDNotFinal} {
		if n, _, err := d.Size(typ, huge); err == nil {
			t.Errorf("%v: took a size of %d from 8 bytes", typ, n)
		}
		if _, _, err := d.Size(typ, nil); err == nil {
			t.Errorf("%v: took a size from no bytes", typ)
		}
	}
	if _, _, err := old.Size(LZ4, []byte{0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 1}); err == nil {
		t.Error("took a fixed64 size of 2 GiB from 9 bytes")
	}
	for _, typ := range []Type{Xpress, 0x09, 0x80, 0xff} {
		if _, _, err := d.Size(typ, huge); err == nil {
			t.Errorf("%v: accepted", typ)
		}
		if typ.CanRead() || typ.CanWrite() {
			t.Errorf("%v: claims to be supported", typ)
		}
	}
	if _, err := NewEncoder(BZip2, DefaultLevel, nil); err == nil {
		t.Error("an encoder for BZip2")
	}
}

func TestTypeNamesParseBack(t *testing.T) {
	for _, n := range names {
		for _, s := range []string{n.property, n.option, n.tool} {
			if got, ok := ParseType(s); !ok || got != n.t {
				t.Errorf("%q parses as %v, %v", s, got, ok)
			}
		}
		if n.t.String() != n.property || n.t.OptionName() != n.option {
			t.Errorf("%v prints as %s", n, n.t.OptionName())
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, typ := range written {
		e, err := NewEncoder(typ, DefaultLevel, nil)
		if err != nil {
			f.Fatal(err)
		}
		for _, src := range samples() {
			if out, ok := e.Encode(nil, src); ok && len(out) < 10000 {
				f.Add(byte(typ), true, false, out)
			}
		}
		e.Close()
	}
	f.Add(byte(BZip2), false, false, []byte("BZh91AY&SY\x19\x31\x65\x3d\x00\x00\x00\x81\x00\x02\x44\xa0\x00\x21\x9a\x68\x33\x4d\x07\x33\x8b\xb9\x22\x9c\x28\x48\x0c\x98\xb2\x9e\x80"))
	dict := samples()["text"][:4000]
	f.Fuzz(func(t *testing.T, typ byte, prefix, withDict bool, src []byte) {
		var d *Decoder
		if withDict {
			d = NewDecoder(prefix, dict)
		} else {
			d = NewDecoder(prefix, nil)
		}
		defer d.Close()
		size, body, err := d.Size(Type(typ), src)
		if err != nil || size > 1<<20 {
			return
		}
		if size < 0 {
			if out, err := d.DecodeUnsized(Type(typ), body); err == nil && len(out) > MaxSize {
				t.Fatal("too long")
			}
			return
		}
		dst := make([]byte, size, size+16)
		d.Decode(dst, Type(typ), body)
		if !bytes.Equal(dst[size:size+16], make([]byte, 16)) {
			t.Fatal("wrote past the block")
		}
	})
}
