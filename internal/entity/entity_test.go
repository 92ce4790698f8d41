package entity

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// goldenEntities are the columns of d18_wide_columns's listing.
func goldenEntities(tb testing.TB) [][]Column {
	tb.Helper()
	text, err := os.ReadFile("../../testdata/golden/db/d18_wide_columns/expected.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	var all [][]Column
	for line := range strings.Lines(string(text)) {
		var row struct{ Columns [][2]string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			tb.Fatal(err)
		}
		if row.Columns == nil {
			continue
		}
		var columns []Column
		for _, c := range row.Columns {
			name, err1 := hex.DecodeString(c[0])
			value, err2 := hex.DecodeString(c[1])
			if err := errors.Join(err1, err2); err != nil {
				tb.Fatal(err)
			}
			columns = append(columns, Column{name, value})
		}
		all = append(all, columns)
	}
	if len(all) == 0 {
		tb.Fatal("the golden listing has no entity")
	}
	return all
}

func encode(tb testing.TB, columns []Column) []byte {
	tb.Helper()
	b, err := Append(nil, columns)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// The tables and the log of d18 are not compressed, so what RocksDB wrote for
// each listed entity must be found in them as it is.
func TestEncodingIsWhatRocksDBWrote(t *testing.T) {
	var written []byte
	for _, pattern := range []string{"*.sst", "*.log"} {
		files, err := filepath.Glob("../../testdata/golden/db/d18_wide_columns/db/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no golden %s: %v", pattern, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			written = append(written, b...)
		}
	}
	for _, columns := range goldenEntities(t) {
		b := encode(t, columns)
		if !bytes.Contains(written, b) {
			t.Errorf("%x, made of %q, is nowhere in the golden files", b, columns)
		}
		back, err := Decode(nil, b)
		if err != nil || !equal(back, columns) {
			t.Errorf("%x reads as %q, %v; want %q", b, back, err, columns)
		}
		var want []byte
		if len(columns[0].Name) == 0 {
			want = columns[0].Value
		}
		if got, err := Default(b); err != nil || !bytes.Equal(got, want) {
			t.Errorf("default column of %x = %q, %v; want %q", b, got, err, want)
		}
	}
}

func equal(a, b []Column) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i].Name, b[i].Name) || !bytes.Equal(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

// version2Bytes encodes columns in version 2, each of the kind given.
func version2Bytes(columns []Column, kinds ...keys.Kind) []byte {
	var nameSizes, valueSizes, names, values, types []byte
	for i, c := range columns {
		nameSizes = coding.AppendUvarint(nameSizes, uint64(len(c.Name)))
		valueSizes = coding.AppendUvarint(valueSizes, uint64(len(c.Value)))
		names, values, types = append(names, c.Name...), append(values, c.Value...), append(types, byte(kinds[i]))
	}
	b := coding.AppendUvarint([]byte{version2}, uint64(len(columns)))
	for _, s := range [][]byte{nameSizes, valueSizes, names} {
		b = coding.AppendUvarint(b, uint64(len(s)))
	}
	return bytes.Join([][]byte{b, types, nameSizes, valueSizes, names, values}, nil)
}

func TestVersion2(t *testing.T) {
	columns := []Column{{nil, []byte("d")}, {[]byte("a"), []byte("first")}, {[]byte("b"), nil}}
	b := version2Bytes(columns, keys.KindValue, keys.KindValue, keys.KindValue)
	if got, err := Decode(nil, b); err != nil || !equal(got, columns) {
		t.Errorf("%x reads as %q, %v; want %q", b, got, err, columns)
	}
	if got, err := Default(b); err != nil || string(got) != "d" {
		t.Errorf("default column = %q, %v", got, err)
	}
	// A blob beside the default column hides only itself.
	b = version2Bytes(columns, keys.KindValue, keys.KindBlobIndex, keys.KindValue)
	if got, err := Default(b); err != nil || string(got) != "d" {
		t.Errorf("default column beside a blob = %q, %v", got, err)
	}
	if _, err := Decode(nil, b); !errors.Is(err, ErrColumnKind) {
		t.Errorf("a blob column gives %v, want ErrColumnKind", err)
	}
	b = version2Bytes(columns, keys.KindBlobIndex, keys.KindValue, keys.KindValue)
	if _, err := Default(b); !errors.Is(err, ErrColumnKind) {
		t.Errorf("a default column in a blob gives %v, want ErrColumnKind", err)
	}
}

func TestReplaceDefault(t *testing.T) {
	other := Column{[]byte("n"), []byte("v")}
	for _, before := range [][]Column{nil, {other}, {{nil, []byte("old")}}, {{nil, []byte("old")}, other}} {
		got, err := ReplaceDefault([]byte("head"), encode(t, before), []byte("new"))
		want := []Column{{nil, []byte("new")}}
		if len(before) > 0 && len(before[len(before)-1].Name) > 0 {
			want = append(want, other)
		}
		if err != nil || string(got) != "head"+string(encode(t, want)) {
			t.Errorf("%q becomes %x, %v", before, got, err)
		}
	}
	if out, err := ReplaceDefault([]byte("head"), []byte{9}, nil); err == nil || string(out) != "head" {
		t.Errorf("damage gives %q, %v", out, err)
	}
}

func TestAppendRefusesDisorder(t *testing.T) {
	for _, bad := range [][]Column{{{[]byte("b"), nil}, {[]byte("a"), nil}}, {{[]byte("a"), nil}, {[]byte("a"), nil}}} {
		if out, err := Append([]byte("x"), bad); err == nil || string(out) != "x" {
			t.Errorf("%q is written as %x", bad, out)
		}
	}
}

func TestEveryCutAndExtensionIsFound(t *testing.T) {
	columns := []Column{{nil, []byte("default")}, {[]byte("name"), []byte("value")}}
	for _, b := range [][]byte{encode(t, columns), version2Bytes(columns, keys.KindValue, keys.KindValue)} {
		for n := range b {
			if got, err := Decode(nil, b[:n]); !errors.Is(err, keys.ErrCorruption) {
				t.Errorf("%d of %d bytes read as %q, %v", n, len(b), got, err)
			}
			if got, err := Default(b[:n]); !errors.Is(err, keys.ErrCorruption) {
				t.Errorf("the default of %d of %d bytes is %q, %v", n, len(b), got, err)
			}
		}
		if got, err := Decode(nil, append(b, 0)); !errors.Is(err, keys.ErrCorruption) {
			t.Errorf("a byte too many reads as %q, %v", got, err)
		}
	}
	for _, bad := range []string{"03", "0180808010", "01ffffffff0f", "0202ffffffff0f0000", "010201620000016100"} {
		b, err := hex.DecodeString(bad)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(nil, b); !errors.Is(err, keys.ErrCorruption) {
			t.Errorf("%s reads as %q, %v", bad, got, err)
		}
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	b := encode(t, []Column{{nil, []byte("d")}, {[]byte("a"), []byte("v")}})
	room := make([]Column, 0, 4)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Default(b); err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(room, b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func FuzzDecode(f *testing.F) {
	for _, columns := range goldenEntities(f) {
		f.Add(encode(f, columns))
	}
	columns := []Column{{nil, []byte("d")}, {[]byte("a"), []byte("v")}}
	f.Add(version2Bytes(columns, keys.KindValue, keys.KindValue))
	f.Add(version2Bytes(columns, keys.KindValue, keys.KindBlobIndex))
	f.Fuzz(func(t *testing.T, b []byte) {
		columns, err := Decode(nil, b)
		value, derr := Default(b)
		if err != nil {
			if !errors.Is(err, keys.ErrCorruption) && !errors.Is(err, ErrColumnKind) {
				t.Errorf("%x: error of no known sort: %v", b, err)
			}
			return
		}
		var want []byte
		if len(columns) > 0 && len(columns[0].Name) == 0 {
			want = columns[0].Value
		}
		if derr != nil || !bytes.Equal(value, want) {
			t.Errorf("%x: default %q, %v; columns %q", b, value, derr, columns)
		}
		back, err := Decode(nil, encode(t, columns))
		if err != nil || !equal(back, columns) {
			t.Errorf("%x: %q is written and read as %q, %v", b, columns, back, err)
		}
	})
}
