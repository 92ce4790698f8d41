package numa

import (
	"fmt"
	"runtime"
)

// Populate brings in the pages of b, which is mapped memory, from a thread under
// the policy p (and on a CPU of p's node, where p names one that has CPUs). It
// waits until all are there. This is how pages of an ordinary file get onto a
// node: they go where the policy of the thread that reads them in says.
//
// With write, pages are brought in for writing: b must be writable, and a private
// or anonymous mapping gets pages of its own; the content does not change.
// Without, untouched anonymous memory only maps the shared zero page.
//
// Pages that are present already, or in the page cache, stay where they are: for a
// policy of BindTo that is ErrMisplaced, and Migrate moves them. It costs the
// page faults and, for files, the reads; a file shorter than b is an error
// (or SIGBUS, before Linux 5.14).
//
// Where there is no NUMA, only policies of node 0 or of no node are possible,
// and nothing is checked.
func Populate(b []byte, p Policy, write bool) error {
	if err := checkRange(b); err != nil {
		return err
	}
	p.Nodes = normal(p.Nodes)
	if err := p.check(); err != nil {
		return err
	}
	done := make(chan error, 1)
	// A goroutine of its own: a thread that cannot be put back ends with it.
	go func() { done <- populateUnder(b, p, write) }()
	if err := <-done; err != nil {
		return err
	}
	if p.Mode != BindTo {
		return nil
	}
	return checkOn(b, p.Nodes)
}

func populateUnder(b []byte, p Policy, write bool) (err error) {
	release, err := pinFor(p)
	if err != nil {
		return err
	}
	defer func() {
		if back := release(); err == nil {
			err = back
		}
	}()
	if err := populate(b, write); err != nil {
		return fmt.Errorf("numa: populate %s under %s: %w", formatBytes(int64(len(b))), p, err)
	}
	return nil
}

// pinFor sets the thread's policy and, if it has one node with usable CPUs, pins
// the thread there: the kernel then clears and copies pages locally.
func pinFor(p Policy) (Release, error) {
	policy, err := SetThreadPolicy(p)
	if err != nil || len(p.Nodes) != 1 {
		return policy, err
	}
	t, err := Discover()
	if err != nil {
		return nil, joinRelease(policy, err)
	}
	if len(t.AllowedOn(p.Nodes[0])) == 0 {
		return policy, nil
	}
	pin, err := t.Pin(p.Nodes[0])
	if err != nil {
		return nil, joinRelease(policy, err)
	}
	return func() error {
		if err := pin(); err != nil {
			return err
		}
		return policy()
	}, nil
}

// joinRelease releases on an error path, where the first error is what matters
// unless the release fails: then the thread is not clean, and dies here.
func joinRelease(release Release, err error) error {
	if back := release(); back != nil {
		return fmt.Errorf("%w (and %v)", err, back)
	}
	return err
}

// touch reads one byte of each page; the sum keeps the reads from being dropped.
func touch(b []byte, page int) (sum byte) {
	for i := 0; i < len(b); i += page {
		sum += b[i]
	}
	runtime.KeepAlive(sum)
	return sum
}
