package dbbench

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// runProgram runs the program within the test and returns what it printed.
func runProgram(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e strings.Builder
	code = run(context.Background(), args, &o, &e, false)
	return o.String(), e.String(), code
}

// mustRun is runProgram for runs that must succeed.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := runProgram(t, args...)
	if code != 0 {
		t.Fatalf("bench %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// resultLine is db_bench's line of a benchmark, as scripts parse it.
var resultLine = regexp.MustCompile(`(?m)^(\S+) *: +(\d+\.\d{3}) micros/op (\d+) ops/sec (\d+\.\d{3}) seconds (\d+) operations;( +\d+\.\d MB/s)?(?: \((\d+) of (\d+) found\)| \((\d+) ops\))?$`)

type parsedLine struct {
	operations, found, read int64
	hasRate                 bool
}

// parseResults finds the lines of benchmarks, in their order by name.
func parseResults(t *testing.T, out string) map[string][]parsedLine {
	t.Helper()
	all := map[string][]parsedLine{}
	for _, m := range resultLine.FindAllStringSubmatch(out, -1) {
		number := func(s string) int64 {
			if s == "" {
				return -1
			}
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		all[m[1]] = append(all[m[1]], parsedLine{number(m[5]), number(m[7]), number(m[8]), m[6] != ""})
	}
	return all
}
