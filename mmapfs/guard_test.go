package mmapfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// realFile writes content to a file of the OS and opens it.
func realFile(t testing.TB, content []byte) (path string, f File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "000007.sst")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := OS.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path, f
}

func mustMap(t testing.TB, f File, size int64, o MapOptions) *Mapping {
	t.Helper()
	m, err := f.Map(size, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func readByte(m *Mapping, i int) (b byte, err error) {
	old := Guard()
	defer Unguard(old, &err)
	return m.Bytes()[i], nil
}

func TestReadBeyondATruncationIsAnErrorWithFileAndOffset(t *testing.T) {
	size := 8 * pageSize
	path, f := realFile(t, make([]byte, size))
	_, g := realFile(t, make([]byte, size))
	m := mustMap(t, f, int64(size), MapOptions{})
	intact := mustMap(t, g, int64(size), MapOptions{})
	if err := os.Truncate(path, int64(2*pageSize)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at    int
		fault bool
	}{{0, false}, {2*pageSize - 1, false}, {2 * pageSize, true}, {5*pageSize + 123, true}, {size - 1, true}} {
		_, err := readByte(m, c.at)
		var fe *FaultError
		switch {
		case !c.fault && err != nil:
			t.Errorf("read at %d: %v", c.at, err)
		case c.fault && (!errors.As(err, &fe) || !errors.Is(err, ErrFault)):
			t.Errorf("read at %d: got %v, want a fault", c.at, err)
		case c.fault && (fe.File != path || fe.Offset != int64(c.at)):
			t.Errorf("read at %d: the error says %s at %d", c.at, fe.File, fe.Offset)
		}
	}
	if _, err := readByte(intact, size-1); err != nil {
		t.Errorf("another mapping suffers: %v", err)
	}
	if old := debug.SetPanicOnFault(false); old {
		t.Error("SetPanicOnFault was left on")
	}

	// Copies (memmove is assembly) fault like loads.
	copyOut := func() (err error) {
		old := Guard()
		defer Unguard(old, &err)
		copy(make([]byte, size), m.Bytes())
		return nil
	}
	var fe *FaultError
	if err := copyOut(); !errors.As(err, &fe) || fe.Offset < int64(2*pageSize) {
		t.Errorf("copy of everything: %v", err)
	}
	// So does the prefault of a later mapping, whether the kernel does it or touching.
	if err := m.populate(MapOptions{}); !errors.Is(err, ErrFault) {
		t.Errorf("populate: %v", err)
	}
	if err := touchPages(m.Bytes()); !errors.Is(err, ErrFault) {
		t.Errorf("touchPages: %v", err)
	}
}

func TestGuardsNest(t *testing.T) {
	size := 2 * pageSize
	path, f := realFile(t, make([]byte, size))
	m := mustMap(t, f, int64(size), MapOptions{})
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	outer := func() (inner, err error) {
		old := Guard()
		defer Unguard(old, &err)
		_, inner = readByte(m, 0)
		touched.Store(uint32(m.Bytes()[pageSize]))
		return inner, nil
	}
	inner, err := outer()
	if !errors.Is(inner, ErrFault) || !errors.Is(err, ErrFault) {
		t.Errorf("inner %v, outer %v: want two faults", inner, err)
	}
}

func TestUnguardLetsOtherPanicsPass(t *testing.T) {
	type node struct{ v int }
	var nilNode *node
	sentinel := errors.New("sentinel")
	for name, do := range map[string]func(){
		"panic":           func() { panic(sentinel) },
		"nil dereference": func() { touched.Store(uint32(nilNode.v)) },
		"index":           func() { s := make([]int, 1); i := 5; touched.Store(uint32(s[i%8])) },
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			recovered := func() (r any) {
				defer func() { r = recover() }()
				old := Guard()
				defer Unguard(old, &err)
				do()
				return nil
			}()
			if recovered == nil || err != nil {
				t.Errorf("panic became %v, error %v", recovered, err)
			}
			if name == "panic" && recovered != any(sentinel) {
				t.Errorf("the panic's value changed: %v", recovered)
			}
			if debug.SetPanicOnFault(false) {
				t.Error("SetPanicOnFault was left on")
			}
		})
	}
}

func TestGuardAllocatesNothing(t *testing.T) {
	_, f := realFile(t, make([]byte, pageSize))
	m := mustMap(t, f, int64(pageSize), MapOptions{})
	var failure error
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := readByte(m, 17); err != nil {
			failure = err
		}
	}); n != 0 || failure != nil {
		t.Errorf("%v allocations a guarded read, error %v", n, failure)
	}
}

func TestRegistryFindsTheRangeOfAnAddress(t *testing.T) {
	var r registry
	mem, err := NewArena(1<<20, ArenaOptions{Name: "registry"})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Free()
	b := mem.Bytes()
	base := addressOf(b)
	cut := func(i int) []byte { return b[i*4096 : i*4096+1000] }
	for _, i := range []int{5, 1, 9, 3, 7} {
		r.add(cut(i), fmt.Sprint(i), int64(i*100))
	}
	r.remove(cut(7))
	for i := range 11 {
		present := i == 1 || i == 3 || i == 5 || i == 9
		for _, delta := range []int{-1, 0, 1, 999, 1000} {
			fe := r.find(base + uintptr(i*4096+delta))
			if want := present && delta >= 0 && delta < 1000; (fe != nil) != want {
				t.Fatalf("range %d, delta %d: found %v", i, delta, fe)
			}
			if fe != nil && (fe.File != fmt.Sprint(i) || fe.Offset != int64(i*100+delta)) {
				t.Fatalf("range %d, delta %d: found %v", i, delta, fe)
			}
		}
	}
}

func BenchmarkGuard(b *testing.B) {
	_, f := realFile(b, make([]byte, pageSize))
	m := mustMap(b, f, int64(pageSize), MapOptions{})
	data := m.Bytes()
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			bareByte(data, 17)
		}
	})
	b.Run("guarded", func(b *testing.B) {
		for b.Loop() {
			readByte(m, 17)
		}
	})
}

//go:noinline
func bareByte(b []byte, i int) (byte, error) { return b[i], nil }
