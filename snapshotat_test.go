package flatrock

import (
	"errors"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestSnapshotAt: a sequence number that is held, or the newest, can be read at; what may
// be gone is refused, also once its snapshot was released.
func TestSnapshotAt(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: smallFiles()})
	fillKeys(t, db, 10, "old")
	held, err := db.NewSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	fillKeys(t, db, 20, "new")
	seq := held.Sequence()
	again, err := db.SnapshotAt(seq)
	if err != nil {
		t.Fatal(err)
	}
	held.Release()
	compactAll(t, db)
	if n := countKeys(t, db, &ReadOptions{Snapshot: again}); n != 10 {
		t.Errorf("%d keys, want 10", n)
	}
	if _, err := db.SnapshotAt(seq + 1); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a number that nobody holds: %v", err)
	}
	newest, err := db.SnapshotAt(seq + 20)
	if err != nil {
		t.Fatal(err)
	}
	if n := countKeys(t, db, &ReadOptions{Snapshot: newest}); n != 20 {
		t.Errorf("%d keys, want 20", n)
	}
	newest.Release()
	again.Release()
	if _, err := db.SnapshotAt(seq); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a number that was let go: %v", err)
	}
	if _, err := db.SnapshotAt(seq + 21); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a number of the future: %v", err)
	}
	db.Close()
	if _, err := db.SnapshotAt(seq); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed database: %v", err)
	}
}
