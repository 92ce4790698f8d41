package manifest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
)

func buildVersion(t testing.TB, base *Version, e *VersionEdit) *Version {
	t.Helper()
	b := NewBuilder(base)
	err := b.Apply(e)
	if err == nil {
		var v *Version
		if v, err = b.Build(); err == nil {
			return v
		}
	}
	t.Fatal(err)
	return nil
}

var orders = []keys.Order{{}, keys.NewOrder(keys.ReverseBytewise), keys.NewOrder(custom{keys.Bytewise})}

// custom hides the built-in order, so that comparisons go through the interface.
type custom struct{ keys.Comparator }

// randomLevel makes files without overlap; some end in a tombstone's end, which
// the next file may begin with, and some share a user key across the cut.
func randomLevel(rng *rand.Rand, o keys.Order) []NewFile {
	var points [][]byte
	for range 2 + rng.IntN(30) {
		points = append(points, randomKey(rng))
	}
	slices.SortFunc(points, o.Compare)
	points = slices.CompactFunc(points, func(a, b []byte) bool { return o.Compare(a, b) == 0 })
	var files []NewFile
	for i := 0; i+1 < len(points); i++ {
		m := &FileMetadata{Number: uint64(i + 1), SmallestKey: points[i], LargestKey: points[i+1],
			SmallestTrailer: keys.Pack(5, keys.KindValue), LargestTrailer: keys.Pack(9, keys.KindValue)}
		switch rng.IntN(4) {
		case 0:
			m.LargestTrailer = sentinelTrailer
		case 1: // shares its last user key, with larger sequence numbers there
		default:
			i++ // a gap
		}
		files = append(files, NewFile{1, m})
	}
	return files
}

func randomKey(rng *rand.Rand) []byte {
	b := make([]byte, rng.IntN(6))
	for i := range b {
		b[i] = byte(rng.IntN(3)) + 'a'
	}
	return b
}

// mayHold says, from the definition, whether f may hold an entry at userKey with
// a sequence number in its range that sorts at or after trailer.
func mayHold(o keys.Order, f *FileMetadata, userKey []byte, trailer uint64) bool {
	if o.Compare(f.SmallestKey, userKey) > 0 {
		return false
	}
	c := o.Compare(userKey, f.LargestKey)
	return c < 0 || c == 0 && f.LargestTrailer != sentinelTrailer && f.LargestTrailer <= trailer
}

func TestFindFileAgreesWithALinearSearch(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		o := orders[rng.IntN(len(orders))]
		v := buildVersion(t, NewVersion(o, 0), &VersionEdit{NewFiles: randomLevel(rng, o)})
		for range 40 {
			key := randomKey(rng)
			trailer := keys.Pack([]uint64{0, 3, 7, 9, 12, keys.MaxSeq}[rng.IntN(6)], keys.KindSeek)
			var want *FileMetadata
			for _, f := range v.Levels[1] {
				if mayHold(o, f, key, trailer) {
					want = f
					break
				}
			}
			if got := v.FindFile(1, key, trailer); got != want {
				t.Fatalf("seed %d: key %q trailer %#x: got %v, expected %v", seed, key, trailer, got, want)
			}
			i := v.FindFileIndex(1, key, trailer)
			for j, f := range v.Levels[1] {
				if f.endsBefore(o, key, trailer) != (j < i) {
					t.Fatalf("seed %d: index %d is not the first file that reaches %q", seed, i, key)
				}
			}
		}
	}
}

func TestOverlappingAgreesWithALinearSearch(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		o := orders[rng.IntN(len(orders))]
		files := randomLevel(rng, o)
		for range 5 { // and some that overlap, in L0
			a, b := randomKey(rng), randomKey(rng)
			if o.Compare(a, b) > 0 {
				a, b = b, a
			}
			f := file(0, uint64(100+len(files)), string(a), string(b), uint64(len(files)))
			files = append(files, f)
		}
		v := buildVersion(t, NewVersion(o, 0), &VersionEdit{NewFiles: files})
		for range 40 {
			lo, hi := randomKey(rng), randomKey(rng)
			if o.Compare(lo, hi) > 0 {
				lo, hi = hi, lo
			}
			if rng.IntN(5) == 0 {
				lo = nil
			}
			if rng.IntN(5) == 0 {
				hi = nil
			}
			for level := range 4 {
				var want []*FileMetadata
				for _, f := range v.Levels[level] {
					if f.OverlapsRange(o, lo, hi) {
						want = append(want, f)
					}
				}
				if got := v.Overlapping(nil, level, lo, hi); !slices.Equal(got, want) {
					t.Fatalf("seed %d L%d [%q, %q]: %d files, expected %d", seed, level, lo, hi, len(got), len(want))
				}
				if v.HasOverlap(level, lo, hi) != (len(want) > 0) {
					t.Fatalf("seed %d L%d [%q, %q]: HasOverlap disagrees", seed, level, lo, hi)
				}
			}
		}
	}
}

func TestFindFileDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	v := buildVersion(t, NewVersion(keys.Order{}, 0), &VersionEdit{NewFiles: randomLevel(rng, keys.Order{})})
	look := keys.Lookup{UserKey: []byte("bbb"), Seq: 100}
	found := 0
	if n := testing.AllocsPerRun(100, func() {
		if v.FindFile(1, look.UserKey, look.Trailer()) != nil {
			found++
		}
		if v.HasOverlap(1, look.UserKey, look.UserKey) {
			found++
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// TestBuilderAgreesWithAModel applies random edits, some to one Builder and some
// to a new one on the last version, and compares with plain maps.
func TestBuilderAgreesWithAModel(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		v := NewVersion(keys.Order{}, 4)
		builder := NewBuilder(v)
		model := map[uint64]int{} // file to level
		meta := map[uint64]*FileMetadata{}
		next := uint64(1)
		for step := range 60 {
			e := &VersionEdit{}
			for n, level := range model {
				switch rng.IntN(8) {
				case 0:
					e.DeletedFiles = append(e.DeletedFiles, DeletedFile{level, n})
					delete(model, n)
				case 1: // trivial move
					e.DeletedFiles = append(e.DeletedFiles, DeletedFile{level, n})
					to := rng.IntN(4)
					e.NewFiles = append(e.NewFiles, NewFile{to, meta[n]})
					model[n] = to
				}
			}
			for range rng.IntN(4) {
				key := fmt.Sprintf("%06d", next) // own key each: no overlap
				f := file(rng.IntN(4), next, key, key, next)
				model[next], meta[next] = f.Level, f.Meta
				e.NewFiles = append(e.NewFiles, f)
				next++
			}
			if err := builder.Apply(e); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			if rng.IntN(3) == 0 {
				continue
			}
			before := fmt.Sprint(v.Levels)
			built, err := builder.Build()
			if err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			if fmt.Sprint(v.Levels) != before {
				t.Fatalf("seed %d step %d: V3: the base version changed", seed, step)
			}
			v, builder = built, NewBuilder(built)
			checkModel(t, v, model)
		}
	}
}

func checkModel(t *testing.T, v *Version, model map[uint64]int) {
	t.Helper()
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	count, total := 0, uint64(0)
	for level, files := range v.Levels {
		sum := uint64(0)
		for _, f := range files {
			if want, ok := model[f.Number]; !ok || want != level {
				t.Fatalf("file %d at L%d, expected L%d %t", f.Number, level, want, ok)
			}
			count++
			sum += f.Size
		}
		if v.LevelBytes(level) != sum {
			t.Fatalf("L%d has %d bytes, expected %d", level, v.LevelBytes(level), sum)
		}
		total += sum
	}
	if count != len(model) || v.NumFiles() != count || v.TotalBytes() != total {
		t.Fatalf("%d files, expected %d; NumFiles %d", count, len(model), v.NumFiles())
	}
}

// TestLevelIndexWithLongCommonPrefixes has keys that agree in more than the
// index looks at, keys that end inside it, and lookups outside.
func TestLevelIndexWithLongCommonPrefixes(t *testing.T) {
	pieces := []string{"", "a", "ab", "abcdefgh", "abcdefghi", "abcdefgh\x00", "abcdefgh\x00\x00", "abcdefgi", "b\xff\xff\xff\xff\xff\xff\xff\xff", "\x00"}
	for _, prefix := range []string{"", "table/17/", "\xff\xff"} {
		var files []NewFile
		slices.Sort(pieces)
		for i, p := range pieces {
			files = append(files, file(1, uint64(i+1), prefix+p, prefix+p, 5))
		}
		v := buildVersion(t, NewVersion(keys.Order{}, 0), &VersionEdit{NewFiles: files})
		for _, p := range append(pieces, "abcdefgh\x00\x01", "abcdefgg", "c", "abc", "\xff") {
			for _, key := range []string{prefix + p, p, "table/16", "table/17", "table/18/", prefix[:len(prefix)/2]} {
				want := len(files)
				for i, f := range v.Levels[1] {
					if string(f.LargestKey) >= key {
						want = i
						break
					}
				}
				if got := v.FindFileIndex(1, []byte(key), keys.Pack(9, keys.KindSeek)); got != want {
					t.Fatalf("prefix %q key %q: %d, expected %d", prefix, key, got, want)
				}
			}
		}
	}
}

func BenchmarkFindFile(b *testing.B) {
	for _, n := range []int{10, 1000} {
		var files []NewFile
		for i := range n {
			files = append(files, file(1, uint64(i+1), fmt.Sprintf("user%012d", i*1000), fmt.Sprintf("user%012d", i*1000+900), 5))
		}
		v := buildVersion(b, NewVersion(keys.Order{}, 0), &VersionEdit{NewFiles: files})
		rng := rand.New(rand.NewPCG(1, 2))
		var look [1024][]byte
		for i := range look {
			look[i] = fmt.Appendf(nil, "user%012d", rng.IntN(n*1000))
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				v.FindFile(1, look[i&1023], keys.Pack(9, keys.KindSeek))
			}
		})
	}
}

func TestMinEpoch(t *testing.T) {
	a, b := &FileMetadata{EpochNumber: 7}, &FileMetadata{EpochNumber: 3}
	if MinEpoch(nil) != 0 || MinEpoch([]*FileMetadata{a, b}) != 3 {
		t.Fatal("smallest epoch")
	}
}
