package wal

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

const goldenDB = "../../testdata/golden/db"

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(goldenDB, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// listing writes a batch as RocksDB's "ldb dump_wal --print_value" does. It stops
// at an entity, which that tool cannot print.
func listing(t testing.TB, batch []byte, offset int64) (line string, printable bool) {
	d := Decode(batch)
	s := fmt.Sprintf("%d,%d,%d,%d,", d.Sequence(), d.Count(), len(batch), offset)
	names := map[keys.Kind]string{keys.KindValue: "PUT", keys.KindMerge: "MERGE", keys.KindDelete: "DELETE",
		keys.KindSingleDelete: "SINGLE_DELETE", keys.KindRangeDelete: "DELETE_RANGE"}
	var op Op
	printable = true
	for d.Next(&op) {
		switch op.Kind {
		case keys.KindValue, keys.KindMerge:
			s += fmt.Sprintf("%s(%d) : 0x%X : 0x%X ", names[op.Kind], op.CF, op.Key, op.Value)
		case keys.KindDelete, keys.KindSingleDelete:
			s += fmt.Sprintf("%s(%d) : 0x%X ", names[op.Kind], op.CF, op.Key)
		case keys.KindRangeDelete:
			s += fmt.Sprintf("%s(%d) : 0x%X 0x%X ", names[op.Kind], op.CF, op.Key, op.Value)
		case KindNoop:
			s += "NOOP "
		case KindBeginPrepare:
			s += "BEGIN_PREPARE(false) "
		case KindEndPrepare:
			s += fmt.Sprintf("END_PREPARE(0x%X) ", op.Key)
		case KindCommit:
			s += fmt.Sprintf("COMMIT(0x%X) ", op.Key)
		case KindRollback:
			s += fmt.Sprintf("ROLLBACK(0x%X) ", op.Key)
		default:
			printable = false
		}
	}
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return s, printable
}

func TestGoldenLogsDecodeToRocksDBsListing(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(goldenDB, "*", "wal.*.ldb.txt"))
	if err != nil || len(paths) < 31 {
		t.Fatalf("found %d listings, %v", len(paths), err)
	}
	for _, path := range paths {
		db := filepath.Base(filepath.Dir(path))
		digits := strings.Split(filepath.Base(path), ".")[1]
		t.Run(db+"/"+digits, func(t *testing.T) {
			number, err := strconv.ParseUint(digits, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, text, _ = bytes.Cut(text, []byte("Key(s) : value \n"))
			var want []string
			for line := range strings.Lines(string(text)) {
				if !strings.HasPrefix(line, "Corruption detected") {
					want = append(want, strings.TrimSuffix(line, "\n"))
				}
			}
			// The tool reads through damage.
			r, err := Open(mmapfs.OS, filepath.Join(goldenDB, db, "db", digits+".log"), number, SkipAnyCorruptedRecords)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var got []string
			for {
				batch, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				line, printable := listing(t, batch, r.Offset())
				if !printable {
					break
				}
				got = append(got, line)
			}
			if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Fatalf("line %d:\n%.300s, want\n%.300s", i, got[i], want[i])
					}
				}
				t.Fatalf("%d lines, want %d", len(got), len(want))
			}
		})
	}
}

// table is what replay leaves in memory: family, then key, then value.
type table map[uint32]map[string]string

func (m table) apply(_, _ uint64, op *Op) error {
	if m[op.CF] == nil {
		m[op.CF] = map[string]string{}
	}
	cf, key, value := m[op.CF], string(op.Key), string(op.Value)
	switch op.Kind {
	case keys.KindValue:
		cf[key] = value
	case keys.KindEntity:
		// version 1, 2 columns, "c1" and "c2": no default column
		cf[key] = ""
	case keys.KindMerge: // StringAppend
		if old, ok := cf[key]; ok {
			value = old + "," + value
		}
		cf[key] = value
	case keys.KindDelete, keys.KindSingleDelete:
		delete(cf, key)
	case keys.KindRangeDelete:
		for k := range cf {
			if k >= key && k < value {
				delete(cf, k)
			}
		}
	default:
		return fmt.Errorf("met %v", op.Kind)
	}
	return nil
}

