package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/record"
	"github.com/flatrock-db/flatrock/mmapfs"
)

func memWith(t testing.TB, files map[string][]byte) *mmapfs.MemFS {
	t.Helper()
	fsys := mmapfs.NewMem()
	for name, content := range files {
		if err := writeFile(fsys, name, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	return fsys
}

// manifestOf frames edits as a MANIFEST.
func manifestOf(t testing.TB, edits ...*VersionEdit) []byte {
	t.Helper()
	var out bytes.Buffer
	w := record.NewWriter(&out, 0, false)
	for _, e := range edits {
		if err := w.Append(e.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func recoverEdits(t testing.TB, edits ...*VersionEdit) (*State, error) {
	t.Helper()
	return Recover(memWith(t, map[string][]byte{"CURRENT": []byte("MANIFEST-000005\n"), "MANIFEST-000005": manifestOf(t, edits...)}), ".", RecoverOptions{})
}

// stateText prints what two equal states have in common: all but the counters
// that a new MANIFEST moves.
func stateText(t testing.TB, st *State) string {
	t.Helper()
	c := *st
	c.NextFileNumber = 0
	var b strings.Builder
	if err := c.Dump(&b); err != nil {
		t.Fatal(err)
	}
	for _, f := range st.Families {
		fmt.Fprintf(&b, "%d: %q %v %v %v\n", f.ID, f.FullHistoryTsLow, f.PersistTimestamps, f.CompactCursors, f.Unknown)
		for level, files := range f.Version.Levels {
			for _, m := range files {
				fmt.Fprintf(&b, "%d: %s %v\n", level, m.dump(DumpStyle{}), m.Unknown)
			}
		}
	}
	fmt.Fprintf(&b, "%v %d\n", st.WALs, st.MinTrackedWAL)
	return b.String()
}

func base() *VersionEdit {
	return &VersionEdit{Comparator: Some(keys.Bytewise.Name()), LogNumber: Some(uint64(0)), NextFileNumber: Some(uint64(2)), LastSeq: Some(uint64(0))}
}

func file(level int, n uint64, smallest, largest string, seq uint64) NewFile {
	return NewFile{level, &FileMetadata{
		Number: n, Size: 1000 + n, SmallestKey: []byte(smallest), LargestKey: []byte(largest),
		SmallestTrailer: keys.Pack(seq, keys.KindValue), LargestTrailer: keys.Pack(seq, keys.KindValue), SmallestSeq: seq, LargestSeq: seq,
	}}
}

// newDB makes a fresh database and opens its MANIFEST for writing.
func newDB(t testing.TB, fsys mmapfs.FS, o WriterOptions) *Writer {
	t.Helper()
	if err := CreateNew(fsys, ".", ""); err != nil {
		t.Fatal(err)
	}
	st, err := Recover(fsys, ".", RecoverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(fsys, ".", st, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestCreateNewIsRocksDBs(t *testing.T) {
	fsys := mmapfs.NewMem()
	if err := CreateNew(fsys, ".", ""); err != nil {
		t.Fatal(err)
	}
	r := record.NewReader(bytes.NewReader(readAll(t, fsys, "MANIFEST-000001")), "M", 0, record.ReaderOptions{})
	if b, err := r.Next(); err != nil || !bytes.Equal(b, []byte{2, 0, 3, 2, 4, 0}) {
		t.Fatalf("%x %v", b, err)
	}
	if _, err := Recover(fsys.Crash(nil), ".", RecoverOptions{}); err != nil {
		t.Fatalf("after a crash: %v", err)
	}
}

func TestWriterStateIsWhatRecoverFinds(t *testing.T) {
	fsys := mmapfs.NewMem()
	w := newDB(t, fsys, WriterOptions{WriteDBID: true})
	defer w.Close()
	check := func() {
		t.Helper()
		st, err := Recover(fsys, ".", RecoverOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := stateText(t, w.State()), stateText(t, st); a != b {
			t.Fatalf("in memory:\n%s\non disk:\n%s", a, b)
		}
		if st.ManifestSize != w.Size() || st.ManifestNumber != w.State().ManifestNumber {
			t.Fatalf("%d bytes in MANIFEST %d, expected %d in %d", st.ManifestSize, st.ManifestNumber, w.Size(), w.State().ManifestNumber)
		}
		if st.NextFileNumber <= w.NextFileNumber()-1 {
			t.Fatalf("next file number %d on disk, %d in memory", st.NextFileNumber, w.NextFileNumber())
		}
		for _, f := range st.Families {
			if f.NextEpoch < w.State().Family(f.ID).Version.MaxEpoch() {
				t.Fatal("next epoch")
			}
		}
	}
	add := func(e *VersionEdit) {
		t.Helper()
		for _, n := range e.NewFiles {
			n.Meta.EpochNumber = w.NewEpoch(e.ColumnFamily)
		}
		if err := w.Append(e); err != nil {
			t.Fatal(err)
		}
		check()
	}
	check()
	log := w.NewFileNumber()
	add(&VersionEdit{LogNumber: Some(log), NewFiles: []NewFile{file(0, w.NewFileNumber(), "a", "m", 10)}})
	add(&VersionEdit{MinLogNumberToKeep: Some(log)})
	id := w.NewColumnFamilyID()
	add(&VersionEdit{ColumnFamily: id, AddColumnFamily: Some("two"), Comparator: Some(keys.ReverseBytewise.Name()), LogNumber: Some(log)})
	n := w.NewFileNumber()
	add(&VersionEdit{ColumnFamily: id, NewFiles: []NewFile{file(1, n, "z", "b", 20)}, CompactCursors: []CompactCursor{{1, []byte("cursor..")}},
		Unknown: []Field{{9000, []byte("kept")}}})
	add(&VersionEdit{ColumnFamily: id, DeletedFiles: []DeletedFile{{1, n}}, NewFiles: []NewFile{file(2, n, "z", "b", 20)}})
	add(&VersionEdit{WALAdditions: []WALAddition{{Number: 40}, {Number: 41, SyncedSize: Some(uint64(9))}}, WALDeletion: Some(uint64(41))})
	if err := w.Resume(); err != nil { // a new MANIFEST says the same
		t.Fatal(err)
	}
	check()
	if v := w.Version(id); v.Order().Comparator() != keys.ReverseBytewise || v.HighestLevel() != 2 {
		t.Fatalf("family two: %v", v)
	}
	add(&VersionEdit{ColumnFamily: id, DropColumnFamily: true})
	if w.Version(id) != nil || w.NewColumnFamilyID() != id+1 {
		t.Fatalf("dropped family: next id %d", w.NewColumnFamilyID())
	}
	if err := w.Resume(); err != nil {
		t.Fatal(err)
	}
	check()
	if w.State().MaxColumnFamily != id {
		t.Fatal("the id of a dropped family may be used again")
	}
}

func TestEditsThatDoNotApplyChangeNothing(t *testing.T) {
	fsys := mmapfs.NewMem()
	w := newDB(t, fsys, WriterOptions{})
	defer w.Close()
	if err := w.Append(&VersionEdit{NewFiles: []NewFile{file(1, 20, "a", "m", 1), file(0, 21, "a", "z", 2)}}); err != nil {
		t.Fatal(err)
	}
	before, size := stateText(t, w.State()), w.Size()
	for want, e := range map[string]*VersionEdit{
		"no such file":            {DeletedFiles: []DeletedFile{{0, 99}}},
		"found it at L1":          {DeletedFiles: []DeletedFile{{0, 20}}},
		"to be new":               {NewFiles: []NewFile{file(2, 21, "a", "z", 2)}},
		"no overlap in L1":        {NewFiles: []NewFile{file(1, 22, "k", "p", 2)}},
		"bounds of file 23":       {NewFiles: []NewFile{file(1, 23, "z", "y", 2)}},
		"unknown column family 7": {ColumnFamily: 7},
		"default column family":   {DropColumnFamily: true},
		"non-existing column":     {ColumnFamily: 7, DropColumnFamily: true},
		"blob file 9 for garbage": {BlobGarbages: []BlobGarbage{{Number: 9}}},
		"is not known":            {ColumnFamily: 8, AddColumnFamily: Some("x"), Comparator: Some("mystery")},
		"already there with id 0": {ColumnFamily: 8, AddColumnFamily: Some("default")},
	} {
		if err := w.Append(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	if w.Err() != nil || stateText(t, w.State()) != before || w.Size() != size {
		t.Fatalf("state changed: %v", w.Err())
	}
	if err := w.Append(&VersionEdit{DeletedFiles: []DeletedFile{{0, 21}}}); err != nil {
		t.Fatal(err)
	}
}

func TestRolloverStartsANewManifest(t *testing.T) {
	fsys := mmapfs.NewMem()
	w := newDB(t, fsys, WriterOptions{MaxFileSize: 1})
	defer w.Close()
	numbers := map[uint64]bool{}
	for i := range 60 {
		n := w.NewFileNumber()
		e := &VersionEdit{NewFiles: []NewFile{file(0, n, "a", "z", uint64(i+1))}}
		if i > 4 {
			e.DeletedFiles = []DeletedFile{{0, w.Version(0).Levels[0][3].Number}}
		}
		if err := w.Append(e); err != nil {
			t.Fatal(err)
		}
		numbers[w.State().ManifestNumber] = true
		st, err := Recover(fsys.Crash(nil), ".", RecoverOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := stateText(t, w.State()), stateText(t, st); !equalButEpochs(a, b) {
			t.Fatalf("in memory:\n%s\non disk:\n%s", a, b)
		}
	}
	if len(numbers) < 5 || len(numbers) > 45 {
		t.Fatalf("%d MANIFESTs in 60 edits, expected a new one every few edits", len(numbers))
	}
}

// equalButEpochs compares the parts before the per-file lines, which hold the
// epoch numbers that Recover infers.
func equalButEpochs(a, b string) bool {
	a, _, _ = strings.Cut(a, "\n0: \"\"")
	b, _, _ = strings.Cut(b, "\n0: \"\"")
	return a == b
}

func TestSkippedFamiliesAreNotWritten(t *testing.T) {
	fsys := memWith(t, map[string][]byte{"CURRENT": []byte("MANIFEST-000005\n"), "MANIFEST-000005": manifestOf(t, base(),
		&VersionEdit{ColumnFamily: 1, AddColumnFamily: Some("strange"), Comparator: Some("mystery"), LogNumber: Some(uint64(4))},
		&VersionEdit{ColumnFamily: 1, NewFiles: []NewFile{file(0, 9, "a", "b", 1)}})})
	if _, err := Recover(fsys, ".", RecoverOptions{}); err == nil || errors.Is(err, keys.ErrCorruption) || !strings.Contains(err.Error(), "mystery") {
		t.Fatalf("unknown comparator: %v", err)
	}
	st, err := Recover(fsys, ".", RecoverOptions{Want: func(name string) bool { return name != "strange" }})
	if err != nil || len(st.Families) != 2 || st.Family(1).Version != nil || st.Family(1).LogNumber != 4 {
		t.Fatalf("%+v %v", st, err)
	}
	if _, err := NewWriter(fsys, ".", st, WriterOptions{}); err == nil || !strings.Contains(err.Error(), "column families not opened: strange") {
		t.Fatalf("%v", err)
	}
}

func TestComparatorMustMatch(t *testing.T) {
	fsys := memWith(t, map[string][]byte{"CURRENT": []byte("MANIFEST-000005\n"), "MANIFEST-000005": manifestOf(t, base())})
	_, err := Recover(fsys, ".", RecoverOptions{Comparator: func(_, _ string) (keys.Comparator, error) { return keys.ReverseBytewise, nil }})
	var mismatch *ComparatorMismatchError
	if !errors.As(err, &mismatch) || errors.Is(err, keys.ErrCorruption) || !strings.Contains(err.Error(), "does not match existing comparator leveldb.BytewiseComparator") {
		t.Fatalf("%v", err)
	}
}

// scenario is a workload of which every prefix is a legal outcome.
func scenario(fsys mmapfs.FS, done func(step int, w *Writer)) error {
	if err := CreateNew(fsys, ".", "id"); err != nil {
		return err
	}
	done(0, nil)
	st, err := Recover(fsys, ".", RecoverOptions{})
	if err != nil {
		return err
	}
	w, err := NewWriter(fsys, ".", st, WriterOptions{MaxFileSize: 200, WriteDBID: true})
	if err != nil {
		return err
	}
	defer w.Close()
	done(1, w)
	for i := range 8 {
		e := &VersionEdit{NewFiles: []NewFile{file(0, w.NewFileNumber(), "a", "z", uint64(i+1))}}
		e.NewFiles[0].Meta.EpochNumber = w.NewEpoch(0)
		err := w.Append(e)
		if i == 3 && err == nil {
			err = w.AppendAtomic(
				&VersionEdit{ColumnFamily: 1, AddColumnFamily: Some("two"), Comparator: Some(keys.Bytewise.Name()), LogNumber: Some(uint64(3))},
				&VersionEdit{ColumnFamily: 1, LogNumber: Some(uint64(4))})
		}
		if err != nil {
			// W2: nothing may succeed over it.
			if late := w.Append(&VersionEdit{LogNumber: Some(uint64(1000))}); late == nil && w.Err() != nil {
				return errors.New("an append succeeded after a failed one")
			}
			return err
		}
		done(2+i, w)
	}
	return w.Close()
}

// TestEveryFailureLeavesTheOldOrTheNewState fails each operation in turn, then
// looks at what a kill and what crashes of the machine leave: every step that was
// reported done is there, and at most the one that was under way besides.
func TestEveryFailureLeavesTheOldOrTheNewState(t *testing.T) {
	for n := 1; ; n++ {
		mem := mmapfs.NewMem()
		fault := mmapfs.NewFault(mem)
		fault.FailNth(n, mmapfs.OpMutate, true)
		last := -1
		err := scenario(fault, func(step int, _ *Writer) { last = step })
		if fault.Injected() == 0 {
			if err != nil {
				t.Fatal(err)
			}
			if n < 50 {
				t.Fatalf("only %d operations", n)
			}
			return
		}
		if err == nil {
			t.Fatalf("operation %d failed and nobody said so", n)
		}
		if !errors.Is(err, mmapfs.ErrInjected) {
			t.Fatalf("operation %d: %v", n, err)
		}
		checkOutcome(t, mem.Kill(), last, fmt.Sprintf("operation %d, kill", n))
		checkOutcome(t, mem.Crash(nil), last, fmt.Sprintf("operation %d, crash", n))
		for seed := range uint64(8) {
			checkOutcome(t, mem.Crash(rand.New(rand.NewPCG(seed, uint64(n)))), last, fmt.Sprintf("operation %d, crash seed %d", n, seed))
		}
	}
}

func checkOutcome(t *testing.T, fsys *mmapfs.MemFS, last int, where string) {
	t.Helper()
	st, err := Recover(fsys, ".", RecoverOptions{})
	if last < 0 {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: before the database existed: %v", where, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%s: after step %d: %v", where, last, err)
	}
	files := st.Family(0).Version.NumFiles()
	least := max(0, last-1)
	if files < least || files > least+1 {
		t.Fatalf("%s: %d files after step %d", where, files, last)
	}
	two := st.Family(1)
	if two != nil && two.LogNumber != 4 {
		t.Fatalf("%s: half of an atomic group: log number %d", where, two.LogNumber)
	}
	if (last >= 5) && two == nil {
		t.Fatalf("%s: family two is gone after step %d", where, last)
	}
	if st.DBID != "id" {
		t.Fatalf("%s: database id %q", where, st.DBID)
	}
}

// TestCrashAtAnyStep crashes without any failure.
func TestCrashAtAnyStep(t *testing.T) {
	mem := mmapfs.NewMem()
	err := scenario(mem, func(step int, _ *Writer) {
		checkOutcome(t, mem.Crash(nil), step, fmt.Sprintf("step %d", step))
		for seed := range uint64(20) {
			checkOutcome(t, mem.Crash(rand.New(rand.NewPCG(seed, 1))), step, fmt.Sprintf("step %d seed %d", step, seed))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestResumeLeavesAFailureBehind(t *testing.T) {
	mem := mmapfs.NewMem()
	fault := mmapfs.NewFault(mem)
	w := newDB(t, fault, WriterOptions{})
	defer w.Close()
	if err := w.Append(&VersionEdit{NewFiles: []NewFile{file(0, 20, "a", "b", 1)}}); err != nil {
		t.Fatal(err)
	}
	fault.FailNth(1, mmapfs.OpSync, true)
	lost := &VersionEdit{NewFiles: []NewFile{file(0, 21, "a", "b", 2)}}
	if err := w.Append(lost); !errors.Is(err, mmapfs.ErrInjected) || !errors.Is(w.Err(), mmapfs.ErrInjected) {
		t.Fatalf("%v, sticky %v", err, w.Err())
	}
	if err := w.Append(&VersionEdit{LastSeq: Some(uint64(9))}); !errors.Is(err, mmapfs.ErrInjected) {
		t.Fatalf("append over a failed one: %v", err)
	}
	if err := w.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(&VersionEdit{NewFiles: []NewFile{file(0, 22, "a", "b", 3)}}); err != nil {
		t.Fatal(err)
	}
	st, err := Recover(mem.Crash(nil), ".", RecoverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l0 := st.Family(0).Version.Levels[0]
	if len(l0) != 2 || l0[0].Number != 22 || l0[1].Number != 20 {
		t.Fatalf("L0 %v", l0)
	}
}

// TestADiskThatFillsUpLeavesTheLastSyncedState gives the disk a few more bytes
// each time: writes stop anywhere inside a record.
func TestADiskThatFillsUpLeavesTheLastSyncedState(t *testing.T) {
	for room := int64(0); ; room += 7 {
		mem := mmapfs.NewMem()
		fault := mmapfs.NewFault(mem)
		fault.FailWritesAfter(room)
		last := -1
		err := scenario(fault, func(step int, _ *Writer) { last = step })
		if err == nil {
			if room < 1000 {
				t.Fatalf("the workload wrote less than %d bytes", room)
			}
			return
		}
		if !mmapfs.IsNoSpace(err) {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		checkOutcome(t, mem.Kill(), last, fmt.Sprintf("room for %d bytes", room))
		checkOutcome(t, mem.Crash(nil), last, fmt.Sprintf("room for %d bytes, crash", room))
	}
}

func TestFileNumbersAreNeverHandedOutTwice(t *testing.T) {
	fsys := mmapfs.NewMem()
	w := newDB(t, fsys, WriterOptions{})
	w.MarkFileNumberUsed(100)
	w.MarkFileNumberUsed(50)
	if n := w.NewFileNumber(); n != 101 {
		t.Fatalf("%d", n)
	}
	if err := w.Append(&VersionEdit{NewFiles: []NewFile{file(0, 200, "a", "b", 1)}}); err != nil {
		t.Fatal(err)
	}
	if n := w.NewFileNumber(); n != 201 {
		t.Fatalf("%d", n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(&VersionEdit{}); !errors.Is(err, errClosed) {
		t.Fatalf("%v", err)
	}
	st, err := Recover(fsys, ".", RecoverOptions{})
	if err != nil || st.NextFileNumber <= 200 || st.LastSeq != 1 {
		t.Fatalf("%+v %v", st, err)
	}
}

// TestReadersSeeWholeStatesWhileEditsAppend is for the race detector too.
func TestReadersSeeWholeStatesWhileEditsAppend(t *testing.T) {
	w := newDB(t, mmapfs.NewMem(), WriterOptions{MaxFileSize: 1})
	defer w.Close()
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				st := w.State()
				if n := st.Family(0).Version.NumFiles(); uint64(n) != st.LastSeq {
					t.Errorf("%d files at sequence %d", n, st.LastSeq)
					return
				}
				w.NewFileNumber()
			}
		})
	}
	var seq atomic.Uint64
	var order sync.Mutex
	for range 3 {
		writers.Go(func() {
			for range 20 {
				order.Lock()
				e := &VersionEdit{NewFiles: []NewFile{file(0, w.NewFileNumber(), "a", "b", seq.Add(1))}}
				e.NewFiles[0].Meta.EpochNumber = w.NewEpoch(0)
				err := w.Append(e)
				order.Unlock()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if n := w.Version(0).NumFiles(); n != 60 {
		t.Fatalf("%d files", n)
	}
}
