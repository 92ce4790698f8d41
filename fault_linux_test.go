package flatrock

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestFullTmpfs fills a real file system of 8 MiB. Only root may mount one; for
// others TestFullDisk is the same over an injected full disk.
func TestFullTmpfs(t *testing.T) {
	dir := t.TempDir()
	err := unix.Mount("flatrock", dir, "tmpfs", 0, "size=8m")
	if err == unix.EPERM {
		t.Log("not allowed to mount: using an injected full disk")
		TestFullDisk(t)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	ballast := filepath.Join(dir, "ballast")
	fillUntilFull(t, mmapfs.OS, dir, func(room bool) {
		if room {
			err = os.Remove(ballast)
		} else {
			err = os.WriteFile(ballast, make([]byte, 9<<19), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