// expected reads an expected.jsonl: family names in id order, values over 200
// bytes by their hash.
func expected(t testing.TB, name string, families ...string) table {
	t.Helper()
	id := map[string]uint32{}
	for i, f := range families {
		id[f] = uint32(i)
	}
	m := table{}
	lines := bufio.NewScanner(bytes.NewReader(golden(t, name)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct {
			CF, K, V string
			SHA256   string `json:"v_sha256"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		key, err := hex.DecodeString(row.K)
		if err != nil {
			t.Fatal(err)
		}
		cf, ok := id[row.CF]
		if !ok {
			t.Fatalf("family %q is not named", row.CF)
		}
		if m[cf] == nil {
			m[cf] = map[string]string{}
		}
		m[cf][string(key)] = row.V + row.SHA256
	}
	return m
}

func shown(v string) string {
	if len(v) > 200 {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(v)))
	}
	return hex.EncodeToString([]byte(v))
}

func (m table) compare(t testing.TB, want table) {
	t.Helper()
	for cf := range uint32(8) {
		for k, v := range m[cf] {
			if w, ok := want[cf][k]; !ok || w != shown(v) {
				t.Errorf("family %d, key %q: %.80q, want %.80q", cf, k, shown(v), w)
			}
		}
		for k := range want[cf] {
			if _, ok := m[cf][k]; !ok {
				t.Errorf("family %d, key %q is missing", cf, k)
			}
		}
	}
}

func logFile(db, digits string) LogFile {
	n, _ := strconv.ParseUint(digits, 10, 64)
	return LogFile{Number: n, Path: filepath.Join(goldenDB, db, "db", digits+".log")}
}

func TestGoldenLogsReplayToRocksDBsAnswers(t *testing.T) {
	for db, l := range map[string]struct {
		log      string
		families []string
		next     uint64
	}{
		"d17_2pc":      {"000004", []string{"default", "acct"}, 13},
		"d21_wal_only": {"000004", []string{"default", "cf1", "cf2"}, 183},
		"d22_empty":    {"000004", nil, 0},
	} {
		for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
			m := table{}
			name := db + "/expected.jsonl"
			r := NewReplayer(ReplayOptions{FS: mmapfs.OS, Mode: mode, Apply: m.apply})
			if db == "d22_empty" {
				if err := r.Replay(logFile(db, l.log)); err != nil || len(m) != 0 {
					t.Errorf("%s: %v, %d families", db, err, len(m))
				}
				continue
			}
			if err := r.Replay(logFile(db, l.log)); err != nil {
				t.Errorf("%s, %v: %v", db, mode, err)
			}
			m.compare(t, expected(t, name, l.families...))
			if next, ok := r.NextSeq(); !ok || next != l.next || r.Stopped() != nil {
				t.Errorf("%s, %v: next sequence number %d, want %d; stopped %v", db, mode, next, l.next, r.Stopped())
			}
		}
	}
}

func TestGoldenPreparedTransactionStaysOpen(t *testing.T) {
	m := table{}
	r := NewReplayer(ReplayOptions{FS: mmapfs.OS, Mode: PointInTimeRecovery, Apply: m.apply})
	if err := r.Replay(logFile("d17_2pc", "000004")); err != nil {
		t.Fatal(err)
	}
	open := r.Prepared()
	if len(open) != 1 || string(open[0].XID) != "xid-open" || open[0].Log != 4 || open[0].Seq != 7 || open[0].Count != 5 {
		t.Fatalf("open: %+v", open)
	}
	var b Batch
	if err := open[0].Batch(&b); err != nil {
		t.Fatal(err)
	}
	if line, _ := listing(t, b.Bytes(), 0); !strings.HasPrefix(line, "0,5,") || !strings.Contains(line, "DELETE(0) : 0x706C61696E7869642D6F70656E") {
		t.Errorf("the open transaction holds %s", line)
	}

	r = NewReplayer(ReplayOptions{FS: mmapfs.OS, Mode: PointInTimeRecovery, Apply: m.apply, RefusePrepared: true})
	if err := r.Replay(logFile("d17_2pc", "000004")); !errors.Is(err, ErrPrepared) || !errors.Is(err, ErrUnsupported) {
		t.Errorf("without transactions: %v", err)
	}
}

func TestGoldenDamagedLogsInEveryMode(t *testing.T) {
	for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
		for _, g := range []struct {
			db, log  string
			families []string
		}{
			{"d12_torn_wal", "000010", []string{"default", "x"}},
			{"d13_corrupt_mid_wal", "000004", []string{"default"}},
		} {
			t.Run(g.db+"/"+mode.String(), func(t *testing.T) {
				m := table{}
				touched := table{}
				r := NewReplayer(ReplayOptions{FS: mmapfs.OS, Mode: mode, Apply: func(log, seq uint64, op *Op) error {
					touched.apply(log, seq, &Op{Kind: keys.KindValue, CF: op.CF, Key: op.Key})
					return m.apply(log, seq, op)
				}})
				err := r.Replay(logFile(g.db, g.log))
				name := g.db + "/expected.mode_" + mode.String()
				if _, statErr := os.Stat(filepath.Join(goldenDB, name+".error.txt")); statErr == nil {
					text := strings.TrimPrefix(strings.TrimSpace(string(golden(t, name+".error.txt"))), "Corruption: ")
					var c *keys.CorruptionError
					if !errors.As(err, &c) || c.File != g.log+".log" || !strings.Contains(c.Reason, text) {
						t.Fatalf("%v, want %q", err, text)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if stopped := r.Stopped() != nil; stopped != (mode == PointInTimeRecovery) {
					t.Errorf("stopped: %v", r.Stopped())
				}
				want := expected(t, name+".jsonl", g.families...)
				if g.db == "d12_torn_wal" {
					// That database has a table too: compare what the log touched.
					if next, _ := r.NextSeq(); next != 181 {
						t.Errorf("next sequence number %d, want 181", next)
					}
					for cf := range want {
						for k := range want[cf] {
							if _, ok := touched[cf][k]; !ok {
								delete(want[cf], k)
							}
						}
					}
				}
				m.compare(t, want)
			})
		}
	}
}

// The records of d21 end 0 to 8 bytes before a block's end.
func TestGoldenRecordsEndAtEveryDistanceFromABlock(t *testing.T) {
	r := NewReader(bytes.NewReader(golden(t, "d21_wal_only/db/000004.log")), "000004.log", 4, AbsoluteConsistency)
	seen := map[int64]bool{}
	for {
		if _, err := r.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen[(32768-r.End()%32768)%32768] = true
	}
	for left := range int64(9) {
		if !seen[left] {
			t.Errorf("no record ends %d bytes before a block's end", left)
		}
	}
	if r.Reason() != nil {
		t.Errorf("ended by %v", r.Reason())
	}
}
