//go:build !nonuma

package numa

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Apply gives the pages of b, which is mapped memory that begins on a page, a
// policy; the end is rounded up to a page. It stays with the address range until
// it is unmapped or another policy is applied, and splits the kernel's mapping
// at its ends (a process has some 65,000 of those, vm.max_map_count).
//
// Pages that b has already stay where they are with Leave. With MoveOwn or MoveAll
// they move, and ErrMisplaced tells how many could not; the policy is in force
// all the same. (The kernel leaves a page that lies on any of the nodes, so that
// interleaving what is all on one of them would move nothing; here such pages
// are dealt out one by one.)
//
// Errors: ErrIgnored for a range that is wholly or in part the mapping of an
// ordinary file, since its pages would not follow, and for Go's heap, since the
// runtime gives the pages to others; nothing is changed then. ErrNode for nodes
// that the kernel would drop, ErrRange, ErrNotPermitted, ErrNotSupported.
//
// Where there is no NUMA, a policy of node 0 or of no node succeeds.
//
// Nobody may unmap b meanwhile. Touching it at the same time is fine.
func Apply(b []byte, p Policy, move Move) error {
	p.Nodes = normal(p.Nodes)
	if err := p.check(); err != nil {
		return err
	}
	if err := checkRange(b); err != nil {
		return err
	}
	// Never MPOL_MF_STRICT: its error says neither how many pages stayed nor, in
	// some kernels, whether the policy was set. Counting afterwards says both.
	var flags int
	switch move {
	case Leave:
	case MoveOwn:
		flags = unix.MPOL_MF_MOVE
	case MoveAll:
		flags = unix.MPOL_MF_MOVE_ALL
	default:
		return fmt.Errorf("numa: move %d: no such value", move)
	}
	if err := usable(p); err != nil {
		if errors.Is(err, ErrNotSupported) && slices.Equal(p.Nodes, []int{0}) {
			return nil
		}
		return err
	}
	if err := follows(b); err != nil {
		return err
	}
	err := mbind(b, p.mode(), p.Nodes, flags)
	switch {
	case errors.Is(err, unix.ENOSYS) && !p.Mode.takesNodes():
		return nil
	case err != nil:
		return fmt.Errorf("numa: policy %s on %s: %w", p, formatBytes(int64(len(b))), explain(err))
	}
	got, readErr := RangePolicy(b)
	if readErr != nil {
		return readErr
	}
	if !got.Equal(p) {
		return fmt.Errorf("numa: policy %s: the kernel made it %s: %w", p, got, ErrNode)
	}
	switch {
	case move == Leave:
		return nil
	case p.Mode == BindTo:
		return checkOn(b, p.Nodes)
	case p.Mode == InterleaveOver:
		return deal(b, p.Nodes, flags)
	}
	return nil // a preference promises nothing
}

// RangePolicy reads the policy of the page that b begins; Default if none was
// set. ErrNotSupported where there is no NUMA.
func RangePolicy(b []byte) (Policy, error) {
	if err := checkRange(b); err != nil {
		return Policy{}, err
	}
	mode, nodes, err := getMempolicy(b, unix.MPOL_F_ADDR)
	if err != nil {
		return Policy{}, fmt.Errorf("numa: range policy: %w", explain(err))
	}
	return policyOf(mode, nodes), nil
}

// checkOn returns a *MisplacedError unless every present page is on the nodes.
func checkOn(b []byte, nodes []int) error {
	found, err := PlacementOf(b)
	if errors.Is(err, ErrNotSupported) && slices.Equal(nodes, []int{0}) {
		return nil // no NUMA: there is nowhere else
	}
	if err != nil {
		return err
	}
	if n := found.Elsewhere(nodes...); n > 0 {
		return &MisplacedError{Want: nodes, Pages: n, Found: found}
	}
	return nil
}

func checkRange(b []byte) error {
	page := uintptr(os.Getpagesize())
	if len(b) == 0 || address(b)%page != 0 {
		return ErrRange
	}
	return nil
}

// batch is how many pages one move_pages call handles: enough to make the call
// cheap, little enough that the arrays stay small (192 KiB).
const batch = 1 << 14

// PlacementOf asks where each page of b is; b must begin on a page. It costs about
// 0.1 µs a page (a quarter of a second for 10 GiB): SamplePlacement is for large
// ranges. It reads no page in. ErrNotSupported where there is no NUMA.
func PlacementOf(b []byte) (Placement, error) { return SamplePlacement(b, 0) }

// SamplePlacement is PlacementOf asking about at most n pages, evenly spaced, and
// counts scaled to the whole range. Zero or less asks about all.
func SamplePlacement(b []byte, n int) (Placement, error) {
	page := os.Getpagesize()
	p := Placement{PageSize: int64(page)}
	if len(b) == 0 {
		return p, nil
	}
	if err := checkRange(b); err != nil {
		return p, err
	}
	pages := (len(b) + page - 1) / page
	asked := pages
	if n > 0 && n < pages {
		asked = n
	}
	q := query{addrs: make([]uintptr, min(batch, asked)), status: make([]int32, min(batch, asked))}
	for from := 0; from < asked; from += batch {
		to := min(asked, from+batch)
		q.addrs = q.addrs[:to-from]
		for i := range q.addrs {
			// asked*pages stays below 1<<63: a range has at most 1<<36 pages.
			at := from + i
			if asked < pages {
				at = int(uint64(from+i) * uint64(pages) / uint64(asked))
			}
			q.addrs[i] = address(b) + uintptr(at)*uintptr(page)
		}
		if err := q.ask(&p); err != nil {
			return p, err
		}
	}
	runtime.KeepAlive(b)
	return p.scale(int64(pages)), nil
}

type query struct {
	addrs  []uintptr
	status []int32
}

func (q *query) ask(p *Placement) error {
	var absent []uintptr
	err := q.each(q.addrs, func(addr uintptr, node int) {
		if node < 0 {
			absent = append(absent, addr)
			return
		}
		p.on(node, 1)
	})
	if err != nil {
		return err
	}
	p.Pages += int64(len(q.addrs))
	p.NotPresent += int64(len(absent))
	return q.each(reveal(absent), func(_ uintptr, node int) {
		if node >= 0 {
			p.on(node, 1)
			p.NotPresent--
		}
	})
}

// each calls f with the node of each page, -1 for one that is not there.
func (q *query) each(addrs []uintptr, f func(addr uintptr, node int)) error {
	if len(addrs) == 0 {
		return nil
	}
	status := q.status[:len(addrs)]
	if err := movePages(addrs, nil, status, 0); err != nil {
		return fmt.Errorf("numa: placement: %w", explain(err))
	}
	for i, s := range status {
		// Kernels differ on which of ENOENT and EFAULT is untouched anonymous
		// memory, the zero page, or an address without a mapping; b is mapped.
		f(addrs[i], max(int(s), -1))
	}
	return nil
}
