package numa

import (
	"errors"
	"fmt"
)

var (
	// ErrNotSupported: this system, kernel or mapping cannot do what was asked.
	ErrNotSupported = errors.New("numa: not supported here")

	// ErrNotPermitted: the kernel, or a container's seccomp profile, forbids the call.
	ErrNotPermitted = errors.New("numa: not permitted")

	// ErrNode: a node does not exist, has no memory (or no CPU) of the kind asked
	// for, or is outside what this process may use.
	ErrNode = errors.New("numa: node cannot be used")

	// ErrCPU: a CPU does not exist, is offline, or is outside what this process may use.
	ErrCPU = errors.New("numa: cpu cannot be used")

	// ErrIgnored: the kernel would accept the call, and then not do it.
	ErrIgnored = errors.New("numa: the kernel would ignore this")

	// ErrMisplaced: pages that exist are not where they were asked to be.
	// The error is a *MisplacedError.
	ErrMisplaced = errors.New("numa: pages are misplaced")

	// ErrMalformed: a file of sysfs or procfs is not as the kernel writes it.
	// The error is a *TreeError.
	ErrMalformed = errors.New("numa: malformed system file")

	// ErrThread: a release ran on another thread than its pin, or out of order.
	ErrThread = errors.New("numa: wrong thread or order of release")

	// ErrRange: a byte range does not begin on a page or is empty.
	ErrRange = errors.New("numa: range must begin on a page boundary and not be empty")

	// ErrClosed: the pool has been closed.
	ErrClosed = errors.New("numa: pool is closed")

	// ErrFull: the queue of that node has no room.
	ErrFull = errors.New("numa: queue is full")
)

// TreeError says which file of sysfs or procfs did not make sense, and why.
type TreeError struct {
	Path   string // slash-separated, relative to the root of the tree
	Reason string // what was expected, and what was read
	Err    error  // the file's error where it could not be read, else nil
}

func (e *TreeError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("numa: /%s: %s: %v", e.Path, e.Reason, e.Err)
	}
	return fmt.Sprintf("numa: /%s: %s", e.Path, e.Reason)
}

// Is makes every TreeError match ErrMalformed.
func (e *TreeError) Is(target error) bool { return target == ErrMalformed }

// Unwrap returns the file's error, if it had one.
func (e *TreeError) Unwrap() error { return e.Err }

// MisplacedError says how many pages are not where they were asked to be.
type MisplacedError struct {
	Want  []int     // nodes asked for
	Pages int64     // pages elsewhere
	Found Placement // where all pages of the range are
}

func (e *MisplacedError) Error() string {
	return fmt.Sprintf("numa: %d pages are not on node %s: %s", e.Pages, FormatList(e.Want), e.Found)
}

// Is makes every MisplacedError match ErrMisplaced.
func (e *MisplacedError) Is(target error) bool { return target == ErrMisplaced }
