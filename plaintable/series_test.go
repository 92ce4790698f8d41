package plaintable

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// seriesCase makes the rows of a file: numbers ascending, the key of each, its value.
type seriesCase struct {
	name    string
	keyLen  int
	numbers []uint64
	key     func(n uint64) []byte
	value   func(n uint64) []byte
	serves  bool // the file must be read by its series, or must not
}

func counting(from, step uint64, n int) (list []uint64) {
	for i := range n {
		list = append(list, from+uint64(i)*step)
	}
	return list
}

func seriesCases() []seriesCase {
	first8 := func(n uint64) []byte { // as db_bench's keys
		return append(binary.BigEndian.AppendUint64(nil, n), "000000000000"...)
	}
	last8 := func(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte("tenant-00012"), n) }
	middle := func(n uint64) []byte {
		return append(binary.BigEndian.AppendUint32([]byte("shard/"), uint32(n)), fmt.Sprintf("#%09d", n*n%997)...)
	}
	same := func(n uint64) []byte { return fmt.Appendf(nil, "value %020d", n) }
	sizes := func(n uint64) []byte { return make([]byte, n*n*2654435761>>7%50) }
	rng := rand.New(rand.NewPCG(5, 6))
	var gaps, scattered []uint64
	for n := range uint64(30000) {
		if n%1000 != 77 && n/100 != 55 {
			gaps = append(gaps, n)
		}
		scattered = append(scattered, 8*n+rng.Uint64N(8))
	}
	return []seriesCase{
		{"as db_bench", 20, counting(0, 1, 70000), first8, same, true},
		{"from the middle of a byte", 20, counting(1<<16-300, 1, 3000), first8, same, true},
		{"at the end", 20, counting(1<<24-300, 1, 3000), last8, same, true},
		{"in tens", 20, counting(3, 10, 3000), last8, same, true},
		{"a step of many bytes", 20, counting(1, 1<<50+1, 3000), last8, same, true},
		{"with a tail that varies", 20, counting(0, 1, 70000), middle, same, true},
		{"eight bytes", 8, counting(1<<63, 1<<40, 3000), func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }, same, true},
		{"with gaps", 20, gaps, first8, same, true},
		{"sizes that change seldom", 20, counting(0, 1, 30000), last8, func(n uint64) []byte { return make([]byte, n/3000) }, true},
		{"one row", 20, counting(9, 1, 1), first8, same, true},
		{"two rows", 20, counting(9, 300, 2), first8, same, true},
		{"two rows far apart", 20, []uint64{1, 1 << 60}, func(n uint64) []byte { return append(first8(n)[:10], first8(n)[:10]...) }, same, true},
		{"scattered", 20, scattered, first8, same, false},
		{"sizes that vary", 20, counting(0, 1, 3000), first8, sizes, false},
		{"keys that differ after the word", 20, counting(0, 1, 3000),
			func(n uint64) []byte {
				return append(binary.BigEndian.AppendUint64(nil, n/2<<40), fmt.Sprintf("%012d", n%2)...)
			}, same, false},
	}
}

func (c *seriesCase) rows() (rows []entry) {
	for _, n := range c.numbers {
		rows = append(rows, entry{c.key(n), keys.Pack(0, keys.KindValue), c.value(n)})
	}
	return rows
}

