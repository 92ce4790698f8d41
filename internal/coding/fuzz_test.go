package coding

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzDecode: what is decoded is what the bytes begin with, and nothing is read beyond them.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0})
	f.Add(AppendUvarint(nil, 1<<63))
	f.Add(AppendUvarint(nil, 1<<32))
	f.Add(AppendSlice(nil, []byte("slice")))
	f.Add(AppendUvarint(nil, 1<<40)) // a length beyond all bytes
	f.Add(bytes.Repeat([]byte{0x80}, 11))
	f.Fuzz(func(t *testing.T, b []byte) {
		want, n := binary.Uvarint(b)
		v, rest, ok := Uvarint64(b)
		if ok != (n > 0) || ok && (v != want || len(rest) != len(b)-n) {
			t.Errorf("Uvarint64: %d, %d bytes left, %v; want %d of %d bytes", v, len(rest), ok, want, n)
		}
		if ok && UvarintLen(v) > n {
			t.Errorf("UvarintLen(%d) = %d, and it was read from %d bytes", v, UvarintLen(v), n)
		}
		small, _, ok32 := Uvarint32(b)
		if ok32 && (!ok || uint64(small) != v) {
			t.Errorf("Uvarint32: %d; Uvarint64: %d, %v", small, v, ok)
		}
		if s, rest, ok := Slice(b); ok {
			if again := append(AppendSlice(nil, s), rest...); !bytes.HasSuffix(b, append(bytes.Clone(s), rest...)) || len(again) > len(b) {
				t.Errorf("Slice: %q and %q of %q", s, rest, b)
			}
		}
	})
}
