package compaction

import (
	"cmp"
	"slices"

	"github.com/flatrock-db/flatrock/internal/blob"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// blobRecordHeader is what a record of a blob file has beside key and value.
const blobRecordHeader = 32

// blobBalance counts, by blob file, the references that came in and did not go
// out: what the Run makes garbage. The zero blobBalance is empty.
type blobBalance struct {
	byFile map[uint64]*manifest.BlobGarbage
}

// in counts a reference of an input, out one of an output, which it returns the
// file of. An index that makes no sense, or that refers to no file, counts nowhere: it is kept as
// it is.
func (b *blobBalance) in(userKey, index []byte) {
	if i, err := blob.DecodeIndex(index); err == nil && i.Kind != blob.Inlined {
		g := b.of(i.File)
		g.Count++
		g.Bytes += i.Size + uint64(len(userKey)) + blobRecordHeader
	}
}

func (b *blobBalance) out(userKey, index []byte) (file uint64) {
	i, err := blob.DecodeIndex(index)
	if err != nil || i.Kind == blob.Inlined {
		return 0
	}
	g := b.of(i.File)
	g.Count--
	g.Bytes -= i.Size + uint64(len(userKey)) + blobRecordHeader
	return i.File
}

func (b *blobBalance) of(file uint64) *manifest.BlobGarbage {
	if b.byFile == nil {
		b.byFile = map[uint64]*manifest.BlobGarbage{}
	}
	g := b.byFile[file]
	if g == nil {
		g = &manifest.BlobGarbage{Number: file}
		b.byFile[file] = g
	}
	return g
}

// add adds what another balance has counted.
func (b *blobBalance) add(o *blobBalance) {
	for file, g := range o.byFile {
		sum := b.of(file)
		sum.Count += g.Count
		sum.Bytes += g.Bytes
	}
}

// garbage lists what is referred to no longer, by file.
func (b *blobBalance) garbage() (list []manifest.BlobGarbage) {
	for _, g := range b.byFile {
		if g.Count > 0 {
			list = append(list, *g)
		}
	}
	slices.SortFunc(list, func(x, y manifest.BlobGarbage) int { return cmp.Compare(x.Number, y.Number) })
	return list
}
