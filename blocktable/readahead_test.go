package blocktable

import (
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// countedFile notes the sizes of reads.
type countedFile struct {
	mmapfs.File
	sizes []int
	ends  int64
}

func (f *countedFile) ReadAt(b []byte, off int64) (int, error) {
	f.sizes = append(f.sizes, len(b))
	f.ends = max(f.ends, off+int64(len(b)))
	return f.File.ReadAt(b, off)
}

func (f *countedFile) Close() error { return nil }

// scanReads are the sizes of the reads of a scan over a table of blocks of about 4 KiB.
func scanReads(t *testing.T, o ReaderOptions, io table.IterOptions) (sizes []int, end int64) {
	t.Helper()
	f := &countedFile{File: benchTable(t, 20000, nil)}
	r, err := Open(f, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f.sizes, f.ends = nil, 0
	it := r.Iterate(io)
	for ok := it.First(); ok; ok = it.Next() {
		if io.Upper != nil && string(it.UserKey()) >= string(io.Upper) {
			break
		}
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return f.sizes, f.ends
}

// TestReadaheadGrowsAsOptionsSay looks at the sizes of reads.
func TestReadaheadGrowsAsOptionsSay(t *testing.T) {
	near := func(n, want int) bool { return n > want-8<<10 && n <= want+8<<10 }
	for _, c := range []struct {
		name   string
		o      ReaderOptions
		single int // reads of one block before the first larger one
		first  int
		most   int
	}{
		{"defaults", ReaderOptions{}, 2, 8 << 10, 256 << 10},
		{"larger", ReaderOptions{InitialReadahead: 64 << 10, MaxReadahead: 128 << 10, ReadaheadAfter: 5}, 5, 64 << 10, 128 << 10},
		{"at once", ReaderOptions{InitialReadahead: 32 << 10, ReadaheadAfter: -1}, 0, 32 << 10, 256 << 10},
	} {
		sizes, _ := scanReads(t, c.o, table.IterOptions{})
		single := slices.IndexFunc(sizes, func(n int) bool { return n > 6<<10 })
		if single != c.single || !near(sizes[single], c.first) || !near(slices.Max(sizes), c.most) {
			t.Errorf("%s: reads of %v; expected %d blocks, then %d bytes growing to %d", c.name, sizes, c.single, c.first, c.most)
		}
	}
	for _, o := range []ReaderOptions{{InitialReadahead: -1}, {MaxReadahead: -1}} {
		if sizes, _ := scanReads(t, o, table.IterOptions{}); slices.Max(sizes) > 6<<10 {
			t.Errorf("without readahead: reads of up to %d bytes", slices.Max(sizes))
		}
	}
}

// TestReadaheadIsCarriedToTheNextFile begins where the file before ended.
func TestReadaheadIsCarriedToTheNextFile(t *testing.T) {
	carry := new(table.Readahead)
	scanReads(t, ReaderOptions{}, table.IterOptions{Carry: carry})
	if carry.Size != 256<<10 {
		t.Errorf("a scan leaves a readahead of %d", carry.Size)
	}
	if sizes, _ := scanReads(t, ReaderOptions{}, table.IterOptions{Carry: carry}); sizes[0] < 250<<10 {
		t.Errorf("the next file is read by %v", sizes)
	}
}

// TestReadaheadEndsAtTheUpperBound unless it may pass it.
func TestReadaheadEndsAtTheUpperBound(t *testing.T) {
	upper := benchKey(nil, 5000)
	_, bounded := scanReads(t, ReaderOptions{}, table.IterOptions{Upper: upper})
	_, beyond := scanReads(t, ReaderOptions{}, table.IterOptions{Upper: upper, PastUpper: true})
	if bounded > 5000*240+16<<10 || beyond < bounded+32<<10 {
		t.Errorf("reads end at %d with the bound and at %d without", bounded, beyond)
	}
}
