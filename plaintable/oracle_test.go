//go:build rocksdb

// RocksDB as the oracle: go test -tags rocksdb, with g++ and librocksdb-dev.

package plaintable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/prefixhash"
)

func TestRocksDBReadsOurFiles(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "read_plain")
	if out, err := exec.Command("g++", "-std=c++17", "testdata/oracle/read_plain.cc", "-lrocksdb", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("g++: %v\n%s", err, out)
	}
	rng := rand.New(rand.NewPCG(21, 22))
	for i := range 96 {
		o := WriterOptions{Options: DefaultOptions(), ChunkChecksums: i%2 == 0, RocksDBLayout: i/32 == 2}
		name := []string{"noop", "fixed4", "none"}[i%3]
		switch name {
		case "noop":
			o.Extractor = prefixhash.Noop()
		case "fixed4":
			o.Extractor = prefixhash.Fixed(4)
		default:
			o.HashTableRatio = 0
		}
		o.EncodingType = EncodingType(i / 2 % 2)
		if i/4%2 == 1 {
			o.UserKeyLen = 12
		}
		o.BloomLocality = uint32(i / 8 % 2)
		o.StoreIndexInFile = i/16%4 > 0
		var rows []entry
		var listing bytes.Buffer
		for _, r := range randomRows(rng, o, 3000) {
			if keys.KindOf(r.trailer) == keys.KindValue && (len(rows) == 0 || !bytes.Equal(rows[len(rows)-1].key, r.key)) {
				rows = append(rows, r)
				fmt.Fprintf(&listing, "%x %x\n", r.key, r.value)
			}
		}
		b, _ := writeTable(t, o, rows)
		file, list := filepath.Join(dir, "000001.sst"), filepath.Join(dir, "listing")
		for name, content := range map[string][]byte{file: b, list: listing.Bytes()} {
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.Command(program, file, list, name, fmt.Sprint(o.HashTableRatio)).CombinedOutput(); err != nil {
			t.Errorf("file %d %+v: %v: %s", i, o, err, out)
		}
	}
}
