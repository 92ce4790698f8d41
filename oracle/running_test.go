//go:build oracle

package oracle_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock"
)

// running is an engine that has a database open and runs scripts a part at a time: RocksDB in a
// process of its own, or Flatrock in this one.
type running struct {
	w      *world
	mine   *player
	theirs *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	diag   *strings.Builder
}

func (w *world) start(rocks bool) *running {
	w.t.Helper()
	r := &running{w: w}
	if !rocks {
		r.mine = &player{dir: w.dir}
		return r
	}
	r.theirs, r.diag = exec.CommandContext(w.t.Context(), rocksDB, w.dir, "-"), new(strings.Builder)
	r.theirs.Stderr = r.diag
	in, err := r.theirs.StdinPipe()
	if err == nil {
		r.in = in
		var out io.Reader
		if out, err = r.theirs.StdoutPipe(); err == nil {
			r.out = bufio.NewScanner(out)
			err = r.theirs.Start()
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// do runs what s has collected, and empties it.
func (r *running) do(s *script) {
	r.w.t.Helper()
	lines := s.lines
	s.lines = nil
	for _, line := range lines {
		if r.mine != nil {
			if err := r.mine.do(line); err != nil {
				r.w.t.Fatalf("flatrock: %.200s: %v", line, err)
			}
			continue
		}
		_, err := fmt.Fprintln(r.in, line)
		if err != nil || !r.out.Scan() || r.out.Text() != "ok" {
			r.in.Close()
			r.w.t.Fatalf("rocksdb: %.200s: %v, %v, %s", line, err, r.theirs.Wait(), r.diag)
		}
	}
}

// end closes the database.
func (r *running) end() {
	r.w.t.Helper()
	r.do((&script{w: r.w}).say("close"))
	if r.theirs != nil {
		if err := errors.Join(r.in.Close(), r.theirs.Wait()); err != nil {
			r.w.t.Fatalf("%v: %s", err, r.diag)
		}
	}
}

// TestSecondaryOfARunningPrimary: each engine follows the other while that writes, flushes and
// compacts, and finds all of it after each catch-up.
func TestSecondaryOfARunningPrimary(t *testing.T) {
	several := []spec{fixedSpecs[0], blockSpecs[0], blockSpecs[2], fixedSpecs[8]}
	// RocksDB's secondaries apply records once more after a flush of one of several families, and
	// then merges twice, also behind its own primary; and they pass over what comes to a mapped log later.
	one := []spec{blockSpecs[2]}
	one[0].Name = "default"
	for _, c := range []struct {
		name     string
		rocks    bool // the primary
		options  string
		families []spec
	}{
		{"flatrock follows", true, "max_open_files=-1;allow_concurrent_memtable_write=false;allow_mmap_reads=true;max_manifest_file_size=3000;", several},
		{"flatrock follows compressed logs", true, "max_open_files=-1;allow_concurrent_memtable_write=false;allow_mmap_reads=true;wal_compression=kZSTD;", several},
		{"flatrock follows atomic flushes", true, "max_open_files=-1;allow_concurrent_memtable_write=false;allow_mmap_reads=true;atomic_flush=true;", several},
		{"rocksdb follows", false, dbOptions{WALWriteMode: flatrock.WALWrite, MaxManifestFileSize: 3000}.text(), one},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 800, c.families...)
			primary := w.start(c.rocks)
			s := w.create(c.rocks, c.options)
			primary.do(s)
			follower := w.start(!c.rocks)
			f := (&script{w: w, rocks: !c.rocks}).say("opensecondary %s", filepath.Join(w.tmp, "secondary"))
			follower.do(f)
			for round := range 24 {
				primary.do(s.writes(60))
				switch name := name(w.specs[w.rng.IntN(len(w.specs))].Name); round % 4 {
				case 1:
					s.say("flush %s", name)
				case 2:
					s.say("compact %s", name)
				case 3:
					s.flushAll()
				}
				primary.do(s.writes(w.rng.IntN(30)))
				follower.do(f.say("catchup").check())
			}
			if c.rocks { // RocksDB's secondaries keep the families that they were opened with
				extra := spec{Name: "later", Block: true, Memtable: "skip_list"}
				primary.do(s.say("newfamily later %s", extra.text(true)))
				w.add(extra)
				primary.do(s.writes(100))
				follower.do(f.say("catchup").check())
			}
			primary.do(s.check())
			primary.end()
			follower.do(f.say("catchup").check())
			follower.end()
		})
	}
}

