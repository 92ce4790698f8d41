// Package house holds the rules of this repository as tests: which package may
// import which, where unsafe may stand, that packages are documented. The rules
// are data; loosen one only with a reason, in the comment beside it and in the
// commit.
package house
