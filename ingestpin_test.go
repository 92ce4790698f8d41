package flatrock

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// heldOrder stops the first comparison after it was armed until it is let go.
type heldOrder struct {
	armed *atomic.Bool
	hold  func()
}

func (heldOrder) Name() string { return "held" }

func (heldOrder) AppendSeparator(dst, a, _ []byte) []byte { return append(dst, a...) }
func (heldOrder) AppendSuccessor(dst, a []byte) []byte    { return append(dst, a...) }

func (o heldOrder) Compare(a, b []byte) int {
	if o.armed.CompareAndSwap(true, false) {
		o.hold()
	}
	return bytes.Compare(a, b)
}

// TestAnIngestionKeepsTheMemtablesThatItLooksAt: a flush that ends while an ingestion looks whether it overlaps an
// immutable memtable does not free it.
func TestAnIngestionKeepsTheMemtablesThatItLooksAt(t *testing.T) {
	for _, kind := range []MemTableKind{SkipList, HashSkipList, Vector} {
		mem := mmapfs.NewMem()
		fault := mmapfs.NewFault(mem)
		goOn, flushed := make(chan struct{}), make(chan struct{})
		armed := new(atomic.Bool)
		var stopped atomic.Bool
		o := &ColumnFamilyOptions{
			Comparator: heldOrder{armed, func() { close(goOn); <-flushed }}, PrefixExtractor: FixedPrefix(1), MaxWriteBufferNumber: 4,
			MemTable: MemTableOptions{Kind: kind},
		}
		db, err := Open("/db", &Options{FS: fault, CreateIfMissing: true, ColumnFamily: o})
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewSstFileWriter("/new.sst", &SstFileWriterOptions{Family: db.DefaultColumnFamily(), FS: mem})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Put([]byte("k0500"), []byte("ingested")); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			if err := db.Put(nil, []byte{'k', '0', byte('0' + i/100%10), byte('0' + i/10%10), byte('0' + i%10)}, []byte("written")); err != nil {
				t.Fatal(err)
			}
		}
		stopped.Store(true)
		fault.SetHook(func(op mmapfs.Op, name string) error { // the flush waits to begin its file
			if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") && name != "/new.sst" && stopped.CompareAndSwap(true, false) {
				<-goOn
			}
			return nil
		})
		done := make(chan error, 1)
		go func() { done <- db.Flush(t.Context(), nil) }()
		for stopped.Load() || db.Metrics().Families["default"].MemTables < 2 { // until the memtable is immutable, and its flush waits
			if len(done) > 0 {
				t.Fatal("the flush did not wait: ", <-done)
			}
		}
		armed.Store(true)
		ingested := make(chan error, 1)
		go func() { ingested <- db.IngestExternalFile(t.Context(), []string{"/new.sst"}, nil) }()
		err = <-done
		close(flushed)
		if err := errors.Join(err, <-ingested); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{"k0500": "ingested", "k0499": "written"} {
			if v, err := db.Get(nil, []byte(key), nil); err != nil || string(v) != want {
				t.Errorf("%v, %s: %q, %v; want %s", kind, key, v, err, want)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
