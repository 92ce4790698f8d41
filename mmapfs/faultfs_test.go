package mmapfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"testing"
)

// install is what a manifest does: write a file, sync it, and let CURRENT name it.
func install(f FS, n int) error {
	if err := f.MkdirAll("/db"); err != nil {
		return err
	}
	name := fmt.Sprintf("/db/MANIFEST-%06d", n)
	if err := writeSynced(f, name, pattern(3000, uint64(n))); err != nil {
		return err
	}
	if err := f.SyncDir("/db"); err != nil {
		return err
	}
	if err := writeSynced(f, "/db/tmp", []byte(filepath.Base(name))); err != nil {
		return err
	}
	if err := f.Rename("/db/tmp", "/db/CURRENT"); err != nil {
		return err
	}
	return f.SyncDir("/db")
}

func writeSynced(f FS, name string, content []byte) error {
	w, err := f.Create(name)
	if err != nil {
		return err
	}
	_, err = w.Write(content[:len(content)/2])
	if err == nil {
		_, err = w.Write(content[len(content)/2:])
	}
	if err == nil {
		err = w.Sync()
	}
	return errors.Join(err, w.Close())
}

// installed returns which manifest CURRENT names, and checks that it is whole. 0: no CURRENT.
func installed(t *testing.T, f FS) int {
	t.Helper()
	if _, err := f.Stat("/db/CURRENT"); err != nil {
		return 0
	}
	n := 0
	if _, err := fmt.Sscanf(string(readAll(t, f, "/db/CURRENT")), "MANIFEST-%06d", &n); err != nil {
		t.Fatalf("CURRENT says %q", readAll(t, f, "/db/CURRENT"))
	}
	if got := readAll(t, f, fmt.Sprintf("/db/MANIFEST-%06d", n)); !bytes.Equal(got, pattern(3000, uint64(n))) {
		t.Fatalf("manifest %d is damaged", n)
	}
	return n
}

// TestEveryFaultAndCrashOfAnInstall fails each operation of a workload once and for good, and crashes after it: the
// old state or the new one is there, and the new one if success was reported.
func TestEveryFaultAndCrashOfAnInstall(t *testing.T) {
	for _, once := range []bool{true, false} {
		n := 1
		for ; ; n++ {
			mem := NewMem()
			must(t, install(mem, 1))
			f := NewFault(mem)
			f.FailNth(n, OpAll, once)
			err := install(f, 2)
			if (err != nil) != (f.Injected() > 0) {
				t.Fatalf("n %d: %d faults, error %v", n, f.Injected(), err)
			}
			if err != nil && !errors.Is(err, ErrInjected) {
				t.Fatalf("n %d: %v", n, err)
			}
			for seed := range uint64(10) {
				rng := seeded(seed)
				if seed == 0 {
					rng = nil
				}
				got := installed(t, mem.Crash(rng))
				if got != 1 && got != 2 || err == nil && got != 2 {
					t.Fatalf("n %d, error %v: CURRENT names %d after a crash", n, err, got)
				}
			}
			if err == nil {
				break
			}
		}
		if n-1 != 14 { // mkdir, 2×(create, write, write, sync, close), 2×syncdir, rename
			t.Errorf("the workload has %d operations", n-1)
		}
	}
}

// TestACrashBetweenAnyTwoOperations crashes before each operation, by the hook.
func TestACrashBetweenAnyTwoOperations(t *testing.T) {
	mem := NewMem()
	f := NewFault(mem)
	images := 0
	f.SetHook(func(op Op, name string) error {
		for seed := range uint64(10) {
			images++
			if got := installed(t, mem.Crash(seeded(seed))); got > 2 {
				t.Errorf("before %v %s: CURRENT names %d", op, name, got)
			}
		}
		return nil
	})
	must(t, install(f, 1), install(f, 2))
	if images != 2*14*10 {
		t.Errorf("%d images", images)
	}
	if f.Injected() != 0 {
		t.Error("a hook that returns nil injects")
	}
	boom := errors.New("boom")
	f.SetHook(func(op Op, name string) error {
		if op == OpRename && name == "/db/CURRENT" {
			return boom
		}
		return nil
	})
	if err := install(f, 3); !errors.Is(err, boom) || !errors.Is(err, ErrInjected) || f.Injected() != 1 {
		t.Errorf("hook's error became %v", err)
	}
	f.SetHook(nil)
	must(t, install(f, 4))
}

// everyOp does each kind of operation once, and returns the errors by kind.
func everyOp(t *testing.T, f FS, dir string) map[Op]error {
	e := map[Op]error{}
	at := func(name string) string { return filepath.Join(dir, name) }
	e[OpMkdir] = f.MkdirAll(at("sub"))
	w, err := f.Create(at("f"))
	e[OpCreate] = err
	r, err := f.Open(at("there"))
	e[OpOpen] = err
	l, err := f.Lock(at("LOCK"))
	e[OpLock] = err
	e[OpStat] = second(f.Stat(at("there")))
	e[OpList] = second(f.List(dir))
	e[OpFree] = second(f.Free(dir))
	e[OpSyncDir] = f.SyncDir(dir)
	e[OpLink] = f.Link(at("there"), at("link"))
	e[OpRename] = f.Rename(at("there"), at("moved"))
	e[OpRemove] = f.Remove(at("gone"))
	if w != nil {
		e[OpWrite] = second(w.Write([]byte("hello")))
		e[OpSync] = w.Sync()
		e[OpTruncate] = w.Truncate(3)
		e[OpPreallocate] = w.Preallocate(0, 4096)
		mw, err := w.MapWrite(0, 4096)
		e[OpMapWrite] = err
		if err == nil {
			e[OpMappedWrite] = mw.WriteAt([]byte("mapped"), 7)
			must(t, mw.Populate(0, 4096))
			mw.Close()
		}
		e[OpClose] = w.Close()
	}
	if r != nil {
		e[OpRead] = second(r.ReadAt(make([]byte, 1), 0))
		m, err := r.Map(1, MapOptions{})
		e[OpMap] = err
		if err == nil {
			m.Close()
		}
		r.Close()
	}
	if l != nil {
		must(t, l.Close())
	}
	return e
}

