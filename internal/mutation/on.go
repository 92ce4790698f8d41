//go:build flatrock_mutations

package mutation

import "os"

// Enabled says whether this build can have bugs switched on.
const Enabled = true

var current = Kind(os.Getenv(Env))

// On reports whether the engine is to have the bug.
func On(k Kind) bool { return k == current }