// TestSeriesAnswerForTheIndex: where rows come in series, a file says so, and gets and
// iterators agree with the definition; where they do not, it has lines instead.
func TestSeriesAnswerForTheIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, c := range seriesCases() {
		for i, extractor := range []*prefixhash.Extractor{prefixhash.Noop(), prefixhash.Fixed(7), nil} {
			t.Run(fmt.Sprintf("%s/%v", c.name, extractor.Name()), func(t *testing.T) {
				o := WriterOptions{Options: DefaultOptions(), Extractor: extractor, ChunkChecksums: i == 0}
				o.UserKeyLen = uint32(c.keyLen)
				if extractor == nil {
					o.HashTableRatio = 0
				}
				o.StoreIndexInFile = i != 1
				rows := c.rows()
				b, _ := writeTable(t, o, rows)
				ro := ReaderOptions{Options: o.Options, Extractor: extractor, Memory: []mmapfs.Memory{mmapfs.MemoryResident, mmapfs.MemoryNone}[i%2]}
				r := openReader(t, "000001.sst", b, ro)
				v := r.view.Load()
				if v.series == nil == c.serves {
					t.Fatalf("served by series: %v, want %v", v.series != nil, c.serves)
				}
				if lines := len(v.lines) > 0; extractor != nil && lines == c.serves {
					t.Errorf("it has lines: %v, want %v", lines, !c.serves)
				}
				some := rows
				if len(some) > 4000 {
					at := rng.IntN(len(rows) - 4000)
					some = slices.Concat(rows[:500], rows[at:at+3000], rows[len(rows)-500:])
				}
				list := lookups(rng, some)
				for _, n := range c.numbers[:min(2000, len(c.numbers))] {
					list = append(list, keys.Lookup{UserKey: c.key(n + 1), Seq: keys.MaxSeq}, keys.Lookup{UserKey: c.key(n - 1), Seq: keys.MaxSeq})
				}
				checkGets(t, c.name, r, rows, list)
				walkRandomly(t, c.name, r, keys.Order{}, rows, rng, 2000)
				if err := r.VerifyChecksums(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestNoSeriesOfVersions: two rows of one key, and rows that a snapshot keeps between
// others, leave a file to its index.
func TestNoSeriesOfVersions(t *testing.T) {
	o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Noop()}
	o.UserKeyLen = 8
	var rows []entry
	for n := range uint64(500) {
		key := binary.BigEndian.AppendUint64(nil, n)
		if n == 400 {
			rows = append(rows, entry{key, keys.Pack(9, keys.KindValue), []byte("new")})
		}
		rows = append(rows, entry{key, keys.Pack(3, keys.KindValue), []byte("old")})
	}
	b, _ := writeTable(t, o, rows)
	r := openReader(t, "000001.sst", b, ReaderOptions{Options: o.Options, Extractor: o.Extractor})
	if r.view.Load().series != nil {
		t.Fatal("the file is read by series")
	}
	checkGets(t, "versions", r, rows, lookups(rand.New(rand.NewPCG(1, 1)), rows))
}

// TestNoSeriesWhereKeysAreNoNumbers: of any length, in Prefix encoding, in another order,
// and in the file that RocksDB would write.
func TestNoSeriesWhereKeysAreNoNumbers(t *testing.T) {
	rows := (&seriesCase{numbers: counting(0, 1, 300), key: func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) },
		value: func(uint64) []byte { return []byte("v") }}).rows()
	for name, change := range map[string]func(*WriterOptions){
		"any length": func(o *WriterOptions) { o.UserKeyLen = 0 },
		"kPrefix":    func(o *WriterOptions) { o.EncodingType = Prefix },
		"custom":     func(o *WriterOptions) { o.Order = keys.NewOrder(plainComparator{}) },
		"RocksDB":    func(o *WriterOptions) { o.RocksDBLayout = true },
	} {
		o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4)}
		o.UserKeyLen = 8
		change(&o)
		b, _ := writeTable(t, o, rows)
		r := openReader(t, "000001.sst", b, ReaderOptions{Options: o.Options, Extractor: o.Extractor, Order: o.Order})
		if _, ok := block.FindMeta(r.layout.meta, metaSeries); ok || r.view.Load().series != nil {
			t.Errorf("%s: the file has series", name)
		}
	}
}

// seriesBlock is the block of a small file, and what decodeSeries must know about that.
func seriesBlock(t testing.TB) (b []byte, rows, keyLen int, entries uint64) {
	t.Helper()
	var sb seriesBuilder
	off := uint32(0)
	for _, n := range []uint64{3, 4, 5, 6, 10, 11, 12, 13, 14, 500} {
		sb.row(append(binary.BigEndian.AppendUint64([]byte("k"), n), "tail"...), off)
		off += 40
	}
	return sb.append(nil), int(off), 13, sb.rows
}

