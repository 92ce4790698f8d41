package optionsfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

func sample(buffer string) *File {
	f := New("7.8.3")
	f.Add(TitleDB, "").Set("create_if_missing", "true")
	f.Add(TitleFamily, DefaultFamily).Set("write_buffer_size", buffer)
	return f
}

func bufferOf(f *File) string {
	o, _ := f.Family(DefaultFamily).Lookup("write_buffer_size")
	return o.Value
}

func TestLatestIgnoresOtherNames(t *testing.T) {
	fsys := mmapfs.NewMem()
	if _, err := Latest(fsys, "."); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no options files found") {
		t.Fatalf("%v", err)
	}
	for _, name := range []string{"OPTIONS-000007", "OPTIONS-1000000", "OPTIONS-2000000.dbtmp", "OPTIONS-", "OPTIONS-x", "OPTIONS-+3000000", "OPTIONS-3000000x", "MANIFEST-4000000"} {
		f, err := fsys.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if n, err := Latest(fsys, "."); n != 1000000 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
}

func TestPruneKeepsTheTwoNewest(t *testing.T) {
	fsys := mmapfs.NewMem()
	for n := uint64(1); n <= 5; n++ {
		if err := Write(fsys, ".", n*3, sample(fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
		f, number, err := LoadLatest(fsys, ".")
		if err != nil || number != n*3 || bufferOf(f) != fmt.Sprint(n) {
			t.Fatalf("%d %v", number, err)
		}
	}
	if err := Prune(fsys, "."); err != nil {
		t.Fatal(err)
	}
	names, err := fsys.List(".")
	if err != nil || !slices.Equal(names, []string{"OPTIONS-000012", "OPTIONS-000015"}) {
		t.Fatalf("%q %v", names, err)
	}
}

func TestWriteRefusesWhatWouldNotReadBack(t *testing.T) {
	fsys := mmapfs.NewMem()
	for _, value := range []string{"1\n  evil=2", " 1", "1 # comment", "1\n[DBOptions]"} {
		err := Write(fsys, ".", 9, sample(value))
		var at *SyntaxError
		if !errors.As(err, &at) {
			t.Errorf("%q: %v", value, err)
		}
	}
	if names, err := fsys.List("."); err != nil || len(names) != 0 {
		t.Fatalf("left behind: %q %v", names, err)
	}
}

// TestEveryFailureOfWriteKeepsAnOldOrANewFile fails each operation in turn and
// crashes after it.
func TestEveryFailureOfWriteKeepsAnOldOrANewFile(t *testing.T) {
	for n := 1; ; n++ {
		mem := mmapfs.NewMem()
		for i := uint64(1); i <= 2; i++ {
			if err := Write(mem, ".", i, sample(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		fault := mmapfs.NewFault(mem)
		fault.FailNth(n, mmapfs.OpAll, true)
		err := Write(fault, ".", 3, sample("3"))
		if fault.Injected() == 0 {
			if err != nil || n < 8 {
				t.Fatalf("%d operations, %v", n, err)
			}
			return
		}
		if err != nil && !errors.Is(err, mmapfs.ErrInjected) {
			t.Fatalf("operation %d: %v", n, err)
		}
		for seed := range uint64(12) {
			f, number, lerr := LoadLatest(mem.Crash(rand.New(rand.NewPCG(seed, 0))), ".")
			if lerr != nil || bufferOf(f) != fmt.Sprint(number) || number < 2 || err == nil && number != 3 {
				t.Fatalf("operation %d, crash seed %d: Write said %v; found %d, %v", n, seed, err, number, lerr)
			}
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	fsys := mmapfs.NewMem()
	f, err := fsys.Create(filepath.Join(".", "OPTIONS-000004"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("[DBOptions]\nnonsense\n")); err != nil {
		t.Fatal(err)
	}
	f.Close()
	_, _, err = LoadLatest(fsys, ".")
	if err == nil || !strings.HasPrefix(err.Error(), "OPTIONS-000004: line 2:") {
		t.Fatalf("%v", err)
	}
	if _, err := Load(fsys, ".", 5); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v", err)
	}
}
