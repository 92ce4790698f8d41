package flatrock

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestEveryCallWhereNothingIsWritten makes every call there is on a read-only database, and on a secondary: what
// writes is refused, and what reads works. Some properties crashed: they asked the MANIFEST's writer.
func TestEveryCallWhereNothingIsWritten(t *testing.T) {
	image := hostileDatabase(t)
	ctx := context.Background()
	for _, kind := range []string{"read-only", "secondary"} {
		t.Run(kind, func(t *testing.T) {
			fault := mmapfs.NewFault(image.Kill())
			var db *DB
			var err error
			if kind == "read-only" {
				db, err = Open("/db", &Options{FS: fault, ReadOnly: true})
			} else {
				db, err = OpenAsSecondary("/db", &Options{FS: fault})
			}
			if err != nil {
				t.Fatal(err)
			}
			writes := 0
			fault.SetHook(func(op mmapfs.Op, name string) error {
				if op&(mmapfs.OpCreate|mmapfs.OpWrite|mmapfs.OpRemove|mmapfs.OpRename) != 0 && strings.HasPrefix(name, "/db/") {
					writes++
					t.Errorf("%v of %s", op, name)
				}
				return nil
			})
			for _, cf := range db.ColumnFamilies() {
				for _, name := range PropertyNames() {
					for _, level := range []string{"", "0", "6", "99"} {
						cf.GetProperty(name + level)
						cf.GetIntProperty(name + level)
						cf.GetMapProperty(name + level)
						db.GetAggregatedIntProperty(name + level)
					}
				}
			}
			cf := db.DefaultColumnFamily()
			k := []byte("key001")
			all := []KeyRange{{Start: []byte("a"), End: []byte("z")}}
			refused := map[string]func() error{
				"Put":          func() error { return db.Put(nil, k, k) },
				"Delete":       func() error { return db.Delete(nil, k) },
				"SingleDelete": func() error { return db.SingleDelete(nil, k) },
				"Merge":        func() error { return db.Merge(nil, k, k) },
				"DeleteRange":  func() error { return db.DeleteRange(nil, k, []byte("z")) },
				"PutEntity":    func() error { return db.PutEntity(nil, k, []Column{{Value: k}}) },
				"Write": func() error {
					var b Batch
					b.Put(cf, k, k)
					return db.Write(nil, &b)
				},
				"Flush":               func() error { return db.Flush(ctx, nil) },
				"FlushFamilies":       func() error { return db.FlushFamilies(ctx, nil, cf) },
				"CompactRange":        func() error { return db.CompactRange(ctx, nil, nil, nil) },
				"CompactFiles":        func() error { _, err := db.CompactFiles(ctx, nil, []string{"/000009.sst"}, 1); return err },
				"DeleteFilesInRanges": func() error { return db.DeleteFilesInRanges(all, true) },
				"CreateColumnFamily":  func() error { _, err := db.CreateColumnFamily("new", nil); return err },
				"DropColumnFamily":    func() error { return db.DropColumnFamily(db.ColumnFamily("zlib")) },
				"CreateCheckpoint":    func() error { _, err := db.CreateCheckpoint(ctx, "/c", nil); return err },
				"ExportColumnFamily":  func() error { _, err := db.ExportColumnFamily(ctx, cf, "/e"); return err },
				"CreateColumnFamilyWithImport": func() error {
					_, err := db.CreateColumnFamilyWithImport(ctx, "i", nil, nil, &ExportImportFilesMetaData{})
					return err
				},
				"IngestExternalFile":      func() error { return db.IngestExternalFile(ctx, []string{"/x.sst"}, nil) },
				"GetLiveFiles":            func() error { _, _, err := db.GetLiveFiles(); return err },
				"GetLiveFilesStorageInfo": func() error { _, err := db.GetLiveFilesStorageInfo(nil); return err },
				"SetOptions":              func() error { return db.SetOptions(map[string]string{"disable_auto_compactions": "true"}) },
				"SetDBOptions":            func() error { return db.SetDBOptions(map[string]string{"max_background_jobs": "3"}) },
				"SyncWAL":                 db.SyncWAL,
				"FlushWAL":                func() error { return db.FlushWAL(true) },
				"CreateNewBackup": func() error {
					e, err := OpenBackupEngine("/b", fault)
					if err != nil {
						t.Fatal(err)
					}
					_, err = e.CreateNewBackup(ctx, db, nil)
					return err
				},
			}
			for name, call := range refused {
				if err := call(); err == nil {
					t.Errorf("%s: no error", name)
				} else if !errors.Is(err, ErrReadOnly) && !errors.Is(err, ErrNotSupported) {
					t.Logf("%s: %v", name, err)
				}
			}
			works := map[string]func() error{
				"Get":         func() error { _, err := db.Get(nil, k, nil); return err },
				"MultiGet":    func() error { _, err := db.MultiGet(nil, [][]byte{k}, nil); return err },
				"GetEntity":   func() error { var e Entity; return db.GetEntity(nil, k, &e) },
				"KeyMayExist": func() error { _, _, _, err := db.KeyMayExist(nil, k, nil); return err },
				"NewSnapshot": func() error {
					s, err := db.NewSnapshot()
					if err == nil {
						s.Release()
					}
					return err
				},
				"NewIterators": func() error {
					its, err := db.NewIterators(nil, db.ColumnFamilies())
					for _, it := range its {
						err = errors.Join(err, it.Close())
					}
					return err
				},
				"GetApproximateSizes": func() error {
					_, err := db.GetApproximateSizes(&SizeApproximationOptions{IncludeMemtables: true}, all)
					return err
				},
				"GetApproximateMemTableStats": func() error { _, _, err := db.GetApproximateMemTableStats(all[0]); return err },
				"VerifyChecksum":              func() error { return db.VerifyChecksum(ctx) },
				"WaitLoaded":                  func() error { return db.WaitLoaded(ctx) },
				"GetColumnFamilyMetaData":     func() error { _, err := db.GetColumnFamilyMetaData(); return err },
				"GetLiveFilesMetaData":        func() error { _, err := db.GetLiveFilesMetaData(); return err },
				"Placement":                   func() error { _, err := db.Placement(); return err },
				"StartBlockCacheTrace":        func() error { return db.StartBlockCacheTrace(nil, io.Discard) },
				"EndBlockCacheTrace":          func() error { _, err := db.EndBlockCacheTrace(); return err },
				"StartTrace":                  func() error { return db.StartTrace(nil, io.Discard) },
				"EndTrace":                    func() error { _, err := db.EndTrace(); return err },
				"GetSortedWalFiles":           func() error { _, err := db.GetSortedWalFiles(); return err },
			}
			for _, name := range []string{"StartBlockCacheTrace", "EndBlockCacheTrace", "StartTrace", "EndTrace"} {
				if err := works[name](); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				delete(works, name)
			}
			for name, call := range works {
				err := call()
				if kind == "secondary" && name == "NewSnapshot" {
					if !errors.Is(err, ErrNotSupported) {
						t.Errorf("%s: %v", name, err)
					}
				} else if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			// These may do either.
			db.Metrics()
			db.DBOptionValues()
			db.ResetStats()
			db.BlockCacheTrace()
			db.GetUpdatesSince(1)
			db.GetCurrentWalFile()
			db.SnapshotAt(1)
			db.Resume(ctx)
			db.VerifyFileChecksums(ctx)
			db.WaitForCompact(ctx, nil)
			db.DisableFileDeletions()
			db.EnableFileDeletions()
			db.DisableManualCompaction()
			db.EnableManualCompaction()
			db.PauseBackgroundWork(ctx)
			db.ContinueBackgroundWork()
			db.NewReplayer(bytes.NewReader(nil))
			if err := db.TryCatchUpWithPrimary(); (err == nil) != (kind == "secondary") {
				t.Errorf("TryCatchUpWithPrimary: %v", err)
			}
			db.CancelAllBackgroundWork(true)
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
