// Package invariant holds the engine to what it relies on. In a build with the tag
// flatrock_invariants a broken invariant panics; without it nothing is checked, and
// checks inside "if invariant.Enabled" are not compiled.
package invariant
