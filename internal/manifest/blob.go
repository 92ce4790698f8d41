package manifest

import "github.com/flatrock-db/flatrock/internal/coding"

// BlobAddition is tag 400: a blob file came to be.
type BlobAddition struct {
	Number         uint64
	Count          uint64 // blobs
	Bytes          uint64 // of records alone: without file header and footer
	ChecksumMethod string
	ChecksumValue  []byte
	Unknown        []Field
}

// BlobGarbage is tag 401: so much of a blob file is referred to no longer.
type BlobGarbage struct {
	Number  uint64
	Count   uint64
	Bytes   uint64
	Unknown []Field
}

// BlobFile is a live blob file of a version. Immutable once the version is
// published.
type BlobFile struct {
	BlobAddition
	GarbageCount, GarbageBytes uint64
	// Linked are the numbers of the table files whose oldest blob file this is, ascending.
	Linked []uint64
}

const (
	blobEnd            = 0
	blobUnsafeToIgnore = 64 // bit of a tag
)

func (a *BlobAddition) append(dst []byte) []byte {
	dst = coding.AppendUvarint(dst, a.Number)
	dst = coding.AppendUvarint(dst, a.Count)
	dst = coding.AppendUvarint(dst, a.Bytes)
	dst = coding.AppendString(dst, a.ChecksumMethod)
	dst = coding.AppendSlice(dst, a.ChecksumValue)
	return appendBlobFields(dst, a.Unknown)
}

func (d *decoder) blobAddition() (a BlobAddition) {
	a.Number = d.fileNumber("blob file number")
	a.Count = d.uvarint64("blob count")
	a.Bytes = d.uvarint64("blob bytes")
	a.ChecksumMethod = string(d.str("blob checksum method"))
	a.ChecksumValue = clone(d.str("blob checksum value"))
	a.Unknown = d.blobFields()
	return a
}

func (g *BlobGarbage) append(dst []byte) []byte {
	dst = coding.AppendUvarint(dst, g.Number)
	dst = coding.AppendUvarint(dst, g.Count)
	dst = coding.AppendUvarint(dst, g.Bytes)
	return appendBlobFields(dst, g.Unknown)
}

func (d *decoder) blobGarbage() (g BlobGarbage) {
	g.Number = d.fileNumber("blob file number")
	g.Count = d.uvarint64("garbage blob count")
	g.Bytes = d.uvarint64("garbage blob bytes")
	g.Unknown = d.blobFields()
	return g
}

func appendBlobFields(dst []byte, fields []Field) []byte {
	for _, u := range fields {
		dst = appendField(dst, u.Tag, u.Value)
	}
	return append(dst, blobEnd)
}

func (d *decoder) blobFields() (fields []Field) {
	for d.err == nil {
		tag := d.uvarint32("blob file custom field tag")
		if d.err != nil || tag == blobEnd {
			break
		}
		if tag&blobUnsafeToIgnore != 0 {
			d.fail("expected a custom field of a blob file that is safe to ignore, found tag %d", tag)
			break
		}
		fields = append(fields, Field{tag, clone(d.str("blob file custom field"))})
	}
	return fields
}
