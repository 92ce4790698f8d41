package memtable

import "unsafe"

// byteAt is a byte of a node, for tests that damage it.
func (m *MemTable) byteAt(n node, off int) *byte { return (*byte)(unsafe.Add(n.p, off)) }
