//go:build oracle

package oracle_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock"
)

// families are all kinds that the tables of spec_test.go name.
var families = slices.Concat(fixedSpecs, blockSpecs, styleSpecs)

// TestEveryKindOfFamily lets each kind of family travel alone: Flatrock makes it,
// RocksDB reads, writes and compacts it, Flatrock again, RocksDB again.
func TestEveryKindOfFamily(t *testing.T) {
	for i, f := range families {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			f.Name = "default"
			w := newWorld(t, uint64(i), f)
			w.create(false, dbOptions{}.text()).busy(600).check().close()
			w.accepted()
			w.open(true).check().busy(400).check().close()
			w.open(false).check().busy(400).check().crash()
			w.open(true).check().writes(200).crash()
			w.open(false).check().compactAll().check().close()
			w.accepted()
			w.open(true).check().compactAll().check().close()
			w.open(false).check().close()
		})
	}
}

// TestStylesUnderLoad has every style of compaction go on where the other engine
// stopped in the middle of it.
func TestStylesUnderLoad(t *testing.T) {
	for i, f := range styleSpecs {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			f.Name, f.Buffer = "default", 64<<10
			w := newWorld(t, 500+uint64(i), f)
			w.create(true, randomRocksDB(rand.New(rand.NewPCG(uint64(i), 1)))).writes(4000).crash()
			w.open(false).check().writes(4000).crash()
			w.open(true).check().writes(4000).crash()
			w.open(false).check().writes(2000).check().close()
			w.open(true).check().compactAll().check().close()
		})
	}
}

// TestAllFamiliesTogether has every kind of family in one database, with batches
// over them.
func TestAllFamiliesTogether(t *testing.T) {
	for _, mode := range []flatrock.WALWriteMode{flatrock.WALMapped, flatrock.WALWrite} {
		t.Run(fmt.Sprintf("mode=%d", mode), func(t *testing.T) {
			t.Parallel()
			o := dbOptions{WALWriteMode: mode}.text()
			again := func(w *world) *script {
				return (&script{w: w}).say("dboptions %s", o).say("open")
			}
			w := newWorld(t, 100+uint64(mode), families...)
			w.create(false, o).writes(3000).check().crash() // the log alone, for the most part
			w.open(true).check().busy(1500).check().close()
			again(w).check().busy(1500).flushAll().check().close()
			w.accepted()
			w.open(true).check().busy(1500).crash()
			again(w).check().compactAll().writes(300).check().crash()
			w.accepted()
			w.open(true).check().close()
		})
	}
}

// TestRandomOptions draws options, and who begins.
func TestRandomOptions(t *testing.T) {
	first, n := uint64(0), uint64(24)
	if s := os.Getenv("FLATROCK_ORACLE_SEEDS"); s != "" { // such as 100+50
		if _, err := fmt.Sscanf(s, "%d+%d", &first, &n); err != nil {
			t.Fatal(err)
		}
	}
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			specs := []spec{randomSpec(rng, "default")}
			for i := range rng.IntN(4) {
				specs = append(specs, randomSpec(rng, fmt.Sprintf("family%d", i)))
			}
			w := newWorld(t, seed, specs...)
			rocks := seed%2 == 0
			options := randomRocksDB(rng)
			if !rocks {
				options = dbOptions{
					WALWriteMode:             flatrock.WALWriteMode(rng.IntN(3)),
					AvoidFlushDuringRecovery: rng.IntN(2) == 0,
					MaxManifestFileSize:      int64(rng.IntN(2)) * 2000,
				}.text()
			}
			s := w.create(rocks, options)
			for range 6 {
				s.busy(400).check()
				if rng.IntN(2) == 0 {
					s.close()
				} else {
					s.crash()
				}
				// Only with OPTIONS of ours: ldb 7.8.3 aborts when it opens read-only and
				// track_and_verify_wals_in_manifest is set.
				if !rocks && rng.IntN(3) == 0 {
					w.accepted()
				}
				rocks = !rocks
				s = w.open(rocks).check()
			}
			s.close()
		})
	}
}