// TestDamagedSeriesAreCorruption: each field out of range is an error that names the file.
func TestDamagedSeriesAreCorruption(t *testing.T) {
	b, rows, keyLen, entries := seriesBlock(t)
	if _, err := decodeSeries("000007.sst", 64, b, rows, keyLen, entries); err != nil {
		t.Fatal(err)
	}
	put4 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	put8 := func(at int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b }
	}
	const second = seriesHeader + seriesLen
	for name, change := range map[string]func([]byte) []byte{
		"short":                   func(b []byte) []byte { return b[:7] },
		"none":                    func(b []byte) []byte { return put4(4, 0)(b[:seriesHeader]) },
		"one missing":             func(b []byte) []byte { return b[:len(b)-1] },
		"more than there are":     put4(4, 1<<30),
		"a word past the key":     put4(0, 6),
		"a skip of 4 GiB":         put4(0, 1<<32-1),
		"words out of order":      put8(second, 1),
		"words that overlap":      put8(second, 6),
		"a word that wraps":       put8(seriesHeader+8, 1<<63),
		"a step of 0":             put8(seriesHeader+8, 0),
		"offsets out of order":    put4(second+16, 100),
		"a size of 0":             put4(seriesHeader+20, 0),
		"rows of 4 GiB":           put4(seriesHeader+20, 1<<32-1),
		"an offset past the rows": put4(second+16, 1<<31),
		"no row":                  put4(seriesHeader+24, 0),
		"too few rows":            put4(seriesHeader+24, 3),
		"a first row elsewhere":   put4(seriesHeader+16, 1),
	} {
		_, err := decodeSeries("000007.sst", 64, change(bytes.Clone(b)), rows, keyLen, entries)
		if !errors.Is(err, keys.ErrCorruption) || !strings.Contains(err.Error(), "000007.sst") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSeriesThatLieAreFound by VerifyChecksums where the file has none.
func TestSeriesThatLieAreFound(t *testing.T) {
	o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Noop()}
	o.UserKeyLen = 8
	rows := (&seriesCase{numbers: counting(0, 1, 300), key: func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) },
		value: func(uint64) []byte { return []byte("v") }}).rows()
	b, _ := writeTable(t, o, rows)
	r := openReader(t, "000001.sst", b, ReaderOptions{Options: o.Options, Extractor: o.Extractor})
	if err := r.VerifyChecksums(context.Background()); err != nil {
		t.Fatal(err)
	}
	bad := *r.view.Load()
	lying := *bad.series
	lying.words = []uint64{1}
	bad.series = &lying
	r.view.Store(&bad)
	if err := r.VerifyChecksums(context.Background()); !errors.Is(err, keys.ErrCorruption) || !strings.Contains(err.Error(), "key series") {
		t.Errorf("series that are one off: %v", err)
	}
}

// FuzzSeries: whatever decodes leads inside the rows.
func FuzzSeries(f *testing.F) {
	b, rows, keyLen, entries := seriesBlock(f)
	f.Add(b, rows, keyLen, entries, []byte("k\x00\x00\x00\x00\x00\x00\x00\x05tail"))
	f.Fuzz(func(t *testing.T, b []byte, rows, keyLen int, entries uint64, key []byte) {
		rows, keyLen = int(uint32(rows)%(1<<20)), int(uint8(keyLen))
		x, err := decodeSeries("f", 0, b, rows, keyLen, entries)
		if err != nil {
			return
		}
		if off := x.lowerBound(make([]byte, rows+keyLen), key); off < 0 || off > rows+keyLen {
			t.Fatalf("the lower bound is at %d of %d", off, rows)
		}
		if len(key) < keyLen {
			return
		}
		if off, ok := x.find(key[:keyLen]); ok && uint(off) >= uint(rows) {
			t.Fatalf("a row at %d of %d", off, rows)
		}
	})
}
