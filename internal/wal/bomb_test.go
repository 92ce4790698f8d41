package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// bombLog is a log of two records, a small one and one of n bytes of zeros in some hundreds.
func bombLog(t *testing.T, n int) []byte {
	t.Helper()
	mem := mmapfs.NewMem()
	w, err := Create(mem, "/5.log", 5, WriterOptions{Compression: ZSTD})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range [][]byte{make([]byte, HeaderLen), make([]byte, n)} {
		if err := w.Append(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := mem.Open("/5.log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRecordsBeyondTheLimitEndTheLog: a record of a few kilobytes that holds more than the limit ends
// reading with an error that no mode passes over, and that took no memory.
func TestRecordsBeyondTheLimitEndTheLog(t *testing.T) {
	const holds, limit = 128 << 20, 1 << 20
	log := bombLog(t, holds)
	for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
		r := NewReader(bytes.NewReader(log), "5.log", 5, mode)
		r.Limit(limit)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := r.Next()
		runtime.ReadMemStats(&after)
		var large *RecordTooLargeError
		if !errors.As(err, &large) || large.File != "5.log" || large.Offset == 0 || large.Limit != limit {
			t.Errorf("%v: %v", mode, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
			t.Errorf("%v: %d bytes allocated for %d bytes of log", mode, n, len(log))
		}
		if _, again := r.Next(); again != err {
			t.Errorf("%v: then %v", mode, again)
		}
		r.Close()
	}
	r := NewReader(bytes.NewReader(log), "5.log", 5, AbsoluteConsistency)
	defer r.Close()
	for i := range 2 {
		rec, err := r.Next()
		if err != nil || i == 1 && len(rec) != holds {
			t.Fatalf("without a limit: %d bytes, %v", len(rec), err)
		}
	}
}

// TestClaimsOfFramesTakeNoMemory: a frame says how much it holds; what its blocks cannot hold is
// damage before memory is taken for it.
func TestClaimsOfFramesTakeNoMemory(t *testing.T) {
	frame := binary.LittleEndian.AppendUint64([]byte("\x28\xb5\x2f\xfd\xe0"), 1<<31) // one segment, a size of 8 bytes
	frame = append(frame, "\x21\x00\x00abcd"...)                                     // the last block: 4 raw bytes
	frame = append(frame, make([]byte, 60000)...)
	d, err := newDecompressor(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = d.decompress(frame)
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Error("4 bytes were taken for 2 GiB")
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("%d bytes allocated", n)
	}
	var damage *keys.CorruptionError
	if errors.As(err, &damage) {
		t.Error("the reader says where, not this")
	}
}
