package memtable

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// The benchmarks use db_bench's shape: 20-byte keys of a big-endian number in
// random order, 100-byte values, a prefix that is the whole key, and 2^20 entries.
const benchEntries = 1 << 20

func benchKey(key []byte, i uint64) {
	binary.BigEndian.PutUint64(key, i*0x9e3779b97f4a7c15>>20)
}

func benchOptions(kind Kind) Options {
	return Options{Kind: kind, Extractor: prefixhash.Fixed(20), BucketCount: benchEntries, Reserve: 256 << 20,
		Arena: mmapfs.ArenaOptions{HugePages: true}}
}

func newBenchKey() []byte { return []byte("0000000000000000000000")[:20] }

func fill(b *testing.B, o Options, n int) *MemTable {
	m, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	key, value := newBenchKey(), make([]byte, 100)
	for i := range uint64(n) {
		benchKey(key, i)
		p, h := o.Extractor.Hash(key)
		if err := m.Add(key, keys.Pack(i+1, keys.KindValue), value, p, h); err != nil {
			b.Fatal(err)
		}
	}
	return m
}

func BenchmarkAdd(b *testing.B) {
	for _, kind := range allKinds {
		b.Run(kind.String(), func(b *testing.B) {
			o := benchOptions(kind)
			key, value := newBenchKey(), make([]byte, 100)
			var m *MemTable
			b.SetBytes(120)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%benchEntries == 0 {
					if m != nil {
						b.StopTimer()
						m.Free()
						b.StartTimer()
					}
					m, _ = New(o)
				}
				benchKey(key, uint64(i))
				p, h := o.Extractor.Hash(key)
				if err := m.Add(key, keys.Pack(uint64(i+1), keys.KindValue), value, p, h); err != nil {
					b.Fatal(err)
				}
			}
			m.Free()
		})
	}
}

// BenchmarkAddBatch adds in batches of 16 whose misses overlap.
func BenchmarkAddBatch(b *testing.B) {
	const batch = 16
	o := benchOptions(HashSkipList)
	var ks [batch][]byte
	var hashes [batch]uint32
	for i := range ks {
		ks[i] = newBenchKey()
	}
	value, sum := make([]byte, 100), uint64(0)
	var m *MemTable
	b.SetBytes(120)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%benchEntries == 0 {
			if m != nil {
				b.StopTimer()
				m.Free()
				b.StartTimer()
			}
			m, _ = New(o)
		}
		j := i % batch
		benchKey(ks[j], uint64(i))
		_, hashes[j] = o.Extractor.Hash(ks[j])
		if j != batch-1 {
			continue
		}
		for _, h := range hashes {
			sum += m.TouchAdd(20, h)
		}
		for _, h := range hashes {
			sum += m.TouchAddNode(20, h)
		}
		for k, h := range hashes {
			if err := m.Add(ks[k], keys.Pack(uint64(i-batch+k+2), keys.KindValue), value, 20, h); err != nil {
				b.Fatal(err)
			}
		}
	}
	m.Free()
	benchSink = sum
}

func BenchmarkGet(b *testing.B) {
	for _, kind := range allKinds {
		m := fill(b, benchOptions(kind), benchEntries)
		m.MarkImmutable()
		for name, miss := range map[string]uint64{"hit": 0, "miss": benchEntries} {
			b.Run(fmt.Sprintf("%v/%s", kind, name), func(b *testing.B) {
				look := keys.Lookup{UserKey: newBenchKey(), Seq: keys.MaxSeq}
				sum := 0
				b.ReportAllocs()
				for i := uint64(0); b.Loop(); i++ {
					benchKey(look.UserKey, i*7919%benchEntries+miss)
					m.extractor.Prepare(&look)
					v, _, ok := m.Get(&look)
					if ok != (miss == 0) {
						b.Fatal(ok)
					}
					sum += len(v)
				}
			})
		}
		m.Free()
	}
}

// BenchmarkMultiGet reads in batches of 16 with the misses overlapped.
func BenchmarkMultiGet(b *testing.B) {
	m := fill(b, benchOptions(HashSkipList), benchEntries)
	defer m.Free()
	var looks [16]keys.Lookup
	for i := range looks {
		looks[i] = keys.Lookup{UserKey: newBenchKey(), Seq: keys.MaxSeq}
	}
	sum := uint64(0)
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		j := i % uint64(len(looks))
		benchKey(looks[j].UserKey, i*7919%benchEntries)
		m.extractor.Prepare(&looks[j])
		if j != uint64(len(looks)-1) {
			continue
		}
		for k := range looks {
			sum += m.Touch(&looks[k])
		}
		for k := range looks {
			sum += m.TouchNode(&looks[k])
		}
		for k := range looks {
			v, _, ok := m.Get(&looks[k])
			if !ok {
				b.Fatal("not found")
			}
			sum += uint64(len(v))
		}
	}
	benchSink = sum
}

var benchSink uint64

// BenchmarkIteratorWhileWriting makes a positioned iterator after every 100 Adds.
func BenchmarkIteratorWhileWriting(b *testing.B) {
	for _, kind := range []Kind{SkipList, HashSkipList} {
		b.Run(kind.String(), func(b *testing.B) {
			o := benchOptions(kind)
			m := fill(b, o, benchEntries/2)
			m.NewIterator().First()
			key, value := newBenchKey(), make([]byte, 100)
			seq := uint64(benchEntries)
			b.ReportAllocs()
			for b.Loop() {
				for range 100 {
					seq++
					benchKey(key, seq)
					p, h := o.Extractor.Hash(key)
					if m.Add(key, keys.Pack(seq, keys.KindValue), value, p, h) != nil {
						b.StopTimer()
						m.Free()
						m = fill(b, o, benchEntries/2)
						m.NewIterator().First()
						b.StartTimer()
					}
				}
				it := m.NewIterator()
				if !it.SeekGE(key, keys.Pack(keys.MaxSeq, keys.KindSeek)) {
					b.Fatal("not there")
				}
				it.Close()
			}
			m.Free()
		})
	}
}

// BenchmarkFirstIterator sorts a whole memtable, as a flush of a hash memtable does.
func BenchmarkFirstIterator(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		m := fill(b, benchOptions(HashSkipList), benchEntries)
		b.StartTimer()
		it := m.NewIterator()
		it.First()
		b.StopTimer()
		it.Close()
		m.Free()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchEntries, "ns/entry")
}

func BenchmarkScan(b *testing.B) {
	for _, kind := range allKinds {
		b.Run(kind.String(), func(b *testing.B) {
			m := fill(b, benchOptions(kind), benchEntries)
			defer m.Free()
			it := m.NewIterator()
			defer it.Close()
			ok, sum := it.First(), 0
			b.ReportAllocs()
			for b.Loop() {
				sum += len(it.UserKey()) + len(it.Value())
				if ok = it.Next(); !ok {
					it.First()
				}
			}
			benchSink = uint64(sum)
		})
	}
}
