package flatrock

import (
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestFlushDoesNotWaitForRoomThatNobodyMakes: where writes are delayed before a compaction
// is due, or none would ever come, a Flush goes on.
func TestFlushDoesNotWaitForRoomThatNobodyMakes(t *testing.T) {
	for name, o := range map[string]ColumnFamilyOptions{
		"slowdown below the trigger":  {Level0FileNumCompactionTrigger: 8, Level0SlowdownWritesTrigger: 2, Level0StopWritesTrigger: 20},
		"soft limit of pending bytes": {Level0FileNumCompactionTrigger: 8, SoftPendingCompactionBytesLimit: 1},
		"a trigger of several runs":   {CompactionStyle: CompactionStyleUniversal, Level0FileNumCompactionTrigger: 2, Level0SlowdownWritesTrigger: 2, Level0StopWritesTrigger: 20, CompactionOptionsUniversal: UniversalOptions{SizeRatio: 1, MinMergeWidth: 100, MaxMergeWidth: 200, MaxSizeAmplificationPercent: 1 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &o})
			for i := range 6 {
				if err := db.Put(nil, fmt.Append(nil, i), []byte("v")); err != nil {
					t.Fatal(err)
				}
				if err := db.Flush(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
