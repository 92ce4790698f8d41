package flatrock

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// operations are the types whose exported methods are what a program does with a database.
var operations = []any{&DB{}, &ColumnFamily{}, &Snapshot{}, &Iterator{}, &Batch{}, &IndexedBatch{}, &UpdatesIterator{}, &UpdateBatch{},
	&SstFileWriter{}, &SstFileReader{}, &PinnedValue{}, &BackupEngine{}}

// randomTests are the files whose operations are drawn at random and compared with a model: TestModel and
// the harnesses of flatrock stress.
var randomTests = []string{"model*_test.go", "internal/stress/*.go"}

// elsewhere are operations that none of them makes, and why.
var elsewhere = map[string]string{
	"DB.StartTrace":                          "records what programs do, and changes nothing: querytrace_test.go compares whole traces",
	"DB.EndTrace":                            "see StartTrace",
	"DB.NewReplayer":                         "replays a trace: its test compares two databases",
	"DB.BlockCacheTrace":                     "describes a trace; internal/stress starts and ends them",
	"BackupEngine.DeleteBackup":              "PurgeOldBackups calls it",
	"BackupEngine.RestoreDBFromLatestBackup": "RestoreDBFromBackup of the last one",
	"SstFileWriter.FileSize":                 "externalOf (ingest_test.go) asks, which makes the files that TestModel ingests",
}

// callsIn collects the names of methods that files call. Files of harnesses are not their tests.
func callsIn(t *testing.T, patterns []string) map[string]bool {
	calls := map[string]bool{}
	for _, p := range patterns {
		files, err := filepath.Glob(p)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", p, files, err)
		}
		for _, file := range files {
			if strings.HasPrefix(p, "internal/") && strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok { // called, or passed on as cf.NewIterator is
					calls[s.Sel.Name] = true
				}
				return true
			})
		}
	}
	return calls
}

// TestOperationsAreDrawn: whoever adds an operation lets a random test make it and compare the outcome, or says
// here why none does. It goes by names, so a method is found if another type's of its name is called.
func TestOperationsAreDrawn(t *testing.T) {
	calls := callsIn(t, randomTests)
	unknown := maps.Clone(elsewhere)
	for _, o := range operations {
		typ := reflect.TypeOf(o)
		for i := range typ.NumMethod() {
			method := typ.Method(i).Name
			name := typ.Elem().Name() + "." + method
			switch why := elsewhere[name]; {
			case !calls[method] && why == "":
				t.Errorf("%s is in no random test", name)
			case calls[method] && why != "":
				t.Errorf("%s is in a random test by now", name)
			}
			delete(unknown, name)
		}
	}
	if len(unknown) > 0 {
		t.Errorf("there is no %q", slices.Sorted(maps.Keys(unknown)))
	}
}
