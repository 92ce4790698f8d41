package memtable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// sortChunk is how many links are sorted at once, so that the array of key heads
// stays small; longer runs are chunks merged.
const sortChunk = 256 << 10

// headed is a link with the first bytes of its key that tell keys apart, so that
// most comparisons do not touch the nodes.
type headed struct {
	head uint64
	link uint32
}

// sortLinks puts links that nobody else sees yet in internal key order.
func (m *MemTable) sortLinks(all []uint32, chunkLen int) {
	if m.sorted(all) {
		return
	}
	var heads []headed
	if m.bytewise || m.order.Comparator() == keys.ReverseBytewise {
		heads = make([]headed, min(len(all), chunkLen))
	}
	for start := 0; start < len(all); start += chunkLen {
		chunk := all[start:min(start+chunkLen, len(all))]
		if heads == nil {
			slices.SortFunc(chunk, m.compareLinks)
		} else {
			m.sortByHeads(chunk, heads[:len(chunk)])
		}
	}
	if len(all) <= chunkLen {
		return
	}
	scratch := newLinks(len(all), &m.runs.bytes)
	from, to := all, scratch.array
	for width := chunkLen; width < len(all); width *= 2 {
		for start := 0; start < len(all); start += 2 * width {
			mid, end := min(start+width, len(all)), min(start+2*width, len(all))
			m.mergeLinks(to[start:end], from[start:mid], from[mid:end])
		}
		from, to = to, from
	}
	if &from[0] != &all[0] {
		copy(all, from)
	}
	scratch.free()
}

// sorted reports whether links are in order as they were inserted: then there is
// nothing to do.
func (m *MemTable) sorted(links []uint32) bool {
	for i := 1; i < len(links); i++ {
		if m.compareLinks(links[i-1], links[i]) >= 0 {
			return false
		}
	}
	return true
}

func (m *MemTable) compareLinks(a, b uint32) int {
	n := m.at(b)
	return m.compare(m.at(a), n.key(), n.trailer())
}

func (m *MemTable) sortByHeads(links []uint32, heads []headed) {
	first := m.at(links[0]).key()
	common := len(first)
	for _, link := range links[1:] {
		key := m.at(link).key()
		common = min(common, len(key))
		if !bytes.Equal(key[:common], first[:common]) {
			common = commonPrefixLen(key, first[:common])
		}
	}
	var flip uint64
	if !m.bytewise {
		flip = ^uint64(0)
	}
	for i, link := range links {
		heads[i] = headed{keyHead(m.at(link).key()[common:]) ^ flip, link}
	}
	slices.SortFunc(heads, func(a, b headed) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return m.compareLinks(a.link, b.link)
	})
	for i := range heads {
		links[i] = heads[i].link
	}
}

func commonPrefixLen(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// keyHead orders as the first eight bytes of b do; equal heads decide nothing.
func keyHead(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var h uint64
	for i, c := range b {
		h |= uint64(c) << (56 - 8*i)
	}
	return h
}

// mergeLinks merges two sorted arrays into dst, which is as long as both.
func (m *MemTable) mergeLinks(dst, a, b []uint32) {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		m.at(a[min(i+touchAhead, len(a)-1)]).touch()
		m.at(b[min(j+touchAhead, len(b)-1)]).touch()
		if m.compareLinks(a[i], b[j]) < 0 {
			dst[i+j] = a[i]
			i++
		} else {
			dst[i+j] = b[j]
			j++
		}
	}
	copy(dst[i+j:], a[i:])
	copy(dst[i+j+len(a)-i:], b[j:])
}

// searchRun is the index of the first link at or after (key, trailer).
func (m *MemTable) searchRun(links []uint32, key []byte, trailer uint64) int {
	lo, hi := 0, len(links)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if m.compare(m.at(links[mid]), key, trailer) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
