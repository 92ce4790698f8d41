package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	flatrock "github.com/flatrock-db/flatrock"
)

// runTrace runs flatrock trace with the arguments.
func runTrace(args ...string) (out, errs string, status int) {
	var o, e bytes.Buffer
	status = run(context.Background(), append([]string{"flatrock", "trace"}, args...), strings.NewReader(""), &o, &e)
	return o.String(), e.String(), status
}

const goldenTraces = "../../testdata/golden/trace/"

func TestTraceCommands(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.html")
	cut := filepath.Join(dir, "cut.bin")
	whole, err := os.ReadFile(goldenTraces + "block_cache_trace.bin")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, whole[:len(whole)-9], 0o644); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "db")
	d, err := flatrock.Open(db, &flatrock.Options{CreateIfMissing: true, ColumnFamily: &flatrock.ColumnFamilyOptions{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.CreateColumnFamily("second", nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	block, query := goldenTraces+"block_cache_trace.bin", goldenTraces+"query_trace.bin"
	for _, c := range []struct {
		args   string
		status int
		out    string // somewhere in the output
		errs   string // and in the errors
	}{
		{"help", 0, "block-cache analyze FILE", ""},
		{"block-cache analyze " + block, 0, "316 accesses", ""},
		{"block-cache analyze --capacities=64KB,1.5MB --policies=lru " + block, 0, "1.5 MB", ""},
		{"block-cache analyze --format=csv " + block, 0, "caller,accesses,Get,266", ""},
		{"block-cache analyze --format=html --output=" + page + " " + block, 0, "", ""},
		{"block-cache analyze " + cut, 1, "315 accesses", "before this damage"},
		{"block-cache human " + block, 0, "1796063477537847,3,9,576,0,default,0,11,1,0,1,1,67,0,1,16,825241708,0,16,19,", ""},
		{"block-cache human " + cut, 1, "1796063477537755", "expected a trace record"},
		{"block-cache analyze " + query, 1, "", "query trace"},
		{"query analyze " + query, 0, "MultiGet", ""},
		{"query analyze --format=csv " + query, 0, "timeline,operations,0,55", ""},
		{"query replay --trace_replay_fast_forward=1000 --trace_replay_threads=2 --db=" + db + " " + query, 0, "55 operations", ""},
		{"query analyze " + block, 1, "", "block cache"},
		{"query replay " + query, 2, "", "--db"},
		{"query replay --trace_replay_fast_forward=-1 --db=x " + query, 2, "", "above zero"},
		{"block-cache analyze --format=pdf " + block, 2, "", "text, csv or html"},
		{"block-cache analyze --capacities=lots " + block, 2, "", "64MB"},
		{"block-cache analyze --policies=magic " + block, 1, "", "unknown policy"},
		{"block-cache analyze --nonsense " + block, 2, "", "--nonsense"},
		{"block-cache analyze no-such-file", 1, "", "no-such-file"},
		{"block-cache", 2, "", "KIND COMMAND FILE"},
		{"block-cache bake " + block, 2, "", "unknown trace command"},
	} {
		out, errs, status := runTrace(strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || (c.errs == "") != (errs == "") {
			t.Errorf("flatrock trace %s: status %d\n%.300s\n%s", c.args, status, out, errs)
		}
	}
	if b, err := os.ReadFile(page); err != nil || !bytes.Contains(b, []byte("</html>")) {
		t.Errorf("the page: %d bytes, %v", len(b), err)
	}
}
