//go:build oracle

package oracle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock"
)

// lab is a database of Flatrock in which a feature is tried.
type lab struct {
	t     *testing.T
	dir   string
	o     *flatrock.Options
	db    *flatrock.DB
	block *flatrock.ColumnFamily // block-based tables, the default family
	plain *flatrock.ColumnFamily // plain tables with a hash index
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) open() {
	l.t.Helper()
	db, err := flatrock.Open(l.dir, l.o)
	l.must(err)
	l.db, l.block, l.plain = db, db.DefaultColumnFamily(), db.ColumnFamily("plain")
}

// fill puts n keys in each family, with that value.
func (l *lab) fill(n int, value string) {
	l.t.Helper()
	for i := range n {
		for _, cf := range l.db.ColumnFamilies() {
			l.must(cf.Put(nil, key(i), []byte(value)))
		}
	}
}

func key(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }

func (l *lab) flush() {
	l.t.Helper()
	l.must(l.db.FlushFamilies(context.Background(), nil, l.db.ColumnFamilies()...))
}

func (l *lab) compact() {
	l.t.Helper()
	for _, cf := range l.db.ColumnFamilies() {
		l.must(cf.CompactRange(context.Background(), &flatrock.CompactRangeOptions{BottommostLevelCompaction: flatrock.BottommostForce}, nil, nil))
	}
}

// file writes a table file of cf with keys from to to.
func (l *lab) file(cf *flatrock.ColumnFamily, from, to int, value string) string {
	l.t.Helper()
	path := filepath.Join(l.t.TempDir(), "external.sst")
	w, err := flatrock.NewSstFileWriter(path, &flatrock.SstFileWriterOptions{Family: cf})
	l.must(err)
	for i := from; i < to; i++ {
		if i%5 == 4 {
			l.must(w.Delete(key(i)))
		} else {
			l.must(w.Put(key(i), []byte(value)))
		}
	}
	_, err = w.Finish()
	l.must(err)
	return path
}

