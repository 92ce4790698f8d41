package flatrock

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestBottomPool: a long compaction into the last level, and one that waits for it, keep a short one
// of another family from nothing, though one compaction may run at once.
func TestBottomPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := mmapfs.NewFault(mmapfs.NewMem())
		deep := &ColumnFamilyOptions{Level0FileNumCompactionTrigger: 2, LevelCompactionDynamicLevelBytes: On}
		shallow := &ColumnFamilyOptions{Level0FileNumCompactionTrigger: 2, LevelCompactionDynamicLevelBytes: Off}
		db := mustOpen(t, fsys, &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, ColumnFamily: deep,
			MaxBackgroundCompactions: 1, BottomPriorityCompactions: 1,
			ColumnFamilies: []ColumnFamilyDescriptor{{"waiting", deep}, {"shallow", shallow}}})
		release := make(chan struct{})
		made := 0
		fsys.SetHook(func(op mmapfs.Op, name string) error {
			if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") {
				if made++; made == 3 { // after two flushes of the default family
					<-release
				}
			}
			return nil
		})
		fill := func(cf *ColumnFamily) {
			t.Helper()
			for range 2 {
				if err := cf.Put(nil, []byte("key"), []byte("value")); err != nil {
					t.Fatal(err)
				}
				if err := cf.Flush(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
		}
		inLevel0 := func(cf *ColumnFamily) int { return db.Metrics().Families[cf.Name()].Levels[0].Files }
		all := db.ColumnFamilies()
		for _, cf := range all {
			fill(cf)
		}
		if n := db.Metrics().CompactionsRunning; n != 2 || inLevel0(all[0]) != 2 || inLevel0(all[1]) != 2 {
			t.Errorf("%d compactions, %d and %d files; want those of both families under way", n, inLevel0(all[0]), inLevel0(all[1]))
		}
		if inLevel0(all[2]) != 0 || made != 8 {
			t.Errorf("%d files were made, %d are left of the family that waits for nobody", made, inLevel0(all[2]))
		}
		close(release)
		if err := db.WaitForCompact(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		for _, cf := range all {
			if inLevel0(cf) != 0 {
				t.Errorf("family %q was not compacted", cf.Name())
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
