package flatrock

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestEachFlippedByteOfPlainRowsIsCaught flips each byte of the rows of a plain table in use. A sampled read never
// returns another value, and the scrub finds every flip; reads that check nothing return what is there, which
// shows that the flips matter.
func TestEachFlippedByteOfPlainRowsIsCaught(t *testing.T) {
	key := func(i int) []byte { return fmt.Appendf(nil, "prefix%c/%02d", 'a'+i%3, i) }
	value := func(i int) []byte { return fmt.Appendf(nil, "the value of number %d", i) }
	const n = 24
	for _, encoding := range []Encoding{PlainEncoding, PrefixEncoding} {
		for _, sampled := range []bool{false, true} {
			dir, po := t.TempDir(), PlainTableOptions{Memory: MemoryNone, EncodingType: encoding}
			if sampled {
				po.VerifyReadsOneIn = 1
			}
			db, err := Open(dir, &Options{CreateIfMissing: true, FS: mmapfs.OS, ColumnFamily: &ColumnFamilyOptions{Table: po, PrefixExtractor: FixedPrefix(7)}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if err := db.Put(nil, key(i), value(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Flush(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			if err != nil || len(names) != 1 {
				t.Fatal(names, err)
			}
			table, err := OpenSstFile(names[0], nil)
			if err != nil {
				t.Fatal(err)
			}
			rows := int64(table.Properties().DataSize)
			f, err := os.OpenFile(names[0], os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			keys := make([][]byte, n)
			for i := range keys {
				keys[i] = key(i)
			}
			var wrong, refused int
			look := func(at int64) {
				results, err := db.MultiGet(nil, keys, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i, k := range keys {
					v, err := db.Get(nil, k, nil)
					for _, r := range []GetResult{{Value: v, Err: err}, results[i]} {
						switch {
						case errors.Is(r.Err, ErrCorruption):
							refused++
						case r.Err == nil && !bytes.Equal(r.Value, value(i)):
							if wrong++; sampled {
								t.Errorf("byte %d flipped: %q = %q", at, k, r.Value)
							}
						case r.Err != nil && !errors.Is(r.Err, ErrNotFound):
							t.Errorf("byte %d flipped: %q: %v", at, k, r.Err)
						}
					}
				}
			}
			var b [1]byte
			for at := range rows {
				if _, err := f.ReadAt(b[:], at); err != nil {
					t.Fatal(err)
				}
				whole := b[0]
				for _, flip := range []byte{1, 0x80} {
					b[0] = whole ^ flip
					if _, err := f.WriteAt(b[:], at); err != nil {
						t.Fatal(err)
					}
					look(at)
					if err := db.scrub(t.Context(), db.DefaultColumnFamily(), 1<<40); !errors.Is(err, ErrCorruption) {
						t.Errorf("byte %d flipped: the scrub says %v", at, err)
					}
				}
				b[0] = whole
				if _, err := f.WriteAt(b[:], at); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.scrub(t.Context(), db.DefaultColumnFamily(), 1<<40); err != nil {
				t.Errorf("all bytes as they were: the scrub says %v", err)
			}
			if sampled && refused == 0 || !sampled && wrong == 0 {
				t.Errorf("sampled %v: %d reads were refused, %d were wrong; the test shows nothing", sampled, refused, wrong)
			}
			if err := errors.Join(f.Close(), table.Close(), db.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}
