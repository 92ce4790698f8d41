package blocktable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/klauspost/compress/zstd"
)

// heldBlocks are data blocks held back until a dictionary can be made of them.
type heldBlocks struct {
	blocks [][]byte
	bytes  int64
}

func (h *heldBlocks) add(raw []byte) {
	h.blocks = append(h.blocks, bytes.Clone(raw))
	h.bytes += int64(len(raw))
}

func (h *heldBlocks) full(o *WriterOptions) bool {
	limit := o.CompressionOptions.MaxDictBufferBytes
	return limit > 0 && h.bytes > limit
}

// sampleStep is a prime: stepping by it modulo the number of blocks visits each
// block once, in RocksDB's order.
const sampleStep = 545055921143

// samples takes blocks from all over the file until there are limit bytes.
func (h *heldBlocks) samples(limit int) (samples [][]byte) {
	n := len(h.blocks)
	if n == 0 {
		return nil
	}
	step := sampleStep % n
	at, total := n/2, 0
	for i := 0; i < n && total < limit; i++ {
		b := h.blocks[at]
		b = b[:min(len(b), limit-total)]
		samples = append(samples, b)
		total += len(b)
		if at += step; at >= n {
			at -= n
		}
	}
	return samples
}

// dictionary makes the dictionary for the held blocks.
func (h *heldBlocks) dictionary(o *WriterOptions) []byte {
	c := &o.CompressionOptions
	if o.Compression != compress.ZSTD && o.Compression != compress.ZSTDNotFinal || c.ZstdMaxTrainBytes == 0 {
		return bytes.Join(h.samples(c.MaxDictBytes), nil)
	}
	samples := h.samples(c.ZstdMaxTrainBytes)
	d, err := trainZstd(samples, c.MaxDictBytes)
	if err != nil {
		// Too little to train on: the samples serve as they are.
		raw := bytes.Join(samples, nil)
		return raw[:min(len(raw), c.MaxDictBytes)]
	}
	return d
}

// dictID is stored in trained dictionaries and in frames that use them; it only
// has to be in the range that is free for private use.
const dictID = 0x7fff0001

// trainZstd makes a zstd dictionary of at most size bytes, tables included. The
// same samples always give the same dictionary.
func trainZstd(samples [][]byte, size int) ([]byte, error) {
	const tables = 512 // about what the entropy tables take
	content := dictContent(samples, max(size-tables, size/2))
	d, err := zstd.BuildDict(zstd.BuildDictOptions{
		ID:         dictID,
		Contents:   samples,
		History:    content,
		Offsets:    [3]int{1, 4, 8},
		CompatV155: true, // Debian 12 has 1.5.4
		Level:      zstd.SpeedDefault,
	})
	if err != nil || len(d) <= size {
		return d, err
	}
	return zstd.BuildDict(zstd.BuildDictOptions{
		ID: dictID, Contents: samples, History: content[min(len(d)-size, len(content)-8):],
		Offsets: [3]int{1, 4, 8}, CompatV155: true, Level: zstd.SpeedDefault,
	})
}

const (
	gramLen    = 8   // bytes that are counted together
	segmentLen = 128 // bytes that are taken together
	gramBits   = 16
)

func gram(b []byte) uint32 {
	return uint32(binary.LittleEndian.Uint64(b) * 0x9E3779B185EBCA87 >> (64 - gramBits))
}

// dictContent picks the segments of the samples whose grams are the most frequent,
// as the cover algorithm does: one segment from each of as many stretches of the
// samples as fit, counting no gram twice. The last segments are the cheapest to
// refer to, so that the best comes last.
func dictContent(samples [][]byte, size int) []byte {
	all := bytes.Join(samples, nil)
	if len(all) <= size || len(all) < 2*segmentLen {
		return all[:min(len(all), size)]
	}
	counts := make([]uint32, 1<<gramBits)
	for i := 0; i+gramLen <= len(all); i++ {
		counts[gram(all[i:])]++
	}
	stretches := max(size/segmentLen, 1)
	step := len(all) / stretches
	type segment struct {
		at    int
		score uint64
	}
	var picked []segment
	for s := range stretches {
		from, to := s*step, min((s+1)*step+segmentLen, len(all))
		best := segment{from, 0}
		var score uint64
		for i := from; i+gramLen <= to; i++ {
			score += uint64(counts[gram(all[i:])])
			if start := i + gramLen - segmentLen; start > from {
				score -= uint64(counts[gram(all[start-1:])])
				if score > best.score {
					best = segment{start, score}
				}
			}
		}
		end := min(best.at+segmentLen, len(all))
		for i := best.at; i+gramLen <= end; i++ {
			counts[gram(all[i:])] = 0
		}
		picked = append(picked, best)
	}
	slices.SortStableFunc(picked, func(a, b segment) int { return cmp.Compare(a.score, b.score) })
	var content []byte
	for _, p := range picked {
		content = append(content, all[p.at:min(p.at+segmentLen, len(all))]...)
	}
	return content[max(0, len(content)-size):]
}
