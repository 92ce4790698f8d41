//go:build !unix

package mmapfs

func discardMemory([]byte) error { return nil }
