package blocktable

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// ribbonBuilder makes Standard128Ribbon filters, and FastLocalBloom filters for
// sets so small that those are smaller.
type ribbonBuilder struct {
	bloomBuilder
	oneIn float64 // one false positive in so many
}

// maxRibbonEntries keeps slots within 32 bits.
const maxRibbonEntries = 950000000

func newRibbonBuilder(p FilterPolicy, millibits int) *ribbonBuilder {
	bpk := float64(millibits) / 1000
	return &ribbonBuilder{
		bloomBuilder: bloomBuilder{millibits: millibits},
		oneIn:        1 / cacheLocalFPRate(bpk, bloomProbes(millibits)),
	}
}

// cacheLocalFPRate estimates how often a Bloom filter with its probes in one cache
// line is wrong: the mean of lines one standard deviation fuller and emptier.
func cacheLocalFPRate(bitsPerKey float64, probes int) float64 {
	if bitsPerKey <= 0 {
		return 1
	}
	perLine := 8 * bloomLine / bitsPerKey
	dev := math.Sqrt(perLine)
	crowded := standardFPRate(8*bloomLine/(perLine+dev), probes)
	uncrowded := standardFPRate(8*bloomLine/(perLine-dev), probes)
	return (crowded + uncrowded) / 2
}

func standardFPRate(bitsPerKey float64, probes int) float64 {
	return math.Pow(1-math.Exp(-float64(probes)/bitsPerKey), float64(probes))
}

// ribbonKnown is how many entries RocksDB puts into 2^i slots, so that banding
// succeeds under nineteen seeds of twenty. Measured by the sizes of filters that
// RocksDB 7.8 builds for every number of entries around each power of two and
// three points between, which fixes the first four digits after the leading one.
var ribbonKnown = [...]float64{8: 248.5, 499.5, 1001.25, 2003.75, 4005.65, 8000.25, 15966.6, 31828.15, 63447.15}

func ribbonEntriesForPow2(log2 int) float64 {
	if log2 < len(ribbonKnown) {
		return ribbonKnown[log2]
	}
	// From 2^17 on the overhead grows by the same step, measured up to 2^19.
	return float64(uint64(1)<<log2) / (0.9714925 + 0.0038*float64(log2))
}

// ribbonSlots is how many slots RocksDB takes for n entries.
func ribbonSlots(n int) uint32 {
	if n == 0 {
		return 0
	}
	l := int(math.Log2(float64(n)) + 0.5)
	lower := ribbonEntriesForPow2(l)
	upper := lower
	if lower <= float64(n) {
		upper = ribbonEntriesForPow2(l + 1)
	} else {
		l--
		lower = ribbonEntriesForPow2(l)
	}
	up := (float64(n) - lower) / (upper - lower)
	slots := float64(uint64(1)<<l) * (2*up + 1 - up)
	return roundRibbonSlots(uint32(slots + 0.999999999))
}

// ribbonEntries is about the inverse of ribbonSlots.
func ribbonEntries(slots uint32) int {
	l := bits.Len32(slots) - 1
	lower, upper := ribbonEntriesForPow2(l), ribbonEntriesForPow2(l+1)
	up := float64(slots)/float64(uint64(1)<<l) - 1
	return int(up*upper + (1-up)*lower)
}

// roundRibbonSlots rounds up to whole blocks, at least two.
func roundRibbonSlots(n uint32) uint32 {
	return max((n+ribbonBlock-1)/ribbonBlock*ribbonBlock, 2*ribbonBlock)
}

// ribbonDataLen is the size of a filter with so many slots and about the wanted
// accuracy: each of its blocks has as many columns as that takes, or one more.
func ribbonDataLen(slots uint32, oneIn float64) int {
	if !(oneIn > 1) {
		return 0
	}
	blocks := int(slots / ribbonBlock)
	if oneIn > math.MaxUint32 {
		return blocks * ribbonMaxCols * ribbonSegment
	}
	columns := bits.Len32(uint32(oneIn)) - 1
	lowerRate := math.Pow(2, -float64(columns))
	upperRate := math.Pow(2, -float64(columns+1))
	portion := (1/oneIn - upperRate) / (lowerRate - upperRate)
	starts := float64(slots - (ribbonBlock - 1)) // where a band may start
	lower := min(int(portion*starts/ribbonBlock), blocks)
	return ribbonSegment * (lower*columns + (blocks-lower)*(columns+1))
}

