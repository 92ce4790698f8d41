// Command vmtest runs Go tests in virtual machines with several NUMA nodes, on
// any Linux machine with QEMU: software emulation, no network, no privileges.
//
//	numa/vmtest/setup.sh                                    # once: QEMU and a kernel, from Debian's packages
//	go run ./numa/vmtest                                    # numa's tests on 2, on 4, and on odd nodes
//	go run ./numa/vmtest -machines 2 -test ./numa=TestBind  # some tests of a package on one machine
//
// It builds static test programs and a static init (numa/vmtest/guest), packs them
// with the packages' testdata into an initramfs, boots it once for each machine, and
// reads the serial console. A machine passes if each test that the programs list
// has passed in it, none skipped, and the guest said so to its end. The tests
// themselves check real placement: they find the machine's nodes, and the variable
// FLATROCK_NUMA_NODES tells them how many they must find.
//
// Anything else fails, with the reason in one line and the console's last lines:
// no QEMU or kernel, a build error, a kernel panic, a hang (-timeout).
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

type config struct {
	qemu, kernel string
	machines     []machine
	tests        tests
	timeout      time.Duration
	verbose      bool
	dump         bool
	balancing    bool
}

// tests are "-test ./dir" or "-test ./dir=pattern".
type tests []struct{ dir, pattern string }

func (t *tests) String() string { return fmt.Sprint(*t) }

func (t *tests) Set(s string) error {
	dir, pattern, _ := strings.Cut(s, "=")
	if dir == "" {
		return errors.New("expected a package directory, or directory=pattern")
	}
	*t = append(*t, struct{ dir, pattern string }{dir, pattern})
	return nil
}

func main() {
	start := time.Now()
	c, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err == nil {
		err = c.run(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vmtest: FAIL:", err)
		os.Exit(1)
	}
	fmt.Printf("vmtest: all passed in %.0f s\n", time.Since(start).Seconds())
}

func parse(args []string) (*config, error) {
	c := &config{}
	f := flag.NewFlagSet("vmtest", flag.ContinueOnError)
	f.StringVar(&c.qemu, "qemu", "qemu-system-x86_64", "QEMU's program")
	f.StringVar(&c.kernel, "kernel", "", "Linux kernel, a bzImage (default: what setup.sh left, or the newest readable /boot/vmlinuz-*)")
	names := f.String("machines", "2,4,odd", "machines to boot, in order: 1, 2, 4, 8, odd, offline")
	f.Var(&c.tests, "test", "package directory, or directory=pattern of tests; may be repeated (default ./numa)")
	f.DurationVar(&c.timeout, "timeout", 2*time.Minute, "for each machine")
	f.BoolVar(&c.verbose, "v", false, "print the consoles as they come")
	f.BoolVar(&c.balancing, "balancing", false, "let the kernel balance pages by itself, which may move what tests have placed")
	f.BoolVar(&c.dump, "dump", false, "run no tests: print the files that numa.Read reads, for testdata")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if len(c.tests) == 0 {
		c.tests.Set("./numa")
	}
	for _, name := range strings.Split(*names, ",") {
		m, err := machineNamed(name)
		if err != nil {
			return nil, err
		}
		c.machines = append(c.machines, m)
	}
	return c, nil
}

func (c *config) run(out io.Writer) error {
	if runtime.GOARCH != "amd64" || runtime.GOOS != "linux" {
		return fmt.Errorf("the programs are built for this system, and the machines are linux/amd64: found %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if _, err := exec.LookPath(c.qemu); err != nil {
		return fmt.Errorf("QEMU: %w (run numa/vmtest/setup.sh, or apt-get install qemu-system-x86)", err)
	}
	if err := c.findKernel(); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "vmtest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	programs, err := c.build(tmp)
	if err != nil {
		return err
	}
	var failed []error
	for _, m := range c.machines {
		start := time.Now()
		count, err := c.boot(out, tmp, m, programs)
		if err != nil {
			failed = append(failed, fmt.Errorf("machine %s: %w", m.name, err))
			continue
		}
		if !c.dump {
			fmt.Fprintf(out, "vmtest: machine %s: %d nodes, %d tests passed in %.0f s\n", m.name, len(m.nodes), count, time.Since(start).Seconds())
		}
	}
	return errors.Join(failed...)
}

// kernelPlace is where setup.sh leaves a kernel.
func kernelPlace() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "flatrock-vmtest", "vmlinuz")
}

func (c *config) findKernel() error {
	if c.kernel != "" {
		_, err := os.Stat(c.kernel)
		return err
	}
	places, _ := filepath.Glob("/boot/vmlinuz-*")
	slices.SortFunc(places, func(a, b string) int { return modified(b).Compare(modified(a)) })
	for _, name := range append([]string{kernelPlace()}, places...) {
		if f, err := os.Open(name); err == nil {
			f.Close()
			c.kernel = name
			return nil
		}
	}
	return fmt.Errorf("no kernel at %s and none readable in /boot (run numa/vmtest/setup.sh, or give -kernel)", kernelPlace())
}

