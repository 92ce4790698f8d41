package flatrock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestMemtablesThatFillUpDuringReplay: with AvoidFlushDuringRecovery too, nothing of a log counts twice, or hides what
// came later, when a memtable filled up in the middle of the log, was flushed, and the process died once more.
func TestMemtablesThatFillUpDuringReplay(t *testing.T) {
	const keys, value = 300, 1000
	mem := mmapfs.NewMem()
	open := func(buffer int64) *DB {
		t.Helper()
		db, err := Open("/db", &Options{FS: mem, CreateIfMissing: true, AvoidFlushDuringRecovery: true,
			ColumnFamily: &ColumnFamilyOptions{MergeOperator: mustMerge(t, "uint64add"), WriteBufferSize: buffer, MaxWriteBufferNumber: 8}})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	one := binary.LittleEndian.AppendUint64(nil, 1)
	key := func(i int) []byte { return fmt.Appendf(nil, "k%04d", i) }

	// One log, with more than the memtables of the next process take.
	db := open(64 << 20)
	for i := range keys {
		if err := errors.Join(db.Merge(nil, append(key(i), "-sum"...), one), db.Put(nil, key(i), make([]byte, value))); err != nil {
			t.Fatal(err)
		}
	}
	mem = mem.Kill()
	db.Close()

	// What filled up is flushed sooner or later; the rest stays in memory. Then something newer comes that is in no log.
	db = open(64 << 10)
	if err := db.WaitForCompact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w, err := NewSstFileWriter("/new.sst", &SstFileWriterOptions{Family: db.DefaultColumnFamily(), FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Put(key(0), []byte("ingested")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := db.IngestExternalFile(t.Context(), []string{"/new.sst"}, nil); err != nil {
		t.Fatal(err)
	}
	mem = mem.Kill()
	db.Close()

	db = open(64 << 20)
	defer db.Close()
	if v, err := db.Get(nil, key(0), nil); err != nil || string(v) != "ingested" {
		t.Errorf("the ingested key: %.20q, %v", v, err)
	}
	for i := range keys {
		if v, err := db.Get(nil, append(key(i), "-sum"...), nil); err != nil || binary.LittleEndian.Uint64(v) != 1 {
			t.Fatalf("sum %d: %v, %v; it was counted up once", i, v, err)
		}
	}
}

// TestLogsWithDamageAreNotKept: a recovery that passes over damage writes what it found to files, with
// AvoidFlushDuringRecovery too. Otherwise the next recovery, in a mode that stops there, lacks what this one
// showed, and refuses to open once a family has newer files.
func TestLogsWithDamageAreNotKept(t *testing.T) {
	for _, mode := range []WALRecoveryMode{SkipAnyCorruptedRecords, TolerateCorruptedTailRecords} {
		t.Run(fmt.Sprint("mode ", mode), func(t *testing.T) {
			mem := mmapfs.NewMem()
			open := func(mode WALRecoveryMode) (*DB, *ColumnFamily) {
				t.Helper()
				db := mustOpen(t, mem, &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, AvoidFlushDuringRecovery: true,
					WALWriteMode: WALWrite, WALRecoveryMode: mode, ColumnFamilies: []ColumnFamilyDescriptor{{Name: "other"}}})
				return db, db.ColumnFamily("other")
			}
			db, other := open(mode)
			value := string(make([]byte, 40_000)) // more than a block, which is what damage takes with it
			put := func(cf *ColumnFamily, key string) (at int64) {
				t.Helper()
				f, err := db.GetCurrentWalFile()
				if err == nil {
					err = cf.Put(nil, []byte(key), []byte(value))
				}
				if err != nil {
					t.Fatal(err)
				}
				return int64(f.SizeFileBytes)
			}
			kill := func() {
				mem = mem.Kill()
				db.Close()
			}
			put(db.DefaultColumnFamily(), "first")
			at := put(other, "damaged")
			kept := []string{"first"}
			if mode == SkipAnyCorruptedRecords {
				put(db.DefaultColumnFamily(), "taken along")
				put(db.DefaultColumnFamily(), "second")
				kept = append(kept, "second")
			}
			f, err := db.GetCurrentWalFile()
			if err != nil {
				t.Fatal(err)
			}
			kill()
			if mode == SkipAnyCorruptedRecords {
				flipByte(t, mem, f.PathName, at+12)
			} else {
				writeFile(t, mem, f.PathName, readFrom(t, mem, f.PathName)[:at+12])
			}

			db, other = open(mode)
			put(other, "newer")
			if err := other.Flush(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			kill()

			db, other = open(PointInTimeRecovery)
			for _, key := range kept {
				mustGet(t, db.DefaultColumnFamily(), key, value)
			}
			mustGet(t, other, "newer", value)
		})
	}
}
