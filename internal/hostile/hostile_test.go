package hostile

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/internal/blob"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/record"
	"github.com/flatrock-db/flatrock/mmapfs"
)

const golden = "../../testdata/golden/db/d08_blob/db/"

// TestSealChangesNothingWhole: the checksums of files that RocksDB wrote are those that Seal computes.
func TestSealChangesNothingWhole(t *testing.T) {
	files, err := filepath.Glob(golden + "*")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	tables, err := filepath.Glob("../../testdata/golden/block*/*.sst")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, tables...) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > 6000 && slices.Contains(tables, f) {
			continue // finding blocks takes the square of their length
		}
		name := filepath.Base(f)
		if filepath.Ext(name) == ".sst" {
			if blocks, foot := Blocks(b); len(blocks) < 2 && !foot.Plain() {
				t.Errorf("%s: %d blocks found", name, len(blocks))
			}
			name = "000001.sst"
		}
		sealed := bytes.Clone(b)
		if Seal(name, b, sealed); !bytes.Equal(sealed, b) {
			t.Errorf("%s changes", f)
		}
	}
}

// TestSealedChangesAreBelieved flips each bit of some bytes of each kind of file: no checksum
// notices.
func TestSealedChangesAreBelieved(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	complains := map[string]func(name string, b []byte) error{
		"MANIFEST-000005": readRecords,
		"000028.log":      readRecords,
		"000013.sst": func(name string, b []byte) error {
			r, err := blocktable.Open(file(t, name, b), blocktable.ReaderOptions{})
			if err != nil {
				return err
			}
			return errors.Join(r.VerifyChecksums(context.Background()), r.Close())
		},
		"000012.blob": func(name string, b []byte) error {
			r, err := blob.Open(file(t, name, b))
			if err != nil {
				return err
			}
			return errors.Join(r.Each(func(blob.Record) error { return nil }), r.Close())
		},
	}
	for _, name := range slices.Sorted(maps.Keys(complains)) {
		complain := complains[name]
		b, err := os.ReadFile(golden + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := complain(name, b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		noticed := 0
		for range 100 {
			// Near the start lie data, whatever the kind: of a record, of a block, of a blob.
			spoiled := bytes.Clone(b)
			spoiled[100+rng.IntN(60)] ^= 1 << rng.IntN(8)
			blind := complain(name, spoiled)
			Seal(name, b, spoiled)
			sealed := complain(name, spoiled)
			if blind != nil {
				noticed++
			}
			if sealed != nil && bytes.Contains([]byte(sealed.Error()), []byte("hecksum")) {
				t.Errorf("%s: sealed, and %v", name, sealed)
			}
		}
		if noticed < 80 { // some make a torn end of a log
			t.Errorf("%s: %d of 100 flipped bits are noticed unsealed", name, noticed)
		}
	}
}

func file(t *testing.T, name string, b []byte) mmapfs.File {
	t.Helper()
	f, err := mmapfs.NewMem().Create("/" + name)
	if err == nil {
		_, err = f.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func readRecords(name string, b []byte) error {
	_, number, _ := manifest.ParseName(name)
	r := record.NewReader(bytes.NewReader(b), name, number, record.ReaderOptions{Meta: func(record.Type, []byte, int64) error { return nil }})
	for {
		_, err := r.Next()
		var d *record.Damage
		if errors.As(err, &d) && d.Tail() {
			return nil
		}
		if err != nil {
			if err.Error() == "EOF" {
				return nil
			}
			return err
		}
	}
}

// TestTurnedPointersLeadElsewhere: a handle changes, and no byte beside it.
func TestTurnedPointersLeadElsewhere(t *testing.T) {
	b, err := os.ReadFile(golden + "000034.sst")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2, 2))
	places := map[int]bool{}
	for range 200 {
		turned := turn(rng, bytes.Clone(b))
		if len(turned) != len(b) {
			t.Fatal("the length changed")
		}
		first, last := -1, -1
		for i := range b {
			if b[i] != turned[i] {
				if last = i; first < 0 {
					first = i
				}
			}
		}
		if first >= 0 {
			places[first/8] = true
		}
		if last-first > 8 {
			t.Fatalf("bytes %d to %d changed", first, last)
		}
	}
	if len(places) < 4 {
		t.Errorf("handles at %d places were turned", len(places))
	}
}
