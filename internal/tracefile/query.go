package tracefile

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// Query is one operation of a query trace. Slices are borrowed until the next Read.
type Query struct {
	Micros uint64
	Type   Type // Write, Get, Seek, SeekForPrev or MultiGet

	Batch        []byte // Write: the batch as in the log, its sequence number not yet given
	Family       uint32 // Get and seeks
	Key          []byte // Get and seeks
	Lower, Upper []byte // seeks: the iterator's bounds, nil for none
	Families     []uint32
	Keys         [][]byte // MultiGet, as many as Families
}

// The bits of a payload's map of fields.
const (
	bitBatch = 1 + iota
	bitGetFamily
	bitGetKey
	bitSeekFamily
	bitSeekKey
	bitLower
	bitUpper
	bitCount
	bitFamilies
	bitKeys
)

// AppendQueryHeader appends the first record of a query trace.
func AppendQueryHeader(dst []byte, micros uint64) []byte {
	text := fmt.Sprintf("%s\tTrace Version: 0.2\tRocksDB Version: %d.%d\tFormat: Timestamp OpType Payload\n", magic, Major, Minor)
	return append(AppendHeader(dst, micros, Begin, len(text)), text...)
}

// AppendQueryEnd appends the last record of a query trace.
func AppendQueryEnd(dst []byte, micros uint64) []byte { return AppendHeader(dst, micros, End, 0) }

// AppendQuery appends the record of an operation:
//
//	payload := fixed64 map of fields ‖ the fields, in the order of their bits
//	write   := str batch
//	get     := fixed32 family ‖ str key
//	seek    := fixed32 family ‖ str key ‖ [str lower] ‖ [str upper]
//	multi   := fixed32 n ‖ str (fixed32 family)×n ‖ str (str key)×n
func AppendQuery(dst []byte, q *Query) []byte {
	start := len(dst)
	dst = AppendHeader(dst, q.Micros, q.Type, 0)
	fieldMap := func(bits ...int) {
		var m uint64
		for _, b := range bits {
			m |= 1 << b
		}
		dst = binary.LittleEndian.AppendUint64(dst, m)
	}
	switch q.Type {
	case Write:
		fieldMap(bitBatch)
		dst = coding.AppendSlice(dst, q.Batch)
	case Get:
		fieldMap(bitGetFamily, bitGetKey)
		dst = binary.LittleEndian.AppendUint32(dst, q.Family)
		dst = coding.AppendSlice(dst, q.Key)
	case Seek, SeekForPrev:
		bits := []int{bitSeekFamily, bitSeekKey, bitLower, bitUpper}
		n := 2
		if len(q.Lower) > 0 {
			n++
		}
		if len(q.Upper) > 0 {
			bits[n] = bitUpper
			n++
		}
		fieldMap(bits[:n]...)
		dst = binary.LittleEndian.AppendUint32(dst, q.Family)
		dst = coding.AppendSlice(dst, q.Key)
		if len(q.Lower) > 0 {
			dst = coding.AppendSlice(dst, q.Lower)
		}
		if len(q.Upper) > 0 {
			dst = coding.AppendSlice(dst, q.Upper)
		}
	case MultiGet:
		fieldMap(bitCount, bitFamilies, bitKeys)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(q.Keys)))
		dst = coding.AppendUvarint(dst, uint64(4*len(q.Families)))
		for _, f := range q.Families {
			dst = binary.LittleEndian.AppendUint32(dst, f)
		}
		size := 0
		for _, k := range q.Keys {
			size += coding.UvarintLen(uint64(len(k))) + len(k)
		}
		dst = coding.AppendUvarint(dst, uint64(size))
		for _, k := range q.Keys {
			dst = coding.AppendSlice(dst, k)
		}
	}
	binary.LittleEndian.PutUint32(dst[start+9:], uint32(len(dst)-start-headerLen))
	return dst
}

// QueryReader reads a query trace of version 0.1 or 0.2.
type QueryReader struct {
	r      *Reader
	mapped bool // 0.2: payloads begin with a map of fields
	Micros uint64
	Header string // the text of the header
	Ended  bool   // the end record was read
}

