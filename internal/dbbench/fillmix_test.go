package dbbench

import (
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
)

// What is left in the database is what the lines say of unique keys.
func TestOverwritesOfLateKeys(t *testing.T) {
	db := "--db=" + t.TempDir()
	out := mustRun(t, db, "--num=2000", "--seed=1", "--batch_size=10", "--benchmarks=filluniquerandom", "--overwrite_probability=0.5", "--overwrite_window_size=20", "--disable_auto_compactions")
	unique, again := numbers(t, out, "unique keys inserted:")[0], numbers(t, out, "Number of overwrites:")[0]
	if unique+again != 2000 || again < 800 || again > 1200 {
		t.Errorf("%v unique keys and %v overwrites of 2000 writes, half of which are overwrites", unique, again)
	}
	checkKeys(t, []string{db, "--num=2000", "--use_existing_db"}, unique)
}

// Sequences of five disposable and three persistent keys, the former deleted: 100 operations are seven sequences of
// 13, of which 21 keys are left, then five and three keys more and one delete.
func TestDisposableKeysAreDeleted(t *testing.T) {
	db := "--db=" + t.TempDir()
	args := []string{db, "--num=100", "--seed=1", "--benchmarks=fillanddeleteuniquerandom", "--disposable_entries_batch_size=5", "--persistent_entries_batch_size=3", "--persistent_entries_value_size=10"}
	out := mustRun(t, args...)
	if kept, deletes := numbers(t, out, "(disposable+persistent):")[0], numbers(t, out, "entry delete':")[0]; kept != 7*8+8 || deletes != 7*5+1 {
		t.Errorf("%v keys, %v deletes:\n%s", kept, deletes, out)
	}
	checkKeys(t, []string{db, "--num=100", "--use_existing_db"}, 7*3+8-1)
	// With a delay longer than the run nothing is deleted, and no persistent key is due.
	out = mustRun(t, append(args, "--disposable_entries_delete_delay=1000000000000")...)
	if !strings.Contains(out, "(disposable+persistent): 100.\nNumber of 'disposable entry delete': 0\n") {
		t.Error(out)
	}
	checkKeys(t, []string{db, "--num=100", "--use_existing_db"}, 100)
}

