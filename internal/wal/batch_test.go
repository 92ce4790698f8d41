package wal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// entity is cf 1's "wide" of golden d21.
const entity = "01 02 02 6331 02 02 6332 02 7631 7632"

// publicBatch is the first record of golden d21: everything RocksDB's public API
// can put.
func publicBatch(t testing.TB) *Batch {
	var b Batch
	for i, err := range []error{
		b.Put(0, []byte("a"), []byte("1")),
		b.Put(1, []byte("a"), nil),
		b.Put(2, nil, []byte("empty key")),
		b.LogData([]byte("some log data")),
		b.Delete(0, []byte("zz")),
		b.Delete(1, []byte("zz")),
		b.SingleDelete(0, []byte("once")),
		b.SingleDelete(2, []byte("once")),
		b.Merge(0, []byte("m"), []byte("x")),
		b.Merge(1, []byte("m"), []byte("y")),
		b.DeleteRange(0, []byte("r0"), []byte("r9")),
		b.DeleteRange(2, []byte("r0"), []byte("r9")),
		b.PutEntity(1, []byte("wide"), unhex(t, entity)),
	} {
		if err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
	b.SetSequence(1)
	return &b
}

const publicBatchHex = "0100000000000000 0c000000" +
	"01 01 61 01 31" + "05 01 01 61 00" + "05 02 00 09 656d707479206b6579" +
	"03 0d 736f6d65206c6f672064617461" + "00 02 7a7a 04 01 02 7a7a" +
	"07 04 6f6e6365 08 02 04 6f6e6365" + "02 01 6d 01 78 06 01 01 6d 01 79" +
	"0f 02 7230 02 7239 0e 02 02 7230 02 7239" + "17 01 04 77696465 0e" + entity

func TestBatchMatchesTheFactSheet(t *testing.T) {
	b := publicBatch(t)
	if got, want := b.Bytes(), unhex(t, publicBatchHex); !bytes.Equal(got, want) {
		t.Errorf("encoded\n%x, want\n%x", got, want)
	}
	if b.Count() != 12 || b.Size() != 120 || b.Sequence() != 1 {
		t.Errorf("count %d, size %d, sequence %d", b.Count(), b.Size(), b.Sequence())
	}
}

// describe lists the operations of a batch.
func describe(t testing.TB, batch []byte) string {
	t.Helper()
	var out []string
	var op Op
	d := Decode(batch)
	for d.Next(&op) {
		s := fmt.Sprintf("%02x cf%d %q %q", uint8(op.Kind), op.CF, op.Key, op.Value)
		if op.Counts() {
			s += "#"
		}
		out = append(out, s)
	}
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

func TestDecodeNamesEveryOperation(t *testing.T) {
	want := `01 cf0 "a" "1"#
01 cf1 "a" ""#
01 cf2 "" "empty key"#
03 cf0 "some log data" ""
00 cf0 "zz" ""#
00 cf1 "zz" ""#
07 cf0 "once" ""#
07 cf2 "once" ""#
02 cf0 "m" "x"#
02 cf1 "m" "y"#
0f cf0 "r0" "r9"#
0f cf2 "r0" "r9"#
16 cf1 "wide" "\x01\x02\x02c1\x02\x02c2\x02v1v2"#`
	if got := describe(t, publicBatch(t).Bytes()); got != want {
		t.Errorf("decoded\n%s, want\n%s", got, want)
	}
}

func TestDecodeKnowsWhatOnlyTheSourceTells(t *testing.T) {
	var b Batch
	b.Noop()
	b.BeginPrepare()
	b.PutBlobIndex(0, []byte("k"), []byte("i"))
	b.PutBlobIndex(300, []byte("k"), []byte("i"))
	b.TimedPut(0, []byte("k"), []byte("v"), 5)
	b.TimedPut(7, []byte("k"), []byte("v"), 5)
	b.EndPrepare([]byte("x"))
	b.Commit([]byte("x"))
	b.Rollback([]byte("y"))
	rep := append(b.Bytes(), unhex(t, "16 01 6b 01 65 15 02 7473 03 786964 12 0a 00")...)
	rep[8]++ // the entity counts
	want := `0d cf0 "" ""
09 cf0 "" ""
11 cf0 "k" "i"#
11 cf300 "k" "i"#
18 cf0 "k" "v\x05\x00\x00\x00\x00\x00\x00\x00"#
18 cf7 "k" "v\x05\x00\x00\x00\x00\x00\x00\x00"#
0a cf0 "x" ""
0b cf0 "x" ""
0c cf0 "y" ""
16 cf0 "k" "e"#
15 cf0 "xid" "ts"
12 cf0 "" ""
0a cf0 "" ""`
	if got := describe(t, rep); got != want {
		t.Errorf("decoded\n%s, want\n%s", got, want)
	}
}

func TestEmptyBatchIsAHeader(t *testing.T) {
	var b Batch
	if !b.Empty() || b.Size() != 12 || b.Records() != nil {
		t.Error("a zero batch is not empty")
	}
	b.SetSequence(13)
	if got, want := b.Bytes(), unhex(t, "0d00000000000000 00000000"); !bytes.Equal(got, want) || !b.Empty() {
		t.Errorf("encoded %x, want %x", got, want)
	}
	if err := Validate(b.Bytes()); err != nil {
		t.Error(err)
	}
}

func TestGroupedBatchesAreOneRecord(t *testing.T) {
	a, c := publicBatch(t), &Batch{}
	c.Delete(9, []byte("q"))
	c.LogData([]byte("note"))
	var whole Batch
	if err := errors.Join(whole.Append(a), whole.Append(&Batch{}), whole.Append(c)); err != nil {
		t.Fatal(err)
	}
	whole.SetSequence(77)
	var h [HeaderLen]byte
	PutHeader(&h, 77, a.Count()+c.Count())
	parts := bytes.Join([][]byte{h[:], a.Records(), c.Records()}, nil)
	if !bytes.Equal(whole.Bytes(), parts) {
		t.Error("a group of records differs from the batch of both")
	}
	if got, want := describe(t, parts), describe(t, a.Bytes())+"\n"+describe(t, c.Bytes()); got != want {
		t.Errorf("decoded\n%s, want\n%s", got, want)
	}
}

func TestRollbackToForgetsWhatCameAfter(t *testing.T) {
	var b Batch
	empty := b.Mark()
	b.Put(0, []byte("a"), nil)
	want := bytes.Clone(b.Bytes())
	m := b.Mark()
	b.Put(3, []byte("b"), []byte("c"))
	b.LogData([]byte("d"))
	b.RollbackTo(m)
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%x, want %x", b.Bytes(), want)
	}
	b.RollbackTo(empty)
	if !b.Empty() || b.Count() != 0 {
		t.Error("not empty")
	}
}

func TestLoadChecks(t *testing.T) {
	var b Batch
	if err := b.Load(publicBatch(t).Bytes()); err != nil || b.Count() != 12 {
		t.Errorf("%v, count %d", err, b.Count())
	}
	if err := b.Load([]byte("short")); !errors.Is(err, keys.ErrCorruption) || !b.Empty() {
		t.Errorf("%v, empty %v", err, b.Empty())
	}
}

func TestDamagedBatchesAreRefused(t *testing.T) {
	for name, records := range map[string]string{
		"unknown tag":                     "1 | 1a 01 61",
		"deletion with timestamp":         "1 | 14 01 61",
		"tag without key":                 "1 | 01",
		"key cut":                         "1 | 01 05 61",
		"value missing":                   "1 | 01 01 61",
		"value cut":                       "1 | 01 01 61 02 62",
		"family cut":                      "1 | 05 ff",
		"family too large":                "1 | 05 ffffffffff01 01 61 00",
		"length too large":                "1 | 00 ffffffffff01 61",
		"count too small":                 "0 | 00 01 61",
		"count too large":                 "2 | 00 01 61",
		"log data counted":                "1 | 03 01 61",
		"time cut":                        "1 | 18 01 61 07 01020304050607",
		"prepare in prepare":              "0 | 09 09 0a 00",
		"end without prepare":             "0 | 0a 00",
		"prepare without end":             "0 | 09",
		"commit in prepare":               "0 | 09 0b 00 0a 00",
		"commit with timestamp, the same": "0 | 09 15 00 00 0a 00",
	} {
		count, ops, _ := strings.Cut(records, "|")
		rep := append(make([]byte, 12), unhex(t, ops)...)
		rep[8] = count[0] - '0'
		var c *keys.CorruptionError
		if err := Validate(rep); !errors.As(err, &c) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, n := range []int{0, 1, 11} {
		if err := Validate(make([]byte, n)); !errors.Is(err, keys.ErrCorruption) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	late := publicBatch(t)
	late.SetSequence(keys.MaxSeq - 11)
	if err := Validate(late.Bytes()); !errors.Is(err, keys.ErrCorruption) {
		t.Errorf("numbers beyond the last: %v", err)
	}
}

func TestRandomBatchesRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var b Batch
	for range 200 {
		b.Reset()
		var want []string
		for range rng.IntN(40) {
			cf := uint32(rng.IntN(3)) * 100
			k := make([]byte, rng.IntN(300))
			v := make([]byte, rng.IntN(300))
			for i := range k {
				k[i] = byte(rng.Uint32())
			}
			kind := []keys.Kind{keys.KindValue, keys.KindMerge, keys.KindRangeDelete, keys.KindDelete}[rng.IntN(4)]
			switch kind {
			case keys.KindValue:
				b.Put(cf, k, v)
			case keys.KindMerge:
				b.Merge(cf, k, v)
			case keys.KindRangeDelete:
				b.DeleteRange(cf, k, v)
			case keys.KindDelete:
				b.Delete(cf, k)
				v = nil
			}
			want = append(want, fmt.Sprintf("%02x cf%d %q %q#", uint8(kind), cf, k, v))
		}
		if got := describe(t, b.Bytes()); got != strings.Join(want, "\n") {
			t.Fatalf("decoded\n%s, want\n%s", got, strings.Join(want, "\n"))
		}
		if binary.LittleEndian.Uint32(b.Bytes()[8:]) != b.Count() {
			t.Fatal("the header's count differs")
		}
	}
}

func TestBatchesAllocateOnlyToGrow(t *testing.T) {
	b := publicBatch(t)
	key, value := []byte("key"), make([]byte, 50)
	b.Reset()
	build := func() {
		b.Reset()
		b.Put(1, key, value)
		b.Delete(0, key)
		b.SetSequence(4)
		b.Bytes()
	}
	if n := testing.AllocsPerRun(100, build); n != 0 {
		t.Errorf("building: %v allocations", n)
	}
	rep := publicBatch(t).Bytes()
	if n := testing.AllocsPerRun(100, func() { Validate(rep) }); n != 0 {
		t.Errorf("decoding: %v allocations", n)
	}
}

// FuzzDecode decodes anything; what is intact builds the same batch again.
func FuzzDecode(f *testing.F) {
	f.Add(publicBatch(f).Bytes())
	f.Add(unhex(f, "0200000000000000 01000000 09 00 01 61 0a 01 78"))
	f.Add(unhex(f, "0200000000000000 00000000 0b 01 78 0c 01 79 15 01 74 01 78"))
	f.Add(unhex(f, "0200000000000000 02000000 18 01 6b 09 76 0000000000000000 19 05 01 6b 09 76 0000000000000000"))
	f.Fuzz(func(t *testing.T, rep []byte) {
		var b Batch
		var op Op
		d := Decode(rep)
		again := true
		for d.Next(&op) {
			switch op.Kind {
			case keys.KindValue:
				b.Put(op.CF, op.Key, op.Value)
			case keys.KindDelete:
				b.Delete(op.CF, op.Key)
			case keys.KindSingleDelete:
				b.SingleDelete(op.CF, op.Key)
			case keys.KindMerge:
				b.Merge(op.CF, op.Key, op.Value)
			case keys.KindRangeDelete:
				b.DeleteRange(op.CF, op.Key, op.Value)
			case keys.KindEntity:
				b.PutEntity(op.CF, op.Key, op.Value)
			case keys.KindBlobIndex:
				b.PutBlobIndex(op.CF, op.Key, op.Value)
			case keys.KindValuePreferredSeqno:
				n := len(op.Value) - 8
				b.TimedPut(op.CF, op.Key, op.Value[:n], binary.LittleEndian.Uint64(op.Value[n:]))
			case KindLogData:
				b.LogData(op.Key)
			case KindNoop:
				b.Noop()
			case KindBeginPrepare:
				b.BeginPrepare()
			case KindEndPrepare:
				b.EndPrepare(op.Key)
			case KindCommit:
				b.Commit(op.Key)
			case KindRollback:
				b.Rollback(op.Key)
			default:
				again = false
			}
		}
		if d.Err() != nil {
			if !errors.Is(d.Err(), keys.ErrCorruption) {
				t.Fatal(d.Err())
			}
			return
		}
		if !again {
			return
		}
		b.SetSequence(d.Sequence())
		if describe(t, b.Bytes()) != describe(t, rep) {
			t.Fatal("built again it differs")
		}
	})
}
