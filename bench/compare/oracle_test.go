//go:build oracle

package main

import (
	"context"
	"os"
	"strings"
	"testing"
)

// The whole comparison at a tiny size: both programs run, find what they should, and
// nothing stays behind.
func TestOracleComparison(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		args string
		want []string
	}{
		{"-num=5000 -duration=1s -rounds=1 -threads=1", []string{"filluniquerandom         1", "readwhilewriting         1", "milliseconds to open: RocksDB "}},
		{"-suite=block -num=5000 -duration=1s -rounds=1", append(blockRows(), "\nCPU microseconds an operation")},
		{"-num=5000 -duration=1s -heap", []string{"heap         : Go heap ", "readrandom   : "}},
	} {
		s, err := parse(append(strings.Fields(test.args), "-dir="+dir), os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		var out, log strings.Builder
		if err := run(context.Background(), s, &out, &log); err != nil {
			t.Fatalf("%v\n%s", err, log.String())
		}
		for _, want := range test.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", test.args, want, out.String())
			}
		}
		if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
			t.Errorf("%s:\n%s", test.args, out.String())
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}
