package stress

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// A script is a list of operations, a line each, that means the same whatever the options:
//
//	put K ID        delete K       merge K ID     range FROM TO    keys are indices
//	flush           compact        reopen
//	snapshot        release        of the newest snapshot that is held
//	get K           scan FROM TO   back FROM TO   at the newest snapshot that is held, if any
//
// Play answers the reads.
type script []string

// drawScript draws a script over a keyspace.
func drawScript(rng *rand.Rand, s keyspace, n int) script {
	var out script
	held := 0
	key := func() int { return rng.IntN(s.n) }
	span := func() (int, int) { from := key(); return from, min(s.n, from+1+rng.IntN(20)) }
	for range n {
		id := rng.Uint64() | 1
		switch op := rng.IntN(100); {
		case op < 40:
			out = append(out, fmt.Sprintf("put %d %d", key(), id))
		case op < 50:
			out = append(out, fmt.Sprintf("delete %d", key()))
		case op < 62:
			out = append(out, fmt.Sprintf("merge %d %d", key(), id))
		case op < 65:
			from, to := span()
			out = append(out, fmt.Sprintf("range %d %d", from, to))
		case op < 68:
			out = append(out, "flush")
		case op < 70:
			out = append(out, "compact")
		case op < 71 && held == 0:
			out = append(out, "reopen")
		case op < 73 && held < 4:
			held++
			out = append(out, "snapshot")
		case op < 75 && held > 0:
			held--
			out = append(out, "release")
		case op < 88:
			out = append(out, fmt.Sprintf("get %d", key()))
		case op < 94:
			from, to := span()
			out = append(out, fmt.Sprintf("scan %d %d", from, to))
		default:
			from, to := span()
			out = append(out, fmt.Sprintf("back %d %d", from, to))
		}
	}
	return out
}

// player plays scripts on a database in memory.
type player struct {
	keys  keyspace
	opts  flatrock.Options
	db    *flatrock.DB
	snaps []*flatrock.Snapshot
	out   strings.Builder
}

// play plays a script under options and returns the answers. Lines that make no sense, because a
// shrunk script lacks what they rely on, do nothing.
func (s script) play(keys keyspace, o flatrock.Options) (answers string, err error) {
	o.FS = mmapfs.NewMem()
	p := &player{keys: keys, opts: o}
	if p.db, err = flatrock.Open("/db", &p.opts); err != nil {
		return "", err
	}
	for i, line := range s {
		if err := p.do(line); err != nil {
			err = fmt.Errorf("line %d, %s: %w", i+1, line, err)
			p.release(0)
			return p.out.String(), errors.Join(err, p.db.Close())
		}
	}
	p.release(0)
	return p.out.String(), p.db.Close()
}

// release lets snapshots go until n are held.
func (p *player) release(n int) {
	for len(p.snaps) > n {
		last := len(p.snaps) - 1
		p.snaps[last].Release()
		p.snaps = p.snaps[:last]
	}
}

func (p *player) do(line string) error {
	var op string
	var a int
	var b uint64
	fmt.Sscan(line, &op, &a, &b) // what a line lacks stays zero
	name := p.keys.key(a)
	ctx := context.Background()
	switch op {
	case "put":
		return p.db.Put(nil, name, appendValue(nil, b))
	case "delete":
		return p.db.Delete(nil, name)
	case "merge":
		return p.db.Merge(nil, name, binary.LittleEndian.AppendUint64(nil, b))
	case "range":
		return p.db.DeleteRange(nil, name, p.keys.key(int(b)))
	case "flush":
		return p.db.Flush(ctx, nil)
	case "compact":
		return p.db.CompactRange(ctx, nil, nil, nil)
	case "reopen":
		p.release(0)
		err := p.db.Close()
		if err == nil {
			p.db, err = flatrock.Open("/db", &p.opts)
		}
		return err
	case "snapshot":
		s, err := p.db.NewSnapshot()
		if err == nil {
			p.snaps = append(p.snaps, s)
		}
		return err
	case "release":
		p.release(max(0, len(p.snaps)-1))
		return nil
	}
	return p.read(op, a, int(b))
}

