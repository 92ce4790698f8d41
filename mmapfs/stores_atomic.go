//go:build !amd64 || !linux || race

package mmapfs

// PlainStores is false where announcements take an atomic store.
const PlainStores = false
