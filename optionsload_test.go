package flatrock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestOptionsOutliveTheProgram: what other programs count on is taken from the OPTIONS file by
// an Open that is silent about it, until one says otherwise.
func TestOptionsOutliveTheProgram(t *testing.T) {
	fs := mmapfs.NewMem()
	open := func(o Options) *DB {
		t.Helper()
		o.FS, o.CreateIfMissing = fs, true
		db, err := Open("/db", &o)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	expect := func(db *DB, atomic Toggle, ttl, size int64, sums bool) {
		t.Helper()
		o := db.opts
		if o.AtomicFlush.or(false) != atomic.or(false) || max(o.WALTTLSeconds, 0) != ttl || max(o.WALSizeLimitMB, 0) != size || (db.fileChecksums() != nil) != sums {
			t.Errorf("AtomicFlush %v, WALTTLSeconds %d, WALSizeLimitMB %d, checksums %v; want %v, %d, %d, %v",
				o.AtomicFlush, o.WALTTLSeconds, o.WALSizeLimitMB, db.fileChecksums() != nil, atomic, ttl, size, sums)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	expect(open(Options{}), Off, 0, 0, false)
	expect(open(Options{AtomicFlush: On, WALTTLSeconds: 70, WALSizeLimitMB: 8, FileChecksumGenFactory: FileChecksumGenCrc32c, ManualWALFlush: true}), On, 70, 8, true)
	db := open(Options{})
	if db.opts.ManualWALFlush {
		t.Error("ManualWALFlush, which promises less, was inherited")
	}
	if err := errors.Join(db.Put(nil, []byte("k"), []byte("v")), db.Flush(context.Background(), nil), db.VerifyFileChecksums(context.Background())); err != nil {
		t.Error(err)
	}
	if logs, err := db.GetSortedWalFiles(); err != nil || len(logs) < 2 || !logs[0].Archived {
		t.Errorf("logs are not archived: %+v, %v", logs, err)
	}
	expect(db, On, 70, 8, true)
	expect(open(Options{WALTTLSeconds: 5}), On, 5, 8, true)
	expect(open(Options{AtomicFlush: Off, WALTTLSeconds: -1, WALSizeLimitMB: -1, FileChecksumGenFactory: NoFileChecksums}), Off, 0, 0, false)
	expect(open(Options{}), Off, 0, 0, false)
}

// TestLoadLatestOptions: what OPTIONS files have of a database comes back, and opens it.
func TestLoadLatestOptions(t *testing.T) {
	fs := mmapfs.NewMem()
	if o, err := LoadLatestOptions(fs, "/db"); !errors.Is(err, ErrNoDatabase) {
		t.Fatalf("of nothing: %v, %v", o, err)
	}
	want := Options{
		FS: fs, CreateIfMissing: true, CreateMissingColumnFamilies: true, WALDir: "/logs",
		AtomicFlush: On, ManualWALFlush: true, WALTTLSeconds: 9, WALSizeLimitMB: 3, FileChecksumGenFactory: FileChecksumGenCrc32c,
		AllowIngestBehind: true, WALRecoveryMode: AbsoluteConsistency, MaxBackgroundJobs: 7, MaxManifestFileSize: 123456,
		StatsDumpPeriodSec: -1, BgErrorResumeRetryInterval: 3 * time.Second, AllowConcurrentMemtableWrite: Off, AllowMmapReads: true,
		ColumnFamilies: []ColumnFamilyDescriptor{
			{DefaultColumnFamilyName, &ColumnFamilyOptions{WriteBufferSize: 1 << 20, Table: BlockBasedTableOptions{BlockSize: 999}}},
			{"other", &ColumnFamilyOptions{Comparator: ReverseBytewise, NumLevels: 4}},
		},
	}
	db, err := Open("/db", &want)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := LoadLatestOptions(fs, "/db")
	if err != nil {
		t.Fatal(err)
	}
	if got.AtomicFlush != On || !got.ManualWALFlush || got.WALTTLSeconds != 9 || got.WALSizeLimitMB != 3 || got.FileChecksumGenFactory != FileChecksumGenCrc32c ||
		!got.AllowIngestBehind || got.WALRecoveryMode != AbsoluteConsistency || got.MaxBackgroundJobs != 7 || got.MaxManifestFileSize != 123456 ||
		got.StatsDumpPeriodSec != -1 || got.BgErrorResumeRetryInterval != 3*time.Second || got.AllowConcurrentMemtableWrite != Off || !got.AllowMmapReads || got.WALDir != "/logs" {
		t.Errorf("loaded %+v", got)
	}
	if len(got.ColumnFamilies) != 2 || got.ColumnFamilies[0].Options.WriteBufferSize != 1<<20 || got.ColumnFamilies[0].Options.Table.(BlockBasedTableOptions).BlockSize != 999 ||
		got.ColumnFamilies[1].Options.Comparator != ReverseBytewise || got.ColumnFamilies[1].Options.NumLevels != 4 {
		t.Errorf("families %+v", got.ColumnFamilies)
	}
	number, err := optionsfile.Latest(fs, "/db")
	if err != nil {
		t.Fatal(err)
	}
	file := optionsfile.Name("/db", number)
	if o, err := LoadOptionsFromFile(fs, file); err != nil || o.WALDir != "" || o.MaxBackgroundJobs != 7 || len(o.ColumnFamilies) != 2 || o.ColumnFamilies[1].Options.NumLevels != 4 {
		t.Errorf("from the file: %+v, %v", o, err)
	}
	if o, err := LoadOptionsFromFile(fs, "/db/none"); err == nil || !strings.Contains(err.Error(), "none: ") {
		t.Errorf("of nothing: %v, %v", o, err)
	}
	db, err = Open("/db", got)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
