package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

func TestRecoverWithoutADatabase(t *testing.T) {
	if _, err := Recover(mmapfs.NewMem(), ".", RecoverOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v", err)
	}
	fsys := memWith(t, map[string][]byte{"CURRENT": []byte("MANIFEST-000005\n")})
	_, err := Recover(fsys, ".", RecoverOptions{})
	if !errors.Is(err, keys.ErrCorruption) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "MANIFEST-000005") {
		t.Fatalf("a database without its MANIFEST must not look like none: %v", err)
	}
}

func TestRecoverRefuses(t *testing.T) {
	family := func(id uint32, name string) *VersionEdit {
		return &VersionEdit{ColumnFamily: id, AddColumnFamily: Some(name), Comparator: Some(keys.Bytewise.Name()), LogNumber: Some(uint64(1))}
	}
	group := func(left uint32) *VersionEdit { return &VersionEdit{AtomicGroup: Some(left)} }
	for what, c := range map[string]struct {
		edits []*VersionEdit
		want  string
	}{
		"nothing":                  {nil, "no log_file_number, next_file_number, last_sequence entry"},
		"no next file number":      {[]*VersionEdit{{LogNumber: Some(uint64(1)), LastSeq: Some(uint64(1))}}, "no next_file_number entry"},
		"no last sequence":         {[]*VersionEdit{{LogNumber: Some(uint64(1)), NextFileNumber: Some(uint64(1))}}, "no last_sequence entry"},
		"family twice":             {[]*VersionEdit{base(), family(1, "a"), family(1, "b")}, "column family 1"},
		"name twice":               {[]*VersionEdit{base(), family(1, "a"), family(2, "a")}, "already there with id 1"},
		"default family added":     {[]*VersionEdit{base(), family(0, "x")}, "column family 0"},
		"default family dropped":   {[]*VersionEdit{base(), {DropColumnFamily: true}}, "default column family to stay"},
		"unknown family dropped":   {[]*VersionEdit{base(), {ColumnFamily: 4, DropColumnFamily: true}}, "dropping non-existing column family 4"},
		"unknown family":           {[]*VersionEdit{base(), {ColumnFamily: 4}}, "referencing unknown column family 4"},
		"edit of a dropped family": {[]*VersionEdit{base(), family(1, "a"), {ColumnFamily: 1, DropColumnFamily: true}, {ColumnFamily: 1}}, "unknown column family 1"},
		"comparator changes":       {[]*VersionEdit{base(), {Comparator: Some("other")}}, "found it changed to other"},
		"missing file deleted":     {[]*VersionEdit{base(), {DeletedFiles: []DeletedFile{{0, 9}}}}, "expected file 9 at L0 to delete, found no such file"},
		"file at another level":    {[]*VersionEdit{base(), {NewFiles: []NewFile{file(1, 9, "a", "b", 1)}}, {DeletedFiles: []DeletedFile{{0, 9}}}}, "found it at L1"},
		"file added twice":         {[]*VersionEdit{base(), {NewFiles: []NewFile{file(1, 9, "a", "b", 1)}}, {NewFiles: []NewFile{file(0, 9, "a", "b", 1)}}}, "file 9 to be new at L0, found it at L1"},
		"overlap":                  {[]*VersionEdit{base(), {NewFiles: []NewFile{file(1, 9, "a", "c", 1), file(1, 10, "b", "d", 2)}}}, "no overlap in L1"},
		"interrupted group":        {[]*VersionEdit{base(), group(1), {}}, "rest of an atomic group of 2 edits"},
		"group out of step":        {[]*VersionEdit{base(), group(2), group(2)}, "1 edits to follow in an atomic group, found 2"},
		"blob added twice":         {[]*VersionEdit{base(), {BlobAdditions: []BlobAddition{{Number: 3}, {Number: 3}}}}, "blob file 3 to be new"},
		"garbage without blob":     {[]*VersionEdit{base(), {BlobGarbages: []BlobGarbage{{Number: 3}}}}, "blob file 3 for garbage"},
		"more garbage than blob":   {[]*VersionEdit{base(), {BlobAdditions: []BlobAddition{{Number: 3, Count: 1, Bytes: 9}}, BlobGarbages: []BlobGarbage{{Number: 3, Count: 2, Bytes: 9}}}}, "at most 1 blobs and 9 bytes"},
		"WAL created twice":        {[]*VersionEdit{base(), {WALAdditions: []WALAddition{{Number: 3}}}, {WALAdditions: []WALAddition{{Number: 3}}}}, "WAL 3 to be new"},
		"WAL shrinks":              {[]*VersionEdit{base(), {WALAdditions: []WALAddition{{3, Some(uint64(9))}, {3, Some(uint64(8))}}}}, "at least 9 synced bytes, found 8"},
		"impossible sequence":      {[]*VersionEdit{base(), {LastSeq: Some(keys.MaxSeq + 1)}}, "last sequence of at most"},
	} {
		_, err := recoverEdits(t, c.edits...)
		var at *keys.CorruptionError
		if !errors.As(err, &at) || at.File != "MANIFEST-000005" || !strings.Contains(at.Reason, c.want) {
			t.Errorf("%s: %v, expected %q", what, err, c.want)
		}
	}
}

