package house

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A figure is a number with a unit of speed or time, or a share or a factor that compares speeds. Where
// documentation has one, the paragraph, list item or table with it is followed (in it, or in one of
// the next two paragraphs) by a line
//
//	Measured with `COMMAND` on MACHINE, YYYY-MM-DD.
//
// with as many CPUs in MACHINE as there were. A figure that nobody measured here, such as one that RocksDB's authors
// published, a limit, or the meaning of an option, is in allowedFigures.

var (
	figure = regexp.MustCompile(`(?i)\d[\d.,]*(\s|&nbsp;)?(k|m|million )?(ns|µs|us|ms|microseconds|nanoseconds|milliseconds|ops/s(ec)?|ops|operations (a|per) second|reads (a|per) second|[kmg]i?b/s|µs/op|ns/op)\b` +
		`|\d[\d.,]*\s?(%|per cent) (faster|slower|longer|less|more|of the time|of its|cost|loss)|\d[\d.,]*\s?(times|×|x) (faster|slower|as (fast|slow)|longer|RocksDB)`)
	measured = regexp.MustCompile("(?s)Measured with\\s+`[^`]+`\\s+on\\s+[^,.]*\\d+\\s+CPUs?[^.]*,\\s+20\\d\\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])\\.")
)

// allowedFigures are parts of documentation that look like measurements and are none, with the reason.
var allowedFigures = map[string]string{
	"and published 0.145 µs/op": "RocksDB's authors did, in 2014",
}

// paragraphs splits Markdown text outside of code blocks at empty lines; a list item and a heading are
// paragraphs of their own, a table is one.
func paragraphs(text string) []string {
	var all []string
	var now strings.Builder
	flush := func() {
		if s := strings.TrimSpace(now.String()); s != "" {
			all = append(all, s)
		}
		now.Reset()
	}
	fenced := false
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		if trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "* ") {
			flush()
		}
		now.WriteString(line)
	}
	flush()
	return all
}

// unmeasured are the paragraphs with a figure and without the line that says where it is from.
func unmeasured(text string) []string {
	all := paragraphs(text)
	var bad []string
	for i, p := range all {
		if !figure.MatchString(p) || measured.MatchString(p) {
			continue
		}
		near := all[i+1 : min(i+3, len(all))]
		if !slices.ContainsFunc(near, measured.MatchString) {
			bad = append(bad, p)
		}
	}
	return bad
}

// TestFiguresSayHowTheyWereMeasured reads README and documentation.
func TestFiguresSayHowTheyWereMeasured(t *testing.T) {
	used := map[string]bool{}
	walk(t, func(name string, text []byte) {
		if path.Ext(name) != ".md" {
			return
		}
		for _, p := range unmeasured(string(text)) {
			allowed := false
			for part := range allowedFigures {
				if strings.Contains(p, part) {
					allowed, used[part] = true, true
				}
			}
			if !allowed {
				t.Errorf("%s: %q has a figure, and no line \"Measured with `…` on … CPUs, YYYY-MM-DD.\" follows: %q", name, figure.FindString(p), p)
			}
		}
	})
	for part := range allowedFigures {
		if !used[part] {
			t.Errorf("allowedFigures: no document has %q", part)
		}
	}
}

func TestFiguresAreNoticed(t *testing.T) {
	for text, want := range map[string]int{
		"A Get takes 120 ns.": 1, "It reads 2.5 million reads a second.": 1, "That is 3 times faster.": 1, "It costs 13 % more.": 1, "1,234 ops/s": 1, "at 20 MB/s": 1,
		"A file of 64 MB.": 0, "5 files in 3 levels, 50 % full": 0, "`10 ns`": 1, "| get | 15 ns |\n| put | 20 ns |": 1, "- 1 ms\n- 2 ms": 2,
		"A Get takes 120 ns.\n\nMeasured with `go test` on a Xeon with 2 CPUs, 2026-01-31.":               0,
		"A Get takes 120 ns.\nMeasured with `go test`\non a Xeon with 2 CPUs, 2026-01-31.":                0,
		"| get | 15 ns |\n\nAnd so on.\n\nMeasured with `go test` on a Xeon with 2 CPUs, 2026-01-31.":     0,
		"A Get takes 120 ns.\n\none\n\ntwo\n\nMeasured with `go test` on a Xeon with 2 CPUs, 2026-01-31.": 1,
		"A Get takes 120 ns. Measured with `go test` on a Xeon with 2 CPUs.":                              1,
		"A Get takes 120 ns. Measured with `go test` on a Xeon, 2026-01-31.":                              1,
		"A Get takes 120 ns. Measured on a Xeon with 2 CPUs, 2026-01-31.":                                 1,
		"Measured with `go test` on a Xeon with 2 CPUs, 2026-01-31.\n\nA Get takes 120 ns.":               1,
		"```\n120 ns\n```": 0,
	} {
		if got := len(unmeasured(text)); got != want {
			t.Errorf("%q: %d figures, want %d", text, got, want)
		}
	}
}

// TestBenchmarksOfThePiecesExist: doc/benchmarks.md lists them, and each reports its allocations.
func TestBenchmarksOfThePiecesExist(t *testing.T) {
	bodies := map[string]map[string]string{} // by package and function
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		if bodies[s.pkg] == nil {
			bodies[s.pkg] = map[string]string{}
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				bodies[s.pkg][f.Name.Name] = string(s.text[f.Body.Pos()-s.file.FileStart : f.Body.End()-s.file.FileStart])
			}
		}
	}
	row := regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\| (.+) \\|$")
	name := regexp.MustCompile("`(Benchmark\\w+)`")
	call := regexp.MustCompile(`\b(bench\w+)\(`)
	n := 0
	walk(t, func(file string, text []byte) {
		if file != "doc/benchmarks.md" {
			return
		}
		for _, r := range row.FindAllStringSubmatch(string(text), -1) {
			for _, b := range name.FindAllStringSubmatch(r[2], -1) {
				n++
				body, ok := bodies[r[1]][b[1]]
				if !ok {
					t.Errorf("%s: no %s in %s", file, b[1], r[1])
					continue
				}
				for _, c := range call.FindAllStringSubmatch(body, -1) {
					body += bodies[r[1]][c[1]]
				}
				if !strings.Contains(body, "b.ReportAllocs()") {
					t.Errorf("%s in %s does not report its allocations", b[1], r[1])
				}
			}
		}
	})
	if n < 30 {
		t.Errorf("doc/benchmarks.md lists %d benchmarks", n)
	}
}
