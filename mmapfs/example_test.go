package mmapfs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// Reading a mapping whose file somebody truncated is an error, not the end of the process.
func ExampleGuard() {
	dir, err := os.MkdirTemp("", "guard")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "000012.sst")
	f, err := mmapfs.OS.Create(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 20); err != nil {
		panic(err)
	}
	m, err := f.Map(1<<20, mmapfs.MapOptions{})
	if err != nil {
		panic(err)
	}
	defer m.Close()

	byteAt := func(i int) (b byte, err error) {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
		return m.Bytes()[i], nil
	}
	fmt.Println(byteAt(500_000))
	if err := f.Truncate(0); err != nil {
		panic(err)
	}
	_, err = byteAt(500_000)
	var fault *mmapfs.FaultError
	if errors.As(err, &fault) {
		fmt.Println("fault in", filepath.Base(fault.File), "at", fault.Offset)
	}
	// Output:
	// 0 <nil>
	// fault in 000012.sst at 500000
}

// Offsets into an arena stay valid as it grows, and it costs the garbage collector nothing.
func ExampleArena() {
	a, err := mmapfs.NewArena(64<<20, mmapfs.ArenaOptions{HugePages: true, Name: "memtable"})
	if err != nil {
		panic(err)
	}
	defer a.Free()
	off, ok := a.Alloc(5, 8)
	if !ok {
		panic("full")
	}
	copy(a.Bytes()[off:], "hello")
	fmt.Printf("%s\n", a.Bytes()[off:off+5])
	// Output: hello
}

// A crash keeps what was synced; a nil source of randomness keeps nothing else.
func ExampleMemFS_Crash() {
	m := mmapfs.NewMem()
	f, err := m.Create("/000003.log")
	if err != nil {
		panic(err)
	}
	f.Write([]byte("synced"))
	if err := errors.Join(f.Sync(), m.SyncDir("/")); err != nil {
		panic(err)
	}
	f.Write([]byte(" and lost"))

	survivor, err := m.Crash(nil).Open("/000003.log")
	if err != nil {
		panic(err)
	}
	b := make([]byte, 100)
	n, _ := survivor.Read(b)
	fmt.Printf("%s\n", b[:n])
	// Output: synced
}

// The workload meets every fault once.
func ExampleFaultFS() {
	workload := func(fs mmapfs.FS) error {
		f, err := fs.Create("/000003.log")
		if err != nil {
			return err
		}
		_, err = f.Write([]byte("record"))
		return errors.Join(err, f.Close())
	}
	for n := 1; ; n++ {
		f := mmapfs.NewFault(mmapfs.NewMem())
		f.FailNth(n, mmapfs.OpAll, true)
		err := workload(f)
		if f.Injected() == 0 {
			fmt.Println("done:", err)
			return
		}
		fmt.Println(err)
	}
	// Output:
	// create /000003.log: mmapfs: injected fault
	// write /000003.log: mmapfs: injected fault
	// close /000003.log: mmapfs: injected fault
	// done: <nil>
}