// features are what programs of RocksDB know: what Flatrock does with each, the C++ program reads.
var features = []struct {
	name    string
	options func(o *flatrock.Options)
	do      func(l *lab)
}{
	{"range deletes in the log, files and compactions", nil, func(l *lab) {
		l.fill(900, "v")
		l.must(l.db.DeleteRange(nil, key(100), key(200)))
		l.flush()
		l.must(l.db.DeleteRange(nil, key(150), key(300)))
		l.must(l.db.Put(nil, key(250), []byte("after")))
		l.flush()
		l.must(l.db.DeleteRange(nil, key(500), key(505)))
		l.compact()
		l.must(l.db.DeleteRange(nil, key(600), []byte("l")))
		l.must(l.db.Put(nil, key(700), []byte("survives")))
	}},
	{"range deletes over a snapshot", nil, func(l *lab) {
		l.fill(300, "v")
		s, err := l.db.NewSnapshot()
		l.must(err)
		l.must(l.db.DeleteRange(nil, key(10), key(290)))
		l.flush()
		l.compact() // keeps what the snapshot sees, and the tombstone
		s.Release()
	}},
	{"DeleteFilesInRanges", nil, func(l *lab) {
		l.fill(3000, strings.Repeat("v", 100))
		l.flush()
		l.compact()
		r := []flatrock.KeyRange{{Start: key(500), End: key(2000)}}
		l.must(l.block.DeleteFilesInRanges(r, false))
		l.must(l.plain.DeleteFilesInRanges(r, false))
	}},
	{"single deletes", nil, func(l *lab) {
		l.fill(200, "once")
		for i := range 100 {
			if i == 30 {
				l.flush()
			}
			l.must(l.block.SingleDelete(nil, key(2*i)))
			l.must(l.plain.SingleDelete(nil, key(2*i)))
		}
		l.flush()
	}},
	{"merges over values, deletes and nothing", nil, func(l *lab) {
		l.fill(50, "base")
		for round := range 5 {
			for i := range 100 {
				for _, cf := range l.db.ColumnFamilies() {
					l.must(cf.Merge(nil, key(i), fmt.Appendf(nil, "%d", round)))
					if i == 10*round {
						l.must(cf.Delete(nil, key(i)))
					}
				}
			}
			if round%2 == 0 {
				l.flush()
			}
		}
	}},
	{"merges beside a snapshot", nil, func(l *lab) {
		for round := range 6 {
			for i := range 40 {
				l.must(l.block.Merge(nil, key(i), fmt.Appendf(nil, "%d", round)))
				l.must(l.plain.Merge(nil, key(i), fmt.Appendf(nil, "%d", round)))
			}
			s, err := l.db.NewSnapshot()
			l.must(err)
			defer s.Release()
			l.compact()
		}
	}},
	{"SnapshotAt, and what a held number keeps", nil, func(l *lab) {
		l.fill(50, "old")
		s, err := l.db.NewSnapshot()
		l.must(err)
		again, err := l.db.SnapshotAt(s.Sequence())
		l.must(err)
		s.Release()
		l.fill(25, "new")
		l.compact()
		if v, err := l.db.Get(&flatrock.ReadOptions{Snapshot: again}, key(3), nil); err != nil || string(v) != "old" {
			l.t.Errorf("at the snapshot: %q, %v", v, err)
		}
		again.Release()
	}},
	{"batches with save points over families", nil, func(l *lab) {
		var b flatrock.Batch
		for i := range 60 {
			b.SetSavePoint()
			b.Put(l.block, key(i), []byte("block"))
			b.Put(l.plain, key(i), []byte("plain"))
			b.PutLogData([]byte("note"))
			if i%3 == 0 {
				l.must(b.RollbackToSavePoint())
			} else {
				l.must(b.PopSavePoint())
			}
		}
		l.must(l.db.Write(nil, &b))
	}},
	{"indexed batches", nil, func(l *lab) {
		l.fill(30, "base")
		b := l.db.NewIndexedBatch()
		for i := range 40 {
			b.Merge(nil, key(i), []byte("merged"))
			b.SingleDelete(l.plain, key(100+i))
			b.Put(l.plain, key(200+i), []byte("put"))
			b.DeleteRange(nil, key(20), key(22))
		}
		l.must(l.db.Write(nil, b.Batch()))
	}},
	{"entities", nil, func(l *lab) {
		for i := range 60 {
			for _, cf := range l.db.ColumnFamilies() {
				l.must(cf.PutEntity(nil, key(i), []flatrock.Column{{Value: []byte("default")}, {Name: []byte("a"), Value: key(i)}}))
			}
			if i == 30 {
				l.flush()
			}
		}
		l.must(l.block.Merge(nil, key(4), []byte("merged")))
		l.compact() // RocksDB 7.8 knows no merges of entities
	}},
	{"ingestion by move, copy and with a number", nil, func(l *lab) {
		l.fill(100, "old")
		for i, o := range []*flatrock.IngestExternalFileOptions{{MoveFiles: true}, {}, {WriteGlobalSeqno: true}} {
			for _, cf := range l.db.ColumnFamilies() {
				l.must(cf.IngestExternalFile(context.Background(), []string{l.file(cf, 50*i, 50*i+80, fmt.Sprint("file ", i))}, o))
			}
		}
	}},
	{"ingestion over families as one", nil, func(l *lab) {
		l.fill(100, "old")
		l.must(l.db.IngestExternalFiles(context.Background(), []flatrock.IngestExternalFileArg{
			{Family: l.block, ExternalFiles: []string{l.file(l.block, 20, 60, "block")}},
			{Family: l.plain, ExternalFiles: []string{l.file(l.plain, 40, 90, "plain")}},
		}))
	}},
	{"ingestion behind", func(o *flatrock.Options) { o.AllowIngestBehind = true }, func(l *lab) {
		l.fill(40, "newer")
		l.flush()
		l.must(l.block.IngestExternalFile(context.Background(), []string{l.file(l.block, 20, 80, "behind")}, &flatrock.IngestExternalFileOptions{IngestBehind: true}))
	}},
	{"an imported family", nil, func(l *lab) {
		l.fill(300, "exported")
		l.must(l.db.DeleteRange(nil, key(10), key(20)))
		m, err := l.db.ExportColumnFamily(context.Background(), l.block, filepath.Join(l.t.TempDir(), "export"))
		l.must(err)
		cf, err := l.db.CreateColumnFamilyWithImport(context.Background(), "imported", &flatrock.ColumnFamilyOptions{}, nil, m)
		l.must(err)
		l.must(cf.Put(nil, key(5), []byte("later")))
	}},
	{"atomic flushes", func(o *flatrock.Options) { o.AtomicFlush = flatrock.On }, func(l *lab) {
		for round := range 3 {
			l.fill(50+round, fmt.Sprint(round))
			l.flush()
		}
	}},
	{"manual flushes of the log", func(o *flatrock.Options) { o.ManualWALFlush = true }, func(l *lab) {
		l.fill(100, "flushed")
		l.must(l.db.FlushWAL(false))
		l.fill(50, "synced")
		l.must(l.db.SyncWAL())
	}},
	{"writes without log", nil, func(l *lab) {
		l.must(l.db.Put(&flatrock.WriteOptions{DisableWAL: true}, key(1), []byte("flushed")))
		l.flush()
		l.must(l.db.Put(nil, key(2), []byte("logged")))
	}},
	{"checksums of files", func(o *flatrock.Options) { o.FileChecksumGenFactory = flatrock.FileChecksumGenCrc32c }, func(l *lab) {
		l.fill(100, "v")
		l.flush()
		l.compact()
		l.must(l.db.VerifyFileChecksums(context.Background()))
	}},
	{"updates applied elsewhere", func(o *flatrock.Options) { o.WALTTLSeconds = 3600 }, func(l *lab) {
		source := &lab{t: l.t, dir: filepath.Join(l.t.TempDir(), "source"), o: l.o}
		source.open()
		source.fill(100, "followed")
		source.must(source.db.DeleteRange(nil, key(3), key(30)))
		source.must(source.db.Merge(nil, key(40), []byte("merged")))
		it, err := source.db.GetUpdatesSince(1)
		l.must(err)
		for ; it.Valid(); it.Next() {
			b, err := l.db.LoadBatch(it.Batch().Data)
			l.must(err)
			l.must(l.db.Write(nil, b))
		}
		l.must(errors.Join(it.Err(), it.Close(), source.db.Close()))
	}},
	{"sorted lists", nil, func(l *lab) {
		l.fill(2, "v")
		op, err := flatrock.ParseMergeOperator("sortlist")
		l.must(err)
		cf, err := l.db.CreateColumnFamily("sorted", &flatrock.ColumnFamilyOptions{MergeOperator: op})
		l.must(err)
		for i := range 20 {
			l.must(cf.Merge(nil, key(i), []byte("3,7,90")))
			l.must(cf.Merge(nil, key(i), []byte("1,8")))
		}
		l.compact()
		for i := range 10 {
			l.must(cf.Merge(nil, key(i), []byte("-4,5"))) // over a value, which both leave out
		}
		l.compact() // RocksDB's iterators put what this operator makes of one key behind that of another
	}},
	{"each built-in merge operator", nil, func(l *lab) {
		l.fill(2, "v")
		operands := []string{"\x07\x00\x00\x00\x00\x00\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\xff", "\x02\x01\x00\x00\x00\x00\x00\x80"}
		for i, id := range []string{"uint64add", "max", "put", "put_v1", "bytesxor", "stringappend", "stringappendtest"} {
			op, err := flatrock.ParseMergeOperator(id)
			l.must(err)
			cf, err := l.db.CreateColumnFamily(fmt.Sprint("operator ", i), &flatrock.ColumnFamilyOptions{MergeOperator: op})
			l.must(err)
			for n := range 30 {
				if n%3 == 0 {
					l.must(cf.Put(nil, key(n), []byte(operands[n/3%3])))
				}
				for at, v := range operands {
					l.must(cf.Merge(nil, key(n), []byte(v)))
					if at == n%4 {
						l.must(cf.Flush(context.Background(), nil))
					}
				}
			}
			if i%2 == 0 {
				l.must(cf.CompactRange(context.Background(), nil, nil, nil))
			}
		}
	}},
	{"the reverse order", nil, func(l *lab) {
		l.fill(2, "v")
		cf, err := l.db.CreateColumnFamily("reverse", &flatrock.ColumnFamilyOptions{Comparator: flatrock.ReverseBytewise, TargetFileSizeBase: 16 << 10})
		l.must(err)
		for i := range 900 {
			l.must(cf.Put(nil, key(i), []byte(strings.Repeat("v", i%90))))
		}
		l.must(cf.Flush(context.Background(), nil))
		l.must(cf.DeleteRange(nil, key(300), key(200)))
		l.must(cf.CompactRange(context.Background(), nil, nil, nil))
		l.must(cf.DeleteRange(nil, key(700), key(600)))
	}},
	{"compactions of chosen files", func(o *flatrock.Options) {
		for _, f := range o.ColumnFamilies {
			f.Options.DisableAutoCompactions = true
		}
	}, func(l *lab) {
		for round := range 4 {
			l.fill(100+round, fmt.Sprint(round))
			l.flush()
		}
		m, err := l.db.GetColumnFamilyMetaData()
		l.must(err)
		var names []string
		for _, level := range m.Levels {
			for _, f := range level.Files {
				names = append(names, f.Name)
			}
		}
		_, err = l.db.CompactFiles(context.Background(), nil, names, 6)
		l.must(err)
	}},
}

