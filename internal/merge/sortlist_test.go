package merge

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// TestSortListEqualsRocksDBs compares with what testdata/sortlist_gen.cc printed.
func TestSortListEqualsRocksDBs(t *testing.T) {
	text, err := os.ReadFile("testdata/sortlist-7.8.3.txt")
	if err != nil {
		t.Fatal(err)
	}
	unhex := func(s string) []byte {
		if s == "-" {
			return nil
		}
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	checked := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		var value []byte
		if f[1] != "absent" {
			value = unhex(f[1])
		}
		var operands [][]byte
		for _, o := range f[3:] {
			operands = append(operands, unhex(o))
		}
		got, err := SortList().FullMerge([]byte("k"), value, f[1] != "absent", operands)
		if (err == nil) != (f[0] == "1") || err == nil && string(got) != string(unhex(f[2])) {
			t.Errorf("%q with %q = %q, %v; RocksDB gives %s %q", value, operands, got, err, f[0], unhex(f[2]))
		}
		checked++
	}
	if checked != 4*32 {
		t.Errorf("checked %d results", checked)
	}
}
