package flatrock

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

func TestEveryPropertyHasAnAnswer(t *testing.T) {
	for name, o := range map[string]*ColumnFamilyOptions{"block": nil, "plain": {Table: PlainTableOptions{HashTableRatio: TotalOrder}}} {
		t.Run(name, func(t *testing.T) {
			db := openDyn(t, mmapfs.NewMem(), o)
			names := PropertyNames()
			if len(names) < 50 {
				t.Fatalf("only %d properties", len(names))
			}
			ask := func() {
				t.Helper()
				for _, name := range names {
					if levelProperties[name] != nil {
						for level := range 7 {
							if _, ok := db.GetProperty(name + strconv.Itoa(level)); !ok {
								t.Errorf("%s%d has no answer", name, level)
							}
						}
						for _, bad := range []string{"", "7", "x", "-1", "99999999999999999999"} {
							if _, ok := db.GetProperty(name + bad); ok {
								t.Errorf("%s%s has an answer", name, bad)
							}
						}
						continue
					}
					if _, ok := db.GetProperty(name); !ok {
						t.Errorf("%s has no answer", name)
					}
				}
			}
			ask()
			for i := range 300 {
				if err := db.Put(nil, fmt.Appendf(nil, "k%d", i), make([]byte, 100)); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			ask()
			for _, bad := range []string{"", "rocksdb.", "rocksdb.nothing", "rocksdb.num-files-at-level"} {
				if v, ok := db.GetProperty(bad); ok {
					t.Errorf("property %q: %q", bad, v)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if _, ok := db.GetIntProperty("rocksdb.estimate-num-keys"); ok {
				t.Error("a closed database answers")
			}
		})
	}
}

func TestPropertiesTellTheTruth(t *testing.T) {
	ctx := context.Background()
	db := openDyn(t, mmapfs.NewMem(), &ColumnFamilyOptions{DisableAutoCompactions: true})
	defer db.Close()
	check := func(what string, want map[string]uint64) {
		t.Helper()
		for name, n := range want {
			if got, ok := db.GetIntProperty("rocksdb." + name); !ok || got != n {
				t.Errorf("%s: rocksdb.%s is %d, %v; want %d", what, name, got, ok, n)
			}
		}
	}
	put := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if err := db.Put(nil, fmt.Appendf(nil, "k%04d", i), make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(0, 100)
	for i := range 10 {
		if err := db.Delete(nil, fmt.Appendf(nil, "k%04d", i)); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := db.NewSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	check("in memory", map[string]uint64{"num-entries-active-mem-table": 110, "num-deletes-active-mem-table": 10, "num-immutable-mem-table": 0,
		"estimate-num-keys": 90, "num-snapshots": 1, "oldest-snapshot-sequence": snap.Sequence(), "total-sst-files-size": 0, "background-errors": 0,
		"is-write-stopped": 0, "actual-delayed-write-rate": 0, "compaction-pending": 0, "num-live-versions": 1, "is-file-deletions-enabled": 1})
	if at, _ := db.GetIntProperty("rocksdb.oldest-snapshot-time"); at < 1e9 {
		t.Errorf("oldest snapshot at %d", at)
	}
	snap.Release()
	check("without snapshot", map[string]uint64{"num-snapshots": 0, "oldest-snapshot-time": 0})
	for range 2 {
		if err := db.Flush(ctx, nil); err != nil {
			t.Fatal(err)
		}
		put(100, 200)
	}
	if err := db.Flush(ctx, nil); err != nil {
		t.Fatal(err)
	}
	v := db.defaultCF.currentVersion()
	check("three files", map[string]uint64{"total-sst-files-size": v.TotalBytes(), "live-sst-files-size": v.TotalBytes(), "num-entries-active-mem-table": 0,
		"estimate-num-keys": 100 + 200 - 2*10}) // a delete, and what it hid before: RocksDB's estimate
	if n, _ := db.GetProperty("rocksdb.num-files-at-level0"); n != "3" {
		t.Errorf("%s files in level 0", n)
	}
	if text, _ := db.GetProperty("rocksdb.levelstats"); !strings.HasPrefix(text, "Level Files Size(MB)\n--------------------\n  0        3        0\n") {
		t.Errorf("levelstats:\n%s", text)
	}
	text, _ := db.GetProperty("rocksdb.sstables")
	row := regexp.MustCompile(`(?m)^ \d+:\d+\[\d+ \.\. \d+\]\['6B3031[0-9A-F]{4}' seq:\d+, type:1 \.\. '6B303139[0-9A-F]{2}' seq:\d+, type:1\]\(0\)$`)
	if n := len(row.FindAllString(text, -1)); n != 2 || !strings.HasPrefix(text, "--- level 0 --- version# ") {
		t.Errorf("sstables, %d rows:\n%s", n, text)
	}
	m, ok := db.GetMapProperty("rocksdb.aggregated-table-properties")
	if !ok || m["num_entries"] != "300" || m["num_deletions"] != "10" {
		t.Errorf("aggregated: %v", m)
	}
	if n, ok := db.GetAggregatedIntProperty("rocksdb.estimate-num-keys"); !ok || n != 280 {
		t.Errorf("over all families: %d", n)
	}
}

// TestWriteAmplificationOfStats compares the table of rocksdb.stats with what listeners
// were told.
func TestWriteAmplificationOfStats(t *testing.T) {
	ctx := context.Background()
	var flushed, compacted, moved uint64
	l := &EventListener{
		FlushCompleted: func(i FlushInfo) { flushed += i.FileSize },
		CompactionCompleted: func(i CompactionInfo) {
			if i.TrivialMove {
				moved += i.InputBytes
			}
			compacted += i.OutputBytes
		},
	}
	db, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, Listeners: []*EventListener{l},
		ColumnFamily: &ColumnFamilyOptions{DisableAutoCompactions: true, Compression: NoCompression}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 3 {
		for i := range 2000 {
			if err := db.Put(nil, fmt.Appendf(nil, "k%04d", i), make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.CompactRange(ctx, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	if flushed == 0 || compacted == 0 {
		t.Fatalf("%d bytes flushed, %d compacted", flushed, compacted)
	}
	text, _ := db.GetProperty("rocksdb.stats")
	sum := regexp.MustCompile(`(?m)^ Sum .*$`).FindString(text)
	f := strings.Fields(sum)
	if len(f) < 12 {
		t.Fatalf("no sum in:\n%s", text)
	}
	if want := fmt.Sprintf("%.1f", float64(flushed+compacted)/float64(flushed)); f[11] != want {
		t.Errorf("write amplification %s, want %s\n%s", f[11], want, text)
	}
	m, _ := db.GetMapProperty("rocksdb.cfstats")
	if got := m["compaction.Sum.KeyIn"]; got != "6000.000000" {
		t.Errorf("keys in: %s", got)
	}
	if got := m["compaction.Sum.KeyDrop"]; got != "4000.000000" {
		t.Errorf("keys dropped: %s", got)
	}
	if got := m["compaction.L0.CompCount"]; got != "3.000000" {
		t.Errorf("flushes: %s", got)
	}
	// The interval begins anew with each look.
	text, _ = db.GetProperty("rocksdb.stats")
	if f := strings.Fields(regexp.MustCompile(`(?m)^ Int .*$`).FindString(text)); len(f) < 12 || f[11] != "0.0" {
		t.Errorf("the interval after the last look: %v", f)
	}
}

// TestStatsLookLikeRocksDBs compares the lines, numbers aside, with RocksDB's.
func TestStatsLookLikeRocksDBs(t *testing.T) {
	want, err := os.ReadFile("testdata/stats/rocksdb-7.8.3.txt")
	if err != nil {
		t.Fatal(err)
	}
	db := openDyn(t, mmapfs.NewMem(), &ColumnFamilyOptions{WriteBufferSize: 128 << 10, Compression: NoCompression})
	defer db.Close()
	for i := range 4000 {
		if err := db.Put(nil, fmt.Appendf(nil, "%016d", i*7919%4000), make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.CompactRange(context.Background(), &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
		t.Fatal(err)
	}
	got, _ := db.GetProperty("rocksdb.stats")
	shape := func(text string) []string {
		text = regexp.MustCompile(`(?m)^  ?L\d .*\n`).ReplaceAllString(text, "")               // levels differ
		text = regexp.MustCompile(`(?m)^( Low|High) .*\n`).ReplaceAllString(text, "")          // only what has run
		text = regexp.MustCompile(`\d+:\d+:\d+\.\d+`).ReplaceAllString(text, "T")              // times
		text = regexp.MustCompile(`-?\d+(\.\d+)?[KMG]?( [KMG]B)?`).ReplaceAllString(text, "N") // figures
		text = regexp.MustCompile(` +`).ReplaceAllString(text, " ")
		return strings.Split(strings.TrimSpace(text), "\n")
	}
	g, w := shape(got), shape(string(want))
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("line %d:\n%q\nRocksDB has\n%q\nall:\n%s", i+1, at(g, i), at(w, i), got)
		}
	}
	// Rows stand under the header.
	rows := regexp.MustCompile(`(?m)^(Level|  L\d| Sum| Int) .*$`).FindAllString(got, -1)
	for _, r := range rows[1:] {
		if len(r) < 180 || len(r) > 200 {
			t.Errorf("a row of %d characters: %q", len(r), r)
		}
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "(nothing)"
}
