package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/record"
)

// fullEdit sets every field.
func fullEdit() *VersionEdit {
	return &VersionEdit{
		ColumnFamily: 3, DBID: Some("id"), Comparator: Some("cmp"), LogNumber: Some(uint64(4)), PrevLogNumber: Some(uint64(0)),
		NextFileNumber: Some(uint64(1 << 40)), MaxColumnFamily: Some(uint32(9)), MinLogNumberToKeep: Some(uint64(300)), LastSeq: Some(keys.MaxSeq),
		CompactCursors: []CompactCursor{{2, []byte("cursor..")}},
		DeletedFiles:   []DeletedFile{{0, 7}, {0, 300}, {1, 2}},
		NewFiles: []NewFile{{6, &FileMetadata{
			Number: 77, PathID: 3, Size: 1 << 33, SmallestKey: []byte("a"), SmallestTrailer: keys.Pack(5, keys.KindValue),
			LargestKey: []byte("b"), LargestTrailer: sentinelTrailer, SmallestSeq: 1, LargestSeq: 5, EpochNumber: 300,
			UniqueID: []byte("0123456789abcdef"), OldestBlobNumber: 60, OldestAncestorTime: 1700000000, FileCreationTime: 1700000001,
			CompensatedRangeDeletionSize: 1000, TailSize: 4096, Checksum: []byte{1, 2, 3}, ChecksumFunc: "FileChecksumCrc32c", Temperature: 8,
			MarkedForCompaction: true, TimestampsStripped: true, MinTimestamp: []byte("tsmin"), MaxTimestamp: []byte("tsmax"),
			OpenMetadata: []byte("open"), Unknown: []Field{{33, []byte("safe")}},
		}}, {0, &FileMetadata{Number: 78, SmallestKey: []byte{}, LargestKey: []byte{}}}},
		BlobAdditions: []BlobAddition{{Number: 60, Count: 10, Bytes: 1000, ChecksumMethod: "m", ChecksumValue: []byte("v"), Unknown: []Field{{2, []byte("x")}}}},
		BlobGarbages:  []BlobGarbage{{Number: 60, Count: 1, Bytes: 100, Unknown: []Field{{2, []byte("y")}}}},
		WALAdditions:  []WALAddition{{Number: 5}, {Number: 4, SyncedSize: Some(uint64(3361))}}, WALDeletion: Some(uint64(4)),
		AddColumnFamily: Some("name"), DropColumnFamily: true, AtomicGroup: Some(uint32(2)), FullHistoryTsLow: []byte("low"),
		PersistTimestamps: Some(false), SubcompactionProgress: Some([]byte("p")), LastCompactedManifestSize: Some(uint64(1221)),
		Features: Some(FeatureRangeDeletes),
		Unknown:  []Field{{8300, []byte("newer")}},
	}
}

func TestEveryFieldSurvives(t *testing.T) {
	for _, e := range []*VersionEdit{{}, fullEdit()} {
		b := e.Append(nil)
		got, err := DecodeEdit("MANIFEST-000001", 0, b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, e) {
			t.Fatalf("got  %+v\nwant %+v", got, e)
		}
		if again := got.Append(nil); !bytes.Equal(again, b) {
			t.Fatalf("got  %x\nwant %x", again, b)
		}
	}
}

func TestDeletionsAreWrittenInOrder(t *testing.T) {
	e := &VersionEdit{DeletedFiles: []DeletedFile{{1, 2}, {0, 300}, {0, 7}}}
	want := (&VersionEdit{DeletedFiles: []DeletedFile{{0, 7}, {0, 300}, {1, 2}}}).Append(nil)
	if got := e.Append(nil); !bytes.Equal(got, want) || e.DeletedFiles[0].Level != 1 {
		t.Fatalf("got %x want %x, %v", got, want, e.DeletedFiles)
	}
}

