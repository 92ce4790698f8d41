package main

import (
	"errors"
	"fmt"
	"strings"
)

// judge reads a console: each program's listed tests must have passed between its
// begin and end lines, none skipped, and the guest must have come to its end.
func judge(console string, tests []built) (passed int, err error) {
	var problems []error
	if why := lineAfter(console, "vmtest: guest failed: "); why != "" {
		problems = append(problems, errors.New("guest: "+why))
	} else if !strings.Contains(console, "\nvmtest: done\n") {
		problems = append(problems, errors.New("the guest did not come to its end (a kernel panic, or out of memory?)"))
	}
	for _, t := range tests {
		_, rest, begun := strings.Cut(console, "vmtest: begin "+t.name+"\n")
		if !begun {
			problems = append(problems, fmt.Errorf("%s: did not begin", t.name))
			continue
		}
		output, rest, ended := strings.Cut(rest, "vmtest: end "+t.name+" exit ")
		code, _, _ := strings.Cut(rest, "\n")
		if !ended || code != "0" {
			problems = append(problems, fmt.Errorf("%s: failed (exit %q)", t.name, code))
		}
		results := resultsOf(output)
		var unfinished []string
		for _, name := range t.tests {
			switch results[name] {
			case "PASS":
				passed++
			case "":
				unfinished = append(unfinished, name)
			default:
				problems = append(problems, fmt.Errorf("%s: %s: %s", t.name, name, results[name]))
			}
		}
		if len(unfinished) > 0 {
			problems = append(problems, fmt.Errorf("%s: %d tests did not finish, the first %s", t.name, len(unfinished), unfinished[0]))
		}
	}
	return passed, errors.Join(problems...)
}

// resultsOf reads "--- PASS: TestX (0.01s)" lines of tests, not of subtests. A
// test's own output without a newline may come before the dashes.
func resultsOf(output string) map[string]string {
	results := map[string]string{}
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, " ") {
			continue
		}
		_, rest, ok := strings.Cut(line, "--- ")
		if !ok {
			continue
		}
		verdict, rest, ok := strings.Cut(rest, ": ")
		name, _, ok2 := strings.Cut(rest, " (")
		if ok && ok2 && (verdict == "PASS" || verdict == "FAIL" || verdict == "SKIP") {
			results[name] = verdict
		}
	}
	return results
}

func lineAfter(text, prefix string) string {
	_, rest, ok := strings.Cut(text, prefix)
	if !ok {
		return ""
	}
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// noteworthy drops the lines about tests that begin or pass.
func noteworthy(console string) string {
	var kept strings.Builder
	for line := range strings.Lines(console) {
		if !strings.HasPrefix(line, "=== ") && !strings.Contains(line, "--- PASS: ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// treeOf is the dump between the guest's two lines.
func treeOf(console string) (string, error) {
	_, rest, begun := strings.Cut(console, "vmtest: tree\n")
	tree, _, ended := strings.Cut(rest, "vmtest: end of tree")
	if !begun || !ended {
		return "", fmt.Errorf("no whole tree\n%s", lastLines(console, 40))
	}
	return tree, nil
}
