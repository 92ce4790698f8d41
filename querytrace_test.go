package flatrock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/internal/tracefile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

func queriesOf(t *testing.T, file []byte) (all []string, ended bool) {
	t.Helper()
	r, err := tracefile.NewQueryReader(bytes.NewReader(file), "trace")
	if err != nil {
		t.Fatal(err)
	}
	var q tracefile.Query
	last := uint64(0)
	for {
		switch err := r.Read(&q); {
		case err == io.EOF:
			return all, r.Ended
		case err != nil:
			t.Fatal(err)
		}
		if q.Micros < last {
			t.Fatalf("an operation at %d after one at %d", q.Micros, last)
		}
		last = q.Micros
		s := fmt.Sprintf("%v %d %s", q.Type, q.Family, q.Key)
		switch q.Type {
		case tracefile.Write:
			s = fmt.Sprintf("%v of %d bytes", q.Type, len(q.Batch))
		case tracefile.MultiGet:
			s = fmt.Sprintf("%v %v %s", q.Type, q.Families, bytes.Join(q.Keys, []byte(",")))
		case tracefile.Seek, tracefile.SeekForPrev:
			s += fmt.Sprintf(" [%s, %s)", q.Lower, q.Upper)
		}
		all = append(all, s)
	}
}

// tracedOperations is one of each.
func tracedOperations(t *testing.T, db *DB, other *ColumnFamily) {
	t.Helper()
	var b Batch
	b.Put(nil, []byte("a"), []byte("1"))
	b.Put(other, []byte("b"), bytes.Repeat([]byte("x"), 1000))
	if err := db.Write(nil, &b); err != nil {
		t.Fatal(err)
	}
	mustGet(t, db.DefaultColumnFamily(), "a", "1")
	if _, err := other.Get(nil, []byte("missing"), nil); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	var p PinnedValue
	if err := db.GetPinned(nil, []byte("a"), &p); err != nil {
		t.Fatal(err)
	}
	p.Release()
	if _, err := db.MultiGet(nil, [][]byte{[]byte("a"), []byte("b")}, nil); err != nil {
		t.Fatal(err)
	}
	it, err := db.NewIterator(&ReadOptions{UpperBound: []byte("z")})
	if err != nil {
		t.Fatal(err)
	}
	it.SeekGE([]byte("0"))
	it.SeekLT([]byte("b"))
	it.SeekLE([]byte("a"))
	it.First()
	it.Last()
	it.Close()
}

func TestQueryTraceHasEveryOperation(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{}})
	other, err := db.CreateColumnFamily("other", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Write of 1023 bytes", "Get 0 a", "Get 1 missing", "Get 0 a", "MultiGet [0 0] a,b",
		"Seek 0 0 [, z)", "SeekForPrev 0 b [, z)", "SeekForPrev 0 a [, z)", "SeekForPrev 0 z [, z)"}
	var file bytes.Buffer
	if err := db.StartTrace(nil, &file); err != nil {
		t.Fatal(err)
	}
	if err := db.StartTrace(nil, &file); !errors.Is(err, ErrBusy) {
		t.Errorf("a second trace: %v", err)
	}
	tracedOperations(t, db, other)
	sum, err := db.EndTrace()
	if err != nil {
		t.Fatal(err)
	}
	got, ended := queriesOf(t, file.Bytes())
	if !ended || int(sum.Records) != len(got) || int(sum.Bytes) != file.Len() || sum.Dropped > 0 || sum.Full {
		t.Errorf("%+v, ended %v, %d records in %d bytes", sum, ended, len(got), file.Len())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}

	for filter, left := range map[TraceFilter]int{TraceFilterGet: 6, TraceFilterWrite: 8, TraceFilterIteratorSeek: 8, TraceFilterIteratorSeekForPrev: 6, TraceFilterMultiGet: 8,
		TraceFilterGet | TraceFilterMultiGet | TraceFilterWrite: 4} {
		file.Reset()
		if err := db.StartTrace(&TraceOptions{Filter: filter}, &file); err != nil {
			t.Fatal(err)
		}
		tracedOperations(t, db, other)
		if _, err := db.EndTrace(); err != nil {
			t.Fatal(err)
		}
		if got, _ := queriesOf(t, file.Bytes()); len(got) != left {
			t.Errorf("filter %d left %q, want %d operations", filter, got, left)
		}
	}
	// Records that no ring takes, and the end of the file.
	file.Reset()
	if err := db.StartTrace(&TraceOptions{BufferSize: 1 << 20, MaxTraceFileSize: 120000}, &file); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := db.Put(nil, []byte("large"), make([]byte, 50000)); err != nil {
			t.Fatal(err)
		}
	}
	sum, err = db.EndTrace()
	if got, ended := queriesOf(t, file.Bytes()); err != nil || !sum.Full || sum.Records != 2 || len(got) != 2 || !ended || file.Len() > 120000 {
		t.Errorf("%+v %v %q %v, %d bytes", sum, err, got, ended, file.Len())
	}
	if err := db.StartTrace(&TraceOptions{SamplingFrequency: 4}, io.Discard); err != nil {
		t.Fatal(err)
	}
	for range 400 {
		mustGet(t, db.DefaultColumnFamily(), "a", "1")
	}
	if sum, err = db.EndTrace(); err != nil || sum.Records < 90 || sum.Records > 120 {
		t.Errorf("one of four of 400: %+v %v", sum, err)
	}
	if err := db.StartTrace(nil, &limitedWriter{100}); err == nil {
		tracedOperations(t, db, other)
		_, err = db.EndTrace()
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a writer that fails: %v", err)
		}
	}
}

