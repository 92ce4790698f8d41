//go:build oracle

package oracle_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock"
)

// TestSstFiles: block-based tables that Flatrock makes without a database are whole to
// sst_dump, and RocksDB ingests them, over what the database held. (Plain tables:
// RocksDB 7.8 neither ingests them nor reads them with sst_dump; the tests of
// plaintable have their oracle.)
func TestSstFiles(t *testing.T) {
	const n = 2000
	key := func(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }
	value := func(i int) []byte { return fmt.Appendf(nil, "value %d of the file", i) }
	for name, o := range map[string]flatrock.ColumnFamilyOptions{
		"lz4":              {},
		"format version 2": {Compression: flatrock.NoCompression, Table: flatrock.BlockBasedTableOptions{FormatVersion: 2, Checksum: flatrock.CRC32C}},
		"zstd with a dictionary": {
			Compression: flatrock.ZSTDCompression, Table: flatrock.BlockBasedTableOptions{FilterPolicy: flatrock.BloomFilter(10)},
			CompressionOptions: flatrock.CompressionOptions{WindowBits: -14, Level: 3, MaxDictBytes: 4096, ZstdMaxTrainBytes: 65536, UseZstdDictTrainer: true},
		},
		"partitioned": {Table: flatrock.BlockBasedTableOptions{
			IndexType: flatrock.TwoLevelIndexSearch, PartitionFilters: true, FilterPolicy: flatrock.RibbonFilter(10), MetadataBlockSize: 256,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file, db := filepath.Join(dir, "out.sst"), filepath.Join(dir, "db")
			w, err := flatrock.NewSstFileWriter(file, &flatrock.SstFileWriterOptions{ColumnFamily: &o})
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if i%10 == 3 {
					err = w.Delete(key(i))
				} else {
					err = w.Put(key(i), value(i))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range [][2]int{{n + 20, n + 30}, {n + 5, n + 25}} { // unsorted and overlapping
				if err := w.DeleteRange(key(r[0]), key(r[1])); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Finish(); err != nil {
				t.Fatal(err)
			}

			out, err := tool("sst_dump", "--file="+file, "--command=scan", "--show_properties")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(out, " => value "); got != n*9/10 {
				t.Fatalf("sst_dump scans %d values, want %d\n%s", got, n*9/10, tail(out))
			}
			for _, command := range []string{"check", "verify"} {
				if out, err := tool("sst_dump", "--file="+file, "--command="+command, "--verify_checksum"); err != nil || strings.Contains(out, "orruption") {
					t.Fatalf("sst_dump %s: %v\n%s", command, err, tail(out))
				}
			}

			// The file is newer than what RocksDB has: it overrides and deletes.
			for _, i := range []int{3, 4, n + 4, n + 5, n + 29, n + 30} {
				if _, err := tool("ldb", "--db="+db, "--create_if_missing", "put", string(key(i)), "old"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := tool("ldb", "--db="+db, "ingest_extern_sst", file); err != nil {
				t.Fatal(err)
			}
			if out, err := tool("ldb", "--db="+db, "checkconsistency"); err != nil || strings.TrimSpace(out) != "OK" {
				t.Fatalf("ldb checkconsistency: %v\n%s", err, out)
			}
			want := func(i int) (string, bool) {
				switch {
				case i < n:
					return string(value(i)), i%10 != 3
				default:
					return "old", i == n+4 || i == n+30
				}
			}
			out, err = tool("ldb", "--db="+db, "scan")
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			for i := range n + 40 {
				v, ok := want(i)
				if !ok {
					continue
				}
				if len(lines) == 0 || lines[0] != fmt.Sprintf("%s : %s", key(i), v) {
					t.Fatalf("ldb scan: key %d is %q", i, lines[:min(1, len(lines))])
				}
				lines = lines[1:]
			}
			if len(lines) != 0 {
				t.Fatalf("ldb scan: more keys: %q", lines[0])
			}

			// And Flatrock reads what RocksDB made of it.
			ours, err := flatrock.Open(db, &flatrock.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			for i := range n + 40 {
				v, err := ours.Get(nil, key(i), nil)
				w, ok := want(i)
				if ok && (err != nil || string(v) != w) || !ok && !errors.Is(err, flatrock.ErrNotFound) {
					t.Fatalf("key %d: %q, %v", i, v, err)
				}
			}
		})
	}
}