func TestErrorsNameTheOffsetOfTheRecord(t *testing.T) {
	first := manifestOf(t, base())
	_, err := recoverEdits(t, base(), &VersionEdit{ColumnFamily: 4})
	var at *keys.CorruptionError
	if !errors.As(err, &at) || at.Offset != int64(len(first)) {
		t.Fatalf("%v, expected offset %d", err, len(first))
	}
}

func TestCountersAreMaxima(t *testing.T) {
	st, err := recoverEdits(t, base(),
		&VersionEdit{LogNumber: Some(uint64(8)), NextFileNumber: Some(uint64(30)), LastSeq: Some(uint64(100)), MinLogNumberToKeep: Some(uint64(7)), MaxColumnFamily: Some(uint32(5)), DBID: Some("id")},
		&VersionEdit{LogNumber: Some(uint64(6)), NextFileNumber: Some(uint64(20)), LastSeq: Some(uint64(90)), MinLogNumberToKeep: Some(uint64(5)), MaxColumnFamily: Some(uint32(3))})
	if err != nil {
		t.Fatal(err)
	}
	if st.Family(0).LogNumber != 8 || st.NextFileNumber != 31 || st.LastSeq != 100 || st.MinLogNumberToKeep != 7 || st.MaxColumnFamily != 5 || st.DBID != "id" || st.MinLogNumber() != 8 {
		t.Fatalf("%+v", st)
	}
	// Nor may a last sequence that is too low make writes use numbers again.
	st, err = recoverEdits(t, base(), &VersionEdit{NewFiles: []NewFile{file(0, 60, "a", "b", 77)}})
	if err != nil || st.LastSeq != 77 {
		t.Fatalf("last sequence %d, %v", st.LastSeq, err)
	}
	// A next file number that is too low does no harm.
	st, err = recoverEdits(t, base(), &VersionEdit{LogNumber: Some(uint64(50)), NewFiles: []NewFile{file(0, 60, "a", "b", 1)}, BlobAdditions: []BlobAddition{{Number: 61}}})
	if err != nil || st.NextFileNumber <= 61 {
		t.Fatalf("next file number %d, %v", st.NextFileNumber, err)
	}
}

func TestMinLogNumberIsTheOldestThatAnyFamilyNeeds(t *testing.T) {
	st, err := recoverEdits(t, base(), &VersionEdit{LogNumber: Some(uint64(9)), MinLogNumberToKeep: Some(uint64(3))},
		&VersionEdit{ColumnFamily: 1, AddColumnFamily: Some("a"), LogNumber: Some(uint64(6))})
	if err != nil || st.MinLogNumber() != 6 {
		t.Fatalf("%d %v", st.MinLogNumber(), err)
	}
}

func TestAtomicGroupsCountAsAWholeOrNotAtAll(t *testing.T) {
	add := func(n uint64, left uint32) *VersionEdit {
		return &VersionEdit{NewFiles: []NewFile{file(0, n, "a", "b", n)}, AtomicGroup: Some(left)}
	}
	st, err := recoverEdits(t, base(), add(10, 2), add(11, 1), add(12, 0), add(13, 1))
	if err != nil || st.Family(0).Version.NumFiles() != 3 {
		t.Fatalf("%+v %v", st, err)
	}
}

