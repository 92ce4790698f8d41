//go:build oracle

package oracle_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// world is a database that travels between engines, and what it should hold.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	tmp   string // scripts and expectations
	dir   string // the database
	specs []spec // live families

	data   map[string]map[string]string // by family and key
	gone   map[string]map[string]bool   // keys that were deleted
	single map[string]bool              // family/key: put exactly once, nothing else
	seen   map[string]bool              // family/key: ever written
	steps  int
}

func newWorld(t *testing.T, seed uint64, specs ...spec) *world {
	t.Helper()
	tmp := t.TempDir()
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 0xf1a7)), tmp: tmp, dir: filepath.Join(tmp, "db"),
		data: map[string]map[string]string{}, gone: map[string]map[string]bool{},
		single: map[string]bool{}, seen: map[string]bool{},
	}
	for _, s := range specs {
		w.add(s)
	}
	return w
}

func (w *world) add(s spec) {
	w.specs = append(w.specs, s)
	w.data[s.Name] = map[string]string{}
	w.gone[s.Name] = map[string]bool{}
}

// script collects the commands for one life of an engine.
type script struct {
	w     *world
	rocks bool // for RocksDB, else for Flatrock
	lines []string
}

func (s *script) say(format string, args ...any) *script {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
	return s
}

// word is bytes, or a family's name, as a word of a script.
func word(s string) string {
	if s == "" {
		return "-"
	}
	return hex.EncodeToString([]byte(s))
}

// create begins a script that makes the database.
func (w *world) create(rocks bool, dbOptions string) *script {
	s := &script{w: w, rocks: rocks}
	s.say("dboptions %s", dbOptions)
	for _, f := range w.specs {
		s.say("family %s %s", name(f.Name), f.text(rocks))
	}
	return s.say("create")
}

// open begins a script that opens the database with what it says of itself.
func (w *world) open(rocks bool) *script {
	return (&script{w: w, rocks: rocks}).say("open")
}

// name is a family's name without spaces, since scripts separate words by them.
func name(s string) string { return strings.NewReplacer(" ", "_", ",", "").Replace(s) }

// writes adds n random writes, some of them in batches over families.
func (s *script) writes(n int) *script { return s.writing(n, true) }

// unsynced is writes for those that no log has.
func (s *script) unsynced(n int) *script { return s.writing(n, false) }

func (s *script) writing(n int, syncs bool) *script {
	rng := s.w.rng
	for n > 0 {
		if rng.IntN(20) == 0 && syncs {
			s.say("sync %s", []string{"on", "off", "off", "off"}[rng.IntN(4)])
		}
		if rng.IntN(3) > 0 {
			s.write()
			n--
			continue
		}
		s.say("begin")
		for range 1 + rng.IntN(30) {
			s.write()
			n--
		}
		if rng.IntN(4) == 0 {
			s.say("note %s", word("a note in the log"))
		}
		s.say("commit")
	}
	return s.say("sync off")
}

func (s *script) write() {
	w, rng := s.w, s.w.rng
	f := w.specs[rng.IntN(len(w.specs))]
	k := f.key(rng)
	if ks := w.data[f.Name]; len(ks) > 0 && rng.IntN(4) == 0 {
		k = sample(rng, ks)
	}
	id := f.Name + "/" + k
	old, exists := w.data[f.Name][k]
	switch op := rng.IntN(20); {
	case op == 0 && f.Block && rng.IntN(3) == 0:
		s.deleteRange(f, k, f.key(rng))
		return
	case op < 4:
		if w.single[id] {
			s.say("single %s %s", name(f.Name), word(k))
		} else {
			s.say("delete %s %s", name(f.Name), word(k))
		}
		w.single[id] = false
		delete(w.data[f.Name], k)
		w.gone[f.Name][k] = true
	case op < 8 && f.Merge != "":
		v := f.value(rng)
		s.say("merge %s %s %s", name(f.Name), word(k), word(v))
		w.data[f.Name][k] = f.merged(old, exists, v)
		w.single[id] = false
	default:
		v := f.value(rng)
		s.say("put %s %s %s", name(f.Name), word(k), word(v))
		w.data[f.Name][k] = v
		w.single[id] = !w.seen[id]
	}
	w.seen[id] = true
}