// TestOldFormsAreRead decodes the tags of older writers, by hand.
func TestOldFormsAreRead(t *testing.T) {
	ikey := func(b []byte, k string, seq uint64) []byte {
		return appendInternalKey(b, []byte(k), keys.Pack(seq, keys.KindValue))
	}
	file := func(tag byte, path bool) []byte {
		b := []byte{tag, 2, 9} // level 2, number 9
		if path {
			b = append(b, 1)
		}
		b = ikey(ikey(append(b, 100), "a", 4), "z", 3)
		if tag != tagNewFile {
			b = append(b, 3, 4) // sequence numbers
		}
		return b
	}
	var b []byte
	b = append(b, file(tagNewFile, false)...)
	b = append(b, file(tagNewFile2, false)...)
	b = append(b, file(tagNewFile3, true)...)
	b = append(coding.AppendUvarint(b, tagOldBlobAddition), 12, 5, 50, 0, 0, 0)
	b = append(coding.AppendUvarint(b, tagOldBlobGarbage), 12, 1, 10, 0)
	b = append(coding.AppendUvarint(b, tagOldWALAddition), 4, walSyncedSize, 99, walTerminate)
	b = append(coding.AppendUvarint(b, tagOldWALDeletion), 4)
	e, err := DecodeEdit("M", 0, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.NewFiles) != 3 {
		t.Fatalf("%d files", len(e.NewFiles))
	}
	for i, n := range e.NewFiles {
		m := n.Meta
		if n.Level != 2 || m.Number != 9 || m.Size != 100 || string(m.SmallestKey) != "a" || string(m.LargestKey) != "z" ||
			keys.Seq(m.SmallestTrailer) != 4 || (i > 0) != (m.LargestSeq == 4 && m.SmallestSeq == 3) || (i == 2) != (m.PathID == 1) {
			t.Errorf("form %d: %+v", i, n)
		}
	}
	if a := e.BlobAdditions[0]; a.Number != 12 || a.Count != 5 || a.Bytes != 50 {
		t.Errorf("blob addition %+v", a)
	}
	if g := e.BlobGarbages[0]; g.Number != 12 || g.Count != 1 || g.Bytes != 10 {
		t.Errorf("blob garbage %+v", g)
	}
	if w := e.WALAdditions[0]; w.Number != 4 || w.SyncedSize != Some(uint64(99)) || e.WALDeletion != Some(uint64(4)) {
		t.Errorf("WALs %+v %+v", w, e.WALDeletion)
	}
	// Written on in the current forms.
	again, err := DecodeEdit("M", 0, e.Append(nil))
	if err != nil || !reflect.DeepEqual(again, e) {
		t.Fatalf("%+v %v", again, err)
	}
}

// TestMinLogInsideAFile reads custom field 3, which stands for tag 10.
func TestMinLogInsideAFile(t *testing.T) {
	f := &FileMetadata{Number: 1, SmallestKey: []byte("a"), LargestKey: []byte("b")}
	b := f.appendNewFile([]byte{tagNewFile4}, 0, Some(uint64(17)))
	e, err := DecodeEdit("M", 0, b)
	if err != nil || e.MinLogNumberToKeep != Some(uint64(17)) {
		t.Fatalf("%+v %v", e, err)
	}
}

func TestUnknownFieldsSafeToIgnoreAreKept(t *testing.T) {
	b := appendField(nil, 8192+500, []byte("future"))
	b = append(b, tagLogNumber, 5)
	e, err := DecodeEdit("M", 0, b)
	if err != nil || e.LogNumber.Value != 5 || len(e.Unknown) != 1 || string(e.Unknown[0].Value) != "future" {
		t.Fatalf("%+v %v", e, err)
	}
	if got, _ := DecodeEdit("M", 0, e.Append(nil)); !reflect.DeepEqual(got, e) {
		t.Fatalf("%+v", got)
	}
}

func TestDamagedEditsAreRefused(t *testing.T) {
	file := (&FileMetadata{Number: 9, SmallestKey: []byte("a"), LargestKey: []byte("z")}).appendNewFile([]byte{tagNewFile4}, 1, Optional[uint64]{})
	custom := func(tag uint32, v ...byte) []byte {
		return append(appendField(bytes.Clone(file[:len(file)-1]), tag, v), fileTerminate)
	}
	big := binary.AppendUvarint(nil, maxFileNumber+1)
	for what, c := range map[string]struct {
		b    []byte
		want string
	}{
		"unknown tag":                  {[]byte{8, 1}, "known or safe to ignore, found 8"},
		"unknown tag above 300":        {coding.AppendUvarint(nil, 500), "found 500"},
		"tag cut short":                {[]byte{0x80}, "tag as a varint32"},
		"tag too large":                {binary.AppendUvarint(nil, 1<<40), "tag as a varint32"},
		"length beyond the end":        {[]byte{tagComparator, 200, 1, 'x'}, "comparator name"},
		"huge length":                  {append([]byte{tagComparator}, binary.AppendUvarint(nil, 1<<32-1)...), "comparator name"},
		"level too deep":               {append([]byte{tagDeletedFile}, 0x80, 0x08, 1), "level below 1024, found 1024"},
		"short internal key":           {[]byte{tagNewFile4, 0, 1, 1, 3, 'a', 'b', 'c'}, "internal key of 8 bytes or more, found 3"},
		"short cursor":                 {[]byte{tagCompactCursor, 1, 2, 'a', 'b'}, "compact cursor"},
		"file number too large":        {append([]byte{tagNextFileNumber}, big...), "next file number of at most"},
		"unsafe custom field":          {custom(66, 1), "known or safe to ignore, found tag 66"},
		"custom field without end":     {file[:len(file)-1], "custom field tag"},
		"epoch with bytes to spare":    {custom(fileEpochNumber, 1, 1), "epoch number as a varint64 that fills"},
		"path id":                      {custom(filePathID, 4), "path id below 4, found 4"},
		"unique id":                    {custom(fileUniqueID, 1, 2), "16 or 24 bytes, found 2"},
		"need compaction of no byte":   {custom(fileNeedCompaction), "need compaction in 1 byte, found 0"},
		"min log of 4 bytes":           {custom(fileMinLogNumberToKeep, 1, 2, 3, 4), "in 8 bytes, found 4"},
		"unsafe blob field":            {append(coding.AppendUvarint(nil, tagBlobAddition), 1, 1, 1, 0, 0, 65, 0, 0), "safe to ignore, found tag 65"},
		"WAL addition with rest":       {appendField(nil, tagWALAddition, []byte{4, walTerminate, 9}), "end of WAL addition"},
		"WAL addition unknown tag":     {appendField(nil, tagWALAddition, []byte{4, 3, walTerminate}), "WAL addition tag 1 or 2, found 3"},
		"WAL deletion empty":           {appendField(nil, tagWALDeletion, nil), "deleted WAL number"},
		"empty full_history_ts_low":    {appendField(nil, tagFullHistoryTsLow, nil), "full_history_ts_low"},
		"persist timestamps of 2 byte": {appendField(nil, tagPersistTimestamps, []byte{1, 1}), "in 1 byte, found 2"},
	} {
		_, err := DecodeEdit("MANIFEST-000123", 4711, c.b)
		var at *keys.CorruptionError
		if !errors.As(err, &at) || at.File != "MANIFEST-000123" || at.Offset != 4711 || !strings.Contains(at.Reason, c.want) {
			t.Errorf("%s: %v, expected %q", what, err, c.want)
		}
	}
}

