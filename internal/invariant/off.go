//go:build !flatrock_invariants

package invariant

// Enabled says whether this build checks.
const Enabled = false

// Check panics with the text if ok is false.
func Check(ok bool, format string, args ...any) {}
