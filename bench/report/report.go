// Package report is what a comparison of stores found, as data (JSON), as text for a
// terminal, and as one HTML page that needs nothing but itself. bench/compare, bench/peers
// and bench/experiment fill it.
package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Report is one comparison, or several of the same machine merged.
type Report struct {
	Title     string
	Date      time.Time
	Machine   Machine
	Commands  []string // that made it, as they were typed
	Stores    []Store  // in the order of the tables
	Workloads []Workload
	Measures  []Measure
	Failures  []string `json:",omitempty"` // of stores that are left out
	Notes     []string // what a reader has to know to read the figures right
}

// Machine is where it ran.
type Machine struct {
	OS, Kernel, CPU string
	CPUs            int
	MemoryBytes     int64
	Go              string
	FileSystem      string // of the databases
}

// Store is a column of the tables.
type Store struct {
	Name, Version, Settings string
	Subject                 bool // ratios are this one's, over each of the others
}

// ByFlags is the setting of the programs that bench/compare and bench/experiment run with one
// command line: their reports can be merged.
const ByFlags = "the flags of the experiment that the workload says"

// FlatrockByFlags and RocksDBByFlags are these programs.
func FlatrockByFlags(name, version string) Store {
	return Store{Name: name, Version: version, Settings: ByFlags, Subject: true}
}

func RocksDBByFlags(version string) Store {
	return Store{Name: "RocksDB", Version: version, Settings: ByFlags + "; Debian's build has assertions on, and is about 1.5 times slower than a release build"}
}

// Workload is a row, or a chart.
type Workload struct{ Name, About string }

// Measure is what a store did in a workload: a sample a round.
type Measure struct {
	Store, Workload string
	Metric          string // one of Metrics
	Threads         int    // zero where that says nothing
	Keys            int64
	Samples         []float64
}

// Metric says how to read a figure.
type Metric struct {
	Name, Unit, About string
	More              bool // more is better
}

// Metrics that a report knows.
var Metrics = []Metric{
	{"throughput", "ops/s", "operations a second", true},
	{"p50", "µs", "half of the operations took at most this", false},
	{"p99", "µs", "99 of 100 operations took at most this", false},
	{"p99.9", "µs", "999 of 1,000 operations took at most this", false},
	{"cpu", "µs", "CPU time of the process, user and system, an operation", false},
	{"writer", "ops/s", "what the paced writer beside the readers kept", true},
	{"open", "ms", "from the call that opens to the first value read", false},
	{"loaded", "ms", "from the call that opens until all files are in memory", false},
	{"settle", "ms", "flush and compaction after the load", false},
	{"rss", "bytes", "resident memory of the process, mapped files included", false},
	{"heap", "bytes", "live Go heap", false},
	{"off-heap", "bytes", "resident memory that is not the Go runtime's", false},
	{"size", "bytes", "disk blocks of the database", false},
	{"write amplification", "×", "bytes written to files for each byte of keys and values", false},
}

// FindMetric returns a metric by name.
func FindMetric(name string) (Metric, bool) {
	i := slices.IndexFunc(Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return Metrics[i], true
}

// Check says what is wrong with r: a measure of an unknown store, workload or metric, a
// sample that is no number, the same measure twice.
func (r *Report) Check() error {
	stores, workloads := map[string]bool{}, map[string]bool{}
	for _, s := range r.Stores {
		if s.Name == "" || stores[s.Name] {
			return fmt.Errorf("store %q is there twice, or has no name", s.Name)
		}
		stores[s.Name] = true
	}
	for _, w := range r.Workloads {
		if w.Name == "" || workloads[w.Name] {
			return fmt.Errorf("workload %q is there twice, or has no name", w.Name)
		}
		workloads[w.Name] = true
	}
	seen := map[place]bool{}
	for i, m := range r.Measures {
		_, known := FindMetric(m.Metric)
		switch {
		case !stores[m.Store]:
			return fmt.Errorf("measure %d is of store %q, which is not listed", i, m.Store)
		case !workloads[m.Workload]:
			return fmt.Errorf("measure %d is of workload %q, which is not listed", i, m.Workload)
		case !known:
			return fmt.Errorf("measure %d has the metric %q, which nobody knows", i, m.Metric)
		case seen[m.place()]:
			return fmt.Errorf("measure %d (%v) is there twice", i, m.place())
		case m.Threads < 0 || m.Keys < 0:
			return fmt.Errorf("measure %d has %d threads and %d keys", i, m.Threads, m.Keys)
		case len(m.Samples) == 0:
			return fmt.Errorf("measure %d (%v) has no samples", i, m.place())
		}
		for _, v := range m.Samples {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				return fmt.Errorf("measure %d (%v) has the sample %v", i, m.place(), v)
			}
		}
		seen[m.place()] = true
	}
	return nil
}

// place is what a measure is about.
type place struct {
	store, workload, metric string
	threads                 int
	keys                    int64
}

func (m Measure) place() place { return place{m.Store, m.Workload, m.Metric, m.Threads, m.Keys} }

// Add adds a sample.
func (r *Report) Add(store, workload, metric string, threads int, keys int64, sample float64) {
	p := place{store, workload, metric, threads, keys}
	i := slices.IndexFunc(r.Measures, func(m Measure) bool { return m.place() == p })
	if i < 0 {
		r.Measures = append(r.Measures, Measure{Store: store, Workload: workload, Metric: metric, Threads: threads, Keys: keys})
		i = len(r.Measures) - 1
	}
	r.Measures[i].Samples = append(r.Measures[i].Samples, sample)
}

