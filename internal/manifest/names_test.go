package manifest

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

func TestParseNameUndoesEveryName(t *testing.T) {
	for _, n := range []uint64{0, 1, 999999, 1000000, 1<<64 - 1} {
		for _, c := range []struct {
			path string
			kind FileKind
		}{
			{TableName("d", n), KindTable}, {OldTableName("d", n), KindTable}, {LogName("d", n), KindLog},
			{BlobName("d", n), KindBlob}, {TempName("d", n), KindTemp}, {ManifestName("d", n), KindManifest},
			{OptionsName("d", n), KindOptions}, {OptionsTempName("d", n), KindOptionsTemp},
		} {
			base, found := strings.CutPrefix(strings.ReplaceAll(c.path, `\`, "/"), "d/")
			if !found {
				t.Fatalf("path %q", c.path)
			}
			if kind, got, ok := ParseName(base); kind != c.kind || got != n || !ok {
				t.Errorf("%s: %v %d %t, expected %v %d", base, kind, got, ok, c.kind, n)
			}
		}
	}
	if got := TableName("", 7); got != "000007.sst" {
		t.Errorf("table 7 is %s", got)
	}
	for base, kind := range map[string]FileKind{
		"CURRENT": KindCurrent, "LOCK": KindLock, "IDENTITY": KindIdentity, "LOG": KindInfoLog, "LOG.old.1700000000000000": KindInfoLog,
		"METADB-7": KindMeta, "COMPACTION_PROGRESS-17": KindProgress, "7.sst": KindTable,
	} {
		if got, _, ok := ParseName(base); got != kind || !ok {
			t.Errorf("%s: %v %t, expected %v", base, got, ok, kind)
		}
	}
}

func TestParseNameLeavesForeignFilesAlone(t *testing.T) {
	for _, base := range []string{"", ".", "sst", ".sst", "x.sst", "+1.sst", "-1.sst", " 1.sst", "1 .sst", "000001.sst.bak", "000001.txt", "000001",
		"MANIFEST-", "MANIFEST-x", "MANIFEST-1.dbtmp", "OPTIONS-", "OPTIONS-.dbtmp", "CURRENT.bak", "LOG.old.", "LOG.old.x",
		"18446744073709551616.sst", "METADB-", "current", "1_000.sst", "0x1.log"} {
		if kind, n, ok := ParseName(base); ok || kind != KindUnknown || n != 0 {
			t.Errorf("%q: %v %d %t", base, kind, n, ok)
		}
	}
}

func TestCurrentIsOneLine(t *testing.T) {
	fsys := mmapfs.NewMem()
	if _, err := ReadCurrent(fsys, "."); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no CURRENT: %v", err)
	}
	for content, want := range map[string]string{
		"MANIFEST-000007":           "newline",
		"":                          "newline",
		"MANIFEST-x\n":              "MANIFEST-<number>",
		"000007.sst\n":              "MANIFEST-<number>",
		"MANIFEST-1\nMANIFEST-2\n":  "MANIFEST-<number>",
		strings.Repeat("x\n", 9999): "at most",
	} {
		if err := writeFile(fsys, CurrentName("."), []byte(content)); err != nil {
			t.Fatal(err)
		}
		_, err := ReadCurrent(fsys, ".")
		if !errors.Is(err, keys.ErrCorruption) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "CURRENT") {
			t.Errorf("%.20q: %v, expected %q", content, err, want)
		}
	}
	if err := SetCurrent(fsys, ".", 12); err != nil {
		t.Fatal(err)
	}
	if n, err := ReadCurrent(fsys, "."); n != 12 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	if got := string(readAll(t, fsys, "CURRENT")); got != "MANIFEST-000012\n" {
		t.Fatalf("CURRENT holds %q", got)
	}
}

func TestIdentity(t *testing.T) {
	fsys := mmapfs.NewMem()
	if _, err := ReadIdentity(fsys, "."); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no IDENTITY: %v", err)
	}
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	id := NewDBID()
	if !form.MatchString(id) || id == NewDBID() {
		t.Fatalf("database id %q", id)
	}
	if err := WriteIdentity(fsys, ".", id, 3); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadIdentity(fsys, "."); got != id || err != nil {
		t.Fatalf("%q %v", got, err)
	}
	if got, err := ReadIdentity(mmapfs.OS, goldenRoot+"/d28_fresh_11_9/db"); got != "514aab93-3f9f-45a7-9f7f-13b69d084b73" || err != nil {
		t.Fatalf("RocksDB's IDENTITY: %q %v", got, err)
	}
}

// TestUniqueIDIsRocksDBs computes ids from the identities in the properties of
// golden tables and compares them with the MANIFESTs beside those.
func TestUniqueIDIsRocksDBs(t *testing.T) {
	for _, c := range []struct {
		db, session string
		number      uint64
		lower, hi   uint64
	}{
		{"514aab93-3f9f-45a7-9f7f-13b69d084b73", "WWNPNH6L0DO3I26X98T8", 187, 4661663395765145052, 8933638908239064236}, // d28
		{"514aab93-3f9f-45a7-9f7f-13b69d084b73", "WWNPNH6L0DO3I26X98T8", 192, 4661663395765145052, 8933638908239064279}, // d28
		{"9853cf02-0d4e-416c-a0c7-c2c0f217a0de", "XNZ4GVJ558GLI1LQPQGH", 28, 5300729421820375089, 1589970097500809938},  // d16
		{"9853cf02-0d4e-416c-a0c7-c2c0f217a0de", "XNZ4GVJ558GLI1LQPQGU", 39, 5300729421820375102, 1589970097500809961},  // d16
		{"72d29d1f-165c-416d-969f-a379602617bf", "VAFF3RJTVRV0LD8VK17O", 65, 8793825148558438948, 18116080810594446972}, // d27
	} {
		id, ok := UniqueID(c.db, c.session, c.number)
		lower, hi := binary.LittleEndian.Uint64(id[:]), binary.LittleEndian.Uint64(id[8:])
		if !ok || lower != c.lower || hi != c.hi {
			t.Errorf("file %d: {%d,%d} %t, expected {%d,%d}", c.number, lower, hi, ok, c.lower, c.hi)
		}
	}
	session := NewSessionID()
	if len(session) != SessionIDLen || session == NewSessionID() {
		t.Errorf("session id %q", session)
	}
	if _, ok := UniqueID("db", session, 1); !ok {
		t.Errorf("own session id %q refused", session)
	}
	for _, bad := range []string{"", "SHORT", "0123456789AB", strings.Repeat("Z", 25), "01234567-9ABCDEFGHIJ"} {
		if _, ok := UniqueID("db", bad, 1); ok {
			t.Errorf("session id %q accepted", bad)
		}
	}
}
