package compress

import "encoding/binary"

// The parts of zstd's frame format (RFC 8878, section 3.1) that say how much there can be.
const (
	zstdMagic     = 0xfd2fb528
	zstdSkippable = 0x184d2a50 // and the 15 that follow
	zstdBlockMost = 128 << 10  // bytes that a block holds, uncompressed
)

// ZSTDBound returns how many bytes the zstd frames in src hold at most, by the headers of
// their blocks alone: raw and repeated bytes say how many they are, a compressed block has
// 128 KiB at most. What a frame claims of itself does not count. Where the frames are cut off
// or damaged the count ends; decoding them fails there.
func ZSTDBound(src []byte) (most uint64) {
	for len(src) >= 8 {
		magic := binary.LittleEndian.Uint32(src)
		if magic&^0xf == zstdSkippable {
			n := uint64(binary.LittleEndian.Uint32(src[4:]))
			if src = src[8:]; n > uint64(len(src)) {
				return most
			}
			src = src[n:]
			continue
		}
		if magic != zstdMagic {
			return most
		}
		// The header: a window byte unless there is one segment, a dictionary's id,
		// and the size of the content.
		descriptor := src[4]
		n := 5 + []int{0, 1, 2, 4}[descriptor&3] + []int{0, 2, 4, 8}[descriptor>>6]
		if single := descriptor&0x20 != 0; !single || descriptor>>6 == 0 {
			n++
		}
		if n > len(src) {
			return most
		}
		src = src[n:]
		for last := false; !last; {
			if len(src) < 3 {
				return most
			}
			h := uint32(src[0]) | uint32(src[1])<<8 | uint32(src[2])<<16
			size := int(h >> 3)
			last, src = h&1 != 0, src[3:]
			stored := size
			switch h >> 1 & 3 {
			case 0: // raw
				most += uint64(size)
			case 1: // one byte, repeated
				stored = 1
				most += uint64(size)
			default:
				most += zstdBlockMost
			}
			if stored > len(src) {
				return most
			}
			src = src[stored:]
		}
		if descriptor&4 != 0 { // a checksum
			src = src[min(len(src), 4):]
		}
	}
	return most
}
