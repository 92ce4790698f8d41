package stress

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A script is a list of operations, a line each, that means the same whatever the options. F and G are
// numbers of families, FROM, TO and K are indices of keys, ID and the keys give the values:
//
//	put F K ID         delete F K      merge F K ID     range F FROM TO   entity F K ID
//	batch OP; OP; …    of the operations above, written together
//	ingest F FROM TO ID                ingestall FROM TO ID   into all families at once
//	behind F FROM TO ID                beneath all else; not in one script with the two others, which may leave
//	                                   files that have no sequence number, above which nothing goes beneath
//	flush F            compact F       flushall
//	reopen             with other options of the same formats
//	checkpoint         and go on in it
//	drop F             create F        import F G       what F holds becomes G, which was dropped
//	snapshot           release         of the newest snapshot that is held
//	get F K            scan F FROM TO  back F FROM TO   at the newest snapshot that is held, if any
//	multi F FROM TO    seek F K        below F K        prefix F K LENGTH    the same
//	scanall FROM TO    iterators over all families at one moment
//
// A player answers the reads. Lines that make no sense, because a shrunk script lacks what they rely on,
// do nothing.
type script []string

// scene is what a script is played on, and what the options must leave as it is: with them the
// answers would change.
type scene struct {
	keys    keyspace
	reverse []bool // by family: its order
	behind  bool   // AllowIngestBehind
}

// drawScene draws the scene of a seed.
func drawScene(seed uint64) scene {
	rng := Config{Seed: seed}.rng("scene")
	s := scene{keys: keyspace{n: 60, prefixes: 1 + rng.IntN(20), fixed: rng.IntN(4) == 0}, behind: rng.IntN(4) == 0}
	for range 1 + rng.IntN(4) {
		s.reverse = append(s.reverse, rng.IntN(4) == 0)
	}
	return s
}

// drawScript draws a script for a scene.
func drawScript(rng *rand.Rand, s scene, n int) script {
	d := drawer{rng: rng, scene: s, live: make([]bool, len(s.reverse))}
	for f := range d.live {
		d.live[f] = true
	}
	var out script
	for range n {
		out = append(out, d.line())
	}
	return out
}

// drawer knows what the lines so far have left.
type drawer struct {
	scene
	rng  *rand.Rand
	live []bool // by family
	held int    // snapshots
}

func (d *drawer) key() int { return d.rng.IntN(d.keys.n) }

func (d *drawer) span() string {
	from := d.key()
	return fmt.Sprintf("%d %d", from, min(d.keys.n, from+1+d.rng.IntN(20)))
}

// family draws one that is there.
func (d *drawer) family() int {
	for {
		if f := d.rng.IntN(len(d.live)); d.live[f] {
			return f
		}
	}
}

func (d *drawer) id() uint64 { return d.rng.Uint64()&idMask | 1 }

func (d *drawer) line() string {
	f := d.family()
	switch op := d.rng.IntN(200); {
	case op < 100:
		return d.write()
	case op < 122:
		ops := make([]string, 1+d.rng.IntN(12))
		for i := range ops {
			ops[i] = d.write()
		}
		return "batch " + strings.Join(ops, "; ")
	case op < 124 && !d.behind:
		return fmt.Sprintf("ingest %d %s %d", f, d.span(), d.id())
	case op < 125 && !d.behind:
		return fmt.Sprintf("ingestall %s %d", d.span(), d.id())
	case op < 127 && d.behind:
		return fmt.Sprintf("behind %d %s %d", f, d.span(), d.id())
	case op < 132:
		return fmt.Sprintf("flush %d", f)
	case op < 133:
		return "flushall"
	case op < 137:
		return fmt.Sprintf("compact %d", f)
	case op < 139 && d.held == 0:
		return pick(d.rng, "reopen", "reopen", "checkpoint")
	case op < 142 && f > 0:
		d.live[f] = false
		return fmt.Sprintf("drop %d", f)
	case op < 147:
		for g, live := range d.live {
			if !live {
				d.live[g] = true
				if d.rng.IntN(3) == 0 {
					return fmt.Sprintf("import %d %d", f, g)
				}
				return fmt.Sprintf("create %d", g)
			}
		}
	case op < 150 && d.held < 4:
		d.held++
		return "snapshot"
	case op < 155 && d.held > 0:
		d.held--
		return "release"
	}
	return d.read(f)
}

// write draws what can be part of a batch.
func (d *drawer) write() string {
	f, op := d.family(), d.rng.IntN(65)
	switch {
	case op < 35:
		return fmt.Sprintf("put %d %d %d", f, d.key(), d.id())
	case op < 39:
		return fmt.Sprintf("entity %d %d %d", f, d.key(), d.rng.Uint64()|1)
	case op < 50:
		return fmt.Sprintf("delete %d %d", f, d.key())
	case op < 62:
		return fmt.Sprintf("merge %d %d %d", f, d.key(), d.id())
	}
	return fmt.Sprintf("range %d %s", f, d.span())
}

