package record_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/record"
)

const goldenDB = "../../testdata/golden/db"

// goldenFiles maps paths below goldenDB to the logs and MANIFESTs there.
func goldenFiles(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, depth := range []string{"*/db", "*/db/private/*"} {
		paths, err := filepath.Glob(filepath.Join(goldenDB, depth, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.ToSlash(strings.TrimPrefix(p, filepath.Clean(goldenDB)+string(filepath.Separator)))] = b
		}
	}
	return files
}

type event struct {
	payload []byte
	offset  int64
	damage  *record.Damage
}

// readAll reads to the end, through all damage.
func readAll(t testing.TB, file []byte, number uint64) []event {
	t.Helper()
	events, err := readThrough(bytes.NewReader(file), number)
	if err != io.EOF {
		t.Fatalf("reading ended with %v, not io.EOF", err)
	}
	return events
}

func readThrough(src io.Reader, number uint64) ([]event, error) {
	var events []event
	keep := func(record.Type, []byte, int64) error { return nil }
	r := record.NewReader(src, "test.log", number, record.ReaderOptions{Meta: keep})
	for {
		p, err := r.Next()
		var d *record.Damage
		switch {
		case err == nil:
			events = append(events, event{payload: bytes.Clone(p), offset: r.Offset()})
		case errors.As(err, &d):
			events = append(events, event{damage: d, offset: d.Where.Offset})
		default:
			return events, err
		}
	}
}

func TestGoldenManifestsAreFramedAgainByteForByte(t *testing.T) {
	files := goldenFiles(t, "MANIFEST-*")
	if len(files) < 28 {
		t.Fatalf("found %d golden MANIFESTs", len(files))
	}
	for name, file := range files {
		var out bytes.Buffer
		w := record.NewWriter(&out, 0, false)
		r := record.NewReader(bytes.NewReader(file), filepath.Base(name), 0, record.ReaderOptions{})
		for {
			p, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := w.Append(p); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(out.Bytes(), file) {
			t.Errorf("%s: framed again it differs", name)
		}
		if w.Size() != int64(len(file)) {
			t.Errorf("%s: size %d, want %d", name, w.Size(), len(file))
		}
	}
}

func TestGoldenLogsAreFramedAgainByteForByte(t *testing.T) {
	files := goldenFiles(t, "*.log")
	if len(files) < 34 {
		t.Fatalf("found %d golden logs", len(files))
	}
	for name, file := range files {
		number, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(name), ".log"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		recyclable := strings.HasPrefix(name, "d10_")
		f := record.NewFramer(number, recyclable)
		var out []byte
		meta := func(t record.Type, payload []byte, _ int64) error {
			out = f.AppendMeta(out, t, payload)
			return nil
		}
		r := record.NewReader(bytes.NewReader(file), filepath.Base(name), number, record.ReaderOptions{Meta: meta})
		for {
			p, err := r.Next()
			if err != nil {
				if err != io.EOF && !strings.HasPrefix(name, "d10_") && !strings.HasPrefix(name, "d12_") && !strings.HasPrefix(name, "d13_") {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			// In a compressed log RocksDB cuts the frame into chunks before it
			// fragments them; ours is one piece. Only the length may differ there.
			out = f.AppendRecord(out, p[:len(p)/2], nil, p[len(p)/2:])
			if !strings.HasPrefix(name, "d09_") && int64(len(out)) != r.End() {
				t.Fatalf("%s: a record ends at %d, framed again at %d", name, r.End(), len(out))
			}
		}
		if !strings.HasPrefix(name, "d09_") && !bytes.HasPrefix(file, out) {
			t.Errorf("%s: framed again it differs", name)
		}
		if strings.HasPrefix(name, "d10_") && strings.HasSuffix(name, "17.log") && len(out) != 2396 {
			t.Errorf("%s: new data ends at %d, want 2396", name, len(out))
		}
	}
}

// The old content behind the new records begins 0100000000000001: a fragment of
// type zero, which drops the block without a word.
func TestRecycledGoldenLogEndsWhereOldContentBegins(t *testing.T) {
	file := goldenFiles(t, "000017.log")["d10_recycled_wal/db/000017.log"]
	r := record.NewReader(bytes.NewReader(file), "000017.log", 17, record.ReaderOptions{})
	n := 0
	for ; ; n++ {
		if _, err := r.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n != 40 || r.End() != 2396 || !r.Recycled() {
		t.Errorf("read %d records up to %d, want 40 up to 2396", n, r.End())
	}
}
