//go:build !flatrock_mutations

package mutation

// Enabled says whether this build can have bugs switched on.
const Enabled = false

// On reports whether the engine is to have the bug.
func On(Kind) bool { return false }
