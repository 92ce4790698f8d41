package blocktable

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/hash"
)

// dataBuilder builds data blocks, with a hash index if asked for.
type dataBuilder struct {
	o *WriterOptions
	b *block.Builder

	hashing bool    // off for good once a block had too many restart points
	perKey  float64 // buckets an entry adds
	buckets float64
	hashes  []hashedKey
}

// hashedKey is a user key's hash and the restart interval that it is in.
type hashedKey struct {
	hash    uint32
	restart uint8
}

const maxHashRestart = 253

func newDataBuilder(o *WriterOptions) *dataBuilder {
	d := &dataBuilder{o: o, b: block.NewBuilder(o.BlockRestartInterval)}
	d.b.SetDelta(o.UseDeltaEncoding)
	if o.DataBlockIndexType == DataBlockBinaryAndHash {
		d.hashing, d.perKey = true, 1/o.DataBlockHashTableUtilRatio
	}
	return d
}

// hashBytes is what the hash index would take now.
func (d *dataBuilder) hashBytes() int {
	if !d.hashing {
		return 0
	}
	return 2 + int(uint16(d.buckets)|1)
}

func (d *dataBuilder) full(keyLen, valueLen int) bool {
	return blockFull(d.b, keyLen, valueLen, d.o.BlockSize, d.o.BlockSizeDeviation, d.o.BlockAlign, false, d.hashBytes())
}

func (d *dataBuilder) empty() bool { return d.b.Empty() }

func (d *dataBuilder) size() int { return d.b.EstimatedSize() + d.hashBytes() }

func (d *dataBuilder) add(key, value []byte) {
	restart := d.b.Add(key, value)
	if !d.hashing {
		return
	}
	if restart > maxHashRestart {
		d.hashing = false
		return
	}
	d.hashes = append(d.hashes, hashedKey{hash.Slice(key[:len(key)-8]), uint8(restart)})
	d.buckets += d.perKey
}

// finish returns the block, borrowed until reset.
func (d *dataBuilder) finish() []byte {
	useHash := d.hashing && d.size() <= maxHashBlock
	d.b.AppendRestarts()
	if !useHash {
		return d.b.AppendCount(0)
	}
	n := uint32(uint16(d.buckets))
	n = max(n, 1) | 1
	table := make([]byte, n, n+2)
	for i := range table {
		table[i] = bucketEmpty
	}
	for _, h := range d.hashes {
		b := &table[h.hash%n]
		switch *b {
		case bucketEmpty:
			*b = h.restart
		case h.restart:
		default:
			*b = bucketCollision
		}
	}
	d.b.Append(binary.LittleEndian.AppendUint16(table, uint16(n)))
	return d.b.AppendCount(flagHashIndex)
}

func (d *dataBuilder) reset() {
	d.b.Reset()
	if d.hashing {
		d.hashes, d.buckets = d.hashes[:0], 0
	}
}
