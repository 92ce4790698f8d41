package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestNoTestSleeps: a test waits for the event, not for a time in which it ought to have come: that is
// slow where it does and wrong where it does not. In a bubble of testing/synctest a sleep takes no
// time and ends when all else waits; a benchmark may set a pace.
func TestNoTestSleeps(t *testing.T) {
	seen := false
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, at := range sleeps(s.file) {
			t.Errorf("%s, byte %d: a test sleeps outside of a bubble of testing/synctest", s.path, at-s.file.FileStart)
		}
		seen = seen || s.path == "stall_test.go"
	}
	if !seen {
		t.Error("stall_test.go, which sleeps in bubbles, was not looked at")
	}
}

// sleeps are the places where f calls time.Sleep outside of synctest.Test and benchmarks.
func sleeps(f *ast.File) (found []token.Pos) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if isSelector(n.Fun, "synctest", "Test") {
				return false
			}
		case *ast.FuncDecl:
			for _, p := range n.Type.Params.List {
				if star, ok := p.Type.(*ast.StarExpr); ok && isSelector(star.X, "testing", "B") {
					return false
				}
			}
		case *ast.SelectorExpr: // called, or handed on
			if isSelector(n, "time", "Sleep") {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// TestSleepsAreNoticed feeds the rule what it must find, and what it must not.
func TestSleepsAreNoticed(t *testing.T) {
	const file = `package p
func TestA(t *testing.T) { time.Sleep(1) }
func TestB(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }); go func() { time.Sleep(2) }() }
func TestC(t *testing.T) { wait := time.Sleep; wait(1) }
func BenchmarkD(b *testing.B) { time.Sleep(1) }
func TestE(t *testing.T) { clock.Sleep(1) }
`
	f, err := parser.ParseFile(token.NewFileSet(), "p_test.go", file, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(sleeps(f)); n != 3 {
		t.Errorf("found %d sleeps, want 3", n)
	}
}
