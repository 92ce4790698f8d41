//go:build !flatrock_killpoints

package killpoint

// Enabled says whether Here may kill.
const Enabled = false

// Here is a point at which a white-box test may kill the process.
func Here(string) {}
