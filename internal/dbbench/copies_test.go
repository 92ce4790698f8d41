package dbbench

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestBackupAndRestore: what is restored has all keys, and only the newest backup counts.
func TestBackupAndRestore(t *testing.T) {
	forBothFormats(t, func(t *testing.T, args func(string, ...string) []string) {
		dir := t.TempDir()
		copies := []string{"--backup_dir=" + filepath.Join(dir, "backups"), "--restore_dir=" + filepath.Join(dir, "restored")}
		db := filepath.Join(dir, "db")
		out := mustRun(t, args(db, append(copies, "--benchmarks=fillseq,backup,deleteseq,backup,restore", "--deletes=500")...)...)
		for _, want := range []string{"\nBackup path: [" + filepath.Join(dir, "backups") + "]\nbackup ", "\nRestore path: [" + filepath.Join(dir, "restored") + "]\nrestore "} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		if got := parseResults(t, out); len(got["backup"]) != 2 || got["backup"][0].operations != 1 || len(got["restore"]) != 1 || got["restore"][0].operations != 1 {
			t.Errorf("%+v", got)
		}
		out = mustRun(t, args(filepath.Join(dir, "restored"), "--use_existing_db", "--benchmarks=readseq,readrandom")...)
		if got := parseResults(t, out); got["readseq"][0].operations != 1500 || got["readrandom"][0].found == 2000 || got["readrandom"][0].found == 0 {
			t.Errorf("%+v", got)
		}
		for _, name := range []string{"backup", "restore"} {
			if _, errs, code := runProgram(t, args(db, "--use_existing_db", "--benchmarks="+name)...); code != exitFailed || !strings.Contains(errs, "needs --backup_dir") {
				t.Errorf("%s: exit code %d, %s", name, code, errs)
			}
		}
	})
}

func TestVerifyFileChecksums(t *testing.T) {
	out := mustRun(t, blockArgs(t.TempDir(), "--file_checksum", "--benchmarks=fillseq,compact,verifyfilechecksums")...)
	if l := parseResults(t, out)["verifyfilechecksums"]; len(l) != 1 || l[0].operations != 1 {
		t.Error(out)
	}
	if _, errs, code := runProgram(t, blockArgs(t.TempDir(), "--benchmarks=verifyfilechecksums")...); code != exitFailed || !strings.Contains(errs, "needs --file_checksum") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// TestSeekingAndReplacing: each key that is written is found, and each replaced one is there once.
func TestSeekingAndReplacing(t *testing.T) {
	forBothFormats(t, func(t *testing.T, args func(string, ...string) []string) {
		for _, flag := range []string{"--use_single_deletes", "--nouse_single_deletes"} {
			out := mustRun(t, args(t.TempDir(), flag, "--numdistinct=300", "--stddev=50", "--seek_nexts=2", "--benchmarks=fillseekseq,readseq,deleteseq,randomreplacekeys,flush,readseq")...)
			got := parseResults(t, out)
			if l := got["fillseekseq"]; len(l) != 1 || l[0].operations != 4000 {
				t.Errorf("%+v", l)
			}
			if !strings.Contains(out, "standard deviation: 50.000000") || got["readseq"][0].operations != 2000 || got["readseq"][1].operations != 300 {
				t.Errorf("%s: %+v\n%s", flag, got, out)
			}
		}
	})
}