// randomRocksDB draws options of a database that RocksDB makes, among them those
// that change what its logs and MANIFESTs look like.
func randomRocksDB(rng *rand.Rand) string {
	var b strings.Builder
	// Without mmap the iterators of RocksDB's plain tables give wrong values: their
	// read buffers are used again under values that were not copied yet.
	b.WriteString("allow_concurrent_memtable_write=false;max_open_files=-1;allow_mmap_reads=true;")
	for _, o := range []string{
		"wal_compression=kZSTD;", "recycle_log_file_num=2;", "write_dbid_to_manifest=true;",
		"track_and_verify_wals_in_manifest=true;", "avoid_flush_during_shutdown=true;", "avoid_flush_during_recovery=true;",
		"atomic_flush=true;", "max_manifest_file_size=3000;", "two_write_queues=true;", "allow_mmap_writes=true;",
	} {
		if rng.IntN(3) == 0 {
			b.WriteString(o)
		}
	}
	return b.String()
}

// TestDroppedFamily: a dropped family is gone for RocksDB too, with its files, and
// its name can be taken again.
func TestDroppedFamily(t *testing.T) {
	for _, firstIsRocks := range []bool{false, true} {
		t.Run(fmt.Sprintf("rocksdb=%v", firstIsRocks), func(t *testing.T) {
			extra := spec{Name: "extra", Extractor: "fixed:4", Memtable: "prefix_hash"}
			w := newWorld(t, 300, fixedSpecs[0], extra, fixedSpecs[5], blockSpecs[3])
			options := dbOptions{}.text()
			if firstIsRocks {
				options = "allow_concurrent_memtable_write=false;allow_mmap_reads=true;"
			}
			s := w.create(firstIsRocks, options).busy(600)
			drop := func(s *script) *script {
				w.specs = append(w.specs[:1:1], w.specs[2:]...)
				w.data[extra.Name] = nil
				return s.say("drop extra")
			}
			drop(s).busy(200).check().crash()
			w.accepted()
			s = w.open(!firstIsRocks).check().busy(200)
			// A family of the old name is a new one.
			extra.Reverse = true
			w.specs = append(w.specs, extra)
			w.data[extra.Name] = map[string]string{}
			w.gone[extra.Name] = map[string]bool{}
			w.seen, w.single = map[string]bool{}, map[string]bool{} // of both: only fewer single deletes
			for _, f := range w.specs {
				for k := range w.data[f.Name] {
					w.seen[f.Name+"/"+k] = true
				}
				for k := range w.gone[f.Name] {
					w.seen[f.Name+"/"+k] = true
				}
			}
			s.say("newfamily extra %s", extra.text(!firstIsRocks)).busy(300).check().close()
			w.accepted()
			w.open(firstIsRocks).check().busy(200).check().close()
			w.open(!firstIsRocks).check().close()
		})
	}
}

// TestReadOnly: each engine reads what the other left after a crash, without
// writing.
func TestReadOnly(t *testing.T) {
	w := newWorld(t, 400, fixedSpecs[0], fixedSpecs[5], fixedSpecs[12], blockSpecs[0])
	readOnly := func(rocks bool) {
		(&script{w: w, rocks: rocks}).say("openreadonly").check().close()
	}
	w.create(false, dbOptions{}.text()).busy(500).writes(200).crash()
	readOnly(true)
	readOnly(false)
	w.open(true).check().busy(300).writes(200).crash()
	readOnly(false)
	readOnly(true)
	w.open(false).check().close()
}

// TestLogDirectory: logs in a directory of their own are found by the OPTIONS file.
func TestLogDirectory(t *testing.T) {
	w := newWorld(t, 600, fixedSpecs[0], fixedSpecs[13])
	logs := filepath.Join(w.tmp, "logs")
	w.create(false, dbOptions{WALDir: logs}.text()).busy(300).writes(300).check().crash()
	w.open(true).check().busy(200).writes(200).crash()
	// Flatrock takes the directory of the logs from its caller, and nothing else will do.
	if db, err := flatrock.Open(w.dir, nil); !errors.Is(err, flatrock.ErrInvalidArgument) {
		t.Fatalf("Open without the directory of the logs: %v, %v", db, err)
	}
	(&script{w: w}).say("dboptions %s", dbOptions{WALDir: logs}.text()).say("open").check().busy(200).check().crash()
	w.open(true).check().close()
}
