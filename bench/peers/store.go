package main

import (
	"runtime/debug"
	"slices"
	"strings"
)

// store is an open database. Its writes survive the death of the process, or what comes
// closest to that, and are not synced to the disk one by one.
type store interface {
	// write stores pairs in one batch, the way the store's authors load much.
	write(keys, values [][]byte) error
	put(key, value []byte) error
	// settle brings the database into the state that readers want: flushed and compacted.
	settle() error
	// written is how many bytes went to files since open; negative where the kernel's
	// count of the process's writes says it (nothing is written through mappings).
	written() int64
	// reader makes a reader for one goroutine.
	reader() (reader, error)
	close() error
}

type reader interface {
	// get returns the value, borrowed until the next call, and whether there is one.
	get(key []byte) (value []byte, found bool, err error)
	// multiGet calls each for every key in turn; value is borrowed during the call.
	multiGet(keys [][]byte, each func(i int, value []byte, found bool) error) error
	// seek calls each for the first key at or after key and the steps that follow.
	seek(key []byte, steps int, each func(key, value []byte) error) error
	close() error
}

// peer is a kind of store.
type peer struct {
	name    string
	module  string // whose version the report shows; empty for programs
	about   string // how it is set up, and why; README.md has more
	subject bool   // ours
	open    func(dir string) (store, error)
	rocksDB []string // for db_bench, which runs as a child: its flags
}

// peers are all of them in the order of the report.
var peers = []peer{
	{name: "flatrock-plain", module: flatrockModule, subject: true, open: openFlatrockPlain,
		about: "plain tables, resident; prefix-hash memtable over whole keys; bloom filter of 10 bits"},
	{name: "flatrock-block", module: flatrockModule, subject: true, open: openFlatrockBlock,
		about: "block-based tables, not compressed; bloom filter of 10 bits; 1 GiB block cache off the Go heap"},
	{name: "rocksdb", rocksDB: rocksBlock,
		about: "Debian's db_bench (assertions on, about 1.5 times slower than a release build); block-based tables, not compressed; bloom filter of 10 bits; 1 GiB block cache"},
	{name: "rocksdb-plain", rocksDB: rocksPlain,
		about: "Debian's db_bench (assertions on); plain tables read through mmap, prefix-hash memtable, bloom filter of 10 bits"},
	{name: "pebble", module: "github.com/cockroachdb/pebble/v2", open: openPebble,
		about: "CockroachDB's settings: bloom filter of 10 bits on each level, 64 MiB memtables, 1 GiB cache; not compressed; NoSync"},
	{name: "badger", module: "github.com/dgraph-io/badger/v4", open: openBadger,
		about: "values in the LSM tree (below ValueThreshold), not compressed, hence no block cache (tables are mapped); no conflict detection; loads by WriteBatch; SyncWrites off"},
	{name: "goleveldb", module: "github.com/syndtr/goleveldb", open: openGoLevelDB,
		about: "bloom filter of 10 bits, 64 MiB write buffer, 1 GiB block cache; not compressed; no sync"},
	{name: "bbolt", module: "go.etcd.io/bbolt", open: openBolt,
		about: "one B+ tree in a mapped file; map free list, not synced; NoSync; loads in transactions of 1,000"},
}

const flatrockModule = "github.com/flatrock-db/flatrock"

func findPeer(name string) (peer, bool) {
	i := slices.IndexFunc(peers, func(p peer) bool { return p.name == name })
	if i < 0 {
		return peer{}, false
	}
	return peers[i], true
}

func peerNames() string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return strings.Join(names, ",")
}

// moduleVersion is the version of a module that this program was built with.
func moduleVersion(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return ""
}