// plan is the slots and data length for n entries; slots is zero for a Bloom
// filter instead.
func (b *ribbonBuilder) plan(n int) (slots uint32, dataLen int) {
	if n == 0 || n > maxRibbonEntries {
		return 0, 0
	}
	slots = ribbonSlots(n)
	dataLen = ribbonDataLen(slots, b.oneIn)
	if slots < 1024 && b.dataLen(n) < dataLen {
		return 0, 0
	}
	return slots, dataLen
}

func (b *ribbonBuilder) capacity(size int) int {
	n := max(size-filterMetaLen, 0) &^ (ribbonSegment - 1)
	if !(b.oneIn > 1) {
		return maxRibbonEntries
	}
	least := 32.0
	if b.oneIn < 1+math.MaxUint32 {
		upper := bits.Len32(uint32(b.oneIn))
		rate := math.Pow(2, -float64(upper))
		least = float64(upper) - (1/b.oneIn-rate)/rate
	}
	slots := roundRibbonSlots(uint32(min(float64(n)*8/least, float64(maxRibbonEntries))))
	for slots > 2*ribbonBlock && ribbonDataLen(slots, b.oneIn) > n {
		slots -= ribbonBlock
	}
	entries := ribbonEntries(slots)
	if ribbonDataLen(slots, b.oneIn) > n {
		entries = 0
	}
	if slots < 1024 {
		entries = max(entries, b.bloomBuilder.capacity(size))
	}
	return min(entries, maxRibbonEntries)
}

func (b *ribbonBuilder) finish() []byte {
	slots, dataLen := b.plan(len(b.hs))
	if slots == 0 {
		return b.bloomBuilder.finish()
	}
	if b.fill {
		most := int(slots / ribbonBlock * ribbonMaxCols * ribbonSegment)
		dataLen = max(dataLen, min(filled(dataLen, ribbonSegment), most))
	}
	band := newBanding(slots)
	seed := byte(b.hs[0])
	for range 256 {
		if band.solve(b.hs, seed) {
			f := make([]byte, dataLen+filterMetaLen)
			band.substitute(f[:dataLen])
			blocks := slots / ribbonBlock
			copy(f[dataLen:], []byte{filterRibbon, seed, byte(blocks), byte(blocks >> 8), byte(blocks >> 16)})
			b.hs = b.hs[:0]
			return f
		}
		seed++
	}
	return b.bloomBuilder.finish() // no seed works: equal hashes that differ nowhere else
}

// banding is a system of linear equations over GF(2), one a key, in echelon form:
// row i has its first coefficient at slot i.
type banding struct {
	coeff []u128
	want  []uint32
}

func newBanding(slots uint32) *banding {
	return &banding{make([]u128, slots), make([]uint32, slots)}
}

// solve brings the keys' equations into echelon form; false if they contradict
// each other under this seed.
func (b *banding) solve(hs []uint64, seed byte) bool {
	clear(b.coeff)
	clear(b.want)
	slots := uint64(len(b.coeff))
	for _, h := range hs {
		i, c, want := ribbonHash(h, seed, slots)
		for !b.coeff[i].isZero() {
			c = c.xor(b.coeff[i])
			want ^= b.want[i]
			if c.isZero() {
				break
			}
			n := c.trailingZeros()
			i += uint64(n)
			c = c.shr(uint(n))
		}
		if c.isZero() {
			if want != 0 {
				return false
			}
			continue
		}
		b.coeff[i], b.want[i] = c, want
	}
	return true
}

// substitute solves the equations from the last slot upward and stores the
// solution, column by column, block by block.
func (b *banding) substitute(data []byte) {
	blocks := uint64(len(b.coeff) / ribbonBlock)
	segments := uint64(len(data) / ribbonSegment)
	cols, fewer := ribbonLayout(segments, blocks)
	state := make([]u128, cols)
	seg := segments
	for blk := blocks; blk > 0; blk-- {
		n := cols
		if blk-1 < fewer {
			n--
		}
		for i := int(blk*ribbonBlock) - 1; i >= int((blk-1)*ribbonBlock); i-- {
			c, want := b.coeff[i], b.want[i]
			for col := range state[:n] {
				t := state[col].shl(1)
				bit := uint64(t.and(c).parity()) ^ uint64(want>>col&1)
				t.lo |= bit
				state[col] = t
			}
		}
		seg -= n
		for col := range n {
			binary.LittleEndian.PutUint64(data[(seg+col)*ribbonSegment:], state[col].lo)
			binary.LittleEndian.PutUint64(data[(seg+col)*ribbonSegment+8:], state[col].hi)
		}
	}
}
