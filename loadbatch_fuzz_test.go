package flatrock

import (
	"errors"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// FuzzLoadBatch: bytes that are no batch are an error, or what is written of them is what they say.
func FuzzLoadBatch(f *testing.F) {
	var b Batch
	merge, err := ParseMergeOperator("stringappend")
	if err != nil {
		f.Fatal(err)
	}
	db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{MergeOperator: merge}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := db.Close(); err != nil {
			f.Error(err)
		}
	})
	cf := db.DefaultColumnFamily()
	b.Put(cf, []byte("key"), []byte("value"))
	b.PutEntity(cf, []byte("entity"), []Column{{Name: []byte("a"), Value: []byte("1")}})
	b.Merge(cf, []byte("key"), []byte("operand"))
	b.SingleDelete(cf, []byte("single"))
	b.Delete(cf, []byte("deleted"))
	b.DeleteRange(cf, []byte("a"), []byte("b"))
	b.PutLogData([]byte("log data"))
	if err := db.Write(nil, &b); err != nil {
		f.Fatal(err)
	}
	updates, err := db.GetUpdatesSince(1)
	if err != nil || !updates.Valid() {
		f.Fatal(err)
	}
	f.Add(append([]byte(nil), updates.Batch().Data...))
	if err := updates.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		b, err := db.LoadBatch(encoded)
		if err != nil {
			return
		}
		n := b.Count()
		if err := db.Write(nil, b); err != nil && !errors.Is(err, ErrInvalidArgument) && !errors.Is(err, ErrNotSupported) {
			t.Fatalf("a batch of %d operations that was loaded is not written: %v", n, err)
		}
	})
}
