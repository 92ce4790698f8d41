// Command fuzz runs every fuzz target of the module for a moment, one after the
// other, and says in a line how each went. It stops at the first that fails.
//
//	go run ./internal/house/fuzz [-time 3s | -total 10m] [packages]
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	each := flag.Duration("time", 3*time.Second, "how long each target runs")
	total := flag.Duration("total", 0, "how long all targets run together; 0: as -time says")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	if err := run(*each, *total, packages); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// target is a fuzz function.
type target struct{ pkg, dir, name string }

func run(each, total time.Duration, packages []string) error {
	targets, err := find(packages)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return fmt.Errorf("no fuzz targets in %v", packages)
	}
	if total > 0 {
		each = max(time.Second, total/time.Duration(len(targets)))
	}
	tmp, err := os.MkdirTemp("", "flatrock-fuzz-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	start := time.Now()
	binary, built := filepath.Join(tmp, "fuzz.test"), ""
	for _, t := range targets {
		if built != t.pkg { // one build for all targets of a package
			if out, err := exec.Command("go", "test", "-c", "-fuzz=.", "-o", binary, t.pkg).CombinedOutput(); err != nil {
				return fmt.Errorf("building %s: %w\n%s", t.pkg, err, out)
			}
			built = t.pkg
		}
		if err := t.run(binary, filepath.Join(tmp, "corpus"), each); err != nil {
			return err
		}
	}
	fmt.Printf("%d fuzz targets passed in %s\n", len(targets), time.Since(start).Round(time.Second))
	return nil
}

// find lists the targets by their declarations, without building anything.
func find(packages []string) ([]target, error) {
	args := append([]string{"list", "-f", "{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}}\t{{$p.Dir}}\t{{.}}\n{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}}\t{{$p.Dir}}\t{{.}}\n{{end}}"}, packages...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	declaration := regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\)`)
	var targets []target
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 3 {
			continue
		}
		text, err := os.ReadFile(filepath.Join(f[1], f[2]))
		if err != nil {
			return nil, err
		}
		for _, m := range declaration.FindAllSubmatch(text, -1) {
			targets = append(targets, target{f[0], f[1], string(m[1])})
		}
	}
	return targets, nil
}

// run runs the target in its package's directory, where its seeds are.
func (t target) run(binary, corpus string, each time.Duration) error {
	cmd := exec.Command(binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+each.String(), "-test.fuzzcachedir="+corpus,
		"-test.fuzzminimizetime=1s", "-test.paniconexit0")
	cmd.Dir = t.dir
	out, err := cmd.CombinedOutput()
	if err != nil && !outOfTime(out) {
		return fmt.Errorf("%s in %s: %w\n%s", t.name, t.pkg, err, out)
	}
	short := t.pkg[strings.LastIndex(t.pkg, "/")+1:]
	fmt.Printf("%-35s %s\n", short+"."+t.name, summary(out))
	return nil
}

// outOfTime reports whether a target failed only because its time was over: the
// fuzzer at times says so when a worker is in the middle of an input, and names no
// input then.
func outOfTime(out []byte) bool {
	_, failure, failed := bytes.Cut(out, []byte("--- FAIL: "))
	lines := bytes.Split(bytes.TrimSpace(failure), []byte("\n"))
	return failed && len(lines) >= 2 && string(bytes.TrimSpace(lines[1])) == "context deadline exceeded" && !bytes.Contains(out, []byte("Failing input"))
}

// summary is the last line of the fuzzer's report.
func summary(out []byte) string {
	last := "no report"
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if _, report, ok := strings.Cut(lines.Text(), "fuzz: "); ok {
			last = report
		}
	}
	return last
}