func TestEachKindOfOperationCanFail(t *testing.T) {
	for i, name := range opNames {
		op := Op(1) << i
		if op.String() != name {
			t.Errorf("%v is not %s", op, name)
		}
		mem := NewMem()
		must(t, mem.MkdirAll("/db"))
		create(t, mem, "/db/there", []byte("there"))
		create(t, mem, "/db/gone", nil)
		f := NewFault(mem)
		f.FailNth(1, op, false)
		errs := everyOp(t, f, "/db")
		if err := errs[op]; !errors.Is(err, ErrInjected) {
			t.Errorf("%v: %v", op, err)
		}
		for other, err := range errs {
			if other != op && err != nil {
				t.Errorf("%v failed %v: %v", op, other, err)
			}
		}
		if n := f.Count(op); n == 0 || f.Injected() != n {
			t.Errorf("%v: %d operations, %d faults", op, n, f.Injected())
		}
		f.FailNth(0, OpAll, false)
		if f.Injected() != 0 {
			t.Error("FailNth does not reset Injected")
		}
		if op == OpRemove { // the failure removed nothing
			must(t, f.Remove("/db/gone"))
		}
	}
	if s := (OpWrite | OpSync).String(); s != "write|sync" {
		t.Error(s)
	}
}

func TestFailNthCountsOnlyItsKinds(t *testing.T) {
	f := NewFault(NewMem())
	w := create(t, f, "/f", []byte("1"))
	f.FailNth(3, OpWrite|OpSync, true)
	must(t, second(w.Write([]byte("2"))), f.SyncDir("/"), w.Sync())
	if err := w.Sync(); !errors.Is(err, ErrInjected) {
		t.Errorf("third: %v", err)
	}
	must(t, w.Sync(), second(w.Write([]byte("3"))))
	f.FailNth(2, OpWrite, false)
	must(t, second(w.Write([]byte("4"))))
	for range 3 {
		if n, err := w.Write([]byte("lost")); n != 0 || !errors.Is(err, ErrInjected) {
			t.Errorf("for good: %d, %v", n, err)
		}
	}
	must(t, w.Sync())
	f.FailNth(0, 0, false)
	must(t, second(w.Write([]byte("5"))))
	if got := string(readAll(t, f, "/f")); got != "12345" {
		t.Errorf("the file says %s", got)
	}
	if f.Count(OpSync) != 4 || f.Count(OpSyncDir) != 1 || f.Count(OpSync|OpSyncDir) != 5 {
		t.Error("wrong counts")
	}
}

func TestFullDiskWritesWhatFits(t *testing.T) {
	f := NewFault(NewMem())
	w := create(t, f, "/f", []byte("0123456789"))
	f.FailWritesAfter(10)
	if n, err := f.Free("/"); err != nil || n != 10 {
		t.Errorf("free %d, %v", n, err)
	}
	must(t, second(w.WriteAt([]byte("abcde"), 2))) // grows nothing
	must(t, second(w.WriteAt([]byte("fghij"), 8))) // grows by 3
	n, err := w.Write([]byte("0123456789"))
	if n != 7 || !IsNoSpace(err) || !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, ErrInjected) {
		t.Errorf("write on a full disk: %d, %v", n, err)
	}
	if n, err := w.WriteAt([]byte("xyz"), 18); n != 2 || !IsNoSpace(err) {
		t.Errorf("WriteAt over the end: %d, %v", n, err)
	}
	for name, err := range map[string]error{
		"truncate": w.Truncate(21), "preallocate": w.Preallocate(0, 21), "mapwrite": second(w.MapWrite(20, 1)),
	} {
		if !IsNoSpace(err) {
			t.Errorf("%s on a full disk: %v", name, err)
		}
	}
	must(t, w.Truncate(20), w.Preallocate(0, 20), w.Sync())
	if got := string(readAll(t, f, "/f")); got != "01abcde7fghij01234xy" {
		t.Errorf("the file says %s", got)
	}
	f.FailWritesAfter(-1)
	must(t, second(w.Write([]byte("more"))))
}

func TestFaultFSOverTheOS(t *testing.T) {
	dir := t.TempDir()
	must(t, writeSynced(OS, filepath.Join(dir, "there"), []byte("there")), writeSynced(OS, filepath.Join(dir, "gone"), nil))
	f := NewFault(OS)
	for op, err := range everyOp(t, f, dir) {
		if err != nil && !(op == OpMapWrite && errors.Is(err, ErrMapWriteUnsupported)) {
			t.Errorf("%v: %v", op, err)
		}
	}
	if f.Injected() != 0 {
		t.Error("injected without being told")
	}
	r, err := f.Open(filepath.Join(dir, "f"))
	must(t, err)
	defer r.Close()
	f.FailNth(1, OpRead, true)
	if _, err := io.ReadAll(r); !errors.Is(err, ErrInjected) {
		t.Errorf("read: %v", err)
	}
}
