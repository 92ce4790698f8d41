package main

import (
	"strings"
	"testing"
)

// TestStressPlaysScripts: a script that the metamorphic test printed, from standard input.
func TestStressPlaysScripts(t *testing.T) {
	r := exec(t, "# from a report\nseed 3 sets 0 2\nput 0 1 5\nbatch merge 0 1 6; delete 0 2\nreopen\nscan 0 0 9\n", "stress", "--mode=metamorphic", "--script=-")
	if r.status != 0 || !strings.Contains(r.out, "both option sets answer the same") {
		t.Errorf("status %d: %s%s", r.status, r.out, r.err)
	}
	r = exec(t, "seed 3 sets 0 2\nput 0 one 5\n", "stress", "--script=-")
	if r.status == 0 || !strings.Contains(r.err, "line 2") {
		t.Errorf("a script that is none: status %d: %s%s", r.status, r.out, r.err)
	}
}
