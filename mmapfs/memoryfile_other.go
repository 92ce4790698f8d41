//go:build !linux

package mmapfs

import "os"

func onMemoryFS(*os.File) bool { return false }

func memoryFileLimit() int64 { return 0 }
