//go:build !amd64 || !linux || race

package flatrock

// plainStores is false where readers announce themselves by an atomic store.
const plainStores = false
