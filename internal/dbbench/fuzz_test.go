package dbbench

import (
	"io"
	"strings"
	"testing"
)

// FuzzFlags reads any command line, a word a line: an error, or settings that passed their check.
func FuzzFlags(f *testing.F) {
	f.Add("--benchmarks=fillseq,readrandom[X3]\n--num=1000\n--value_size=100")
	f.Add("--num=-1\n-threads=99999999999999999999\n--compression_type=zstd\n--")
	f.Add("--benchmarks=a[W1-X2],,b[\n--cache_size=0x10")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "flagfile") {
			return // it names a file of this machine
		}
		c := newConfig()
		parseFlags(c, strings.Split(text, "\n"), io.Discard)
		parseBenchmarks(text)
	})
}
