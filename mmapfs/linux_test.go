//go:build linux

package mmapfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// smallTmpfs mounts a file system of size bytes, if we may.
func smallTmpfs(t *testing.T, size int64) (dir string, ok bool) {
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Logf("no tmpfs of our own (%v): a full disk is only injected", err)
		return "", false
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir, true
}

// TestLockErrorNamesTheLimit takes away this thread's right to lock without limit, and lowers the limit.
func TestLockErrorNamesTheLimit(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	without := caps
	without[unix.CAP_IPC_LOCK/32].Effective &^= 1 << (unix.CAP_IPC_LOCK % 32)
	if err := unix.Capset(&header, &without[0]); err != nil {
		t.Fatal(err)
	}
	defer unix.Capset(&header, &caps[0])
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 65536, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit)

	path, f := realFile(t, make([]byte, 1<<20))
	before := OffHeap()
	m, err := f.Map(1<<20, MapOptions{Memory: MemoryLock})
	if err == nil {
		m.Close()
		t.Fatal("locked 1 MiB with a limit of 64 KiB")
	}
	if !errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EAGAIN) {
		t.Errorf("cause: %v", err)
	}
	for _, want := range []string{path, "RLIMIT_MEMLOCK is 65536 bytes", fmt.Sprintf("at least %d bytes are needed", lockedNow()+1<<20)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if u := OffHeap(); u.Mapped != before.Mapped || u.Locked != before.Locked {
		t.Errorf("left over: %+v", u)
	}
	// Within the limit it works.
	m, err = f.Map(32768, MapOptions{Memory: MemoryLock})
	if err != nil {
		t.Fatal(err)
	}
	if lockedNow() < 32768 || OffHeap().Locked-before.Locked != 32768 {
		t.Errorf("locked: kernel says %d, OffHeap %d more", lockedNow(), OffHeap().Locked-before.Locked)
	}
	m.Close()
}

// numaMaps returns the kernel's line about the mapping that begins at addr, or "".
func numaMaps(t *testing.T, addr uintptr) string {
	b, err := os.ReadFile("/proc/self/numa_maps")
	if err != nil {
		return "" // a kernel without NUMA
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, fmt.Sprintf("%08x ", addr)) {
			return line
		}
	}
	t.Fatalf("no mapping at %x in numa_maps", addr)
	return ""
}

func TestPlacementReachesTheKernel(t *testing.T) {
	for want, mode := range map[string]PlacementMode{"bind:0": PlacementBind, "interleave:0": PlacementInterleave, "prefer:0": PlacementPrefer} {
		p := Placement{Mode: mode, Nodes: []int{0}}
		a, err := NewArena(4<<20, ArenaOptions{HugePages: true, Placement: p})
		if err != nil {
			// A kernel without NUMA, or a sandbox that forbids it, must say so.
			if !errors.Is(err, ErrNotSupported) && !errors.Is(err, unix.EPERM) {
				t.Errorf("%s: %v", want, err)
			}
			continue
		}
		if line := numaMaps(t, uintptr(a.Base())); line != "" && !strings.Contains(strings.ReplaceAll(line, "prefer (many)", "prefer"), want) {
			t.Errorf("want %s: %s", want, line)
		}
		a.Free()
		_, f := realFile(t, pattern(3<<20, 1))
		m := mustMap(t, f, 3<<20, MapOptions{Memory: MemoryResident, Placement: p})
		if line := numaMaps(t, addressOf(m.Bytes())); line != "" && !strings.Contains(line, want) {
			t.Errorf("resident, want %s: %s", want, line)
		}
	}
	// The last node that the kernel could know is not on this machine, or it would have a thousand.
	if a, err := NewArena(1<<20, ArenaOptions{Placement: Placement{Mode: PlacementBind, Nodes: []int{maxNodes - 1}}}); err == nil {
		a.Free()
		t.Error("bound to a node that does not exist")
	}
}

func TestResidentCopyDropsThePageCacheAndCannotBeWritten(t *testing.T) {
	content := pattern(20<<20+5, 3)
	_, f := realFile(t, content)
	if err := f.(*osFile).Sync(); err != nil { // only clean pages can be dropped
		t.Fatal(err)
	}
	size := int64(len(content))
	cached := mustMap(t, f, size, MapOptions{Memory: MemoryPopulate})
	if in, err := cached.Resident(); err != nil || in != size {
		t.Fatalf("populated: %d of %d in memory, %v", in, size, err)
	}
	cached.Close()
	m := mustMap(t, f, size, MapOptions{Memory: MemoryResident})
	again := mustMap(t, f, size, MapOptions{})
	if in, err := again.Resident(); err != nil || (in > size/2 && reallyOnDisk(f.(*osFile).file)) {
		t.Errorf("%d of %d bytes of the file stayed in the page cache, %v", in, size, err)
	}
	err := func() (err error) {
		defer func() {
			if recover() != nil {
				err = errors.New("fault")
			}
		}()
		old := Guard()
		defer Unguard(old, &err)
		m.Bytes()[0] = 1
		return nil
	}()
	if err == nil {
		t.Error("a resident copy can be written")
	}
}

// reallyOnDisk reports whether dropping pages can work: the page cache is all that tmpfs has.
func reallyOnDisk(f *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) == nil && uint32(st.Type) == unix.EXT4_SUPER_MAGIC
}

func TestRealFullDiskWithoutPrivileges(t *testing.T) {
	const shm = "/dev/shm" // tmpfs refuses at once what is larger than itself
	var st unix.Statfs_t
	if err := unix.Statfs(shm, &st); err != nil || uint32(st.Type) != unix.TMPFS_MAGIC || st.Blocks == 0 {
		t.Logf("%s is no limited tmpfs here: %v", shm, err)
		return
	}
	dir, err := os.MkdirTemp(shm, "mmapfs-test")
	if err != nil {
		t.Logf("%s cannot be written: %v", shm, err)
		return
	}
	defer os.RemoveAll(dir)
	f, err := OS.Create(filepath.Join(dir, "000001.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	too := int64(st.Blocks+1) * st.Bsize
	if _, err := f.MapWrite(0, too); !IsNoSpace(err) {
		t.Errorf("MapWrite of %d bytes: %v", too, err)
	}
	if err := f.Preallocate(0, too); !IsNoSpace(err) {
		t.Errorf("Preallocate of %d bytes: %v", too, err)
	}
	if size, err := f.Size(); err != nil || size != 0 {
		t.Errorf("size %d, %v", size, err)
	}
}

func TestMapWriteIsRefusedWhereBlocksAreNotReserved(t *testing.T) {
	// /proc is no file system that could reserve anything.
	f, err := OS.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.MapWrite(0, 4096); !errors.Is(err, ErrMapWriteUnsupported) {
		t.Errorf("MapWrite on procfs: %v", err)
	}
}

func TestAFaultOutsideOurMappingsStaysAPanic(t *testing.T) {
	b, err := unix.Mmap(-1, 0, pageSize, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	recovered := func() (r any) {
		defer func() { r = recover() }()
		if err := touchPages(b); err != nil {
			t.Errorf("became an error: %v", err)
		}
		return nil
	}()
	if f, ok := recovered.(interface{ Addr() uintptr }); !ok || f.Addr() != addressOf(b) {
		t.Errorf("recovered %v", recovered)
	}
}
