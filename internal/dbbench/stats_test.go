package dbbench

import (
	"strings"
	"testing"
	"time"
)

func TestResultLine(t *testing.T) {
	begin := time.Unix(1000, 0)
	for _, test := range []struct {
		r    result
		want string
	}{
		// As db_bench 7.8.3 printed such results.
		{result{name: "readrandom", done: 1_000_000, bytes: 1157151653, seconds: 0.312, end: begin.Add(3120 * time.Millisecond), message: "(1000000 of 1000000 found)\n"},
			"readrandom   :       0.312 micros/op 320512 ops/sec 3.120 seconds 1000000 operations;  353.7 MB/s (1000000 of 1000000 found)\n\n"},
		{result{name: "readmissing", done: 20000, seconds: 0.0378, end: begin.Add(38 * time.Millisecond), message: "(0 of 20000 found)\n"},
			"readmissing  :       1.890 micros/op 526315 ops/sec 0.038 seconds 20000 operations; (0 of 20000 found)\n\n"},
		{result{name: "filluniquerandom", done: 20000, bytes: 2400000, seconds: 0.09722, end: begin.Add(97 * time.Millisecond)},
			"filluniquerandom :       4.861 micros/op 206185 ops/sec 0.097 seconds 20000 operations;   23.6 MB/s\n"},
		{result{name: "compact", done: 1, seconds: 0.379271, end: begin.Add(379271 * time.Microsecond)},
			"compact      :  379271.000 micros/op 2 ops/sec 0.379 seconds 1 operations;\n"},
	} {
		test.r.start = begin
		var b strings.Builder
		test.r.print(&b)
		if got := b.String(); got != test.want {
			t.Errorf("got  %qwant %q", got, test.want)
		}
	}
}

// Averages, medians and intervals as db_bench 7.8.3 printed them for these runs, up to
// the digits that it did not show of the runs themselves.
func TestRepeats(t *testing.T) {
	r := repeats{name: "readrandom", ops: []float64{610202, 480261, 116964}, rate: []float64{58.4, 46, 11.2}}
	two := repeats{name: "readrandom", ops: r.ops[:2], rate: r.rate[:2]}
	var b strings.Builder
	two.printSoFar(&b, false)
	r.printFinal(&b)
	seek := repeats{name: "seekrandom", ops: []float64{92885, 111743, 141985}}
	seek.printSoFar(&b, true)
	seek.printFinal(&b)
	one := repeats{name: "readrandom", ops: r.ops[:1]}
	one.printSoFar(&b, false)
	one.printFinal(&b)
	const want = `readrandom [AVG 2 runs] : 545231 (± 127342) ops/sec;   52.2 (± 12.2) MB/sec
readrandom [AVG    3 runs] : 402475 (± 289299) ops/sec;   38.5 (± 27.7) MB/sec
readrandom [MEDIAN 3 runs] : 480261 ops/sec;   46.0 MB/sec
seekrandom [CI95 3 runs] : (87508, 143566) ops/sec
seekrandom [AVG    3 runs] : 115537 (± 28028) ops/sec
seekrandom [MEDIAN 3 runs] : 111743 ops/sec
`
	if got := b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestIntervalReports(t *testing.T) {
	c := newConfig()
	c.statsInterval = 300
	var b strings.Builder
	s := threadStats{id: 3}
	reports := 0
	s.begin(c, &b, func() { reports++ })
	for range 1000 {
		s.finished(1, opRead)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3 || reports != 3 || !strings.Contains(lines[2], " ... thread 3: (300,900) ops and (") {
		t.Errorf("%d reports:\n%s", reports, b.String())
	}
	s.finish()
	if s.published.Load() != 1000 {
		t.Error(s.published.Load())
	}
}

// The pacer neither runs ahead nor forgets a pause; its clock is the only one used.
func TestPacerKeepsTheRate(t *testing.T) {
	halt := make(chan struct{})
	p := newPacer(1e6, halt)
	for range 50 {
		p.take(1000)
	}
	// 50 takes of a millisecond each: the next one begins no earlier than that.
	if next := time.Duration(p.next.Load()); next < 50*time.Millisecond {
		t.Errorf("50 ms of work reserved only %v", next)
	}
	if since := time.Since(p.start); since < 49*time.Millisecond {
		t.Errorf("49 ms of work were let through in %v", since)
	}
	var none *pacer
	none.take(1 << 40)
	slow := newPacer(1e-3, halt)
	slow.take(1)
	close(halt)
	slow.take(1) // would wait for a quarter of an hour
}
