package flatrock

import (
	"errors"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestLogsStayAsLongAsTheManifestAsks: a family that is dropped was the last to need a log,
// but the MANIFEST still names the log for an empty family that it was never told about.
// Recovery must not miss it, and take what follows for lost.
func TestLogsStayAsLongAsTheManifestAsks(t *testing.T) {
	fs := mmapfs.NewMem()
	db := mustOpen(t, fs, &Options{CreateIfMissing: true})
	sync := &WriteOptions{Sync: true}
	if _, err := db.CreateColumnFamily("empty", nil); err != nil {
		t.Fatal(err)
	}
	dropped, err := db.CreateColumnFamily("dropped", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := dropped.Put(sync, []byte("k"), []byte("in the first log")); err != nil {
		t.Fatal(err)
	}
	if err := db.Put(sync, []byte("a"), []byte("flushed")); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Put(sync, []byte("b"), []byte("in the second log")); err != nil {
		t.Fatal(err)
	}
	if err := db.DropColumnFamily(dropped); err != nil {
		t.Fatal(err)
	}
	after := mustOpen(t, fs.Crash(nil), &Options{})
	if v, err := after.Get(nil, []byte("b"), nil); err != nil || string(v) != "in the second log" {
		t.Errorf("after a crash: %q, %v", v, err)
	}
	if err := errors.Join(after.Close(), db.Close()); err != nil {
		t.Error(err)
	}
}
