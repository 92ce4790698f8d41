package dbbench

import (
	"strings"
	"testing"
)

// TestColumnFamilies: every benchmark finds its keys in the families that hold them.
func TestColumnFamilies(t *testing.T) {
	forBothFormats(t, func(t *testing.T, args func(string, ...string) []string) {
		for flags, perFamily := range map[string]string{
			"--num_column_families=4": "500", "--num_column_families=5 --num_hot_column_families=4": "500",
			"--num_column_families=3 --column_family_distribution=50,0,50": "1020",
		} {
			dir := t.TempDir()
			out := mustRun(t, args(dir, append(strings.Fields(flags), "--batch_size=8", "--seek_nexts=2", "--threads=2", "--merge_operator=put",
				"--benchmarks=filluniquerandom,memstats,readrandom,readmissing,multireadrandom,seekrandom,readseq,readreverse,readrandomwriterandom,readwhilewriting,flush,compact,compactall,readwhilescanning")...)...)
			got := parseResults(t, out)
			for name, l := range got {
				switch name {
				case "readrandom", "multireadrandom", "seekrandom", "readwhilewriting":
					if l[0].found != 4000 || l[0].read != 4000 {
						t.Errorf("%s: %s: %+v", flags, name, l)
					}
				case "readmissing":
					if l[0].found != 0 {
						t.Errorf("%s: %s: %+v", flags, name, l)
					}
				case "readseq", "readreverse":
					if l[0].operations != 4000 {
						t.Errorf("%s: %s: %+v", flags, name, l)
					}
				}
			}
			// The default family has its share.
			if !strings.Contains(out, "\nrocksdb.num-entries-all-mem-tables: "+perFamily+"\n") {
				t.Errorf("%s:\n%s", flags, out)
			}
			out = mustRun(t, args(dir, append(strings.Fields(flags), "--use_existing_db", "--benchmarks=readrandom,deleteseq,readrandom")...)...)
			if l := parseResults(t, out)["readrandom"]; len(l) != 2 || l[0].found != 2000 || l[1].found != 0 {
				t.Errorf("%s: %+v", flags, l)
			}
		}
	})
	for flags, want := range map[string]string{
		"--num_column_families=0": "want 1 to 10000", "--num_column_families=2 --num_hot_column_families=3": "at most as many",
		"--column_family_distribution=100,": "want percentages", "--num_column_families=2 --column_family_distribution=30,60": "2 percentages that make 100",
	} {
		if _, errs, code := runProgram(t, strings.Fields(flags)...); code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s", flags, code, errs)
		}
	}
}