// TestAtomicFlushesTravel: batches over families that no log has, flushed together, are whole
// to the other engine after a crash.
func TestAtomicFlushesTravel(t *testing.T) {
	for _, rocks := range []bool{false, true} {
		t.Run(fmt.Sprintf("rocksdb=%v", rocks), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 900, fixedSpecs[0], blockSpecs[0], blockSpecs[2])
			options := dbOptions{AtomicFlush: flatrock.On}.text()
			if rocks {
				options = "atomic_flush=true;allow_concurrent_memtable_write=false;allow_mmap_reads=true;max_open_files=-1;"
			}
			s := w.create(rocks, options)
			for range 4 {
				s.say("log off").unsynced(200).say("flushall").check()
				// What comes after the last flush is lost, all of it: not for the world to know.
				s.say("begin")
				for _, f := range w.specs {
					s.say("put %s %s %s", name(f.Name), word("zzzz lost"), word(f.value(w.rng)))
				}
				s.say("commit").crash()
				rocks = !rocks
				s = w.open(rocks).check()
			}
			s.close()
		})
	}
}

// TestUpdatesTravel: GetUpdatesSince of either engine gives the same batches, byte for byte, of
// logs that either wrote, archived ones among them.
func TestUpdatesTravel(t *testing.T) {
	for _, c := range []struct {
		rocks   bool
		options string
	}{
		{false, dbOptions{WALTTLSeconds: 3600}.text()},
		{false, dbOptions{WALTTLSeconds: 3600, WALWriteMode: flatrock.WALWrite}.text()},
		{true, "WAL_ttl_seconds=3600;max_open_files=-1;allow_concurrent_memtable_write=false;allow_mmap_reads=true;"},
		{true, "WAL_ttl_seconds=3600;wal_compression=kZSTD;max_open_files=-1;allow_concurrent_memtable_write=false;allow_mmap_reads=true;"},
	} {
		t.Run(fmt.Sprintf("rocksdb=%v,%s", c.rocks, c.options), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 950, fixedSpecs[0], blockSpecs[0])
			files := 0
			read := func(s *script, seq int) (*script, string) {
				files++
				path := filepath.Join(w.tmp, fmt.Sprintf("updates-%d", files))
				return s.say("updates %d %s", seq, path), path
			}
			s, first := read(w.create(c.rocks, c.options).writes(300).flushAll().writes(300).flushAll().writes(100), 1)
			s.close()
			s, second := read(w.open(!c.rocks).check(), 1)
			s, tail := read(s, 500)
			s.writes(50).close()
			s, third := read(w.open(c.rocks).check(), 500)
			s.close()
			text := func(path string) string {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			a := text(first)
			if n := strings.Count(a, "\n"); n < 50 {
				t.Fatalf("only %d batches", n)
			}
			if b := text(second); a != b {
				t.Errorf("the other engine reads %d bytes of updates, want %d", len(b), len(a))
			}
			if b := text(tail); b == "" || !strings.HasSuffix(a, b) {
				t.Errorf("from the middle on: %.200s", b)
			}
			if b := text(third); !strings.HasPrefix(b, text(tail)) || len(b) <= len(text(tail)) {
				t.Errorf("after the other engine wrote: %d bytes, want more than %d that begin the same", len(b), len(text(tail)))
			}
		})
	}
}
