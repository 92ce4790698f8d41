package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// The data is the same for all stores: keys as db_bench makes them (the number in 8 bytes,
// big-endian, filled up with '0'), all numbers from 0, and values that say whose they are.
const (
	keySize   = 20
	valueSize = 100
	seekNexts = 10 // steps after a seek
	multiKeys = 32 // keys of a MultiGet
	loadBatch = 1000
	// cacheBytes and writeBufferBytes are what every store gets that has such a thing.
	cacheBytes       = 1 << 30
	writeBufferBytes = 64 << 20
)

func putKey(dst []byte, n int64) []byte {
	dst = binary.BigEndian.AppendUint64(dst[:0], uint64(n))
	for len(dst) < keySize {
		dst = append(dst, '0')
	}
	return dst
}

// putMissing makes a key that nobody has, right behind that of n.
func putMissing(dst []byte, n int64) []byte {
	dst = putKey(dst, n)
	dst[keySize-1]++
	return dst
}

func keyNumber(key []byte) (n int64, ok bool) {
	if len(key) != keySize {
		return 0, false
	}
	n = int64(binary.BigEndian.Uint64(key))
	return n, bytes.Equal(key, putKey(make([]byte, 0, keySize), n))
}

// pool is where values take their bytes from: random, so that nobody compresses them.
var pool = func() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 64<<10+valueSize)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}()

const stampSize = 12 // of a value: the key's number and the generation

// putValue makes the value of key n in a generation: 0 is what the load writes.
func putValue(dst []byte, n int64, generation uint32) []byte {
	dst = binary.BigEndian.AppendUint64(dst[:0], uint64(n))
	dst = binary.BigEndian.AppendUint32(dst, generation)
	return append(dst, body(n, generation)...)
}

func body(n int64, generation uint32) []byte {
	at := (uint64(n)*0x9e3779b97f4a7c15 + uint64(generation)*0xc2b2ae3d27d4eb4f) >> 48
	return pool[at : at+valueSize-stampSize]
}

// checkValue compares a value with what was written: to the byte, in a generation up to last.
func checkValue(n int64, value []byte, last uint32) error {
	if len(value) != valueSize {
		return fmt.Errorf("key %d has a value of %d bytes, want %d", n, len(value), valueSize)
	}
	if got := int64(binary.BigEndian.Uint64(value)); got != n {
		return fmt.Errorf("key %d has the value of key %d", n, got)
	}
	generation := binary.BigEndian.Uint32(value[8:])
	if generation > last {
		return fmt.Errorf("key %d has a value of generation %d, of which there are %d", n, generation, last)
	}
	if !bytes.Equal(value[stampSize:], body(n, generation)) {
		return fmt.Errorf("key %d has a value that nobody wrote", n)
	}
	return nil
}

// shuffled are all key numbers in the order of the load.
func shuffled(keys int64, seed uint64) []uint32 {
	all := make([]uint32, keys)
	for i := range all {
		all[i] = uint32(i)
	}
	r := rand.New(rand.NewPCG(seed, 7))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
