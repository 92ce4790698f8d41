//go:build !linux

package blocktable

import (
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// inMemory opens the file as it is: there is no tmpfs.
func inMemory(t testing.TB, path string) mmapfs.File { return openFile(t, path) }