// TestFeatureByFeature: what each feature leaves in a database of Flatrock is what RocksDB finds
// there: after a clean end, in a checkpoint with the log, after RocksDB has compacted all of it,
// and then to Flatrock again.
func TestFeatureByFeature(t *testing.T) {
	tmp := t.TempDir()
	script := filepath.Join(tmp, "dump")
	compacting := filepath.Join(tmp, "compact")
	for path, text := range map[string]string{script: "open\ndump\nclose\n", compacting: "open\ncompact default\ncompact plain\ndump\nclose\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range features {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			op, err := flatrock.ParseMergeOperator("stringappend")
			if err != nil {
				t.Fatal(err)
			}
			o := &flatrock.Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, ColumnFamilies: []flatrock.ColumnFamilyDescriptor{
				{Name: "default", Options: &flatrock.ColumnFamilyOptions{MergeOperator: op, TargetFileSizeBase: 16 << 10}},
				{Name: "plain", Options: &flatrock.ColumnFamilyOptions{MergeOperator: op, TargetFileSizeBase: 16 << 10, PrefixExtractor: flatrock.FixedPrefix(3), Table: flatrock.PlainTableOptions{},
					MemTable: flatrock.MemTableOptions{Kind: flatrock.HashSkipList, BucketCount: 100}}},
			}}
			if f.options != nil {
				f.options(o)
			}
			l := &lab{t: t, dir: filepath.Join(t.TempDir(), "db"), o: o}
			l.open()
			f.do(l)
			want := l.dump(l.db)
			if strings.Count(want, "\n") < 2 {
				t.Fatalf("the feature leaves\n%s", want)
			}
			checkpoint := filepath.Join(t.TempDir(), "checkpoint")
			_, err = l.db.CreateCheckpoint(context.Background(), checkpoint, &flatrock.CheckpointOptions{LogSizeForFlush: flatrock.NeverFlush})
			l.must(errors.Join(err, l.db.Close()))
			for _, dir := range []string{l.dir, checkpoint} {
				for _, s := range []string{script, compacting} {
					if got, err := tool(rocksDB, dir, s); err != nil || got != want {
						t.Errorf("%s, %s: RocksDB finds\n%s%v; want\n%s", filepath.Base(dir), filepath.Base(s), tail(got), err, tail(want))
					}
				}
				db, err := flatrock.Open(dir, nil)
				l.must(err)
				if got := l.dump(db); got != want {
					t.Errorf("%s: after RocksDB compacted it:\n%s; want\n%s", filepath.Base(dir), tail(got), tail(want))
				}
				l.must(db.Close())
			}
		})
	}
}

// dump is all contents, as the script's command of that name prints them.
func (l *lab) dump(db *flatrock.DB) string {
	l.t.Helper()
	var b bytes.Buffer
	for _, cf := range db.ColumnFamilies() {
		it, err := cf.NewIterator(&flatrock.ReadOptions{TotalOrderSeek: true})
		l.must(err)
		for k, v := range it.All() {
			fmt.Fprintf(&b, "{\"cf\":%q,\"k\":\"%X\",\"v\":\"%X\"}\n", cf.Name(), k, v)
		}
		l.must(errors.Join(it.Err(), it.Close()))
	}
	return b.String()
}
