package flatrock

import (
	"context"
	"errors"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestDroppedFamilyIsNotDamage: a check of the files that began before a family was
// dropped goes on with the others. Found by the stress test: the check in the background
// made the database read-only.
func TestDroppedFamilyIsNotDamage(t *testing.T) {
	db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	cf, err := db.CreateColumnFamily("goes", &ColumnFamilyOptions{Table: PlainTableOptions{HashTableRatio: TotalOrder, Verify: VerifyInBackground}})
	if err != nil {
		t.Fatal(err)
	}
	families := db.ColumnFamilies()
	if err := db.DropColumnFamily(cf); err != nil {
		t.Fatal(err)
	}
	if err := cf.verify(context.Background()); !errors.Is(err, ErrColumnFamilyDropped) {
		t.Errorf("the family's own check says %v", err)
	}
	if err := verifyFamilies(context.Background(), families); err != nil {
		t.Errorf("a family that was dropped meanwhile: %v", err)
	}
}
