package numa

// Bind makes b's pages come from the given nodes only.
// It is Apply with BindTo.
func Bind(b []byte, move Move, nodes ...int) error {
	return Apply(b, Policy{Mode: BindTo, Nodes: nodes}, move)
}

// Interleave deals b's pages over the nodes in turn (huge pages, where the range
// uses them). It is Apply with InterleaveOver.
func Interleave(b []byte, move Move, nodes ...int) error {
	return Apply(b, Policy{Mode: InterleaveOver, Nodes: nodes}, move)
}

// Prefer makes b's pages come from the given node while it has free memory, and
// from others by distance then. With several nodes it needs Linux 5.15. It is
// Apply with Preferred or PreferredMany.
func Prefer(b []byte, move Move, nodes ...int) error {
	if nodes = normal(nodes); len(nodes) > 1 {
		return Apply(b, Policy{Mode: PreferredMany, Nodes: nodes}, move)
	}
	return Apply(b, Policy{Mode: Preferred, Nodes: nodes}, move)
}