func modified(name string) time.Time {
	info, err := os.Stat(name)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// built is a test program on the host.
type built struct {
	name, file, pattern string
	testdata            string   // directory, "" if there is none
	tests               []string // that must pass
}

// build makes the static programs and asks each which tests it has.
func (c *config) build(tmp string) ([]built, error) {
	if err := goBuild("build", "-o", filepath.Join(tmp, "init"), "./"+path.Join(vmtestDir, "guest")); err != nil {
		return nil, err
	}
	var all []built
	if c.dump {
		return nil, nil
	}
	for i, t := range c.tests {
		b := built{name: t.dir, pattern: t.pattern, file: filepath.Join(tmp, fmt.Sprintf("%d.test", i))}
		if err := goBuild("test", "-c", "-o", b.file, t.dir); err != nil {
			return nil, err
		}
		if b.pattern == "" {
			b.pattern = "^(Test|Example)" // seeds of fuzz targets know no nodes
		}
		list, err := exec.Command(b.file, "-test.list", b.pattern).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: list tests: %w", t.dir, err)
		}
		for _, name := range strings.Fields(string(list)) {
			if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") {
				b.tests = append(b.tests, name)
			}
		}
		if len(b.tests) == 0 {
			return nil, fmt.Errorf("%s: no test matches %q", t.dir, t.pattern)
		}
		if dir := filepath.Join(t.dir, "testdata"); isDir(dir) {
			b.testdata = dir
		}
		all = append(all, b)
	}
	return all, nil
}

// vmtestDir is where this command lies in its module.
const vmtestDir = "numa/vmtest"

func goBuild(args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s(run it in the module's root)", strings.Join(args, " "), err, text)
	}
	return nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// program and plan are guest's types; it is a program and cannot be imported.
type program struct {
	Name, Path, Dir string
	Args            []string
}

type plan struct {
	Env      []string
	Programs []program
	Dump     bool
}

// initramfs packs init, the test programs, their testdata, and the plan.
func (c *config) initramfs(tmp string, m machine, tests []built) (string, error) {
	p := plan{Dump: c.dump, Env: []string{
		fmt.Sprintf("FLATROCK_NUMA_NODES=%d", len(m.nodes)), "TMPDIR=/data", "HOME=/tmp", "PATH=/",
	}}
	var archive bytes.Buffer
	w := newCPIO(&archive)
	w.dir("dev")
	w.char("dev/console", 5, 1)
	if err := addFile(w, "init", filepath.Join(tmp, "init")); err != nil {
		return "", err
	}
	for i, b := range tests {
		dir := fmt.Sprintf("test%d", i)
		w.dir(dir)
		if err := addFile(w, dir+"/test", b.file); err != nil {
			return "", err
		}
		if b.testdata != "" {
			if err := addTree(w, dir+"/testdata", b.testdata); err != nil {
				return "", err
			}
		}
		args := []string{"-test.v", "-test.timeout", (c.timeout - c.timeout/10).String(), "-test.run", b.pattern}
		p.Programs = append(p.Programs, program{Name: b.name, Path: "/" + dir + "/test", Dir: "/" + dir, Args: args})
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	w.file("vmtest.json", modeFile, text)
	if err := w.close(); err != nil {
		return "", err
	}
	name := filepath.Join(tmp, "initramfs-"+m.name)
	return name, os.WriteFile(name, archive.Bytes(), 0o600)
}

func addFile(w *cpioWriter, name, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	w.file(name, modeProgram, data)
	return nil
}

// mostTestdata keeps a machine's memory for the tests.
const mostTestdata = 48 << 20

func addTree(w *cpioWriter, name, from string) error {
	var size int64
	return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		to := path.Join(name, filepath.ToSlash(rel))
		if d.IsDir() {
			w.dir(to)
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if size += int64(len(data)); size > mostTestdata {
			return fmt.Errorf("%s: more than %d MiB of testdata", from, mostTestdata>>20)
		}
		w.file(to, modeFile, data)
		return nil
	})
}

// boot runs one machine to its end and returns how many tests passed.
func (c *config) boot(out io.Writer, tmp string, m machine, tests []built) (int, error) {
	archive, err := c.initramfs(tmp, m, tests)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	boot := "console=ttyS0 panic=-1 loglevel=3 mitigations=off " + m.boot
	if !c.balancing && !c.dump {
		boot += " numa_balancing=disable"
	}
	args := append([]string{"-accel", "tcg,thread=multi", "-nodefaults", "-no-user-config", "-display", "none",
		"-serial", "stdio", "-no-reboot", "-kernel", c.kernel, "-initrd", archive,
		// panic=-1 with -no-reboot: a panic ends the machine at once.
		"-append", boot}, m.args()...)
	cmd := exec.CommandContext(ctx, c.qemu, args...)
	var console bytes.Buffer
	cmd.Stdout = &console
	if c.verbose {
		cmd.Stdout = io.MultiWriter(&console, out)
	}
	cmd.Stderr = cmd.Stdout
	runErr := cmd.Run()
	text := strings.ReplaceAll(console.String(), "\r", "")
	if ctx.Err() != nil {
		return 0, fmt.Errorf("not done after %v\n%s", c.timeout, lastLines(noteworthy(text), 40))
	}
	if runErr != nil {
		return 0, fmt.Errorf("%s: %w\n%s", c.qemu, runErr, lastLines(noteworthy(text), 40))
	}
	if c.dump {
		tree, err := treeOf(text)
		fmt.Fprint(out, tree)
		return 0, err
	}
	count, err := judge(text, tests)
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, lastLines(noteworthy(text), 100))
	}
	return count, nil
}