func (p *player) read(op string, from, to int) error {
	ro := &flatrock.ReadOptions{}
	if n := len(p.snaps); n > 0 {
		ro.Snapshot = p.snaps[n-1]
	}
	if op == "get" {
		v, err := p.db.Get(ro, p.keys.key(from), nil)
		if err != nil && !errors.Is(err, flatrock.ErrNotFound) {
			return err
		}
		fmt.Fprintf(&p.out, "%d %s\n", from, describe(v, err == nil))
		return nil
	}
	ro.LowerBound, ro.UpperBound = p.keys.key(from), p.keys.key(to)
	it, err := p.db.NewIterator(ro)
	if err != nil {
		return err
	}
	ok, step := it.First(), it.Next
	if op == "back" {
		ok, step = it.Last(), it.Prev
	}
	for ; ok; ok = step() {
		fmt.Fprintf(&p.out, "%q %s, ", it.Key(), describe(bytes.Clone(it.Value()), true))
	}
	p.out.WriteString("end\n")
	return it.Close()
}

// shrink drops lines, large pieces first, as long as the script still fails.
func (s script) shrink(fails func(script) bool) script {
	for size := len(s) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(s); {
			shorter := append(append(script(nil), s[:at]...), s[at+size:]...)
			if fails(shorter) {
				s = shorter
			} else {
				at += size
			}
		}
	}
	return s
}

// metamorphicOptions draws an option set for one family over the keyspace.
func metamorphicOptions(rng *rand.Rand, keys keyspace) flatrock.Options {
	spec := familySpec{keys: keys, plain: rng.IntN(2) == 0, style: pick(rng, flatrock.CompactionStyleLevel, flatrock.CompactionStyleUniversal)}
	spec.extractor = pick(rng, nil, flatrock.FixedPrefix(2), flatrock.CappedPrefix(5), flatrock.NoopPrefix())
	spec.plainOpts.RangeDeletes = flatrock.On
	if spec.extractor == nil {
		spec.plainOpts.HashTableRatio = flatrock.TotalOrder
	} else {
		spec.plainOpts.EncodingType = pick(rng, flatrock.PlainEncoding, flatrock.PrefixEncoding)
	}
	cfo := Config{}.withDefaults().drawFamilyRound(rng, &spec, harness{})
	return flatrock.Options{
		CreateIfMissing: true, ColumnFamily: cfo,
		WALWriteMode:             pick(rng, flatrock.WALMapped, flatrock.WALWrite),
		AvoidFlushDuringRecovery: rng.IntN(2) == 0,
		BlockCacheSize:           pick[int64](rng, 64<<10, 4<<20),
		MaxSubcompactions:        pick(rng, 1, 3),
	}
}

// metamorphic plays one script under several option sets and compares the answers. A
// difference is shrunk to a script of a few lines.
func metamorphic(seed uint64, lines, sets int) error {
	rng := Config{Seed: seed}.rng("metamorphic")
	keys := keyspace{n: 60, prefixes: 1 + rng.IntN(20)}
	s := drawScript(rng, keys, lines)
	first := metamorphicOptions(rng, keys)
	want, err := s.play(keys, first)
	if err != nil {
		return fmt.Errorf("seed %d: %w\noptions %+v", seed, err, *first.ColumnFamily)
	}
	for set := range sets {
		o := metamorphicOptions(rng, keys)
		got, err := s.play(keys, o)
		if err == nil && got == want {
			continue
		}
		short := s.shrink(func(s script) bool {
			a, aerr := s.play(keys, first)
			b, berr := s.play(keys, o)
			return a != b || (aerr == nil) != (berr == nil)
		})
		a, _ := short.play(keys, first)
		b, berr := short.play(keys, o)
		return fmt.Errorf("seed %d, option set %d answers otherwise (%v)\nscript:\n%s\nfirst answers:\n%s\nother answers (%v):\n%s\noptions %+v\nand %+v",
			seed, set, err, strings.Join(short, "\n"), a, berr, b, *first.ColumnFamily, *o.ColumnFamily)
	}
	return nil
}