// Fail leaves a store out, with all that it did, and says why.
func (r *Report) Fail(store string, err error) {
	r.Failures = append(r.Failures, err.Error())
	r.Stores = slices.DeleteFunc(r.Stores, func(s Store) bool { return s.Name == store })
	r.Measures = slices.DeleteFunc(r.Measures, func(m Measure) bool { return m.Store == store })
}

// Samples are those of one measure, none if there is no such measure.
func (r *Report) Samples(store, workload, metric string, threads int, keys int64) []float64 {
	p := place{store, workload, metric, threads, keys}
	i := slices.IndexFunc(r.Measures, func(m Measure) bool { return m.place() == p })
	if i < 0 {
		return nil
	}
	return r.Measures[i].Samples
}

// Merge adds what another report of the same machine found. Samples of the same measure
// join; a store that is set up differently is an error.
func (r *Report) Merge(o *Report) error {
	if r.Machine.CPU != o.Machine.CPU || r.Machine.CPUs != o.Machine.CPUs || r.Machine.MemoryBytes != o.Machine.MemoryBytes {
		return fmt.Errorf("reports of two machines: %s and %s", r.Machine, o.Machine)
	}
	for _, s := range o.Stores {
		i := slices.IndexFunc(r.Stores, func(x Store) bool { return x.Name == s.Name })
		switch {
		case i < 0:
			r.Stores = append(r.Stores, s)
		case r.Stores[i] != s:
			return fmt.Errorf("store %s has two versions or settings: %+v and %+v", s.Name, r.Stores[i], s)
		}
	}
	for _, w := range o.Workloads {
		if !slices.ContainsFunc(r.Workloads, func(x Workload) bool { return x.Name == w.Name }) {
			r.Workloads = append(r.Workloads, w)
		}
	}
	for _, m := range o.Measures {
		for _, v := range m.Samples {
			r.Add(m.Store, m.Workload, m.Metric, m.Threads, m.Keys, v)
		}
	}
	if o.Date.After(r.Date) {
		r.Date = o.Date
	}
	r.Commands = append(r.Commands, o.Commands...)
	r.Failures = append(r.Failures, o.Failures...)
	for _, n := range o.Notes {
		if !slices.Contains(r.Notes, n) {
			r.Notes = append(r.Notes, n)
		}
	}
	return nil
}

// Read reads reports from JSON and merges them.
func Read(files ...string) (*Report, error) {
	var all *Report
	for _, name := range files {
		r, err := readFile(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if all == nil {
			all = r
		} else if err := all.Merge(r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if all == nil {
		return nil, errors.New("no report given")
	}
	return all, nil
}

func readFile(name string) (*Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Decode(f)
}

// Decode reads one report from JSON and checks it.
func Decode(in io.Reader) (*Report, error) {
	d := json.NewDecoder(bufio.NewReader(in))
	d.DisallowUnknownFields()
	r := new(Report)
	if err := d.Decode(r); err != nil {
		return nil, err
	}
	return r, r.Check()
}

// Encode writes JSON.
func (r *Report) Encode(out io.Writer) error {
	if err := r.Check(); err != nil {
		return err
	}
	e := json.NewEncoder(out)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// WriteFiles writes the report as JSON and as a page, each where a name is given.
func (r *Report) WriteFiles(json, html string) error {
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{{json, r.Encode}, {html, r.HTML}} {
		if f.name == "" {
			continue
		}
		var b bytes.Buffer
		if err := f.write(&b); err != nil {
			return err
		}
		if err := os.WriteFile(f.name, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Median of samples, zero of none.
func Median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 0:
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[n/2]
}

// DescribeMachine asks the system what it is; dir is where the databases lie.
func DescribeMachine(dir string) Machine {
	m := Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if text, err := os.ReadFile("/etc/os-release"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "PRETTY_NAME=\""); ok {
			name, _, _ := strings.Cut(rest, "\"")
			m.OS = name + ", " + m.OS
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			m.CPU = strings.TrimSpace(strings.TrimLeft(line, "\t :"))
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int64
		if n, _ := fmt.Sscanf(string(text), "MemTotal: %d kB", &kb); n == 1 {
			m.MemoryBytes = kb << 10
		}
	}
	if out, err := exec.Command("stat", "-f", "-c", "%T", dir).Output(); err == nil {
		m.FileSystem = strings.TrimSpace(string(out))
	}
	return m
}

func (m Machine) String() string {
	var parts []string
	add := func(format string, v any, is bool) {
		if is {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add("%v", m.CPU, m.CPU != "")
	add("%d CPUs", m.CPUs, m.CPUs > 0)
	add("%.1f GiB of memory", float64(m.MemoryBytes)/(1<<30), m.MemoryBytes > 0)
	add("%v", m.OS, m.OS != "")
	add("kernel %v", m.Kernel, m.Kernel != "")
	add("%v", m.Go, m.Go != "")
	add("databases on %v", m.FileSystem, m.FileSystem != "")
	if len(parts) == 0 {
		return "not described"
	}
	return strings.Join(parts, "; ")
}
