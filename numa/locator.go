package numa

// Locator answers "which node am I on?" cheaply enough to ask on each read, so
// that a reader can use its own node's copy of something.
//
// The answer is a hint: the goroutine may move at once. A wrong answer must cost
// only a remote access, never correctness.
//
// A Locator is never changed: safe for concurrent use.
type Locator struct {
	only int  // the node, if there is only one; else -1
	fast bool // the processor can be asked without a system call
}

// NewLocator prepares a Locator for t's machine. On one node it returns that
// number. On Linux and amd64 it asks the processor (some 10 ns, no system call),
// after checking at some CPUs that the processor and getcpu agree: an emulated
// kernel may not keep it true. Otherwise it makes the system call.
func (t *Topology) NewLocator() *Locator {
	if nodes := t.CPUNodes(); len(nodes) == 1 {
		return &Locator{only: nodes[0]}
	}
	return &Locator{only: -1, fast: t.cpuNodeAgrees()}
}

// Cheap reports whether Node works without a system call.
func (l *Locator) Cheap() bool { return l.only >= 0 || l.fast }

// Node is the node that the calling thread runs on, or 0 if that is not known.
// It does not allocate.
func (l *Locator) Node() int {
	if l.only >= 0 {
		return l.only
	}
	if l.fast {
		return int(cpuNode() >> 12)
	}
	_, node, err := Current()
	if err != nil {
		return 0
	}
	return node
}

// cpuNodeAgrees compares the processor's answer with the kernel's from a thread
// pinned to one CPU of each node in turn.
func (t *Topology) cpuNodeAgrees() bool {
	// The processor holds 12 bits of CPU and 8 of node.
	last := t.Nodes[len(t.Nodes)-1].ID
	if !hasCPUNode || last > 255 || t.OnlineCPUs[len(t.OnlineCPUs)-1] > 4095 {
		return false
	}
	agrees := make(chan bool, 1)
	for _, node := range t.CPUNodes() {
		go func() { agrees <- agreesAt(t.AllowedOn(node)[0], node) }()
		if !<-agrees {
			return false
		}
	}
	return true
}

func agreesAt(cpu, node int) bool {
	release, err := Pin(cpu)
	if err != nil {
		return false
	}
	fast := cpuNode()
	c, n, err := Current()
	if back := release(); back != nil || err != nil {
		return false
	}
	return c == cpu && n == node && fast == uint32(node)<<12|uint32(cpu)
}
