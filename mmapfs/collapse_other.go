//go:build !linux

package mmapfs

import "os"

// canCollapse: no mapping is laid out for huge pages here, so the two below are never called.
const canCollapse = false

func mapOver(*os.File, []byte) error { return ErrNotSupported }

func collapse([]byte) {}
