package numa

import (
	"fmt"
	"slices"
	"strings"
)

// Mode is how a policy picks the node of a page that is allocated.
type Mode int

const (
	// Default is the thread's policy for a range, and Local for a thread.
	Default Mode = iota
	// Preferred tries one node first, and then the others by distance.
	Preferred
	// BindTo allocates on the given nodes only, nearest first; when they are full
	// the kernel reclaims there and in the end kills the process.
	BindTo
	// InterleaveOver deals pages (huge pages where they are used) over the nodes in turn.
	InterleaveOver
	// Local is the node of the CPU that first touches the page.
	Local
	// PreferredMany tries a set of nodes first, nearest first, and then the others.
	// Linux 5.15.
	PreferredMany
)

var modeNames = [...]string{"default", "preferred", "bind", "interleave", "local", "preferred-many"}

func (m Mode) String() string {
	if m < 0 || int(m) >= len(modeNames) {
		return fmt.Sprintf("mode(%d)", int(m))
	}
	return modeNames[m]
}

// takesNodes reports whether a policy of this mode names nodes.
func (m Mode) takesNodes() bool { return m != Default && m != Local }

// Policy says where pages are allocated. The zero value is the default policy.
type Policy struct {
	Mode  Mode
	Nodes []int // ascending; empty for Default and Local, one node for Preferred

	// flags are the kernel's mode flags of a policy that was read back, kept so
	// that a restore puts back exactly what was there.
	flags int
}

// String is the form that ParsePolicy reads.
func (p Policy) String() string {
	if len(p.Nodes) == 0 {
		return p.Mode.String()
	}
	return p.Mode.String() + ":" + FormatList(p.Nodes)
}

// Equal reports whether both have the same mode and nodes.
func (p Policy) Equal(q Policy) bool { return p.Mode == q.Mode && slices.Equal(p.Nodes, q.Nodes) }

// ParsePolicy reads "default", "local", "interleave:0-3", "bind:0,2",
// "preferred:1" or "preferred-many:0-1". A mode that takes nodes may come without
// them: the caller fills Nodes in (with Topology.MemoryNodes, say).
func ParsePolicy(s string) (Policy, error) {
	name, list, hasList := strings.Cut(s, ":")
	mode := slices.Index(modeNames[:], name)
	if mode < 0 {
		return Policy{}, fmt.Errorf("numa: policy %q: expected one of %s", clip(s), strings.Join(modeNames[:], ", "))
	}
	p := Policy{Mode: Mode(mode)}
	if !hasList {
		return p, nil
	}
	nodes, err := ParseList(list)
	if err != nil {
		return Policy{}, fmt.Errorf("numa: policy %q: %w", clip(s), err)
	}
	p.Nodes = nodes
	return p, p.check()
}

// check finds what the kernel would answer with a bare "invalid argument".
func (p Policy) check() error {
	switch {
	case p.Mode < 0 || int(p.Mode) >= len(modeNames):
		return fmt.Errorf("numa: policy %s: no such mode", p)
	case !p.Mode.takesNodes() && len(p.Nodes) > 0:
		return fmt.Errorf("numa: policy %s: takes no nodes: %w", p, ErrNode)
	case p.Mode.takesNodes() && len(p.Nodes) == 0:
		return fmt.Errorf("numa: policy %s: no node given: %w", p, ErrNode)
	case p.Mode == Preferred && len(p.Nodes) > 1:
		return fmt.Errorf("numa: policy %s: takes one node (preferred-many takes several): %w", p, ErrNode)
	}
	for _, id := range p.Nodes {
		if id < 0 || id >= maxNodes {
			return fmt.Errorf("numa: policy %s: no node has number %d: %w", p, id, ErrNode)
		}
	}
	return nil
}

// maxNodes is the largest that a Linux kernel can be built for (CONFIG_NODES_SHIFT 10).
const maxNodes = 1024

// Move says what a new policy does with the pages that a range already has.
type Move int

const (
	// Leave lets them stay where they are.
	Leave Move = iota
	// MoveOwn moves the pages that only this process maps.
	MoveOwn
	// MoveAll moves shared pages too. It needs CAP_SYS_NICE.
	MoveAll
)
