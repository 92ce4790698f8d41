package dbbench

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// issueBenchmarks are db_bench's benchmarks that must run here, or say why they do not.
const issueBenchmarks = `fillseq fillseqdeterministic fillrandom filluniquerandom filluniquerandomdeterministic fillsync fill100K overwrite updaterandom
	appendrandom mergerandom xorupdaterandom readrandom readrandomfast readrandomsmall readhot readmissing readseq readreverse readtocache readtorowcache multireadrandom
	newiterator newiteratorwhilewriting seekrandom seekrandomwhilewriting seekrandomwhilemerging seekrandomwithprefix readwhilewriting readwhilemerging readwhilescanning
	readrandomwriterandom readrandommergerandom deleteseq deleterandom mixgraph randomtransaction timeseries compact compact0 compact1 compactall flush waitforcompaction
	stats resetstats levelstats sstables stats_history verify verifychecksum verifyfilechecksums crc32c xxhash xxhash64 xxh3 acquireload compress uncompress
	approximatesizerandom replay backup restore memstats fillseekseq randomreplacekeys fillbatch fillanddeleteuniquerandom getmergeoperands readrandomoperands heapprofile randomwithverify`

// TestEachBenchmarkRunsAlone runs every benchmark of the list by itself at tiny scale over a database
// that is there, or a fresh one where it wants that: it prints its line or text, or why it does nothing, and the
// program ends with 0.
func TestEachBenchmarkRunsAlone(t *testing.T) {
	known := map[string]benchmark{}
	for _, b := range benchmarks() {
		known[b.name] = b
	}
	for _, name := range strings.Fields(issueBenchmarks) {
		if _, ok := known[name]; !ok {
			t.Errorf("no benchmark %s", name)
		}
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	mustRun(t, "--db="+at("truth"), "--num=200", "--file_checksum", "--seed=1", "--benchmarks=fillseq")
	mustRun(t, "--db="+at("traced"), "--num=200", "--seed=1", "--benchmarks=fillseq,readrandom", "--trace_file="+at("trace"))
	mustRun(t, "--db="+at("backedup"), "--num=200", "--seed=1", "--benchmarks=fillseq,backup", "--backup_dir="+at("backups"))
	more := map[string]string{
		"fillseqdeterministic": "--disable_auto_compactions", "filluniquerandomdeterministic": "--disable_auto_compactions", "fillsync": "--num=1000 --writes=5", "fill100K": "--num=1000",
		"seekrandomwithprefix": "--prefix_size=8", "replay": "--trace_file=" + at("trace"), "verify": "--truth_db=" + at("truth"), "restore": "--restore_dir=" + at("restored"),
		"verifyfilechecksums": "--file_checksum", "mixgraph": "--mix_get_ratio=0.5 --mix_put_ratio=0.5", "timeseries": "--key_id_range=5", "randomreplacekeys": "--numdistinct=20", "randomwithverify": "--numdistinct=20",
		"readrandomsmall": "--reads=5000", "fillanddeleteuniquerandom": "--disposable_entries_batch_size=5 --persistent_entries_batch_size=2",
	}
	for i, b := range benchmarks() {
		t.Run(b.name, func(t *testing.T) {
			args := append(strings.Fields(more[b.name]), "--seed=1", "--merge_operator=put", "--backup_dir="+at("backups"), "--benchmarks="+b.name)
			if !strings.Contains(more[b.name], "--num=") {
				args = append(args, "--num=200")
			}
			if !strings.Contains(more[b.name], "--reads=") {
				args = append(args, "--reads=50")
			}
			db := at(fmt.Sprint("db", i))
			if !b.fresh {
				mustRun(t, "--db="+db, "--num=200", "--file_checksum", "--seed=1", "--benchmarks=fillseq")
				args = append(args, "--use_existing_db")
			}
			out := mustRun(t, append(args, "--db="+db)...)
			_, body, _ := strings.Cut(out, "------------------------------------------------\n")
			switch {
			case b.skip != "":
				if want := fmt.Sprintf("%-12s : skipped (%s)\n", b.name, b.skip); body != want {
					t.Errorf("%q, want %q", body, want)
				}
			case b.body != nil:
				if l := parseResults(t, "\n"+body)[b.name]; !strings.Contains(body, b.name) || len(l) == 1 && l[0].operations == 0 {
					t.Errorf("%+v\n%s", l, body)
				}
			case b.name != "resetstats" && b.name != "compactall" && strings.TrimSpace(body) == "":
				t.Error("nothing is printed")
			}
		})
	}
}
