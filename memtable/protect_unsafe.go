package memtable

import "unsafe"

// sumOf is the memory behind the value of a node, where a protected memtable keeps the
// entry's sum. newNode has allocated it there.
func (m *memory) sumOf(n node) []byte {
	p := unsafe.Add(n.p, nodeKey+uintptr(n.keyLen())+trailerLen+uintptr(*n.field(nodeValueLen)))
	return unsafe.Slice((*byte)(p), m.sumLen)
}

// offsetOf is where a node lies in the arena.
func (m *memory) offsetOf(n node) int64 { return int64(uintptr(n.p) - uintptr(m.base)) }

// lies reports whether a node with the lengths that it says it has lies in the arena.
// What is read to find out does, if link leads there.
func (m *memory) lies(link uint32) bool {
	off := int64(link) * linkUnit
	if off < 4*maxHeight || off+nodeKey > m.size {
		return false
	}
	n := m.at(link)
	return off+nodeKey+int64(n.keyLen())+trailerLen+int64(*n.field(nodeValueLen))+int64(m.sumLen) <= m.size
}
