package prefetch

import "testing"

// TestRequestsOutsideAreIgnored, and those inside change nothing.
func TestRequestsOutsideAreIgnored(t *testing.T) {
	b := []byte("some bytes")
	for _, off := range []int{-1 << 62, -1, 0, 9, 10, 11, 1 << 62} {
		At(b, off)
		At(nil, off)
		for _, end := range []int{-1 << 62, -1, 0, 1, 10, 11, 1 << 62} {
			Span(b, off, end)
			Span(nil, off, end)
			SpanToWrite(b, off, end)
			SpanToWrite(nil, off, end)
		}
	}
	if string(b) != "some bytes" {
		t.Fatalf("%q", b)
	}
	if n := testing.AllocsPerRun(100, func() { Span(b, 0, 1000); At(b, 3) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
