package record_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/record"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFragmentsMatchTheFactSheet(t *testing.T) {
	f := record.NewFramer(0, false)
	got := f.AppendRecord(nil, append([]byte{1, 0x1a}, "leveldb.BytewiseComparator"...))
	got = f.AppendRecord(got, unhex(t, "02000400"))
	got = f.AppendRecord(got, unhex(t, "090003060400"))
	want := unhex(t, "56f9b8f81c0001011a"+hex.EncodeToString([]byte("leveldb.BytewiseComparator"))+
		"f4030c5a04000102000400"+"fc2c26f9060001090003060400")
	if !bytes.Equal(got, want) {
		t.Errorf("a MANIFEST begins\n%x, want\n%x", got, want)
	}
	f = record.NewFramer(0, false)
	if got, want := f.AppendRecord(nil), unhex(t, "052b2843000001"); !bytes.Equal(got, want) {
		t.Errorf("an empty record is %x, want %x", got, want)
	}
	f = record.NewFramer(10, false)
	if got, want := f.AppendMeta(nil, record.SetCompression, []byte{7, 0, 0, 0}), unhex(t, "e12c08f804000907000000"); !bytes.Equal(got, want) {
		t.Errorf("the compression record is %x, want %x", got, want)
	}
}

// sizes are those near which fragmenting has its cases.
func sizes(header int) []int {
	s := []int{0, 1, 100, record.BlockSize, 2*record.BlockSize + 17, 100000}
	for d := -header - 8; d <= header+8; d++ {
		s = append(s, record.BlockSize-header+d)
	}
	return s
}