func (d *drawer) read(f int) string {
	switch op := d.rng.IntN(30); {
	case op < 10:
		return fmt.Sprintf("get %d %d", f, d.key())
	case op < 12:
		return fmt.Sprintf("multi %d %s", f, d.span())
	case op < 16:
		return fmt.Sprintf("%s %d %d", pick(d.rng, "seek", "below"), f, d.key())
	case op < 19:
		return fmt.Sprintf("prefix %d %d %d", f, d.key(), 1+d.rng.IntN(8))
	case op < 20:
		return "scanall " + d.span()
	case op < 25:
		return fmt.Sprintf("scan %d %s", f, d.span())
	}
	return fmt.Sprintf("back %d %s", f, d.span())
}

// operation is a line, or a part of a batch, taken apart.
type operation struct {
	verb string
	args [4]uint64 // what is missing is zero
}

func parseOperation(line string) (op operation, err error) {
	words := strings.Fields(line)
	if len(words) == 0 || len(words) > 1+len(op.args) {
		return op, fmt.Errorf("%q is no operation", line)
	}
	op.verb = words[0]
	for i, w := range words[1:] {
		if op.args[i], err = strconv.ParseUint(w, 10, 64); err != nil {
			return op, fmt.Errorf("%q: %w", line, err)
		}
	}
	return op, nil
}

// shrink drops lines, large pieces first, and then parts of the batches that are left, as long as the
// script still fails.
func (s script) shrink(fails func(script) bool) script {
	s = dropPieces(s, fails)
	for i := range s {
		parts, isBatch := strings.CutPrefix(s[i], "batch ")
		if !isBatch {
			continue
		}
		with := func(ops []string) script {
			t := append(script(nil), s...)
			t[i] = "batch " + strings.Join(ops, "; ")
			return t
		}
		s = with(dropPieces(strings.Split(parts, "; "), func(ops []string) bool { return len(ops) > 0 && fails(with(ops)) }))
	}
	return s
}

// dropPieces drops elements, large pieces first, as long as what is left still fails.
func dropPieces[S ~[]string](s S, fails func(S) bool) S {
	for size := max(1, len(s)/2); size > 0; size /= 2 {
		for at := 0; at+size <= len(s); {
			shorter := append(append(S(nil), s[:at]...), s[at+size:]...)
			if fails(shorter) {
				s = shorter
			} else {
				at += size
			}
		}
	}
	return s
}

// A case is a script and two of the option sets of a seed: all that a replay needs. Its text is
//
//	seed SEED sets A B
//
// and the script. Lines that begin with # are for people.
type scriptCase struct {
	seed uint64
	sets [2]uint64
	s    script
}

func (c scriptCase) String() string {
	return fmt.Sprintf("seed %d sets %d %d\n%s\n", c.seed, c.sets[0], c.sets[1], strings.Join(c.s, "\n"))
}

func parseCase(text string) (c scriptCase, err error) {
	first := true
	for n, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if first {
			first = false
			if m, err := fmt.Sscanf(line, "seed %d sets %d %d", &c.seed, &c.sets[0], &c.sets[1]); err != nil || m != 3 {
				return c, fmt.Errorf("line %d: expected \"seed SEED sets A B\", found %q", n+1, line)
			}
			continue
		}
		parts, isBatch := strings.CutPrefix(line, "batch ")
		for op := range strings.SplitSeq(parts, ";") {
			o, err := parseOperation(op)
			if err != nil {
				return c, fmt.Errorf("line %d: %w", n+1, err)
			}
			if kind, known := verbs[o.verb]; !known || isBatch && kind != verbWrite {
				return c, fmt.Errorf("line %d: no operation %q here", n+1, o.verb)
			}
		}
		c.s = append(c.s, line)
	}
	if first {
		return c, fmt.Errorf("expected \"seed SEED sets A B\", found no line")
	}
	return c, nil
}

// The verbs, by what they are.
const (
	verbWrite  = iota // can be part of a batch
	verbWhole         // concerns all families
	verbRead          // answers from one family
	verbChange        // changes a family otherwise
)

var verbs = map[string]int{
	"put": verbWrite, "delete": verbWrite, "merge": verbWrite, "range": verbWrite, "entity": verbWrite,
	"ingestall": verbWhole, "flushall": verbWhole, "reopen": verbWhole, "checkpoint": verbWhole, "snapshot": verbWhole, "release": verbWhole, "scanall": verbWhole,
	"get": verbRead, "scan": verbRead, "back": verbRead, "multi": verbRead, "seek": verbRead, "below": verbRead, "prefix": verbRead,
	"ingest": verbChange, "behind": verbChange, "flush": verbChange, "compact": verbChange, "drop": verbChange, "create": verbChange, "import": verbChange,
}