// NewQueryReader reads the header. in should be buffered; the name is for errors.
func NewQueryReader(in io.Reader, name string) (*QueryReader, error) {
	q := &QueryReader{r: NewReader(in, name)}
	rec, err := q.r.begin()
	if err != nil {
		return nil, err
	}
	if len(rec.Payload) == 1+len(magic)+8 && string(rec.Payload[1:1+len(magic)]) == magic {
		return nil, fmt.Errorf("%s is a block cache or IO trace, not a query trace: %w", name, ErrKind)
	}
	text := string(rec.Payload)
	if !strings.HasPrefix(text, magic+"\t") {
		return nil, keys.Corruptf(name, headerLen, "expected the magic string %q of a trace, found %.32q", magic, text)
	}
	q.Micros, q.Header = rec.Micros, text
	_, version, _ := strings.Cut(text, "Trace Version: ")
	version, _, _ = strings.Cut(version, "\t")
	switch version {
	case "0.1":
	case "0.2":
		q.mapped = true
	default:
		return nil, keys.Corruptf(name, headerLen, "expected trace version 0.1 or 0.2, found %.32q", version)
	}
	return q, nil
}

// Offset is how many bytes of the file have been read.
func (r *QueryReader) Offset() int64 { return r.r.Offset() }

// Read reads the next operation into q, or returns io.EOF at the end record or,
// in a trace that nobody ended, at the end of the file.
func (r *QueryReader) Read(q *Query) error {
	if r.Ended {
		return io.EOF
	}
	rec, err := r.r.Read()
	if err != nil {
		return err
	}
	*q = Query{Micros: rec.Micros, Type: rec.Type, Families: q.Families[:0], Keys: q.Keys[:0]}
	f := fields{name: r.r.name, at: rec.Offset + headerLen, b: rec.Payload}
	switch rec.Type {
	case End:
		r.Ended = true
		return io.EOF
	case Write, Get, Seek, SeekForPrev, MultiGet:
		if !r.mapped {
			return r.decodeOld(q, &f)
		}
		return r.decode(q, &f)
	}
	return keys.Corruptf(r.r.name, rec.Offset+8, "expected an operation, found a record of type %v", rec.Type)
}

// decodeOld reads a payload of version 0.1.
func (r *QueryReader) decodeOld(q *Query, f *fields) error {
	switch q.Type {
	case Write:
		q.Batch = f.b
		return nil
	case MultiGet:
		return keys.Corruptf(f.name, f.at, "expected no MultiGet in a trace of version 0.1")
	}
	q.Family = f.fixed32("a column family id")
	q.Key = f.str("a key")
	return f.end()
}

// allowed are the fields that a record of each type may have.
var allowed = map[Type]uint64{
	Write:       1 << bitBatch,
	Get:         1<<bitGetFamily | 1<<bitGetKey,
	Seek:        1<<bitSeekFamily | 1<<bitSeekKey | 1<<bitLower | 1<<bitUpper,
	SeekForPrev: 1<<bitSeekFamily | 1<<bitSeekKey | 1<<bitLower | 1<<bitUpper,
	MultiGet:    1<<bitCount | 1<<bitFamilies | 1<<bitKeys,
}

func (r *QueryReader) decode(q *Query, f *fields) error {
	at := f.at
	m := f.fixed64("a map of fields")
	if f.err == nil && m&^allowed[q.Type] != 0 {
		return keys.Corruptf(f.name, at, "expected a map of fields within %#x for %v, found %#x", allowed[q.Type], q.Type, m)
	}
	var count uint32
	var families, all []byte
	for bit := bitBatch; bit <= bitKeys; bit++ {
		if m&(1<<bit) == 0 {
			continue
		}
		switch bit {
		case bitBatch:
			q.Batch = f.str("a batch")
		case bitGetFamily, bitSeekFamily:
			q.Family = f.fixed32("a column family id")
		case bitGetKey, bitSeekKey:
			q.Key = f.str("a key")
		case bitLower:
			q.Lower = f.str("a lower bound")
		case bitUpper:
			q.Upper = f.str("an upper bound")
		case bitCount:
			count = f.fixed32("a number of keys")
		case bitFamilies:
			families = f.str("column family ids")
		case bitKeys:
			all = f.str("keys")
		}
	}
	if err := f.end(); err != nil {
		return err
	}
	if q.Type != MultiGet {
		return nil
	}
	if uint64(len(families)) != 4*uint64(count) {
		return keys.Corruptf(f.name, at, "expected column family ids for %d keys, found %d bytes", count, len(families))
	}
	g := fields{name: f.name, at: f.at - int64(len(all)), b: all}
	for i := range int(count) {
		q.Families = append(q.Families, binary.LittleEndian.Uint32(families[4*i:]))
		q.Keys = append(q.Keys, g.str("a key"))
		if g.err != nil {
			return g.err
		}
	}
	return g.end()
}
