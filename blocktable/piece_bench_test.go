package blocktable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// Benchmarks of the pieces alone, in the shape of E5: keys of 32 bytes, values of 200, and
// what is read in the processor's caches.

// benchBlock is a data block of 4 KiB and the user keys in it.
func benchBlock(b *testing.B, change func(*WriterOptions)) (contents []byte, userKeys [][]byte) {
	o := WriterOptions{Options: DefaultOptions()}
	if change != nil {
		change(&o)
	}
	d := newDataBuilder(&o)
	value := make([]byte, 200)
	for i := uint64(0); ; i++ {
		key := benchKey(nil, i)
		internal := binary.LittleEndian.AppendUint64(bytes.Clone(key), keys.Pack(i+1, keys.KindValue))
		if i > 0 && d.full(len(internal), len(value)) {
			return bytes.Clone(d.finish()), userKeys
		}
		d.add(internal, value)
		userKeys = append(userKeys, key)
	}
}

func BenchmarkBlockGet(b *testing.B) {
	for _, v := range []struct {
		name  string
		index DataBlockIndexType
	}{{"binary", DataBlockBinarySearch}, {"hash", DataBlockBinaryAndHash}} {
		b.Run(v.name, func(b *testing.B) {
			contents, userKeys := benchBlock(b, func(o *WriterOptions) { o.DataBlockIndexType, o.DataBlockHashTableUtilRatio = v.index, 0.75 })
			var d dataIter
			rng := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			for b.Loop() {
				d.init(contents, 0)
				if found, _ := d.get(userKeys[rng.IntN(len(userKeys))], keys.Pack(keys.MaxSeq, keys.KindSeek), true); !found {
					b.Fatal(d.err)
				}
			}
		})
	}
}

func BenchmarkBlockSeek(b *testing.B) {
	contents, userKeys := benchBlock(b, nil)
	var d dataIter
	rng := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		d.init(contents, 0)
		if !d.seekGE(userKeys[rng.IntN(len(userKeys))], keys.Pack(keys.MaxSeq, keys.KindSeek)) {
			b.Fatal(d.err)
		}
	}
}

// BenchmarkBlockNext walks over a block; the bytes are those of an entry.
func BenchmarkBlockNext(b *testing.B) {
	contents, userKeys := benchBlock(b, nil)
	var d dataIter
	b.SetBytes(int64(len(contents) / len(userKeys)))
	b.ReportAllocs()
	for b.Loop() {
		if !d.valid || !d.forward() {
			d.init(contents, 0)
			d.first()
		}
	}
	if d.err != nil {
		b.Fatal(d.err)
	}
}

// BenchmarkBlockBuild builds whole blocks; the bytes are a block's.
func BenchmarkBlockBuild(b *testing.B) {
	for _, v := range []struct {
		name  string
		index DataBlockIndexType
	}{{"binary", DataBlockBinarySearch}, {"hash", DataBlockBinaryAndHash}} {
		b.Run(v.name, func(b *testing.B) {
			o := WriterOptions{Options: DefaultOptions()}
			o.DataBlockIndexType, o.DataBlockHashTableUtilRatio = v.index, 0.75
			contents, userKeys := benchBlock(b, func(p *WriterOptions) { *p = o })
			var internal [][]byte
			for i, k := range userKeys {
				internal = append(internal, binary.LittleEndian.AppendUint64(bytes.Clone(k), keys.Pack(uint64(i+1), keys.KindValue)))
			}
			value := make([]byte, 200)
			d := newDataBuilder(&o)
			b.SetBytes(int64(len(contents)))
			b.ReportAllocs()
			for b.Loop() {
				d.reset()
				for _, k := range internal {
					d.add(k, value)
				}
				if len(d.finish()) != len(contents) {
					b.Fatal("another block")
				}
			}
		})
	}
}

// BenchmarkFilterProbe asks a filter of 100,000 keys, larger than the caches near the processor's
// core, for keys that are in it and that are not.
func BenchmarkFilterProbe(b *testing.B) {
	const n = 100_000
	for _, v := range []struct {
		name   string
		policy FilterPolicy
		format int
	}{{"bloom", Bloom(10), 5}, {"ribbon", Ribbon(10), 5}, {"bloom-legacy", Bloom(10), 2}} {
		builder := newBitsBuilder(v.policy, v.format, false)
		var key []byte
		for i := range uint64(n) {
			key = benchKey(key, i)
			builder.add(key)
		}
		filter := bytes.Clone(builder.finish())
		for _, there := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/%s", v.name, map[bool]string{true: "hit", false: "miss"}[there]), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 2))
				base, hits, asked := uint64(0), 0, 0
				if !there {
					base = n
				}
				b.ReportAllocs()
				for b.Loop() {
					key = benchKey(key, base+rng.Uint64N(n))
					asked++
					if filterMayMatch(filter, key) {
						hits++
					}
				}
				if there && hits != asked || !there && asked > 10_000 && hits > asked/20 {
					b.Fatalf("%d of %d keys may be there", hits, asked)
				}
			})
		}
	}
}

// BenchmarkFilterBuild makes such a filter; the bytes are those of its keys.
func BenchmarkFilterBuild(b *testing.B) {
	const n = 100_000
	for _, v := range []struct {
		name   string
		policy FilterPolicy
	}{{"bloom", Bloom(10)}, {"ribbon", Ribbon(10)}} {
		b.Run(v.name, func(b *testing.B) {
			var key []byte
			b.SetBytes(n * 32)
			b.ReportAllocs()
			for b.Loop() {
				builder := newBitsBuilder(v.policy, 5, false)
				for i := range uint64(n) {
					key = benchKey(key, i)
					builder.add(key)
				}
				builder.finish()
			}
		})
	}
}