func TestATornTailIsIgnoredAndOtherDamageIsNot(t *testing.T) {
	edits := []*VersionEdit{base()}
	for n := uint64(10); n < 400; n++ { // several blocks
		f := file(0, n, strings.Repeat("k", 100), strings.Repeat("z", 100), n)
		edits = append(edits, &VersionEdit{NewFiles: []NewFile{f}})
	}
	whole := manifestOf(t, edits...)
	ends := map[int]int{0: 0} // offset to the number of whole records before
	for i := range edits {
		if i%40 == 0 || i > len(edits)-3 {
			ends[len(manifestOf(t, edits[:i+1]...))] = i + 1
		}
	}
	open := func(b []byte) (*State, error) {
		return Recover(memWith(t, map[string][]byte{"CURRENT": []byte("MANIFEST-000005\n"), "MANIFEST-000005": b}), ".", RecoverOptions{})
	}
	for end, n := range ends {
		for _, cut := range []int{end, end + 1, end + 6, end + 8, end + 150} {
			if cut > len(whole) || n == 0 {
				continue
			}
			st, err := open(whole[:cut])
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			if st.Edits < n || (cut == end) != !st.TornTail && cut < end+100 {
				t.Fatalf("cut at %d: %d edits, torn %t, expected %d", cut, st.Edits, st.TornTail, n)
			}
		}
	}
	for _, at := range []int{0, 5, 20, len(whole) / 3, len(whole) / 2} {
		b := bytes.Clone(whole)
		b[at] ^= 0x10
		if _, err := open(b); !errors.Is(err, keys.ErrCorruption) || !strings.Contains(err.Error(), "MANIFEST-000005") {
			t.Fatalf("bit flipped at %d: %v", at, err)
		}
	}
}

func TestNumLevels(t *testing.T) {
	fsys := memWith(t, map[string][]byte{"CURRENT": []byte("MANIFEST-000005\n"),
		"MANIFEST-000005": manifestOf(t, base(), &VersionEdit{NewFiles: []NewFile{file(9, 10, "a", "b", 1)}})})
	levels := func(n int) RecoverOptions { return RecoverOptions{NumLevels: func(string) int { return n }} }
	if st, err := Recover(fsys, ".", RecoverOptions{}); err != nil || st.Family(0).Version.NumLevels() != 10 {
		t.Fatalf("%+v %v", st, err)
	}
	if st, err := Recover(fsys, ".", levels(12)); err != nil || st.Family(0).Version.NumLevels() != 12 {
		t.Fatalf("%+v %v", st, err)
	}
	if _, err := Recover(fsys, ".", levels(7)); err == nil || errors.Is(err, keys.ErrCorruption) || !strings.Contains(err.Error(), "more levels than options.num_levels") {
		t.Fatalf("%v", err)
	}
}

// TestNumLevelsAfterThereWereMore: a file that was deep once and has moved up leaves no level behind that
// num_levels does not have; a compaction would use it, and the next recovery refuse.
func TestNumLevelsAfterThereWereMore(t *testing.T) {
	fsys := memWith(t, map[string][]byte{"CURRENT": []byte("MANIFEST-000005\n"),
		"MANIFEST-000005": manifestOf(t, base(), &VersionEdit{NewFiles: []NewFile{file(9, 10, "a", "b", 1)}},
			&VersionEdit{DeletedFiles: []DeletedFile{{9, 10}}, NewFiles: []NewFile{file(1, 10, "a", "b", 1)}})})
	st, err := Recover(fsys, ".", RecoverOptions{NumLevels: func(string) int { return 2 }})
	if err != nil {
		t.Fatal(err)
	}
	if v := st.Family(0).Version; v.NumLevels() != 2 || len(v.Levels[1]) != 1 || v.NumFiles() != 1 {
		t.Fatalf("%d levels: %v", v.NumLevels(), v.Levels)
	}
}

// TestDeeperThanNumLevels: a family that may be deeper has the levels that it needs, and no more.
func TestDeeperThanNumLevels(t *testing.T) {
	fsys := memWith(t, map[string][]byte{"CURRENT": []byte("MANIFEST-000005\n"),
		"MANIFEST-000005": manifestOf(t, base(), &VersionEdit{NewFiles: []NewFile{file(9, 10, "a", "b", 1)}},
			&VersionEdit{DeletedFiles: []DeletedFile{{9, 10}}, NewFiles: []NewFile{file(7, 10, "a", "b", 1)}})})
	for n, want := range map[int]int{2: 8, 0: 8, 9: 9} {
		st, err := Recover(fsys, ".", RecoverOptions{NumLevels: func(string) int { return n }, Deeper: func(string) bool { return true }})
		if err != nil || st.Family(0).Version.NumLevels() != want {
			t.Fatalf("with %d: %v, want %d levels", n, err, want)
		}
	}
}

