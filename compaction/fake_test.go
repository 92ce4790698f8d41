package compaction_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/iterator/itertest"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// fakeTables is where fake writers leave their files.
type fakeTables struct {
	mu        sync.Mutex // of files while a job runs
	order     keys.Order
	files     map[uint64]*fakeWriter
	next      uint64
	abandoned int
	failAt    int // the Add with this number fails, over all files; 0 for none
	adds      int
}

func newFakeTables(order keys.Order) *fakeTables {
	return &fakeTables{order: order, files: make(map[uint64]*fakeWriter), next: 1}
}

func (f *fakeTables) newOutput() (compaction.Output, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &fakeWriter{tables: f}
	f.files[f.next] = w
	f.next++
	return compaction.Output{Number: f.next - 1, Writer: w}, nil
}

// written are the entries of a file, for a job that may run.
func (f *fakeTables) written(n uint64) []itertest.Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files[n].entries
}

// beside is a Job's Beside.
func beside(f func()) func() {
	var done sync.WaitGroup
	done.Go(f)
	return done.Wait
}

// bothWays runs a test with one goroutine a job, and with two.
func bothWays(t *testing.T, f func(t *testing.T, beside func(func()) func())) {
	t.Run("one goroutine", func(t *testing.T) { f(t, nil) })
	t.Run("two goroutines", func(t *testing.T) { f(t, beside) })
}

// fakeWriter is a table.Writer that keeps its entries and checks their order.
type fakeWriter struct {
	tables     *fakeTables
	entries    []itertest.Entry
	tombstones []table.Tombstone
	size       int64
	done       bool
}

var errInjected = errors.New("injected")

func (w *fakeWriter) Add(userKey []byte, trailer uint64, value []byte) error {
	if w.tables.adds++; w.tables.adds == w.tables.failAt {
		return errInjected
	}
	if n := len(w.entries); n > 0 {
		p := w.entries[n-1]
		if w.tables.order.CompareInternal(p.Key, p.Trailer, userKey, trailer) >= 0 {
			return fmt.Errorf("out of order: %q after %q", userKey, p.Key)
		}
	}
	e := itertest.Entry{Key: append([]byte(nil), userKey...), Trailer: trailer, Value: append([]byte(nil), value...)}
	w.entries = append(w.entries, e)
	w.size += int64(len(userKey) + len(value) + 8)
	return nil
}

func (w *fakeWriter) AddTombstone(t table.Tombstone) error {
	if w.tables.order.Compare(t.Start, t.End) >= 0 {
		return fmt.Errorf("empty tombstone %q to %q", t.Start, t.End)
	}
	t.Start, t.End = append([]byte(nil), t.Start...), append([]byte(nil), t.End...)
	w.tombstones = append(w.tombstones, t)
	return nil
}

func (w *fakeWriter) EstimatedSize() int64 { return w.size }
func (w *fakeWriter) Abandon()             { w.tables.abandoned++ }

func (w *fakeWriter) Finish() (table.Summary, error) {
	w.done = true
	s := table.Summary{Size: w.size + 1, Entries: uint64(len(w.entries)), Tombstones: uint64(len(w.tombstones)), SmallestSeq: keys.MaxSeq}
	if len(w.entries)+len(w.tombstones) == 0 {
		return s, errors.New("empty file")
	}
	first := true
	bound := func(smallKey []byte, smallTr uint64, largeKey []byte, largeTr uint64, seq uint64) {
		o := w.tables.order
		if first || o.CompareInternal(smallKey, smallTr, s.SmallestUserKey, s.SmallestTrailer) < 0 {
			s.SmallestUserKey, s.SmallestTrailer = smallKey, smallTr
		}
		if first || o.CompareInternal(largeKey, largeTr, s.LargestUserKey, s.LargestTrailer) > 0 {
			s.LargestUserKey, s.LargestTrailer = largeKey, largeTr
		}
		s.SmallestSeq, s.LargestSeq = min(s.SmallestSeq, seq), max(s.LargestSeq, seq)
		first = false
	}
	for _, e := range w.entries {
		bound(e.Key, e.Trailer, e.Key, e.Trailer, keys.Seq(e.Trailer))
	}
	for _, t := range w.tombstones {
		bound(t.Start, keys.Pack(t.Seq, keys.KindRangeDelete), t.End, keys.Pack(keys.MaxSeq, keys.KindRangeDelete), t.Seq)
	}
	return s, nil
}

// source makes an input of a run.
func source(order keys.Order, name string, r itertest.Run) compaction.Source {
	return compaction.Source{Iter: itertest.New(order, r.Entries), Name: func() string { return name }}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tombstonesText(ts []table.Tombstone) string {
	text := ""
	for i, t := range ts {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprintf("[%s,%s)#%d", t.Start, t.End, t.Seq)
	}
	return text
}
