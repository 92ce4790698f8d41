// Package script runs test scripts: a command a paragraph, and below four dashes
// the text that it must print.
//
//	pick base=64KiB          command and arguments: key=value, or words
//	first line of input      lines up to the dashes are its input
//	----
//	expected output          up to an empty line
//
// Lines that start with # between paragraphs are comments. With the test flag
// -rewrite the expected text is replaced by what came out; read the diff then.
package script

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "replace the expected output of test scripts by the actual one")

// Command is one paragraph.
type Command struct {
	Name  string
	Args  []string // all words after the name
	Input []string // lines
	Where string   // file:line
}

// Arg returns the value of the argument name=value, or fallback.
func (c *Command) Arg(name, fallback string) string {
	for _, a := range c.Args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v
		}
	}
	return fallback
}

// Has reports whether word is among the arguments.
func (c *Command) Has(word string) bool {
	for _, a := range c.Args {
		if a == word {
			return true
		}
	}
	return false
}

// Run runs each file that matches pattern as a subtest. start is called once a
// file and returns what executes its commands.
func Run(t *testing.T, pattern string, start func(t *testing.T) func(c *Command) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts match %s (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			runFile(t, file, start(t))
		})
	}
}

func runFile(t *testing.T, file string, execute func(c *Command) string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		if line == "" || strings.HasPrefix(line, "#") {
			out.WriteString(line + "\n")
			i++
			continue
		}
		words := strings.Fields(line)
		c := &Command{Name: words[0], Args: words[1:], Where: filepath.Base(file) + ":" + strconv.Itoa(i+1)}
		out.WriteString(line + "\n")
		for i++; i < len(lines) && lines[i] != "----"; i++ {
			c.Input = append(c.Input, lines[i])
			out.WriteString(lines[i] + "\n")
		}
		var want []string
		for i++; i < len(lines) && lines[i] != ""; i++ {
			want = append(want, lines[i])
		}
		got := strings.TrimRight(execute(c), "\n")
		out.WriteString("----\n")
		if got != "" {
			out.WriteString(got + "\n")
		}
		if expected := strings.Join(want, "\n"); got != expected && !*rewrite {
			t.Errorf("%s: %s\n got:\n%s\nwant:\n%s", c.Where, line, got, expected)
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