func TestWALTracking(t *testing.T) {
	st, err := recoverEdits(t, base(), &VersionEdit{WALAdditions: []WALAddition{{Number: 4}, {Number: 5}}},
		&VersionEdit{WALAdditions: []WALAddition{{4, Some(uint64(100))}}}, &VersionEdit{WALAdditions: []WALAddition{{4, Some(uint64(200))}}},
		&VersionEdit{WALDeletion: Some(uint64(5))}, &VersionEdit{WALAdditions: []WALAddition{{Number: 3}}})
	if err != nil || st.MinTrackedWAL != 5 || len(st.WALs) != 1 || st.WALs[5].Set {
		t.Fatalf("%+v %v", st, err)
	}
}

// TestEpochsAreInferred follows the order in which RocksDB numbers files that
// have none: deepest level first, L0 oldest to newest last.
func TestEpochsAreInferred(t *testing.T) {
	st, err := recoverEdits(t, base(), &VersionEdit{NewFiles: []NewFile{
		file(0, 30, "a", "z", 9), file(0, 31, "a", "z", 7), file(0, 29, "a", "z", 8),
		file(1, 20, "a", "c", 5), file(1, 21, "d", "f", 5), file(6, 10, "a", "z", 1),
	}})
	if err != nil {
		t.Fatal(err)
	}
	f := st.Family(0)
	got := ""
	for level, files := range f.Version.Levels {
		for _, m := range files {
			got += fmt.Sprintf("L%d %d:%d ", level, m.Number, m.EpochNumber)
		}
	}
	if want := "L0 30:5 L0 29:4 L0 31:3 L1 20:2 L1 21:2 L6 10:1 "; got != want || f.NextEpoch != 6 || !f.InferredEpochs {
		t.Fatalf("got %snext %d, expected %s", got, f.NextEpoch, want)
	}
}

func TestL0OrderIsByEpochBeforeSequence(t *testing.T) {
	a, b, c := file(0, 10, "a", "z", 9), file(0, 11, "a", "z", 5), file(0, 12, "a", "z", 5)
	a.Meta.EpochNumber, b.Meta.EpochNumber, c.Meta.EpochNumber = 1, 3, 2
	st, err := recoverEdits(t, base(), &VersionEdit{NewFiles: []NewFile{a, b, c}})
	if err != nil {
		t.Fatal(err)
	}
	l0 := st.Family(0).Version.Levels[0]
	if l0[0].Number != 11 || l0[1].Number != 12 || l0[2].Number != 10 || st.Family(0).NextEpoch != 4 {
		t.Fatalf("%d %d %d", l0[0].Number, l0[1].Number, l0[2].Number)
	}
}

func TestBlobFilesLiveWhileAnyFileMayReferToThem(t *testing.T) {
	with := func(n uint64, level int, key string, blob uint64) NewFile {
		f := file(level, n, key, key, n)
		f.Meta.OldestBlobNumber = blob
		return f
	}
	blob := func(n uint64) BlobAddition { return BlobAddition{Number: n, Count: 10, Bytes: 100} }
	edits := []*VersionEdit{base(),
		{NewFiles: []NewFile{with(10, 1, "a", 5), with(11, 1, "b", 6)}, BlobAdditions: []BlobAddition{blob(4), blob(5), blob(6), blob(7)}},
		{BlobGarbages: []BlobGarbage{{Number: 6, Count: 10, Bytes: 100}, {Number: 7, Count: 10, Bytes: 100}, {Number: 5, Count: 1, Bytes: 9}}},
	}
	live := func(edits ...*VersionEdit) string {
		t.Helper()
		st, err := recoverEdits(t, edits...)
		if err != nil {
			t.Fatal(err)
		}
		s := ""
		for _, b := range st.Family(0).Version.Blobs {
			s += fmt.Sprintf("%d%v-%d ", b.Number, b.Linked, b.GarbageCount)
		}
		return s
	}
	// 4 is older than what any file refers to; 7 is garbage alone; 6 is too, but linked.
	if got, want := live(edits...), "5[10]-1 6[11]-10 "; got != want {
		t.Fatalf("got %q, expected %q", got, want)
	}
	edits = append(edits, &VersionEdit{DeletedFiles: []DeletedFile{{1, 10}}})
	if got, want := live(edits...), "6[11]-10 "; got != want {
		t.Fatalf("got %q, expected %q", got, want)
	}
	edits = append(edits, &VersionEdit{DeletedFiles: []DeletedFile{{1, 11}}})
	if got := live(edits...); got != "" {
		t.Fatalf("got %q, expected none", got)
	}
}
