//go:build amd64 || arm64

package prefetch

// lines asks for n lines, at least one, from the one that p is in.
//
//go:noescape
func lines(p *byte, n int)

// linesToWrite is lines for memory that will be written.
//
//go:noescape
func linesToWrite(p *byte, n int)
