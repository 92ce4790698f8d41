package program

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Lines are lines of output of db_bench or of our driver, which prints the same.
type Lines []string

// Result is what the line of a benchmark says.
type Result struct {
	Micros, OpsPerSecond, Seconds float64 // Micros an operation
	MBPerSecond                   float64 // of 2^20 bytes; zero where the line does not say
	Operations                    int64
	Found, Read                   int64   // zero where the line does not say
	P50, P99, P999                float64 // microseconds, with --histogram; zero without
}

// resultFormat takes digits only, so that what it finds are numbers.
var (
	resultFormat      = regexp.MustCompile(`^(\S+)\s*:\s*([\d.]+) micros/op (\d+) ops/sec ([\d.]+) seconds (\d+) operations;(?:\s+([\d.]+) MB/s)?(?:.*\((\d+) of (\d+) found\))?`)
	percentilesFormat = regexp.MustCompile(`^Percentiles: P50: ([\d.]+) P75: [\d.]+ P99: ([\d.]+) P99.9: ([\d.]+)`)
	averageFormat     = regexp.MustCompile(`^(\S+) \[AVG\s+(\d+) runs\]\s*:\s*(\d+)`)
)

// All are the results of a benchmark, more than one after [X…]. Percentiles are the first behind
// the line and before that of the next benchmark: a read's, if there is a writer, too.
func (l Lines) All(benchmark string) (all []Result) {
	mine := false // the last line of a benchmark was this one's
	for _, text := range l {
		text = strings.TrimSpace(text)
		if m := resultFormat.FindStringSubmatch(text); m != nil {
			if mine = m[1] == benchmark; mine {
				all = append(all, Result{
					Micros: decimal(m[2]), OpsPerSecond: decimal(m[3]), Seconds: decimal(m[4]),
					Operations: integer(m[5]), MBPerSecond: decimal(m[6]), Found: integer(m[7]), Read: integer(m[8]),
				})
			}
		} else if m := percentilesFormat.FindStringSubmatch(text); m != nil && mine {
			r := &all[len(all)-1]
			r.P50, r.P99, r.P999 = decimal(m[1]), decimal(m[2]), decimal(m[3])
			mine = false
		}
	}
	return all
}

// First is the first result of a benchmark.
func (l Lines) First(benchmark string) (Result, error) {
	all, err := l.some(benchmark)
	if err != nil {
		return Result{}, err
	}
	return all[0], nil
}

// Last is the last result of a benchmark.
func (l Lines) Last(benchmark string) (Result, error) {
	all, err := l.some(benchmark)
	if err != nil {
		return Result{}, err
	}
	return all[len(all)-1], nil
}

func (l Lines) some(benchmark string) ([]Result, error) {
	all := l.All(benchmark)
	if len(all) == 0 {
		return nil, fmt.Errorf("expected a line of %s, got:\n%s", benchmark, LastLines(strings.Join(l, "\n")))
	}
	return all, nil
}

// Average is the last average that was printed for a benchmark after [X…], of so many runs.
func (l Lines) Average(benchmark string) (opsPerSecond float64, runs int, ok bool) {
	for _, text := range l {
		if m := averageFormat.FindStringSubmatch(text); m != nil && m[1] == benchmark {
			runs, opsPerSecond, ok = int(integer(m[2])), decimal(m[3]), true
		}
	}
	return opsPerSecond, runs, ok
}

// Timing reads a line "name:  1.234 milliseconds". The last one counts.
func (l Lines) Timing(name string) (ms float64, ok bool) {
	for _, text := range l {
		rest, has := strings.CutPrefix(text, name+":")
		f := strings.Fields(rest)
		if has && len(f) == 2 && f[1] == "milliseconds" {
			if v, err := strconv.ParseFloat(f[0], 64); err == nil {
				ms, ok = v, true
			}
		}
	}
	return ms, ok
}

// Statistic is a value of a line of --statistics: its COUNT, or a percentile such as P99.
func (l Lines) Statistic(name, value string) (float64, error) {
	format := regexp.MustCompile(`^` + regexp.QuoteMeta(name) + ` .*\b` + regexp.QuoteMeta(value) + ` : ([\d.]+)`)
	for _, text := range l {
		if m := format.FindStringSubmatch(text); m != nil {
			return strconv.ParseFloat(m[1], 64)
		}
	}
	return 0, fmt.Errorf("expected a statistic %s with %s", name, value)
}

// Levels are the tables that levelstats printed: the numbers of files by level.
func (l Lines) Levels() (tables [][]int) {
	inside := false
	for i, text := range l {
		f := strings.Fields(text)
		if i > 0 && strings.HasPrefix(l[i-1], "Level Files Size(MB)") {
			inside = true // this line is a rule
			tables = append(tables, nil)
			continue
		}
		if inside = inside && len(f) == 3; !inside {
			continue
		}
		level, err := strconv.Atoi(f[0])
		last := &tables[len(tables)-1]
		files, err2 := strconv.Atoi(f[1])
		if err != nil || err2 != nil || level != len(*last) {
			inside = false
			continue
		}
		*last = append(*last, files)
	}
	return tables
}

// decimal and integer are zero for a part that is not there.
func decimal(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64)
	return v
}

func integer(s string) int64 {
	v, _ := strconv.ParseInt(s, 10, 64)
	return v
}
