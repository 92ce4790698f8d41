package traceanalysis

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/cachesim"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/internal/tracefile"
)

func opened(file []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil }
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../../testdata/golden/trace/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The numbers of the golden expectation: 266 accesses by Get, 27 by iterators, 20 by
// compactions, 2 by prefetch and 1 by a refill.
func TestGoldenTraceIsCountedRight(t *testing.T) {
	r, err := Analyze(opened(golden(t, "block_cache_trace.bin")), "golden", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Accesses != 316 || r.Version != "7.8" || r.Every != 1 || r.Total != 316 {
		t.Errorf("%d accesses, version %s, one of %d, for %.0f", r.Accesses, r.Version, r.Every, r.Total)
	}
	want := map[string]uint64{"Get": 266, "Iterator": 27, "Compaction": 20, "Prefetch": 2, "CompactionRefill": 1}
	for _, g := range r.By("caller") {
		if g.Accesses != want[g.Name] {
			t.Errorf("%d accesses by %s, want %d", g.Accesses, g.Name, want[g.Name])
		}
	}
	for _, d := range Dimensions {
		sum, hits := uint64(0), uint64(0)
		for _, g := range r.By(d) {
			sum += g.Accesses
			hits += g.Hits
		}
		if sum != 316 || hits != r.Hits {
			t.Errorf("by %s there are %d accesses and %d hits, want 316 and %d", d, sum, hits, r.Hits)
		}
	}
	points := uint64(0)
	for _, p := range r.Timeline {
		points += p.Accesses
	}
	if points != 316 {
		t.Errorf("%d accesses over time", points)
	}
	for _, c := range r.Curves {
		for i, v := range c.Ratios {
			if v < 0 || v > 1 || i > 0 && c.Policy == "lru" && v > c.Ratios[i-1]+1e-9 {
				t.Errorf("%s: miss ratios %v", c.Policy, c.Ratios)
			}
		}
	}
	var text, table, page bytes.Buffer
	for _, f := range []func() error{func() error { return r.WriteText(&text) }, func() error { return r.WriteCSV(&table) }, func() error { return r.WriteHTML(&page) }} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"316 accesses", "ghost_flatrock", "Reuse distance", "second", "Most read keys"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in the text", want)
		}
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil || len(rows) < 100 || len(rows[0]) != 4 {
		t.Errorf("%d rows of CSV: %v", len(rows), err)
	}
	for _, bad := range []string{"http://", "https://", "<script", "<link", "@import", "NaN", "Inf"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, want := range []string{"<svg", "prefers-color-scheme", "viewport", "Predicted miss ratio"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

func TestDamageEndsTheReportAndIsTold(t *testing.T) {
	file := golden(t, "block_cache_trace.bin")
	r, err := Analyze(opened(file[:len(file)-7]), "cut", Options{})
	if !errors.Is(err, keys.ErrCorruption) || r == nil || r.Accesses != 315 {
		t.Errorf("%v, %+v", err, r)
	}
	if _, err := Analyze(opened(file[:20]), "cut", Options{}); !errors.Is(err, keys.ErrCorruption) {
		t.Errorf("a header that was cut: %v", err)
	}
	if _, err := Analyze(opened(file), "golden", Options{Policies: []string{"nonsense"}}); err == nil {
		t.Error("an unknown policy was taken")
	}
	empty := tracefile.AppendBlockHeader(nil, 1)
	if r, err := Analyze(opened(empty), "empty", Options{}); err != nil || r.Accesses != 0 {
		t.Errorf("a trace without accesses: %v", err)
	} else if err := errors.Join(r.WriteText(io.Discard), r.WriteCSV(io.Discard), r.WriteHTML(io.Discard)); err != nil {
		t.Error(err)
	}
}

// TestNamesInTracesCannotBreakThePage: families and keys may be called anything.
func TestNamesInTracesCannotBreakThePage(t *testing.T) {
	b := tracefile.AppendBlockHeader(nil, 1)
	for range 3 {
		b = tracefile.AppendBlockAccess(b, &tracefile.BlockAccess{Micros: 5, Type: tracefile.DataBlock, BlockKey: []byte("k"), Name: []byte("<script>alert(1)</script>"),
			Caller: table.CallerGet, ReferencedKey: []byte("<b>\x00\x1b[31m12345678"), KeyExists: true})
	}
	r, err := Analyze(opened(b), "<i>", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var page, text bytes.Buffer
	if err := errors.Join(r.WriteHTML(&page), r.WriteText(&text)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "<script>") || strings.Contains(page.String(), "<i>") || strings.Contains(text.String(), "\x1b") {
		t.Error("a name got into the output as it is")
	}
}

func TestQueryTraceIsCounted(t *testing.T) {
	file := golden(t, "query_trace.bin")
	r, err := AnalyzeQueries(bytes.NewReader(file), "golden", 5)
	if err != nil {
		t.Fatal(err)
	}
	total := uint64(0)
	for _, c := range r.Ops {
		total += c.Ops
	}
	if total != 55 || !r.Ended || len(r.TopKeys) != 5 {
		t.Errorf("%d operations, ended %v, %d keys", total, r.Ended, len(r.TopKeys))
	}
	if err := errors.Join(r.WriteText(io.Discard), r.WriteCSV(io.Discard)); err != nil {
		t.Error(err)
	}
	if r, err := AnalyzeQueries(bytes.NewReader(file[:len(file)-20]), "cut", 5); !errors.Is(err, keys.ErrCorruption) || r == nil || r.Ended {
		t.Errorf("a trace that was cut: %v", err)
	}
}

func TestSketchAndTopList(t *testing.T) {
	var s sketch
	for i := range uint64(50000) {
		s.add(cachesim.Mix(i%20000 + 1))
	}
	if n := s.count(); math.Abs(n-20000) > 3000 {
		t.Errorf("%.0f distinct of 20000", n)
	}
	l := newTopList(50)
	for i := range 20000 {
		l.add([]byte{byte(i % 7), 'x'}, true)
		l.add([]byte{byte(i >> 8), byte(i), 'y'}, false)
	}
	for _, top := range l.top(7) {
		if len(top.Key) != 2 || top.Count < 2857 || top.Count-top.Error > 2858 {
			t.Errorf("%q: %d, error %d", top.Key, top.Count, top.Error)
		}
	}
}