// everything is all keys and values of a database.
func everything(t *testing.T, db *DB) string {
	t.Helper()
	var b bytes.Buffer
	for _, cf := range db.ColumnFamilies() {
		it, err := cf.NewIterator(&ReadOptions{TotalOrderSeek: true})
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range it.All() {
			fmt.Fprintf(&b, "%s %s=%s\n", cf.Name(), k, v)
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestReplayEndsWithTheSameData: many writers at a time; a replay of their trace, by one
// goroutine or several, gives the database that they left.
func TestReplayEndsWithTheSameData(t *testing.T) {
	o := func() *Options {
		return &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{MergeOperator: stringAppend(t)}}
	}
	db := mustOpen(t, mmapfs.NewMem(), o())
	var file bytes.Buffer
	if err := db.StartTrace(nil, &file); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				key := fmt.Appendf(nil, "key%03d", i%50)
				var err error
				switch i % 7 {
				case 3:
					err = db.Delete(nil, key)
				case 4:
					err = db.Merge(nil, key, fmt.Appendf(nil, "m%d.%d", g, i))
				case 5:
					err = db.DeleteRange(nil, fmt.Appendf(nil, "key%03d", i%50), fmt.Appendf(nil, "key%03d", i%50+2))
				case 6:
					if _, err = db.Get(nil, key, nil); errors.Is(err, ErrNotFound) {
						err = nil
					}
				default:
					err = db.Put(nil, key, fmt.Appendf(nil, "v%d.%d", g, i))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := db.EndTrace(); err != nil {
		t.Fatal(err)
	}
	want := everything(t, db)
	for _, threads := range []int{1, 3} {
		again := mustOpen(t, mmapfs.NewMem(), o())
		p, err := again.NewReplayer(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		results := 0
		var mu sync.Mutex
		stats, err := p.Replay(context.Background(), &ReplayOptions{NumThreads: threads, FastForward: 1000, OnResult: func(*TraceRecord, error) {
			mu.Lock()
			results++
			mu.Unlock()
		}})
		if err != nil || results != 1200 || stats.Failed != 0 || stats.Ops[TraceWrite] != 1200-stats.Ops[TraceGet] || stats.Keys != stats.Ops[TraceGet] {
			t.Errorf("%+v %v, %d results", stats, err, results)
		}
		if got := everything(t, again); got != want {
			t.Errorf("by %d goroutines: a replay left\n%s\nwant\n%s", threads, got, want)
		}
	}
}

func stringAppend(t *testing.T) MergeOperator {
	t.Helper()
	op, err := ParseMergeOperator("stringappend")
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func TestRocksDBsQueryTraceIsReplayed(t *testing.T) {
	file, err := os.ReadFile("testdata/golden/trace/query_trace.bin")
	if err != nil {
		t.Fatal(err)
	}
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{}})
	p, err := db.NewReplayer(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Replay(context.Background(), &ReplayOptions{FastForward: 1000}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("without the second family: %v", err)
	}
	if _, err := db.CreateColumnFamily("second", nil); err != nil {
		t.Fatal(err)
	}
	if p, err = db.NewReplayer(bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	stats, err := p.Replay(context.Background(), &ReplayOptions{NumThreads: 2, FastForward: 1000})
	total := int64(0)
	for _, n := range stats.Ops {
		total += n
	}
	if err != nil || total != 55 || stats.Ops[TraceWrite] == 0 || stats.Ops[TraceSeek] == 0 || stats.Ops[TraceMultiGet] == 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	if everything(t, db) == "" {
		t.Error("a replay wrote nothing")
	}
	if _, err := db.NewReplayer(bytes.NewReader(file[:10])); !errors.Is(err, ErrCorruption) {
		t.Errorf("a trace that was cut: %v", err)
	}
	if p, err = db.NewReplayer(bytes.NewReader(file[:len(file)-20])); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Replay(context.Background(), &ReplayOptions{FastForward: 1000}); !errors.Is(err, ErrCorruption) {
		t.Errorf("a trace that was cut later: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if p, err = db.NewReplayer(bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Replay(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a replay that was called off: %v", err)
	}
}
