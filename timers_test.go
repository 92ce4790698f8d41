package flatrock

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestStatsAreDumpedByTheClock: as often as the option says, which may change meanwhile.
func TestStatsAreDumpedByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := mmapfs.NewMem()
		db := mustOpen(t, fsys, &Options{CreateIfMissing: true, StatsDumpPeriodSec: 100})
		dumps := 0
		pass := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			now := bytes.Count(readFrom(t, fsys, db.dir+"/LOG"), []byte("DUMPING STATS"))
			if now-dumps != want {
				t.Errorf("%d dumps in %v, want %d", now-dumps, d, want)
			}
			dumps = now
		}
		pass(99*time.Second, 0)
		pass(202*time.Second, 3)
		set := func(period string) {
			t.Helper()
			if err := db.SetDBOptions(map[string]string{"stats_dump_period_sec": period}); err != nil {
				t.Fatal(err)
			}
		}
		set("10")
		pass(101*time.Second, 10)
		set("0")
		pass(24*time.Hour, 0)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTheClockFindsOldFiles: nothing but time goes by, and a file moves down once it is older than its TTL.
func TestTheClockFindsOldFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{TTL: 3600, LevelCompactionDynamicLevelBytes: Off}})
		put := func(value string) {
			t.Helper()
			for _, key := range []string{"a", "z"} {
				if err := db.Put(nil, []byte(key), []byte(value)); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Flush(ctx, nil); err != nil {
				t.Fatal(err)
			}
		}
		levels := func() (n [4]int) {
			t.Helper()
			m, err := db.GetColumnFamilyMetaData()
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				n[i] = len(m.Levels[i].Files)
			}
			return n
		}
		put("old")
		if err := db.CompactRange(ctx, nil, nil, nil); err != nil {
			t.Fatal(err)
		}
		put("new")
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		if got := levels(); got != [4]int{1, 1} {
			t.Errorf("before an hour is over: files by level %v", got)
		}
		time.Sleep(10*time.Minute + 2*ageInterval)
		synctest.Wait()
		if got := levels(); got != [4]int{0, 1} {
			t.Errorf("after it: files by level %v", got)
		}
		if v, err := db.Get(nil, []byte("a"), nil); err != nil || string(v) != "new" {
			t.Errorf("%q %v", v, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
