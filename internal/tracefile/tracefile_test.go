package tracefile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

const golden = "../../testdata/golden/trace/"

func goldenFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(golden + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// expected calls f with each line of a golden expectation.
func expected(t *testing.T, name string, f func(line map[string]any)) (n int) {
	for line := range bytes.Lines(goldenFile(t, name)) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var m map[string]any
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		f(m)
		n++
	}
	return n
}

func number(t *testing.T, m map[string]any, name string) uint64 {
	t.Helper()
	v, ok := m[name].(json.Number)
	if !ok {
		return 0
	}
	n, err := v.Int64()
	if err != nil {
		t.Fatal(err)
	}
	return uint64(n)
}

func unhex(t *testing.T, v any) []byte {
	t.Helper()
	s, _ := v.(string)
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoldenBlockCacheTraceDecodesAndEncodesExactly(t *testing.T) {
	file := goldenFile(t, "block_cache_trace.bin")
	r, err := NewBlockReader(bytes.NewReader(file), "block_cache_trace.bin")
	if err != nil {
		t.Fatal(err)
	}
	if r.Major != 7 || r.Minor != 8 {
		t.Errorf("version %d.%d", r.Major, r.Minor)
	}
	again := AppendBlockHeader(nil, r.Micros)
	var a BlockAccess
	n := expected(t, "block_cache_trace.expected.jsonl", func(m map[string]any) {
		if err := r.Read(&a); err != nil {
			t.Fatal(err)
		}
		again = AppendBlockAccess(again, &a)
		name, _ := m["cf_name"].(string)
		want := BlockAccess{
			Micros: number(t, m, "ts"), Type: Type(number(t, m, "block_type")), BlockKey: unhex(t, m["block_key"]),
			Size: number(t, m, "block_size"), Family: number(t, m, "cf_id"), Name: []byte(name), Level: uint32(number(t, m, "level")),
			File: number(t, m, "sst"), Caller: table.Caller(number(t, m, "caller")), Hit: number(t, m, "is_cache_hit") == 1,
			NoInsert: number(t, m, "no_insert") == 1, GetID: number(t, m, "get_id"), FromSnapshot: number(t, m, "from_snapshot") == 1,
			DataSize: number(t, m, "referenced_data_size"), KeyCount: number(t, m, "num_keys_in_block"), KeyExists: number(t, m, "key_exists") == 1,
		}
		if _, ok := m["referenced_key"]; ok {
			want.ReferencedKey = unhex(t, m["referenced_key"])
		}
		if !reflect.DeepEqual(a, want) {
			t.Fatalf("read %+v\nwant %+v", a, want)
		}
	})
	if err := r.Read(&a); err != io.EOF {
		t.Fatalf("after %d accesses: %v", n, err)
	}
	if n != 316 {
		t.Errorf("%d accesses, want 316", n)
	}
	if !bytes.Equal(again, file) {
		t.Error("what we write of the accesses is not the golden file")
	}
}

func TestGoldenQueryTraceDecodesAndEncodesExactly(t *testing.T) {
	file := goldenFile(t, "query_trace.bin")
	r, err := NewQueryReader(bytes.NewReader(file), "query_trace.bin")
	if err != nil {
		t.Fatal(err)
	}
	again := AppendQueryHeader(nil, r.Micros)
	var q Query
	n := expected(t, "query_trace.expected.jsonl", func(m map[string]any) {
		if err := r.Read(&q); err != nil {
			t.Fatal(err)
		}
		again = AppendQuery(again, &q)
		if q.Micros != number(t, m, "ts") {
			t.Fatalf("time %d, want %v", q.Micros, m["ts"])
		}
		switch op := m["op"]; op {
		case "write":
			if want := unhex(t, m["batch"]); q.Type != Write || len(want) == 0 || !bytes.Equal(q.Batch, want) {
				t.Fatalf("%v %x, want %v", q.Type, q.Batch, m)
			}
		case "get":
			if q.Type != Get || uint64(q.Family) != number(t, m, "cf") || !bytes.Equal(q.Key, unhex(t, m["k"])) {
				t.Fatalf("%+v, want %v", q, m)
			}
		case "seek", "seek_for_prev":
			wantType := Seek
			if op != "seek" {
				wantType = SeekForPrev
			}
			if q.Type != wantType || uint64(q.Family) != number(t, m, "cf") || !bytes.Equal(q.Key, unhex(t, m["k"])) ||
				!bytes.Equal(q.Lower, unhex(t, m["lower"])) || !bytes.Equal(q.Upper, unhex(t, m["upper"])) {
				t.Fatalf("%+v, want %v", q, m)
			}
		case "multiget":
			all, _ := m["keys"].([]any)
			if q.Type != MultiGet || len(q.Keys) != len(all) || len(all) == 0 {
				t.Fatalf("%+v, want %v", q, m)
			}
			for i := range all {
				if !bytes.Equal(q.Keys[i], unhex(t, all[i])) {
					t.Fatalf("%+v, want %v", q, m)
				}
			}
		default:
			t.Fatalf("unexpected operation %v", m)
		}
	})
	if err := r.Read(&q); err != io.EOF || !r.Ended {
		t.Fatalf("after %d operations: %v, ended %v", n, err, r.Ended)
	}
	end := file[len(file)-headerLen:]
	again = AppendQueryEnd(again, binary.LittleEndian.Uint64(end))
	if !bytes.Equal(again, file) {
		t.Error("what we write of the operations is not the golden file")
	}
}

// oldPayloads are accesses in the forms of RocksDB 6.2 and 6.3, made by the fact
// sheet's table: no files of that time are at hand.
func oldFile(minor uint32, payloads ...[]byte) []byte {
	b := AppendHeader(nil, 1, Begin, 25)
	b = coding.AppendString(b, magic)
	b = binary.LittleEndian.AppendUint32(b, 6)
	b = binary.LittleEndian.AppendUint32(b, minor)
	for _, p := range payloads {
		b = AppendHeader(b, 2, DataBlock, len(p))
		b = append(b, p...)
	}
	return b
}

func TestOlderPayloadsAreRead(t *testing.T) {
	common := func(wide bool, caller byte) []byte {
		b := coding.AppendString(nil, "block")
		b = binary.LittleEndian.AppendUint64(b, 4096)
		if wide {
			b = binary.LittleEndian.AppendUint64(b, 3)
		} else {
			b = binary.LittleEndian.AppendUint32(b, 3)
		}
		b = coding.AppendString(b, "family")
		b = binary.LittleEndian.AppendUint32(b, 6)
		if wide {
			b = binary.LittleEndian.AppendUint64(b, 17)
		} else {
			b = binary.LittleEndian.AppendUint32(b, 17)
		}
		return append(b, caller, 1, 0)
	}
	get := BlockAccess{Micros: 2, Type: DataBlock, BlockKey: []byte("block"), Size: 4096, Family: 3, Name: []byte("family"), Level: 6, File: 17,
		Caller: table.CallerGet, Hit: true, ReferencedKey: []byte("key12345678"), KeyCount: 9, KeyExists: true}
	scan := get
	scan.Caller, scan.ReferencedKey, scan.KeyCount, scan.KeyExists = table.CallerIterator, nil, 0, false
	for minor := uint32(2); minor <= 3; minor++ {
		p := coding.AppendString(common(minor == 3, 1), "key12345678")
		if minor == 3 {
			p = binary.LittleEndian.AppendUint64(p, 100)
			get.DataSize = 100
		}
		p = binary.LittleEndian.AppendUint64(p, 9)
		p = append(p, 1)
		r, err := NewBlockReader(bytes.NewReader(oldFile(minor, p, common(minor == 3, 3))), "old")
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []BlockAccess{get, scan} {
			var a BlockAccess
			if err := r.Read(&a); err != nil {
				t.Fatalf("6.%d, access %d: %v", minor, i, err)
			}
			want.DataSize = 0
			if minor == 3 && i == 0 {
				want.DataSize = 100
			}
			if !reflect.DeepEqual(a, want) {
				t.Errorf("6.%d: read %+v\nwant %+v", minor, a, want)
			}
		}
	}
	// Query traces of version 0.1 have no map of fields.
	b := magic + "\tTrace Version: 0.1\tRocksDB Version: 6.10\tFormat: Timestamp OpType Payload\n"
	old := append(AppendHeader(nil, 1, Begin, len(b)), b...)
	body := coding.AppendString(binary.LittleEndian.AppendUint32(nil, 7), "key")
	old = append(AppendHeader(old, 5, Get, len(body)), body...)
	old = append(AppendHeader(old, 6, Write, 3), 1, 2, 3)
	r, err := NewQueryReader(bytes.NewReader(old), "old")
	if err != nil {
		t.Fatal(err)
	}
	var q Query
	if err := r.Read(&q); err != nil || q.Family != 7 || string(q.Key) != "key" {
		t.Errorf("%+v %v", q, err)
	}
	if err := r.Read(&q); err != nil || !bytes.Equal(q.Batch, []byte{1, 2, 3}) {
		t.Errorf("%+v %v", q, err)
	}
	if err := r.Read(&q); err != io.EOF {
		t.Errorf("at the end of a trace without end record: %v", err)
	}
}

func TestOtherKindsAndDamageAreNamed(t *testing.T) {
	block, query, ios := goldenFile(t, "block_cache_trace.bin"), goldenFile(t, "query_trace.bin"), goldenFile(t, "io_trace.bin")
	if _, err := NewBlockReader(bytes.NewReader(query), "q"); !errors.Is(err, ErrKind) {
		t.Errorf("a query trace: %v", err)
	}
	if _, err := NewQueryReader(bytes.NewReader(block), "b"); !errors.Is(err, ErrKind) {
		t.Errorf("a block cache trace: %v", err)
	}
	r, err := NewBlockReader(bytes.NewReader(ios), "io")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Read(new(BlockAccess)); !errors.Is(err, ErrKind) {
		t.Errorf("an IO trace: %v", err)
	}
	// A file that was cut is an error, unless the cut is between two records.
	ends := map[int]bool{}
	for at := 0; at < len(block); {
		at += headerLen + int(binary.LittleEndian.Uint32(block[at+9:]))
		ends[at] = true
	}
	for n := range 2000 {
		err := readAll(block[:n])
		if ends[n] != (err == nil) || err != nil && !errors.Is(err, keys.ErrCorruption) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	// A length of 4 GiB does not ask for 4 GiB.
	huge := append(AppendBlockHeader(nil, 1), AppendHeader(nil, 2, DataBlock, 1<<32-1)...)
	if err := readAll(huge); !errors.Is(err, keys.ErrCorruption) || !strings.Contains(err.Error(), "4294967295") {
		t.Errorf("a payload of 4 GiB: %v", err)
	}
}

func readAll(file []byte) error {
	r, err := NewBlockReader(bytes.NewReader(file), "trace")
	for err == nil {
		err = r.Read(new(BlockAccess))
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// The lines were made by hand from the fact sheet's columns and the golden expectation.
func TestHumanLinesOfTheGoldenTrace(t *testing.T) {
	r, err := NewBlockReader(bufio.NewReader(bytes.NewReader(goldenFile(t, "block_cache_trace.bin"))), "trace")
	if err != nil {
		t.Fatal(err)
	}
	var h Human
	var lines []string
	var a BlockAccess
	for r.Read(&a) == nil {
		lines = append(lines, string(h.AppendLine(nil, &a)))
	}
	for i, want := range []string{
		"1796063477537755,1,8,384,0,default,0,11,1,0,1,1,0,1,0,0,825241708,0,16,19,",
		"1796063477537798,2,7,416,0,default,0,11,1,0,1,1,0,1,0,0,825241708,0,16,19,",
		"1796063477537847,3,9,576,0,default,0,11,1,0,1,1,67,0,1,16,825241708,0,16,19,",
		"1796063477537884,2,7,416,0,default,0,11,3,0,0,0,0,1,0,0,0,0,16,0,",
	} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is %q, want %q…", i, lines[i], want)
		}
	}
	last := lines[len(lines)-1] // from a snapshot: sequence number 800 of its key, plus one
	columns, family, err := ParseLine(strings.TrimSuffix(last, "\n"))
	if err != nil || family != "second" || columns[10] != 112 || columns[17] != 801 {
		t.Errorf("%v %q %v", columns, family, err)
	}
	for _, bad := range []string{"", "1,2,3", strings.Repeat("1,", 21) + "1", strings.Repeat("x,", 20) + "1"} {
		if _, _, err := ParseLine(bad); err == nil {
			t.Errorf("%q was taken for a line", bad)
		}
	}
	// The block key of RocksDB 6: varints, the last of them the offset.
	a.BlockKey = coding.AppendUvarint(coding.AppendUvarint(nil, 99), 12345)
	if line := string(h.AppendLine(nil, &a)); !strings.HasSuffix(line, ",12345\n") {
		t.Errorf("offset of an old block key: %q", line)
	}
}

func FuzzBlockTrace(f *testing.F) {
	f.Add(goldenFile(f, "block_cache_trace.bin")[:1000])
	f.Add(goldenFile(f, "io_trace.bin")[:200])
	f.Add(oldFile(2, []byte{0}))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewBlockReader(bytes.NewReader(file), "trace")
		if err != nil {
			return
		}
		var h Human
		var a BlockAccess
		for r.Read(&a) == nil {
			if _, _, err := ParseLine(strings.TrimSuffix(string(h.AppendLine(nil, &a)), "\n")); err != nil && !strings.ContainsAny(string(a.Name), ",") {
				t.Errorf("our own line: %v", err)
			}
			again := AppendBlockAccess(AppendBlockHeader(nil, r.Micros), &a)
			r2, err := NewBlockReader(bytes.NewReader(again), "again")
			if err != nil {
				t.Fatal(err)
			}
			var b BlockAccess
			if err := r2.Read(&b); err != nil || !bytes.Equal(AppendBlockAccess(nil, &a), AppendBlockAccess(nil, &b)) {
				t.Fatalf("%+v came back as %+v, %v", a, b, err)
			}
		}
	})
}

func FuzzQueryTrace(f *testing.F) {
	f.Add(goldenFile(f, "query_trace.bin"))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewQueryReader(bytes.NewReader(file), "trace")
		if err != nil {
			return
		}
		var q Query
		for r.Read(&q) == nil {
			again := AppendQuery(AppendQueryHeader(nil, r.Micros), &q)
			r2, err := NewQueryReader(bytes.NewReader(again), "again")
			if err != nil {
				t.Fatal(err)
			}
			var p Query
			if err := r2.Read(&p); err != nil || !bytes.Equal(AppendQuery(nil, &q), AppendQuery(nil, &p)) {
				t.Fatalf("%+v came back as %+v, %v", q, p, err)
			}
		}
	})
}
