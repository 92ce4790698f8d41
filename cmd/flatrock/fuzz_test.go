package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// FuzzQuery gives any input to ldb query and ldb load: what they take can be read, and everything else is an
// error.
func FuzzQuery(f *testing.F) {
	db, err := flatrock.Open("/db", &flatrock.Options{FS: mmapfs.NewMem(), CreateIfMissing: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { db.Close() })
	f.Add("put k v\nget k\ndelete k\nget k\n", false)
	f.Add("put 0x01 0xff02\nget 0x01\nput 0xzz 0x\n\nhelp\nput  x", true)
	f.Add("k ==> v\n0x01 ==> 0x02\n ==> \nx==>y\n", true)
	f.Fuzz(func(t *testing.T, text string, hex bool) {
		l := &ldb{app: &app{ctx: context.Background(), out: bufio.NewWriter(io.Discard), err: io.Discard}, keyHex: hex, valueHex: hex}
		cf := db.DefaultColumnFamily()
		for line := range strings.SplitSeq(text, "\n") {
			words := strings.Split(line, " ")
			if err := l.queryLine(cf, line); err == nil && words[0] == "put" && len(words) == 3 {
				key, _ := l.keyOf(words[1])
				want, _ := l.valueOf(words[2])
				if got, err := cf.Get(nil, key, nil); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%q: %q, %v", line, got, err)
				}
			}
			key, value, ok, err := l.parseLine([]byte(line))
			if !ok || err != nil || !hex {
				continue
			}
			// What is dumped loads to the same.
			again, v, ok, err := l.parseLine([]byte(l.dumpLine(key, value)))
			if !ok || err != nil || !bytes.Equal(again, key) || !bytes.Equal(v, value) {
				t.Fatalf("%q: %q, %q, %v, %v", line, again, v, ok, err)
			}
		}
	})
}

// FuzzArguments reads any command line, a word a line, as the tools do, up to what they would do.
func FuzzArguments(f *testing.F) {
	f.Add("--db=x\n--hex\n--max_decompressed_size=99\n--file_mode=0600\nscan\n--from=0x01")
	f.Add("--command=scan\n--from=a\n--to=\n--prefix=0x\n--read_num=-1\n--input_key_hex\nfile")
	f.Add("64KB,1.5GB,nan,inf,-1,1e300,0x1p-2")
	f.Fuzz(func(t *testing.T, text string) {
		a := parseArguments(strings.Split(text, "\n"))
		a.unknown(commonOptions)
		a.refused()
		if n, mode, err := a.limits(); err == nil && (n < 0 || a.has("file_mode") == (mode == 0)) {
			t.Fatalf("a limit of %d, a mode of %o", n, mode)
		}
		d := sstDump{app: &app{out: bufio.NewWriter(io.Discard)}, command: a.text("command")}
		d.parse(&a)
		d.parseInternalKey(a.text("from"))
		if sizes, err := parseSizes(text); err == nil {
			for _, s := range sizes {
				if s < 0 {
					t.Fatalf("size %d", s)
				}
			}
		}
	})
}
