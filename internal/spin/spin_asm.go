//go:build amd64 || arm64

package spin

// pause executes n pauses, at least one.
//
//go:noescape
func pause(n int)