// deleteRange removes the keys from a up to but not including b, by the family's order.
func (s *script) deleteRange(f spec, a, b string) {
	w := s.w
	before := func(a, b string) bool { return (a < b) != f.Reverse && a != b }
	if !before(a, b) {
		a, b = b, a
	}
	if a == b {
		return
	}
	s.say("range %s %s %s", name(f.Name), word(a), word(b))
	for k := range w.data[f.Name] {
		if !before(k, a) && before(k, b) {
			delete(w.data[f.Name], k)
			w.gone[f.Name][k] = true
			w.single[f.Name+"/"+k] = false
		}
	}
}

// sample draws one of the keys that the family holds.
func sample(rng *rand.Rand, m map[string]string) string {
	ks := slices.Sorted(maps.Keys(m)) // a map's own order is not ruled by our seed
	return ks[rng.IntN(len(ks))]
}

// check adds a comparison with all that the world holds now.
func (s *script) check() *script {
	w := s.w
	var b strings.Builder
	for _, f := range w.specs {
		fmt.Fprintf(&b, "family %s", name(f.Name))
		if f.Block {
			b.WriteString(" backward")
		}
		b.WriteByte('\n')
		for _, k := range w.sorted(f) {
			fmt.Fprintf(&b, "has %s %s\n", word(k), word(w.data[f.Name][k]))
		}
		for _, k := range w.absent(f) {
			fmt.Fprintf(&b, "lacks %s\n", word(k))
		}
	}
	w.steps++
	file := filepath.Join(w.tmp, fmt.Sprintf("expected-%03d", w.steps))
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return s.say("check %s", file)
}

func (w *world) sorted(f spec) []string {
	ks := slices.Sorted(maps.Keys(w.data[f.Name]))
	if f.Reverse {
		slices.Reverse(ks)
	}
	return ks
}

// absent are keys that the family does not hold: deleted ones, and some that
// never were.
func (w *world) absent(f spec) []string {
	var out []string
	for k := range w.gone[f.Name] {
		if _, ok := w.data[f.Name][k]; !ok {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	for range 100 {
		k := f.key(w.rng)
		if _, ok := w.data[f.Name][k]; !ok {
			out = append(out, k)
		}
	}
	return out
}

// busy adds flushes, compactions and writes in random order.
func (s *script) busy(writes int) *script {
	rng := s.w.rng
	for range 4 {
		s.writes(1 + writes/4)
		f := name(s.w.specs[rng.IntN(len(s.w.specs))].Name)
		switch rng.IntN(4) {
		case 0:
			s.say("flush %s", f)
		case 1:
			s.say("compact %s", f)
		case 2:
			for _, f := range s.w.specs {
				s.say("flush %s", name(f.Name))
			}
		}
	}
	return s
}

func (s *script) flushAll() *script {
	for _, f := range s.w.specs {
		s.say("flush %s", name(f.Name))
	}
	return s
}

func (s *script) compactAll() *script {
	for _, f := range s.w.specs {
		s.say("compact %s", name(f.Name))
	}
	return s
}

// close ends the script in good order and runs it; crash ends it without.
func (s *script) close() { s.say("close").run() }
func (s *script) crash() { s.say("crash").run() }

func (s *script) run() {
	s.w.t.Helper()
	w := s.w
	w.steps++
	who := "flatrock"
	if s.rocks {
		who = "rocksdb"
	}
	file := filepath.Join(w.tmp, fmt.Sprintf("script-%03d-%s", w.steps, who))
	if err := os.WriteFile(file, []byte(strings.Join(s.lines, "\n")+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	var err error
	if s.rocks {
		err = runRocksDB(w.dir, file)
	} else {
		err = runFlatrock(w.dir, file, s.lines[len(s.lines)-1] == "crash")
	}
	if err != nil {
		w.t.Fatalf("step %d: %v\n%s", w.steps, err, keep(w.t, w.tmp))
	}
}

// keep saves a failed test's directory where FLATROCK_ORACLE_KEEP says.
func keep(t *testing.T, tmp string) string {
	to := os.Getenv("FLATROCK_ORACLE_KEEP")
	if to == "" {
		return "set FLATROCK_ORACLE_KEEP to a directory to keep scripts and database"
	}
	to = filepath.Join(to, strings.ReplaceAll(t.Name(), "/", "_"))
	if err := os.CopyFS(to, os.DirFS(tmp)); err != nil {
		return err.Error()
	}
	return "scripts and database are in " + to
}
