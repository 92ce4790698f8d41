//go:build linux

// Command guest is the first and only process of the virtual machine: it mounts
// what tests need, runs the test programs that the archive holds, one after the
// other, writes what they write, and switches the machine off.
//
// Lines that the host looks for begin with "vmtest: ". The host trusts nothing
// else: if the guest dies, the line "vmtest: done" is missing.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// program is one entry of /vmtest.json.
type program struct {
	Name string   // of the test, for the report
	Path string   // of the binary
	Dir  string   // to run it in
	Args []string // without the binary
}

// plan is /vmtest.json.
type plan struct {
	Env      []string
	Programs []program
	Dump     bool // print the topology's files rather than run anything
}

func main() {
	// The machine must go off whatever happens here.
	defer off()
	if err := run(); err != nil {
		fmt.Println("vmtest: guest failed:", err)
		return
	}
	fmt.Println("vmtest: done")
}

func off() {
	if v := recover(); v != nil {
		fmt.Println("vmtest: guest failed: panic:", v)
	}
	syscall.Sync()
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/dev/shm"}, {"tmpfs", "/tmp"},
		// A file on ramfs is an ordinary file to the memory policy: its mappings have none.
		{"ramfs", "/data"},
	} {
		if err := os.MkdirAll(m.dir, 0o777); err != nil {
			return err
		}
		if err := syscall.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.dir, err)
		}
	}
	text, err := os.ReadFile("/vmtest.json")
	if err != nil {
		return err
	}
	var p plan
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	if p.Dump {
		return dump()
	}
	for _, t := range p.Programs {
		fmt.Printf("vmtest: begin %s\n", t.Name)
		cmd := exec.Command(t.Path, t.Args...)
		cmd.Dir, cmd.Env = t.Dir, append(os.Environ(), p.Env...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
		code := 0
		if err := cmd.Run(); err != nil {
			code = -1
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				code = exit.ExitCode()
			}
			fmt.Printf("%s: %v\n", t.Name, err)
		}
		fmt.Printf("vmtest: end %s exit %d\n", t.Name, code)
	}
	return nil
}

// dump prints the files that a topology is read from, each after a "-- name --" line.
func dump() error {
	fmt.Println("vmtest: tree")
	names := []string{"proc/self/status", "proc/self/cgroup", "proc/self/mountinfo", "proc/meminfo", "proc/sys/kernel/numa_balancing"}
	for _, dir := range []string{"sys/devices/system/node", "sys/devices/system/cpu"} {
		err := filepath.WalkDir("/"+dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && wanted(filepath.Base(name)) {
				names = append(names, strings.TrimPrefix(name, "/"))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, name := range names {
		text, err := os.ReadFile("/" + name)
		if err != nil {
			continue // some files of an offline CPU cannot be read
		}
		if name == "proc/self/status" {
			text = onlyAllowed(text)
		}
		fmt.Printf("-- %s --\n%s", name, text)
		if len(text) > 0 && text[len(text)-1] != '\n' {
			fmt.Println()
		}
	}
	fmt.Printf("vmtest: end of tree, %s\n", runtime.GOARCH)
	return nil
}

// onlyAllowed drops what changes from run to run.
func onlyAllowed(status []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(status) {
		if bytes.Contains(line, []byte("_allowed_list:")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

func wanted(base string) bool {
	switch base {
	case "online", "offline", "possible", "has_cpu", "has_memory", "cpulist", "distance", "meminfo",
		"nr_hugepages", "free_hugepages", "surplus_hugepages", "thread_siblings_list":
		return true
	}
	return false
}
