package blob

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

const golden = "../../testdata/golden/db/d08_blob/db/*.blob"

func goldenFiles(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(golden)
	if err != nil || len(paths) < 10 {
		t.Fatal(paths, err)
	}
	files := map[string][]byte{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(p)] = b
	}
	return files
}

func openBytes(t testing.TB, b []byte) (*Reader, error) {
	t.Helper()
	fsys := mmapfs.NewMem()
	f, err := fsys.Create("/000012.blob")
	if err == nil {
		_, err = f.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Open(f)
}

// TestGoldenBlobs walks RocksDB's blob files to their footers, and reads every
// record again by its index.
func TestGoldenBlobs(t *testing.T) {
	compressed := 0
	for name, b := range goldenFiles(t) {
		r, err := openBytes(t, b)
		if err != nil {
			t.Fatal(name, err)
		}
		n := uint64(0)
		err = r.Each(func(rec Record) error {
			n++
			got, err := r.Get(&rec.Index, rec.Key, []byte("before"))
			if err != nil || string(got) != "before"+string(rec.Value) {
				t.Fatalf("%s: key %q: %d bytes, want %d, %v", name, rec.Key, len(got), len(rec.Value), err)
			}
			back, err := DecodeIndex(rec.Index.Append(nil))
			if err != nil || back.Offset != rec.Offset || back.Size != rec.Size || back.Kind != rec.Kind || back.Compression != rec.Compression {
				t.Fatalf("%+v became %+v, %v", rec.Index, back, err)
			}
			if rec.Compression != 0 {
				compressed++
			}
			return nil
		})
		if want := binary.LittleEndian.Uint64(b[len(b)-footerLen+4:]); err != nil || n != want {
			t.Errorf("%s: %d blobs, the footer says %d, %v", name, n, want, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if compressed == 0 {
		t.Error("no golden blob is compressed")
	}
}

// TestDamagedBlobs flips every byte of a file in turn: a record is whole, or an error
// names the file.
func TestDamagedBlobs(t *testing.T) {
	b := goldenFiles(t)["000014.blob"]
	b = b[:min(len(b), 2000)]
	whole, err := openBytes(t, b)
	if err != nil {
		t.Fatal(err)
	}
	var first Record
	stop := errors.New("stop")
	whole.Each(func(rec Record) error {
		first = rec
		first.Key, first.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
		return stop
	})
	end := int(first.Offset + first.Size)
	for i := range end {
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x40
		r, err := openBytes(t, damaged)
		var got []byte
		if err == nil {
			got, err = r.Get(&first.Index, first.Key, nil)
		}
		free := i >= 8 && i < 13 || i >= 14 && i < headerLen // family, flags and expirations say nothing about a value
		if free != (err == nil && bytes.Equal(got, first.Value)) || err != nil && !errors.Is(err, keys.ErrCorruption) {
			t.Fatalf("byte %d flipped: %d bytes, %v", i, len(got), err)
		}
	}
	for _, i := range []Index{{Kind: Plain, Offset: 1 << 60, Size: 1}, {Kind: Plain, Offset: 62, Size: 1 << 62}, {Kind: Plain, Offset: 3, Size: 4}, {Kind: Plain, Offset: first.Offset, Size: first.Size - 1, Compression: first.Compression}} {
		if _, err := whole.Get(&i, first.Key, nil); !errors.Is(err, keys.ErrCorruption) {
			t.Errorf("%+v: %v", i, err)
		}
	}
}

// FuzzDecodeIndex: an error or a round trip.
func FuzzDecodeIndex(f *testing.F) {
	for _, i := range []Index{{Kind: Plain, File: 12, Offset: 70, Size: 154}, {Kind: Inlined, Expiration: 9, Value: []byte("v")}, {Kind: Expiring, Expiration: 1 << 40, File: 3, Offset: 30, Size: 1 << 33, Compression: 7}} {
		f.Add(i.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := DecodeIndex(b)
		if err != nil {
			if !errors.Is(err, keys.ErrCorruption) {
				t.Fatal(err)
			}
			return
		}
		back, err := DecodeIndex(i.Append(nil))
		if err != nil || back.String() != i.String() {
			t.Fatalf("%v became %v, %v", &i, &back, err)
		}
	})
}

// FuzzReader: no file makes it panic, or take memory that is not in the file.
func FuzzReader(f *testing.F) {
	for _, b := range goldenFiles(f) {
		f.Add(b[:min(len(b), 600)])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := openBytes(t, b)
		if err != nil {
			return
		}
		if err := r.Each(func(rec Record) error { return nil }); err != nil && !errors.Is(err, keys.ErrCorruption) {
			t.Fatal(err)
		}
		i := Index{Kind: Plain, Offset: 70, Size: 154, Compression: r.Compression()}
		r.Get(&i, []byte("k000/0"), nil)
		r.Close()
	})
}
