//go:build flatrock_invariants

package invariant

import "fmt"

// Enabled says whether this build checks.
const Enabled = true

// Check panics with the text if ok is false.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("flatrock: broken invariant: " + fmt.Sprintf(format, args...))
	}
}
