package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/flatrock-db/flatrock"

// source is a Go file of the module, for whatever platform it is meant.
type source struct {
	path string // from the root, with slashes
	pkg  string // directory of the package, "" for the root
	text []byte
	file *ast.File
	test bool
}

// root is the directory of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, serr := os.Stat(filepath.Join(dir, "go.mod")); serr == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			err = os.ErrNotExist
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal(err)
	return ""
}

// walk calls visit for each file of the module and of nestedModules: not test data, nor
// what begins with a dot. A nested module that is not listed fails.
func walk(t *testing.T, visit func(name string, text []byte)) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == top {
			return err
		}
		if d.IsDir() {
			_, merr := os.Stat(filepath.Join(p, "go.mod"))
			if rel, err := filepath.Rel(top, p); merr == nil && err == nil && !nestedModules[filepath.ToSlash(rel)] {
				t.Errorf("%s is a module that nestedModules does not list", rel)
				return filepath.SkipDir
			}
			if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(top, p)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(p)
		if err == nil {
			visit(filepath.ToSlash(rel), text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	set := token.NewFileSet()
	walk(t, func(name string, text []byte) {
		if path.Ext(name) != ".go" {
			return
		}
		f, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		pkg := path.Dir(name)
		if pkg == "." {
			pkg = ""
		}
		all = append(all, source{name, pkg, text, f, strings.HasSuffix(name, "_test.go")})
	})
	if len(all) < 50 {
		t.Fatalf("found only %d Go files", len(all))
	}
	return all
}

func (s source) imports() []string {
	var out []string
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

// ours turns an import path of this module into a package's directory.
func ours(imp string) (pkg string, ok bool) {
	if imp == module {
		return "", true
	}
	return strings.CutPrefix(imp, module+"/")
}

func TestImportsPointDown(t *testing.T) {
	all := sources(t)
	seen := map[string]bool{}
	for _, s := range all {
		seen[s.pkg] = true
		policy, known := mayImport[s.pkg]
		if !known {
			t.Errorf("%s: package %q has no line in mayImport", s.path, s.pkg)
			continue
		}
		for _, imp := range s.imports() {
			if why := refused(s, policy, imp); why != "" {
				t.Errorf("%s imports %s: %s", s.path, imp, why)
			}
		}
	}
	for pkg := range mayImport {
		if !seen[pkg] {
			t.Errorf("mayImport has a line for %q, which does not exist", pkg)
		}
	}
}

// refused says why s may not import imp; "" if it may.
func refused(s source, policy, imp string) string {
	if imp == "C" {
		return "no cgo"
	}
	list := strings.Fields(policy)
	pkg, mine := ours(imp)
	switch {
	case mine:
		inTests, reserved := nobodyImports[pkg]
		if reserved && !(inTests && (s.test || nobodyImports[s.pkg])) {
			return "nobody imports that"
		}
		if s.test || policy == anything || slices.Contains(everywhere, pkg) || slices.Contains(list, orRoot(pkg)) {
			return ""
		}
		return "not in mayImport"
	case strings.Contains(strings.Split(imp, "/")[0], "."):
		if s.test || policy == anything || slices.ContainsFunc(list, func(m string) bool { return imp == m || strings.HasPrefix(imp, m+"/") }) {
			return ""
		}
		return "not in mayImport"
	}
	users, guarded := systemPackages[imp]
	if guarded && !s.test && policy != anything && !slices.Contains(strings.Fields(users), orRoot(s.pkg)) {
		return "not in systemPackages"
	}
	return ""
}

func orRoot(pkg string) string {
	if pkg == "" {
		return "<root>"
	}
	return pkg
}

func TestUnsafeStandsWhereItMay(t *testing.T) {
	for _, s := range sources(t) {
		if !slices.Contains(s.imports(), "unsafe") {
			continue
		}
		if !unsafePackages[s.pkg] {
			t.Errorf("%s: package %q may not use unsafe", s.path, s.pkg)
		}
		if name := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test"); !strings.HasSuffix(name, "_unsafe") {
			t.Errorf("%s uses unsafe, and its name does not say so", s.path)
		}
	}
}

func TestPackagesAreDocumentedAndNamed(t *testing.T) {
	docs := map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		docs[s.pkg] = append(docs[s.pkg], "")
		name := s.file.Name.Name
		if slices.Contains(badNames, name) || slices.Contains(badNames, path.Base(s.pkg)) {
			t.Errorf("%s: package %s: a name that says nothing", s.path, name)
		}
		if s.file.Doc == nil {
			continue
		}
		doc := s.file.Doc.Text()
		want := "Package " + name + " "
		if name == "main" {
			want = "" // a command's doc begins with what it is
			if doc == "" {
				continue
			}
		}
		if !strings.HasPrefix(doc, want) {
			t.Errorf("%s: the package's doc begins %.40q, want %q", s.path, doc, want)
		}
		docs[s.pkg] = append(docs[s.pkg], s.path)
	}
	for pkg, files := range docs {
		files = slices.DeleteFunc(files, func(f string) bool { return f == "" })
		if len(files) != 1 {
			t.Errorf("package %q has %d doc comments, want one: %v", pkg, len(files), files)
		}
	}
}

func TestFilesHaveOneSubject(t *testing.T) {
	for _, s := range sources(t) {
		if n := bytes.Count(s.text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, more than %d", s.path, n, maxLines)
		}
		if formatted, err := format.Source(s.text); err != nil || !bytes.Equal(formatted, s.text) {
			t.Errorf("%s is not in gofmt's form (%v)", s.path, err)
		}
	}
}

// leftovers mark unfinished work. The words are put together here so that this file
// passes.
var leftovers = regexp.MustCompile(`\b(FIX` + `ME|TO` + `DO|XX` + `X|HA` + `CK)\b`)

// machinePaths are directories of somebody's machine.
var machinePaths = regexp.MustCompile(`(^|[^\w.])/(home|Users|root|work)/\w`)

func TestNothingIsLeftOver(t *testing.T) {
	walk(t, func(name string, text []byte) {
		if bytes.IndexByte(text, 0) >= 0 || name == ".git" { // a file in a second work tree
			return
		}
		for i, line := range strings.Split(string(text), "\n") {
			at := fmt.Sprintf("%s:%d", name, i+1)
			if m := leftovers.FindString(line); m != "" && path.Ext(name) != ".sum" {
				t.Errorf("%s: %s", at, m)
			}
			if machinePaths.MatchString(line) && name != "internal/house/house_test.go" {
				t.Errorf("%s: a path of one machine: %s", at, strings.TrimSpace(line))
			}
		}
	})
}

// TestRulesNotice feeds the rules what they must refuse.
func TestRulesNotice(t *testing.T) {
	for _, c := range []struct{ pkg, imp string }{
		{"plaintable", module + "/blocktable"},
		{"mmapfs", module},
		{"memtable", "os"},
		{"", module + "/bench"},
		{"internal/keys", "golang.org/x/sys/unix"},
		{"mmapfs", "C"},
		{"compaction", module + "/internal/script"},
	} {
		if refused(source{pkg: c.pkg}, mayImport[c.pkg], c.imp) == "" {
			t.Errorf("package %q may import %s", c.pkg, c.imp)
		}
	}
	for _, c := range []struct{ pkg, imp string }{
		{"plaintable", module + "/internal/block"},
		{"", "os"},
		{"bench", module},
		{"internal/wal", "github.com/klauspost/compress/zstd"},
	} {
		if why := refused(source{pkg: c.pkg}, mayImport[c.pkg], c.imp); why != "" {
			t.Errorf("package %q may not import %s: %s", c.pkg, c.imp, why)
		}
	}
	for _, bad := range []string{"// TO" + "DO: later", "see /ho" + "me/me/x"} {
		if !leftovers.MatchString(bad) && !machinePaths.MatchString(bad) {
			t.Errorf("nothing is wrong with %q", bad)
		}
	}
}

// TestReadmeShowsWhatCompiles holds the Go code in README.md to the examples.
func TestReadmeShowsWhatCompiles(t *testing.T) {
	flat := func(s string) string {
		var b strings.Builder
		for line := range strings.Lines(s) {
			b.WriteString(strings.TrimSpace(line))
			b.WriteByte('\n')
		}
		return b.String()
	}
	files := map[string]string{}
	walk(t, func(name string, text []byte) { files[name] = string(text) })
	examples := flat(files["example_test.go"])
	blocks := strings.Split(files["README.md"], "```go\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("README.md shows no code")
	}
	for _, b := range blocks {
		code, _, _ := strings.Cut(b, "```")
		if !strings.Contains(examples, flat(code)) {
			t.Errorf("README.md shows code that is not in example_test.go:\n%s", code)
		}
	}
}

// TestNestedModulesAreTested: each exists, make knows it, and its dependencies are not the core's.
func TestNestedModulesAreTested(t *testing.T) {
	top := root(t)
	makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	core, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range nestedModules {
		if _, err := os.Stat(filepath.Join(top, filepath.FromSlash(name), "go.mod")); err != nil {
			t.Error(err)
		}
		if !bytes.Contains(makefile, []byte("cd "+name)) {
			t.Errorf("the Makefile does not test %s", name)
		}
	}
	for _, rival := range []string{"pebble", "badger", "goleveldb", "bbolt"} {
		if bytes.Contains(core, []byte(rival)) {
			t.Errorf("go.mod requires %s, which belongs into bench/peers/go.mod", rival)
		}
	}
}

// TestLinksLeadSomewhere checks the relative links of the Markdown files.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	top := root(t)
	walk(t, func(name string, text []byte) {
		if path.Ext(name) != ".md" {
			return
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(top, filepath.FromSlash(path.Dir(name)), filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
	})
}
