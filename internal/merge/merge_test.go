package merge

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

func ops(s ...string) [][]byte {
	out := make([][]byte, len(s))
	for i := range s {
		out[i] = []byte(s[i])
	}
	return out
}

const absent = "\x00absent"

// TestResultsEqualRocksDBs compares with what testdata/merge_gen.cc printed.
func TestResultsEqualRocksDBs(t *testing.T) {
	one, ff := "\x01\x00\x00\x00\x00\x00\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\xff"
	existing := ops(absent, "", "short", one, ff, "z", "\x01\x02\x03")
	operands := [][][]byte{ops(one), ops("a", "b"), ops(""), ops("\xff"), ops("nine bytes", one), ops("\x01\x05", "\x00\x01\x07")}
	text, err := os.ReadFile("testdata/rocksdb-7.8.3.txt")
	if err != nil {
		t.Fatal(err)
	}
	var op Operator
	checked := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if head, ok := strings.CutPrefix(line, "# "); ok {
			id, name, _ := strings.Cut(head, " ")
			delimiter := ","
			if id == "{id=StringAppendOperator;delimiter=--;}" {
				id, delimiter = StringAppendName, "--"
			}
			if op = ByName(id, delimiter); op == nil || op.Name() != name {
				t.Fatalf("%s: %v, %v", head, op, err)
			}
			continue
		}
		f := strings.Split(line, " ")
		e, o := f[1][0]-'0', f[2][0]-'0'
		value := existing[e]
		if e == 0 {
			value = nil
		}
		got, err := op.FullMerge([]byte("k"), value, e != 0, operands[o])
		if f[0] != "1" || err != nil || hex.EncodeToString(got) != f[3] {
			t.Errorf("%s: %q with %q = %x, %v; RocksDB gives %s", op.Name(), value, operands[o], got, err, f[3])
		}
		checked++
	}
	if checked != 7*7*6 {
		t.Errorf("checked %d results, want %d", checked, 7*7*6)
	}
}

func TestFullMergeResults(t *testing.T) {
	one, two := "\x01\x00\x00\x00\x00\x00\x00\x00", "\x02\x00\x00\x00\x00\x00\x00\x00"
	for _, c := range []struct {
		op       Operator
		existing string
		operands [][]byte
		want     string
	}{
		{UInt64Add(), absent, ops(one), one},
		{UInt64Add(), one, ops(one), two},
		{UInt64Add(), "short", ops(one), one},
		{UInt64Add(), one, ops("nine bytes", one), two},
		{UInt64Add(), "", ops(two), two},
		{UInt64Add(), "\xff\xff\xff\xff\xff\xff\xff\xff", ops(two), one},
		{StringAppend(","), absent, ops("a"), "a"},
		{StringAppend(","), absent, ops("a", "b"), "a,b"},
		{StringAppend(","), "", ops("a"), ",a"},
		{StringAppend("--"), "x", ops("", "b"), "x----b"},
		{StringAppend(""), "x", ops("y"), "xy"},
		{StringAppendTest(","), absent, ops("a", "b"), "a,b"},
		{StringAppendTest(","), "", ops("a"), ",a"},
		{Max(), absent, ops(""), ""},
		{Max(), "b", ops("a", "ba"), "ba"},
		{Max(), "z", ops("a", "\x7f"), "\x7f"},
		{Max(), "z", ops("\xff", "\xfe"), "\xff"},
		{Put(), "x", ops("a", "b"), "b"},
		{BytesXOR(), absent, ops("\x01\x02"), "\x01\x02"},
		{BytesXOR(), "\x01\x02\x03", ops("\xff"), "\xfe\x02\x03"},
		{BytesXOR(), "\x01", ops("\x01\x05", "\x00\x01\x07"), "\x00\x04\x07"},
	} {
		var existing []byte
		has := c.existing != absent
		if has {
			existing = []byte(c.existing)
		}
		got, err := c.op.FullMerge([]byte("k"), existing, has, c.operands)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q with %q = %q, %v; want %q", c.op.Name(), c.existing, c.operands, got, err, c.want)
		}
		app, err := Append([]byte("head"), c.op, []byte("k"), existing, has, c.operands)
		if err != nil || string(app) != "head"+c.want {
			t.Errorf("%s: Append = %q, %v; want head%q", c.op.Name(), app, err, c.want)
		}
	}
}

func TestPartialMergeChangesNoResult(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, op := range []PartialMerger{UInt64Add(), StringAppend(","), Max(), Put(), BytesXOR()} {
		for range 200 {
			operands := make([][]byte, 2+rng.IntN(5))
			for i := range operands {
				operands[i] = make([]byte, []int{8, 8, 8, 0, 3}[rng.IntN(5)])
				for j := range operands[i] {
					operands[i][j] = byte(rng.Uint32())
				}
			}
			existing, has := []byte("12345678"), rng.IntN(2) == 0
			if !has {
				existing = nil
			}
			want, err := op.FullMerge(nil, existing, has, operands)
			if err != nil {
				t.Fatal(err)
			}
			cut := 2 + rng.IntN(len(operands)-1)
			left, ok := op.PartialMerge(nil, operands[:cut])
			if !ok {
				t.Fatalf("%s refuses a partial merge", op.Name())
			}
			got, err := op.FullMerge(nil, existing, has, append([][]byte{left}, operands[cut:]...))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %q onto %q: %q after a partial merge, %q before", op.Name(), operands, existing, got, want)
			}
		}
	}
}

type refusing struct{}

var errRefused = errors.New("refused")

func (refusing) Name() string { return "refusing" }
func (refusing) FullMerge([]byte, []byte, bool, [][]byte) ([]byte, error) {
	return nil, errRefused
}

func TestAppendNamesOperatorAndKey(t *testing.T) {
	out, err := Append([]byte("x"), refusing{}, []byte("key"), nil, false, ops("a"))
	if !errors.Is(err, errRefused) || string(out) != "x" || err.Error() != `merge operator refusing: key "key": refused` {
		t.Errorf("%q, %v", out, err)
	}
}

func TestBuiltInOperatorsAppendWithoutAllocation(t *testing.T) {
	operands, existing, dst := ops("12345678", "12345678"), []byte("12345678"), make([]byte, 0, 64)
	for _, op := range []Operator{UInt64Add(), StringAppend(","), StringAppendTest(","), Max(), Put(), BytesXOR()} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := Append(dst, op, nil, existing, true, operands); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want none", op.Name(), n)
		}
	}
}