func TestRecordsOfEverySizeRoundTrip(t *testing.T) {
	for _, recyclable := range []bool{false, true} {
		header := record.HeaderSize
		if recyclable {
			header = record.RecyclableHeaderSize
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for _, first := range sizes(header) {
			f := record.NewFramer(7<<32+5, recyclable)
			var file []byte
			var want [][]byte
			for _, n := range []int{first, 0, 3, 40000, 1} {
				p := make([]byte, n)
				for i := range p {
					p[i] = byte(rng.Uint32())
				}
				cut := rng.IntN(n + 1)
				planned := f.Len(n)
				before := len(file)
				file = f.AppendRecord(file, p[:cut], nil, p[cut:])
				if len(file)-before != planned {
					t.Fatalf("size %d: Len says %d, the record took %d", n, planned, len(file)-before)
				}
				want = append(want, p)
			}
			events := readAll(t, file, 5)
			if len(events) != len(want) {
				t.Fatalf("recyclable %v, first %d: read %d records, want %d", recyclable, first, len(events), len(want))
			}
			for i, e := range events {
				if e.damage != nil || !bytes.Equal(e.payload, want[i]) {
					t.Fatalf("recyclable %v, first %d: record %d differs: %v", recyclable, first, i, e.damage)
				}
			}
		}
	}
}

func TestFramerGoesOnAtAnOffset(t *testing.T) {
	f := record.NewFramer(0, false)
	file := f.AppendRecord(nil, make([]byte, 50000))
	g := record.NewFramer(0, false)
	g.SetOffset(int64(len(file)))
	a := f.AppendRecord(nil, make([]byte, 20000))
	b := g.AppendRecord(nil, make([]byte, 20000))
	if !bytes.Equal(a, b) {
		t.Error("a framer set to an offset frames differently")
	}
}

func TestMetaMovesToANewBlock(t *testing.T) {
	for left := 0; left < 40; left++ {
		f := record.NewFramer(9, true)
		file := f.AppendRecord(nil, make([]byte, record.BlockSize-record.RecyclableHeaderSize-left))
		file = f.AppendMeta(file, record.TimestampSizes, []byte{1, 0, 0, 0, 8, 0})
		file = f.AppendRecord(file, []byte("after"))
		var got []byte
		r := record.NewReader(bytes.NewReader(file), "x", 9, record.ReaderOptions{
			Meta: func(mt record.Type, p []byte, at int64) error {
				if mt != record.TimestampSizes {
					t.Errorf("met %v", mt)
				}
				got = bytes.Clone(p)
				if int(at)%record.BlockSize != 0 && left < 17 {
					t.Errorf("left %d: meta record at %d", left, at)
				}
				return nil
			}})
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		p, err := r.Next()
		if err != nil || string(p) != "after" || r.SkippedZeros() >= record.MaxHeaderSize {
			t.Fatalf("left %d: %q, %v, %d zeros skipped", left, p, err, r.SkippedZeros())
		}
		if !bytes.Equal(got, []byte{1, 0, 0, 0, 8, 0}) {
			t.Fatalf("left %d: meta payload %x", left, got)
		}
	}
}

// fragment builds one by hand.
func fragment(typ byte, number uint32, data string) []byte {
	b := []byte{0, 0, 0, 0, byte(len(data)), byte(len(data) >> 8), typ}
	if record.Type(typ).Recyclable() {
		b = binary.LittleEndian.AppendUint32(b, number)
	}
	b = append(b, data...)
	binary.LittleEndian.PutUint32(b, hash.Mask(hash.CRC32C(b[6:])))
	return b
}

func toBlock(b []byte) []byte {
	n := (len(b) + record.BlockSize - 1) / record.BlockSize * record.BlockSize
	return append(b, make([]byte, n-len(b))...)
}

// whole is a first fragment that fills its block.
func whole(data string) []byte {
	return fragment(2, 0, data+string(make([]byte, record.BlockSize-record.HeaderSize-len(data))))
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestDamageIsNamed(t *testing.T) {
	full := fragment(1, 0, "full")
	first, middle, last := fragment(2, 0, "fi"), fragment(3, 0, "mi"), fragment(4, 0, "la")
	bad := bytes.Clone(full)
	bad[7] ^= 1
	long := fragment(1, 0, "x")
	binary.LittleEndian.PutUint16(long[4:], 40000)
	rec := fragment(5, 9, "rec")
	for _, test := range []struct {
		name string
		file []byte
		want string // payloads and conditions in order
	}{
		{"whole", join(full, first, middle, last, full), "full fimila full"},
		{"empty first left by an old writer", join(fragment(2, 0, ""), full), "full"},
		{"truncated header", join(full, full[:3]), "full [truncated header]"},
		{"truncated body", join(full, full[:9]), "full [truncated record body]"},
		{"truncated body in a record", join(first, middle[:8]), "[truncated record body]"},
		{"end in a record", join(full, first, middle), "full [error reading trailing data]"},
		{"header cut in a record", join(first, middle[:2]), "[truncated header]"},
		{"checksum drops the block", join(full, bad, full), "full [checksum mismatch]"},
		{"checksum, next block goes on", join(toBlock(join(full, bad, full)), full), "full [checksum mismatch] full"},
		{"bad length, not at the end", join(toBlock(join(full, long)), full), "full [bad record length] full"},
		{"bad length at the end", join(full, long), "full [truncated record body]"},
		{"middle without first", join(middle, full), "[missing start of fragmented record] full"},
		{"last without first", join(last, full), "[missing start of fragmented record] full"},
		{"full in a record", join(first, full), "[partial record without end] full"},
		{"first in a record", join(first, first, last), "[partial record without end] fila"},
		{"zeros to the end", join(full, make([]byte, 3*record.BlockSize)), "full"},
		{"zeros to the end in a record", join(first, make([]byte, 3*record.BlockSize)), "[error reading trailing data]"},
		{"zeros, then records", join(toBlock(join(full, make([]byte, 100))), full), "full full"},
		{"half a fragment in a record, zeros to the end", join(toBlock(join(full, first)), make([]byte, 8), full, make([]byte, 2*record.BlockSize-8-len(full))), "full [error in middle of record]"},
		{"half a fragment where a record goes on, zeros to the end", join(whole("fi"), toBlock(join(make([]byte, 8), full))), "[error reading trailing data]"},
		{"half a fragment where a record goes on, then a block", join(whole("fi"), toBlock(join(make([]byte, 8), full)), full), "[error in middle of record] full"},
		{"half a fragment where a record goes on, in a file not preallocated", join(whole("fi"), make([]byte, 8), full), "[error in middle of record]"},
		{"zeros in a record, then a block", join(toBlock(join(full, first)), full), "full [error in middle of record] full"},
		{"zeros drop the block", join(full, make([]byte, 7), full), "full"},
		{"unknown type", join(full, fragment(50, 0, "?"), full), "full [unknown record type] full"},
		{"unknown type that may be ignored", join(full, fragment(200, 0, "?"), full), "full full"},
		{"ignored type ends a record", join(first, fragment(200, 0, "?"), last), "[missing start of fragmented record]"},
		{"meta in a record", join(first, fragment(10, 0, "123456"), last), "[partial record without end] [missing start of fragmented record]"},
		{"recyclable", join(rec, rec), "rec rec"},
		{"old record", join(rec, fragment(5, 8, "old"), rec), "rec [old log record] rec"},
		{"old record in a record", join(fragment(6, 9, "a"), fragment(8, 8, "b"), rec), "[old log record] rec"},
		{"old record, checksum not asked", join(rec, []byte{1, 2, 3, 4, 1, 0, 5, 8, 0, 0, 0, 'x'}), "rec [old log record]"},
		{"recyclable header cut", join(rec, rec[:9]), "rec [truncated header]"},
		{"recyclable behind plain drops the block", join(toBlock(join(full, rec, full)), full), "full full"},
		{"recyclable behind plain in a record", join(full, first, rec), "full [error in middle of record]"},
		{"no file", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			for i, e := range readAll(t, test.file, 9) {
				if i > 0 {
					got += " "
				}
				if e.damage == nil {
					got += string(e.payload)
					continue
				}
				got += fmt.Sprintf("[%v]", e.damage.Condition)
				var c *keys.CorruptionError
				if !errors.Is(e.damage, keys.ErrCorruption) || !errors.As(e.damage, &c) || c.File != "test.log" {
					t.Errorf("%v is no corruption of test.log", e.damage)
				}
			}
			if got != test.want {
				t.Errorf("read %q, want %q", got, test.want)
			}
		})
	}
}

func TestTailIsWhatACrashLeaves(t *testing.T) {
	tail := map[record.Condition]bool{
		record.TruncatedHeader: true, record.TruncatedBody: true, record.TruncatedRecord: true, record.OldRecord: true,
	}
	for c := record.TruncatedHeader; c <= record.BadMeta; c++ {
		d := &record.Damage{Condition: c}
		if d.Tail() != tail[c] {
			t.Errorf("%v: tail %v", c, d.Tail())
		}
		d.Recycled = true
		if want := tail[c] || c == record.ChecksumMismatch || c == record.BadLength; d.Tail() != want {
			t.Errorf("%v in a recycled file: tail %v", c, d.Tail())
		}
	}
}

// TestUnwrittenSectorIsATail: the last record of a log may lack a sector when its
// size reached the disk and the sector did not. That is a tail; a changed bit is not,
// nor is a record with others behind it.
func TestUnwrittenSectorIsATail(t *testing.T) {
	const sector = 512
	data := bytes.Repeat([]byte("0123456789abcdef"), 100)
	for _, test := range []struct {
		first, second int // data bytes of the two records
		lost          int // sector of the file that reads as zeros; -1 for a changed bit
		more          string
		want          bool
	}{
		{450, 100, 1, "", true},                        // the end of the record
		{450, 100, 1, string(make([]byte, 300)), true}, // zeros behind it
		{450, 100, 1, string(fragment(1, 0, "x")), false},
		{450, 100, -1, "", false},
		{450, 1200, 1, "", true}, // its middle
		{450, 1200, 2, "", true},
		{450, sector - 450 - 14 + 3, 1, "", true}, // its last bytes
		{450, sector - 450 - 14 + 2, 1, "", true},
		{450, sector - 450 - 14 + 1, 1, "", true},
		{450, sector - 450 - 14 + 1, -1, "", false},
	} {
		first, second := fragment(1, 0, string(data[:test.first])), fragment(1, 0, string(data[:test.second]))
		file := append(join(first, second), test.more...)
		if test.lost >= 0 {
			clear(file[test.lost*sector : min((test.lost+1)*sector, len(first)+len(second))])
		} else {
			file[len(first)+20] ^= 4
			if end := len(first) + len(second); end == sector+1 { // and a zero that is its own
				clear(file[sector:end])
			}
		}
		r := record.NewReader(bytes.NewReader(file), "test.log", 0, record.ReaderOptions{})
		if b, err := r.Next(); err != nil || !bytes.Equal(b, data[:test.first]) {
			t.Fatalf("%+v: the first record: %v", test, err)
		}
		_, err := r.Next()
		var d *record.Damage
		if !errors.As(err, &d) || d.Condition != record.ChecksumMismatch || d.Tail() != test.want {
			t.Errorf("%+v: %v, tail %v", test, err, d != nil && d.Tail())
		}
	}
}

func TestZerosBeforeARecordAreCounted(t *testing.T) {
	full := fragment(1, 0, "full")
	r := record.NewReader(bytes.NewReader(join(toBlock(full), make([]byte, record.BlockSize), full, full)), "x", 0, record.ReaderOptions{})
	for i, want := range []int64{0, 2*record.BlockSize - int64(len(full)), 0} {
		if _, err := r.Next(); err != nil || r.SkippedZeros() != want {
			t.Errorf("record %d: %v, %d zeros, want %d", i, err, r.SkippedZeros(), want)
		}
	}
}

type failing struct {
	io.Reader
	err error
}

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

func TestSourceErrorsAreReturnedAndStay(t *testing.T) {
	boom := errors.New("boom")
	f := record.NewFramer(0, false)
	file := f.AppendRecord(nil, make([]byte, record.BlockSize-7))
	events, err := readThrough(failing{bytes.NewReader(file), boom}, 0)
	if err != boom || len(events) != 1 {
		t.Errorf("read %d records, then %v", len(events), err)
	}
}

type shortSink struct{ room int }

func (s *shortSink) Write(p []byte) (int, error) {
	if s.room -= len(p); s.room < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestWriterErrorIsSticky(t *testing.T) {
	sink := &shortSink{room: 30}
	w := record.NewWriter(sink, 0, false)
	if err := w.Append([]byte("ten bytes.")); err != nil {
		t.Fatal(err)
	}
	if err := w.Append([]byte("ten bytes.")); err == nil {
		t.Fatal("a full sink is no error")
	}
	sink.room = 1000
	if w.Append() == nil || w.AppendMeta(record.SetCompression, []byte{0, 0, 0, 0}) == nil {
		t.Error("a write behind a failed one succeeded")
	}
}

func TestWriterDoesNotAllocate(t *testing.T) {
	w := record.NewWriter(io.Discard, 3, true)
	a, b := make([]byte, 12), make([]byte, 50000)
	if n := testing.AllocsPerRun(50, func() { w.Append(a, b) }); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

func TestReaderDoesNotAllocate(t *testing.T) {
	f := record.NewFramer(0, false)
	var file []byte
	for range 2000 {
		file = f.AppendRecord(file, make([]byte, 100))
	}
	r := record.NewReader(bytes.NewReader(file), "x", 0, record.ReaderOptions{})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(500, func() { r.Next() }); n > 0 {
		t.Errorf("%v allocations a record", n)
	}
}

// FuzzReader reads anything to its end, and frames what it read again.
func FuzzReader(f *testing.F) {
	for _, file := range goldenFiles(f, "MANIFEST-*") {
		f.Add(file[:min(len(file), 4000)], uint64(0))
	}
	f.Add(goldenFiles(f, "000017.log")["d10_recycled_wal/db/000017.log"], uint64(17))
	f.Add(goldenFiles(f, "000010.log")["d09_wal_zstd/db/000010.log"][:2000], uint64(10))
	f.Fuzz(func(t *testing.T, file []byte, number uint64) {
		var framed []byte
		fr := record.NewFramer(number, true)
		var want [][]byte
		for _, e := range readAll(t, file, number) {
			if e.offset < 0 || e.offset > int64(len(file)) {
				t.Fatalf("offset %d of %d bytes", e.offset, len(file))
			}
			if e.damage == nil {
				want = append(want, e.payload)
				framed = fr.AppendRecord(framed, e.payload)
			}
		}
		again := readAll(t, framed, number)
		if len(again) != len(want) {
			t.Fatalf("%d records, framed and read again %d", len(want), len(again))
		}
		for i, e := range again {
			if !bytes.Equal(e.payload, want[i]) {
				t.Fatalf("record %d differs", i)
			}
		}
	})
}

func BenchmarkAppend140(b *testing.B) {
	w := record.NewWriter(io.Discard, 3, true)
	head, body := make([]byte, 12), make([]byte, 128)
	b.SetBytes(140)
	b.ReportAllocs()
	for b.Loop() {
		w.Append(head, body)
	}
}
