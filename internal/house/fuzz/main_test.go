package main

import "testing"

func TestOnlyTheEndOfTimeIsForgiven(t *testing.T) {
	for out, want := range map[string]bool{
		"fuzz: elapsed: 3s, execs: 9\n--- FAIL: FuzzDecode (3.11s)\n    context deadline exceeded\nFAIL\n":                                           true,
		"--- FAIL: FuzzDecode (0.20s)\n    --- FAIL: FuzzDecode (0.00s)\n        x_test.go:9: wrong\n    Failing input written to testdata/fuzz/x\n": false,
		"--- FAIL: FuzzDecode (0.20s)\n    context deadline exceeded\n    Failing input written to testdata/fuzz/x\n":                                false,
		"panic: boom\n": false,
		"ok\n":          false,
	} {
		if got := outOfTime([]byte(out)); got != want {
			t.Errorf("outOfTime(%q) = %v", out, got)
		}
	}
}
