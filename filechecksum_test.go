package flatrock

import (
	"context"
	"fmt"
	"hash"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestFileChecksumsAreOfWhatWasWritten: a bit that flips in a read while files are made does not get
// into their checksums in the MANIFEST.
func TestFileChecksumsAreOfWhatWasWritten(t *testing.T) {
	ctx := context.Background()
	for _, table := range []TableFactory{BlockBasedTableOptions{}, PlainTableOptions{HashTableRatio: TotalOrder}} {
		fault := mmapfs.NewFault(mmapfs.NewMem())
		db, err := Open("/db", &Options{FS: fault, CreateIfMissing: true, FileChecksumGenFactory: FileChecksumGenCrc32c,
			ColumnFamily: &ColumnFamilyOptions{Table: table, Compression: NoCompression}})
		if err != nil {
			t.Fatal(err)
		}
		fault.SetReadHook(func(name string, p []byte) {
			if strings.HasSuffix(name, ".sst") && len(p) > 4096 { // not what opening a file reads
				p[len(p)/3] ^= 4
			}
		})
		for i := range 500 {
			if err := db.Put(nil, fmt.Appendf(nil, "k%04d", i), make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(ctx, nil); err != nil {
			t.Fatal(err)
		}
		fault.SetReadHook(nil)
		files, err := db.GetLiveFilesMetaData()
		if err != nil || len(files) == 0 || files[0].FileChecksumFuncName == "" {
			t.Fatalf("%+v, %v", files, err)
		}
		if err := db.VerifyFileChecksums(ctx); err != nil {
			t.Errorf("%T: %v", table, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestVerifyFileChecksumsPassesOverDroppedFamilies: one that is dropped before its turn is no error.
func TestVerifyFileChecksumsPassesOverDroppedFamilies(t *testing.T) {
	ctx := context.Background()
	var verifying func()
	gen := &FileChecksumGenFactory{Name: "test", New: func() hash.Hash {
		if verifying != nil {
			verifying()
		}
		return crc32.NewIEEE()
	}}
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, FileChecksumGenFactory: gen})
	other, err := db.CreateColumnFamily("other", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, cf := range []*ColumnFamily{db.DefaultColumnFamily(), other} {
		if err := cf.Put(nil, []byte("k"), []byte("v")); err != nil {
			t.Fatal(err)
		}
		if err := cf.Flush(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	verifying = func() {
		verifying = nil
		if err := db.DropColumnFamily(other); err != nil {
			t.Error(err)
		}
	}
	if err := db.VerifyFileChecksums(ctx); err != nil {
		t.Error(err)
	}
	if verifying != nil {
		t.Error("nothing was verified")
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
