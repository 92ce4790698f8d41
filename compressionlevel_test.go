package flatrock

import (
	"context"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestCompressionPerLevelCountsFromTheBaseLevel: with dynamic level bytes the second element is that of the
// level which level 0 is merged into, and with fixed ones that of level 1.
func TestCompressionPerLevelCountsFromTheBaseLevel(t *testing.T) {
	for _, c := range []struct {
		dynamic     Toggle
		level       int
		compression string
	}{{On, 6, "LZ4"}, {Off, 1, "LZ4"}} {
		db, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
			Table: BlockBasedTableOptions{}, LevelCompactionDynamicLevelBytes: c.dynamic, DisableAutoCompactions: true,
			CompressionPerLevel: []Compression{NoCompression, LZ4Compression, ZSTDCompression}}})
		if err != nil {
			t.Fatal(err)
		}
		check := func(level int, compression string) {
			t.Helper()
			cf := db.defaultCF
			files := cf.files.version.Levels[level]
			if len(files) != 1 {
				t.Fatalf("dynamic %v: %d files in level %d", c.dynamic, len(files), level)
			}
			if got := cf.propertiesOf(files[0].Number).CompressionName; got != compression {
				t.Errorf("dynamic %v: level %d is compressed by %s, want %s", c.dynamic, level, got, compression)
			}
		}
		for i := range 1000 {
			if err := db.Put(nil, fmt.Appendf(nil, "key%04d", i), make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		check(0, "NoCompression")
		if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
			t.Fatal(err)
		}
		check(c.level, c.compression)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
