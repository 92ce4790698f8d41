package hostile

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/record"
)

// Seal makes the checksums in b right, a file of that base name which was pristine before it was
// spoiled: those of records in logs and MANIFESTs, of the blocks of block-based tables that lie where
// they lay, and of the records of blob files. Other files have none that it knows.
func Seal(name string, pristine, b []byte) {
	switch kind, _, _ := manifest.ParseName(name); kind {
	case manifest.KindLog, manifest.KindManifest:
		sealRecords(b)
	case manifest.KindTable:
		blocks, f := Blocks(pristine)
		for _, h := range blocks {
			sealBlock(b, f, h)
		}
	case manifest.KindBlob:
		sealBlobs(b)
	}
}

// sealRecords walks the fragments by the lengths that b has now.
func sealRecords(b []byte) {
	for at := 0; at+record.HeaderSize <= len(b); {
		left := record.BlockSize - at%record.BlockSize
		if left < record.HeaderSize {
			at += left
			continue
		}
		head := record.HeaderSize
		if typ := record.Type(b[at+6]); typ >= record.RecyclableFull && typ <= record.RecyclableLast {
			head = record.RecyclableHeaderSize
		}
		end := at + head + int(binary.LittleEndian.Uint16(b[at+4:]))
		if b[at+6] == 0 && end == at+head || end > len(b) || end-at > left {
			at += left // as the reader does with what makes no sense
			continue
		}
		binary.LittleEndian.PutUint32(b[at:], hash.Mask(hash.CRC32C(b[at+6:end])))
		at = end
	}
}

// maxBlock bounds the blocks that are found: each length is tried.
const maxBlock = 8 << 10

// Blocks finds the blocks of a block-based table, one after the other from its start, by their
// checksums alone. Other files have none.
func Blocks(b []byte) (blocks []block.Handle, f block.Footer) {
	f, err := block.DecodeFooter("", b[max(0, len(b)-block.FooterLen):], int64(len(b)))
	if err != nil || f.Plain() {
		return nil, f
	}
	end := len(b) - f.Len()
	for at := 0; at < end; {
		n := 0
		for n+at+block.TrailerLen <= end && n <= maxBlock && checksum(b, f, at, n) != binary.LittleEndian.Uint32(b[at+n+1:]) {
			n++
		}
		if n+at+block.TrailerLen > end || n > maxBlock {
			at++ // padding
			continue
		}
		blocks = append(blocks, block.Handle{Offset: uint64(at), Size: uint64(n)})
		at += n + block.TrailerLen
	}
	return blocks, f
}

func checksum(b []byte, f block.Footer, at, n int) uint32 {
	return hash.Checksum(f.Checksum, b[at:at+n], b[at+n]) + f.Modifier(uint64(at))
}

func sealBlock(b []byte, f block.Footer, h block.Handle) {
	if at, n := int(h.Offset), int(h.Size); at+n+block.TrailerLen <= len(b) {
		binary.LittleEndian.PutUint32(b[at+n+1:], checksum(b, f, at, n))
	}
}

// The layout of blob files, as package blob has it.
const (
	blobHeader = 30
	blobRecord = 32
	blobFooter = 32
)

func sealBlobs(b []byte) {
	for at := blobHeader; at+blobRecord <= len(b); {
		if at+blobFooter == len(b) && bytes.Equal(b[at:at+4], b[:4]) { // both begin with the magic number
			binary.LittleEndian.PutUint32(b[at+28:], hash.Mask(hash.CRC32C(b[at:at+28])))
			return
		}
		key, value := binary.LittleEndian.Uint64(b[at:]), binary.LittleEndian.Uint64(b[at+8:])
		binary.LittleEndian.PutUint32(b[at+24:], hash.Mask(hash.CRC32C(b[at:at+24])))
		rest := uint64(len(b) - at - blobRecord)
		if key > rest || value > rest-key {
			return
		}
		end := at + blobRecord + int(key+value)
		binary.LittleEndian.PutUint32(b[at+28:], hash.Mask(hash.CRC32C(b[at+blobRecord:end])))
		at = end
	}
}

// turn makes a handle of a block, wherever one is found, point at another block, perhaps at the one
// that it stands in: an index that is its own entry, properties that are the metaindex. Where the
// blocks are compressed only the footer shows its handles. Seal must follow.
func turn(rng *rand.Rand, b []byte) []byte {
	blocks, _ := Blocks(b)
	type place struct{ at, n int }
	var places []place
	for _, h := range blocks {
		code := block.AppendHandle(nil, h)
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], code)
			if i < 0 {
				break
			}
			at += i
			places = append(places, place{at, len(code)})
		}
	}
	if len(places) == 0 {
		return b
	}
	p := places[rng.IntN(len(places))]
	for range 100 {
		h := blocks[rng.IntN(len(blocks))]
		switch rng.IntN(4) {
		case 0: // not from its start
			h.Offset += uint64(rng.IntN(int(h.Size) + 1))
		case 1: // beyond its end
			h.Size += uint64(rng.IntN(len(b)))
		}
		if code := block.AppendHandle(nil, h); len(code) == p.n && !bytes.Equal(code, b[p.at:p.at+p.n]) {
			copy(b[p.at:], code)
			break
		}
	}
	return b
}
