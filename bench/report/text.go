package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is a line of a table: one workload, metric, number of threads and of keys.
type row struct {
	workload, metric string
	threads          int
	keys             int64
}

// rows of a metric, in the order of the workloads, then keys, then threads.
func (r *Report) rows(metrics ...string) (all []row) {
	for _, m := range r.Measures {
		x := row{m.Workload, m.Metric, m.Threads, m.Keys}
		if slices.Contains(metrics, m.Metric) && !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	order := map[string]int{}
	for i, w := range r.Workloads {
		order[w.Name] = i
	}
	slices.SortStableFunc(all, func(a, b row) int {
		return cmp.Or(cmp.Compare(order[a.workload], order[b.workload]), cmp.Compare(slices.Index(metrics, a.metric), slices.Index(metrics, b.metric)),
			cmp.Compare(a.keys, b.keys), cmp.Compare(a.threads, b.threads))
	})
	return all
}

// value is the median of a cell.
func (r *Report) value(store string, x row) (float64, bool) {
	samples := r.Samples(store, x.workload, x.metric, x.threads, x.keys)
	return Median(samples), len(samples) > 0
}

// spread is the least and the largest sample of a cell.
func (r *Report) spread(store string, x row) (low, high float64, n int) {
	samples := r.Samples(store, x.workload, x.metric, x.threads, x.keys)
	if len(samples) == 0 {
		return 0, 0, 0
	}
	return slices.Min(samples), slices.Max(samples), len(samples)
}

// ratio is how many times better the subject is than the other store.
func (r *Report) ratio(subject, other string, x row) (float64, bool) {
	a, ok := r.value(subject, x)
	b, ok2 := r.value(other, x)
	if m, _ := FindMetric(x.metric); !m.More {
		a, b = b, a
	}
	if !ok || !ok2 || b == 0 {
		return 0, false
	}
	return a / b, true
}

// compared are the rows that say something of a subject, and the stores that it is compared with there.
func (r *Report) compared(subject string, keys int64) (rows []row, others []string) {
	for _, x := range r.rows(ratioMetrics...) {
		if x.keys != keys {
			continue
		}
		any := false
		for _, o := range r.others(subject) {
			if _, ok := r.ratio(subject, o, x); ok {
				any = true
				if !slices.Contains(others, o) {
					others = append(others, o)
				}
			}
		}
		if any {
			rows = append(rows, x)
		}
	}
	// In the order of the stores.
	return rows, slices.DeleteFunc(r.others(subject), func(o string) bool { return !slices.Contains(others, o) })
}

func ratioText(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f×", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f×", v)
	}
	return fmt.Sprintf("%.2f×", v)
}

func (x row) label() string {
	s := x.workload
	if x.metric != "throughput" {
		s += ", " + x.metric
	}
	if x.threads > 0 && x.workload != "load" {
		s += fmt.Sprintf(", %d threads", x.threads)
		if x.threads == 1 {
			s = strings.TrimSuffix(s, "s")
		}
	}
	return s
}

// ratioMetrics are those that the first table has: what a person decides by. Tails and CPU
// time have tables of their own.
var ratioMetrics = []string{"throughput", "writer", "open", "rss", "size", "write amplification"}

var tailMetrics = []string{"p50", "p99", "p99.9"}

// otherMetrics are those of the last table.
var otherMetrics = []string{"cpu", "loaded", "settle", "heap", "off-heap"}

func (r *Report) subjects() (all []string) {
	for _, s := range r.Stores {
		if s.Subject {
			all = append(all, s.Name)
		}
	}
	return all
}

func (r *Report) others(subject string) (all []string) {
	for _, s := range r.Stores {
		if s.Name != subject {
			all = append(all, s.Name)
		}
	}
	return all
}

func (r *Report) storeNames() []string { return r.others("") }

// sizes are the numbers of keys, the least first.
func (r *Report) sizes() (all []int64) {
	for _, m := range r.Measures {
		if m.Keys > 0 && !slices.Contains(all, m.Keys) {
			all = append(all, m.Keys)
		}
	}
	slices.Sort(all)
	return all
}

func count(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// number writes a figure so that its unit fits it.
func number(v float64, unit string) string {
	switch {
	case unit == "bytes":
		return fmt.Sprintf("%.1f MB", v/1e6)
	case unit == "×":
		return fmt.Sprintf("%.2f", v)
	case v >= 1000:
		return count(int64(v + 0.5))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Text writes the report for a terminal: ratios, throughputs and sizes, tails, the rest.
func (r *Report) Text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	p := func(format string, args ...any) { fmt.Fprintf(w, format, args...) }
	p("%s\n%s; %s\n", r.Title, r.Date.Format(time.RFC3339), r.Machine)
	for _, c := range r.Commands {
		p("  %s\n", c)
	}
	for _, f := range r.Failures {
		p("\nFAILED, and left out: %s\n", f)
	}
	if len(r.Measures) == 0 {
		p("\nNothing was measured.\n")
	}
	for _, keys := range r.sizes() {
		at := func(metrics ...string) []row {
			return slices.DeleteFunc(r.rows(metrics...), func(x row) bool { return x.keys != keys })
		}
		for _, subject := range r.subjects() {
			if rows, others := r.compared(subject, keys); len(rows) > 0 {
				p("\n%s keys: %s is so many times better than\n\n\t%s\n", count(keys), subject, strings.Join(others, "\t"))
				for _, x := range rows {
					p("%s", x.label())
					for _, o := range others {
						if v, ok := r.ratio(subject, o, x); ok {
							p("\t%s", ratioText(v))
						} else {
							p("\t-")
						}
					}
					p("\n")
				}
			}
		}
		for _, table := range []struct {
			title   string
			metrics []string
		}{{"throughputs, times to open, sizes", ratioMetrics}, {"latencies", tailMetrics}, {"the rest", otherMetrics}} {
			rows := at(table.metrics...)
			if len(rows) == 0 {
				continue
			}
			p("\n%s keys: %s\n\n\tunit\t%s\n", count(keys), table.title, strings.Join(r.storeNames(), "\t"))
			for _, x := range rows {
				m, _ := FindMetric(x.metric)
				p("%s\t%s", x.label(), strings.Replace(m.Unit, "bytes", "", 1))
				for _, o := range r.storeNames() {
					if v, ok := r.value(o, x); ok {
						p("\t%s", number(v, m.Unit))
					} else {
						p("\t-")
					}
				}
				p("\n")
			}
		}
	}
	p("\n")
	for _, s := range r.Stores {
		p("%s %s: %s\n", s.Name, s.Version, s.Settings)
	}
	for _, n := range r.Notes {
		p("%s\n", n)
	}
	return w.Flush()
}