func TestMixedFillsRefuseNonsense(t *testing.T) {
	for _, args := range []string{"--overwrite_probability=1.5", "--overwrite_window_size=0", "--persistent_entries_batch_size=1", "--disposable_entries_batch_size=1 --overwrite_probability=0.1", "--disposable_entries_value_size=-1",
		"--seek_missing_prefix", "--seek_missing_prefix --prefix_size=8", "--use_secondary_db", "--use_secondary_db --use_existing_db --secondary_update_interval=0"} {
		if _, _, err := parseArgs(strings.Fields(args)...); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
}

// Prefixes that no key has are not found, and steps begin at the next key.
func TestSeeksOfMissingPrefixes(t *testing.T) {
	args := []string{"--db=" + t.TempDir(), "--num=500", "--prefix_size=9", "--key_size=20", "--total_order_seek", "--seed=1"}
	mustRun(t, append(args, "--benchmarks=fillseq")...)
	out := mustRun(t, append(args, "--use_existing_db", "--benchmarks=seekrandom", "--seek_missing_prefix", "--seek_nexts=1")...)
	if l := parseResults(t, out)["seekrandom"]; len(l) != 1 || l[0].read != 500 || l[0].found != 0 || !l[0].hasRate {
		t.Errorf("%+v\n%s", l, out)
	}
}

// The rate follows the sine, and the writers take from it.
func TestSineOfWrites(t *testing.T) {
	c := newConfig()
	c.sineWritesInterval, c.mix.sineA, c.mix.sineB, c.mix.sineC, c.mix.sineD = 1, 0, 0, 0, 5000
	b := newBench(t.Context(), c, io.Discard, io.Discard, false)
	for _, limit := range []float64{0, 100} {
		pace, end := b.sineWrites(newPacer(limit, nil), nil)
		for math.Float64frombits(pace.perUnit.Load()) != 1e9/5000 {
			runtime.Gosched()
		}
		end()
	}
	if at := (&mixFlags{sineA: 2, sineB: math.Pi, sineC: math.Pi / 2, sineD: 3}).sineAt(1); math.Abs(at-1) > 1e-9 {
		t.Errorf("2 sin(3π/2) + 3 is %v", at)
	}
	out := mustRun(t, "--db="+t.TempDir(), "--num=200", "--benchmarks=fillseq", "--sine_write_rate", "--sine_d=1e9")
	if l := parseResults(t, out)["fillseq"]; len(l) != 1 || l[0].operations != 200 {
		t.Errorf("%+v", l)
	}
}

// The process says what it meets besides: long operations, properties by level, the events of the LOG file.
func TestWhatIsToldBesides(t *testing.T) {
	args := []string{"--db=" + t.TempDir(), "--num=2000", "--benchmarks=fillseq,compact,readrandom", "--seed=1", "--use_keep_filter"}
	_, errs, code := runProgram(t, append(args, "--histogram", "--slow_usecs=1", "--use_stderr_info_logger")...)
	if code != 0 || !strings.Contains(errs, "long op: ") || !strings.Contains(errs, "level=INFO") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	_, errs, code = runProgram(t, append(args, "--histogram", "--stats_interval=500", "--stats_per_interval=1", "--show_table_properties")...)
	if code != 0 || strings.Contains(errs, "long op: ") || !strings.Contains(errs, "\nLevel[") || !strings.Contains(errs, "# entries=2000") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

// A database is made by an OPTIONS file as by the flags that wrote it.
func TestOptionsFile(t *testing.T) {
	like, db := t.TempDir(), t.TempDir()
	mustRun(t, "--db="+like, "--num=100", "--benchmarks=fillseq,flush", "--use_plain_table", "--prefix_size=16", "--memtablerep=prefix_hash", "--write_buffer_size=16777216")
	file, _ := newestOptions(t, like)
	mustRun(t, "--db="+db, "--num=300", "--benchmarks=filluniquerandom,flush", "--options_file="+file)
	_, text := newestOptions(t, db)
	for _, want := range []string{"write_buffer_size=16777216", "table_factory=PlainTable", "prefix_extractor=rocksdb.FixedPrefix.16"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	checkKeys(t, []string{"--db=" + db, "--num=300", "--use_existing_db", "--options_file=" + file}, 300)
	if _, errs, code := runProgram(t, "--db="+db, "--options_file="+like+"/none", "--benchmarks=stats"); code != exitFailed || !strings.Contains(errs, "--options_file=") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// A secondary beside its primary reads what is there, and looks for more.
func TestSecondary(t *testing.T) {
	db := "--db=" + t.TempDir()
	mustRun(t, db, "--num=300", "--benchmarks=fillseq,flush")
	out := mustRun(t, db, "--num=300", "--use_existing_db", "--use_secondary_db", "--secondary_path="+t.TempDir(), "--secondary_update_interval=1", "--benchmarks=readrandom", "--seed=1")
	if l := parseResults(t, out)["readrandom"]; len(l) != 1 || l[0].found != 300 {
		t.Errorf("%+v", l)
	}
	numbers(t, out, "Secondary instance updated ")
	if _, errs, code := runProgram(t, db, "--use_existing_db", "--use_secondary_db", "--benchmarks=overwrite", "--num=10"); code != exitFailed || errs == "" {
		t.Errorf("a secondary was written: %s", errs)
	}
}

// It looks again and again, until it is ended.
func TestFollower(t *testing.T) {
	dir := t.TempDir()
	primary, err := flatrock.Open(dir, &flatrock.Options{CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	db, err := flatrock.OpenAsSecondary(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := follow(db, time.Millisecond)
	err = primary.Put(nil, []byte("k"), []byte("v"))
	for before := f.updates.Load(); f.updates.Load() < before+2; {
		runtime.Gosched()
	}
	if v, getErr := db.Get(nil, []byte("k"), nil); string(v) != "v" {
		t.Errorf("the secondary has %q, %v", v, getErr)
	}
	if err := errors.Join(err, f.end(), db.Close(), primary.Close()); err != nil {
		t.Error(err)
	}
}

func TestVersion(t *testing.T) {
	if out := mustRun(t, "--version"); !strings.HasPrefix(out, "db_bench version 7.8.3") {
		t.Error(out)
	}
}
