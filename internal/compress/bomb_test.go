package compress

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestBombsAreRefusedAtTheLimit: blocks that hold far more than the limit, and do so honestly, cost
// no memory. Each type's block of zeros is as small as the type makes it.
func TestBombsAreRefusedAtTheLimit(t *testing.T) {
	const holds, limit = 256 << 20, 1 << 20
	zeros := make([]byte, holds)
	for _, typ := range written {
		e, err := NewEncoder(typ, DefaultLevel, nil)
		if err != nil {
			t.Fatal(err)
		}
		bomb, ok := e.Encode(nil, zeros)
		e.Close()
		if !ok {
			t.Fatalf("%v: not encoded", typ)
		}
		for _, prefix := range []bool{true, false} {
			src := bomb
			if !prefix {
				switch typ {
				case Zlib: // no size at all
					_, n := binary.Uvarint(bomb)
					src = bomb[n:]
				case LZ4, LZ4HC:
					_, n := binary.Uvarint(bomb)
					src = append(binary.LittleEndian.AppendUint64(nil, holds), bomb[n:]...)
				}
			}
			d := NewDecoder(prefix, nil)
			d.Limit(limit)
			var size int
			n := allocated(func() {
				var body []byte
				if size, body, err = d.Size(typ, src); size < 0 && err == nil {
					_, err = d.DecodeUnsized(typ, body)
				}
			})
			if err == nil || n > 8*limit {
				t.Errorf("%v, sizes %v: %d bytes that hold %d: size %d, %v, and %d bytes allocated", typ, prefix, len(src), holds, size, err, n)
			}
			d.Limit(0)
			if size, _, err := d.Size(typ, src); err != nil || size != holds && size != -1 {
				t.Errorf("%v, sizes %v: without a limit: size %d, %v", typ, prefix, size, err)
			}
			d.Close()
		}
	}
}

// TestZSTDClaimsAreHeldAgainstTheFrame: a zstd block of some kilobytes could hold gigabytes; whether
// it may the headers of its blocks tell. It took the memory first.
func TestZSTDClaimsAreHeldAgainstTheFrame(t *testing.T) {
	e, err := NewEncoder(ZSTD, DefaultLevel, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	d := NewDecoder(true, nil)
	defer d.Close()
	for name, src := range samples() {
		out, ok := e.Encode(nil, src)
		if !ok {
			t.Fatalf("%s: not encoded", name)
		}
		_, n := binary.Uvarint(out)
		frame := out[n:]
		bound := ZSTDBound(frame)
		if bound < uint64(len(src)) || bound > uint64(len(src))+2*zstdBlockMost {
			t.Errorf("%s of %d bytes: bound %d", name, len(src), bound)
		}
		for _, claim := range []uint64{bound + 1, bound + 64<<20, MaxSize} {
			if claim <= modest*uint64(len(out)) {
				continue // no more than any block may take
			}
			if size, _, err := d.Size(ZSTD, append(binary.AppendUvarint(nil, claim), frame...)); err == nil {
				t.Errorf("%s: a frame of %d bytes that holds %d: took a claim of %d", name, len(frame), len(src), size)
			}
		}
	}
}

// TestZSTDBoundReadsEveryHeader compares with what frames of each form hold.
func TestZSTDBoundReadsEveryHeader(t *testing.T) {
	text := samples()["long"]
	var all []byte
	total := uint64(0)
	for _, o := range [][]zstd.EOption{
		{zstd.WithSingleSegment(true)}, {zstd.WithEncoderCRC(false)}, {zstd.WithWindowSize(1 << 10), zstd.WithSingleSegment(false)},
		{zstd.WithEncoderDictRaw(70000, text[:3000])}, {zstd.WithEncoderDictRaw(7, text[:3000])},
	} {
		for _, n := range []int{1, 200, 300, 70000, len(text)} {
			enc, err := zstd.NewWriter(nil, append(o, zstd.WithEncoderConcurrency(1))...)
			if err != nil {
				t.Fatal(err)
			}
			frame := enc.EncodeAll(text[:n], nil)
			if err := enc.Close(); err != nil {
				t.Fatal(err)
			}
			got := ZSTDBound(frame)
			if got < uint64(n) {
				t.Errorf("%d bytes: bound %d", n, got)
			}
			all, total = append(all, frame...), total+got
			all = append(all, "\x53\x2a\x4d\x18\x03\x00\x00\x00abc"...) // skippable
			if got := ZSTDBound(all); got != total {
				t.Fatalf("frames in a row hold %d, not %d", got, total)
			}
			for cut := range len(frame) {
				if ZSTDBound(frame[:cut]) > got {
					t.Fatal("a piece of a frame holds more than all of it")
				}
			}
		}
	}
}

func FuzzZSTDBound(f *testing.F) {
	e, err := NewEncoder(ZSTD, DefaultLevel, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, src := range samples() {
		if out, ok := e.Encode(nil, src); ok {
			_, n := binary.Uvarint(out)
			f.Add(out[n:])
		}
	}
	e.Close()
	f.Fuzz(func(t *testing.T, frame []byte) {
		bound := ZSTDBound(frame)
		if bound > 1<<26 {
			return
		}
		dec, err := plainZstd()
		if err != nil {
			t.Fatal(err)
		}
		out, err := dec.DecodeAll(frame, make([]byte, 0, bound+1))
		if err == nil && uint64(len(out)) > bound {
			t.Fatal(fmt.Sprintf("%d bytes, bound %d", len(out), bound))
		}
	})
}
