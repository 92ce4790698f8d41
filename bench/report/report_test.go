package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
)

func example() *Report {
	r := &Report{
		Title: "A <test> & more", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Machine: Machine{CPU: "a CPU", CPUs: 2, MemoryBytes: 1 << 30},
		Commands:  []string{"run --a=<b>"},
		Stores:    []Store{{"ours", "1", "so", true}, {"theirs", "2", "so so", false}},
		Workloads: []Workload{{"readrandom", "reads"}, {"memory", "bytes"}},
		Notes:     []string{"a note"},
	}
	for _, keys := range []int64{1000, 100_000} {
		for threads := 1; threads <= 2; threads++ {
			for i, s := range []string{"ours", "theirs"} {
				for round := range 3 {
					r.Add(s, "readrandom", "throughput", threads, keys, float64(300_000-200_000*i+round*1000+threads))
				}
				r.Add(s, "readrandom", "p50", threads, keys, 1.25)
				r.Add(s, "readrandom", "p99", threads, keys, 7.5)
				r.Add(s, "readrandom", "p99.9", threads, keys, 123)
			}
		}
		r.Add("ours", "memory", "rss", 0, keys, 12.3e6)
	}
	return r
}

// balanced reads HTML as XML but for the tags that have no end.
func balanced(page string) error {
	_, page, ok := strings.Cut(page, "<!DOCTYPE html>")
	if !ok {
		return errors.New("no doctype")
	}
	page = regexp.MustCompile(`<(meta [^>]*)>`).ReplaceAllString(page, "<$1/>")
	page = strings.ReplaceAll(page, "<details open>", "<details>")
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	for {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func render(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	if err := balanced(b.String()); err != nil {
		t.Errorf("%v in\n%s", err, b.String())
	}
	for _, bad := range []string{"http:", "https:", "//", "<script", "<link", "<img", "src=", "url(", "@import", "NaN", "Inf", "ZgotmplZ", "<no value>", "%!"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	return b.String()
}

func TestPageShowsWhatWasGiven(t *testing.T) {
	page := render(t, example())
	for _, want := range []string{
		"A &lt;test&gt; &amp; more", "2026-01-02T03:04:05Z", "a CPU; 2 CPUs; 1.0 GiB of memory", "run --a=&lt;b&gt;", "a note", "so so",
		">2.98×</td>", "ours 301,001 ops/s against theirs 101,001 ops/s", // the medians of three, and their ratio
		"3 samples, 300,001 to 302,001", ">301,001</td>", ">101,002</td>", ">12.3 MB</td>",
		"p99.9: 123 µs", "p50: 1.25 µs", "prefers-color-scheme:dark", "100,000 keys",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(page, "<svg"); n != 2+2+2 { // marks, curves over threads and keys, tails at two threads
		t.Errorf("%d charts and marks", n)
	}
	if at := []int{strings.Index(page, `id="ratios"`), strings.Index(page, `id="curves"`), strings.Index(page, `id="tails"`), strings.Index(page, `id="figures"`)}; !(at[0] < at[1] && at[1] < at[2] && at[2] < at[3]) {
		t.Errorf("the parts are in no order: %v", at)
	}
}

func TestPageOfLittle(t *testing.T) {
	if page := render(t, &Report{Title: "empty"}); !strings.Contains(page, "Nothing was measured.") {
		t.Error("an empty report does not say so")
	}
	one := &Report{Title: "one", Stores: []Store{{Name: "ours", Subject: true}}, Workloads: []Workload{{"readrandom", ""}}}
	one.Add("ours", "readrandom", "throughput", 1, 10, 0)
	one.Add("ours", "readrandom", "p50", 1, 10, 0)
	if page := render(t, one); !strings.Contains(page, "There is nothing to compare") {
		t.Error("a report of one store does not say so")
	}
	for _, r := range []*Report{{Title: "empty"}, one, example()} {
		var b strings.Builder
		if err := r.Text(&b); err != nil || strings.Contains(b.String(), "NaN") || !strings.Contains(b.String(), r.Title) {
			t.Errorf("%v\n%s", err, b.String())
		}
	}
}

func TestTextHasRatios(t *testing.T) {
	var b strings.Builder
	if err := example().Text(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ours is so many times better than", "2.98×", "readrandom, p99.9, 2 threads", "301,001"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestEncodeAndDecode(t *testing.T) {
	var b bytes.Buffer
	if err := example().Encode(&b); err != nil {
		t.Fatal(err)
	}
	r, err := Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(*r) != fmt.Sprint(*example()) {
		t.Errorf("got %v, want %v", *r, *example())
	}
	if err := r.Merge(example()); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Measures[0].Samples); n != 6 {
		t.Errorf("%d samples after a merge, want 6", n)
	}
	other := example()
	other.Machine.CPU = "another"
	if r.Merge(other) == nil {
		t.Error("reports of two machines were merged")
	}
}

func TestWrongReportsAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Report){
		"unknown store":    func(r *Report) { r.Measures[0].Store = "x" },
		"unknown workload": func(r *Report) { r.Measures[0].Workload = "x" },
		"unknown metric":   func(r *Report) { r.Measures[0].Metric = "x" },
		"no samples":       func(r *Report) { r.Measures[0].Samples = nil },
		"not a number":     func(r *Report) { r.Measures[0].Samples[0] = math.NaN() },
		"twice":            func(r *Report) { r.Measures[1] = r.Measures[0] },
		"store twice":      func(r *Report) { r.Stores[1] = r.Stores[0] },
	} {
		r := example()
		spoil(r)
		if r.Check() == nil || r.HTML(io.Discard) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Decode(strings.NewReader(`{"Title":1}`)); err == nil {
		t.Error("a title that is a number was accepted")
	}
}

// The labels of an axis include what lies at its ends, and fit a phone.
func TestTicks(t *testing.T) {
	for _, test := range []struct{ values, want []float64 }{
		{[]float64{2_100, 900_000}, []float64{2_000, 10_000, 100_000, 1_000_000}},
		{[]float64{30, 400}, []float64{20, 50, 100, 200, 500}},
		{[]float64{0.16, 25_000}, []float64{0.1, 1, 10, 100, 1_000, 10_000, 50_000}},
		{[]float64{7}, []float64{5, 10}},
	} {
		got := newScale(test.values).ticks
		if len(got) != len(test.want) || len(got) > mostTicks+1 {
			t.Errorf("%v: ticks %v, want %v", test.values, got, test.want)
			continue
		}
		for i := range got {
			if math.Abs(got[i]/test.want[i]-1) > 1e-9 {
				t.Errorf("%v: ticks %v, want %v", test.values, got, test.want)
			}
		}
	}
}
