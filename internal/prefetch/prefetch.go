// Package prefetch asks the processor for memory that will be read, or written, soon. Unlike a load,
// the request never waits: it holds up nothing that comes after it, and asks for nothing
// at an address that is not mapped. Where the processor has no such instruction that
// Go can reach, the calls do nothing.
package prefetch

// Line is the size of a cache line in bytes, of the processors that have requests.
const Line = 64

// Span asks for the cache lines of b[off:end], as far as they lie in b.
func Span(b []byte, off, end int) {
	if end = min(end, len(b)); off >= 0 && off < end {
		lines(&b[off], (end-off+Line-1)/Line)
	}
}

// SpanToWrite asks for the cache lines of b[off:end], as far as they lie in b, to be
// written: no other core keeps them.
func SpanToWrite(b []byte, off, end int) {
	if end = min(end, len(b)); off >= 0 && off < end {
		linesToWrite(&b[off], (end-off+Line-1)/Line)
	}
}

// Address asks for the cache line of *p.
func Address(p *byte) { lines(p, 1) }

// At asks for the cache line of b[off], if b has it.
func At(b []byte, off int) {
	if uint(off) < uint(len(b)) {
		lines(&b[off], 1)
	}
}