// TestEveryCutOfAnEditIsAnErrorOrAnEdit cuts an edit that has every field at
// every byte: what remains is an error or an edit that encodes to those bytes.
func TestEveryCutOfAnEditIsAnErrorOrAnEdit(t *testing.T) {
	b := fullEdit().Append(nil)
	whole := 0
	for n := range b {
		e, err := DecodeEdit("M", 0, b[:n])
		if err != nil {
			continue
		}
		whole++
		if got := len(e.Append(nil)); got != n {
			t.Fatalf("cut at %d encodes to %d bytes", n, got)
		}
	}
	if whole < 15 {
		t.Fatalf("%d cuts between fields, expected 15 or more", whole)
	}
}

func FuzzDecodeEdit(f *testing.F) {
	for _, path := range goldenManifests(f) {
		for _, p := range goldenRecords(f, path) {
			if len(p) < 600 {
				f.Add(p)
			}
		}
	}
	f.Add(fullEdit().Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEdit("M", 0, b)
		if err != nil {
			if !errors.Is(err, keys.ErrCorruption) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		out := e.Append(nil)
		again, err := DecodeEdit("M", 0, out)
		if err != nil {
			t.Fatalf("own encoding refused: %v\n%x", err, out)
		}
		if second := again.Append(nil); !bytes.Equal(second, out) {
			t.Fatalf("not stable:\n%x\n%x", out, second)
		}
	})
}

// FuzzRecover gives whole MANIFESTs to Recover, and what comes out to a Writer.
// The input is a list of edits with their lengths in front, framed here, since
// checksums would keep the fuzzer away from the replay.
func FuzzRecover(f *testing.F) {
	for _, path := range goldenManifests(f) {
		var list []byte
		for _, p := range goldenRecords(f, path) {
			list = coding.AppendSlice(list, p)
		}
		if len(list) < 3000 {
			f.Add(list)
		}
	}
	f.Add(coding.AppendSlice(coding.AppendSlice(nil, base().Append(nil)), fullEdit().Append(nil)))
	f.Fuzz(func(t *testing.T, list []byte) {
		var b bytes.Buffer
		frames := record.NewWriter(&b, 0, false)
		for len(list) > 0 {
			p, rest, ok := coding.Slice(list)
			if !ok {
				p, rest = list, nil
			}
			if err := frames.Append(p); err != nil {
				t.Fatal(err)
			}
			list = rest
		}
		fsys := memWith(t, map[string][]byte{"MANIFEST-000005": b.Bytes(), "CURRENT": []byte("MANIFEST-000005\n")})
		st, err := Recover(fsys, ".", RecoverOptions{})
		if err != nil {
			return
		}
		for _, family := range st.Families {
			if err := family.Version.Check(); err != nil {
				t.Fatal(err)
			}
		}
		w, err := NewWriter(fsys, ".", st, WriterOptions{})
		if err != nil {
			t.Fatalf("recovered, yet not writable: %v", err)
		}
		defer w.Close()
		again, err := Recover(fsys, ".", RecoverOptions{})
		if err != nil {
			t.Fatalf("own MANIFEST refused: %v", err)
		}
		if a, b := stateText(t, st), stateText(t, again); a != b {
			t.Fatalf("before:\n%s\nafter:\n%s", a, b)
		}
	})
}
