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

// player plays scripts on a database in memory, under option set number set of a seed: the formats of
// the families stay, all else is drawn again at each reopening.
type player struct {
	scene
	cfg   Config
	set   uint64
	specs []familySpec
	opts  roundOptions
	logs  bool       // logs have a directory of their own
	rng   *rand.Rand // for what changes no answer
	fs    *mmapfs.MemFS
	dir   string

	opened, made uint64 // how often; checkpoints, exports and files
	db           *flatrock.DB
	snaps        []*flatrock.Snapshot
	out          strings.Builder
}

// newPlayer draws the formats of a set.
func newPlayer(seed, set uint64) *player {
	p := &player{scene: drawScene(seed), cfg: Config{Seed: seed}.withDefaults(), set: set, fs: mmapfs.NewMem(), dir: "/db"}
	p.rng = p.cfg.rng("formats", set)
	p.logs = p.rng.IntN(3) == 0
	for i, reverse := range p.reverse {
		f := familySpec{name: fmt.Sprintf("family%d", i), keys: p.keys, reverse: reverse, plain: p.rng.IntN(2) == 0,
			style: pick(p.rng, flatrock.CompactionStyleLevel, flatrock.CompactionStyleUniversal)}
		if i == 0 {
			f.name = flatrock.DefaultColumnFamilyName
		}
		f.extractor = pick(p.rng, nil, flatrock.FixedPrefix(2), flatrock.CappedPrefix(5), flatrock.NoopPrefix())
		f.plainOpts.RangeDeletes = flatrock.On
		if p.keys.fixed {
			f.plainOpts.UserKeyLen = pick[uint32](p.rng, 0, 8)
		}
		if f.extractor == nil {
			f.plainOpts.HashTableRatio = flatrock.TotalOrder
		} else {
			f.plainOpts.HashTableRatio = pick(p.rng, 0, 0.5, flatrock.TotalOrder)
			f.plainOpts.EncodingType = pick(p.rng, flatrock.PlainEncoding, flatrock.PrefixEncoding)
		}
		p.specs = append(p.specs, f)
	}
	return p
}

// open opens the directory with the families that are to be there. A first opening makes them all.
func (p *player) open(dir string, families func(name string) bool) error {
	p.dir = dir
	p.opts = p.cfg.drawRound(p.specs, p.fs, p.set, p.opened, harness{mapped: true, tails: true, whole: true, ingest: true})
	p.opened++
	o := &p.opts.db
	o.AllowIngestBehind, o.WALDir = p.behind, dir
	if p.logs && dir == "/db" { // what a checkpoint holds lies together
		o.WALDir = "/db" + logsSuffix
	}
	all := o.ColumnFamilies
	o.ColumnFamilies = nil
	for _, d := range all {
		if families(d.Name) {
			o.ColumnFamilies = append(o.ColumnFamilies, d)
		}
	}
	redrawLevels(p.rng, p.fs, dir, o)
	var err error
	p.db, err = flatrock.Open(dir, o)
	return err
}

func (p *player) reopen(dir string) error {
	live := map[string]bool{}
	for _, cf := range p.db.ColumnFamilies() {
		live[cf.Name()] = true
	}
	if err := p.db.Close(); err != nil {
		return err
	}
	return p.open(dir, func(name string) bool { return live[name] })
}

// play plays a script under an option set and returns the answers.
func (s script) play(seed, set uint64) (answers string, err error) {
	p := newPlayer(seed, set)
	if err := p.open(p.dir, func(string) bool { return true }); err != nil {
		return "", fmt.Errorf("%w\n%s", err, p)
	}
	for i, line := range s {
		if err = p.line(line); err != nil {
			err = fmt.Errorf("line %d, %s: %w", i+1, line, err)
			break
		}
	}
	p.release(0)
	return p.out.String(), errors.Join(err, p.db.Close())
}

// String says which options the set has, without those of little interest.
func (p *player) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "option set %d:\n", p.set)
	for i, s := range p.specs {
		fmt.Fprintf(&b, "  family %d: plain %v, style %d, prefix %v, reverse %v, keys of one length %v\n", i, s.plain, s.style, s.extractor, s.reverse, s.keys.fixed)
	}
	return b.String()
}

// release lets snapshots go until n are held.
func (p *player) release(n int) {
	for len(p.snaps) > n {
		last := len(p.snaps) - 1
		p.snaps[last].Release()
		p.snaps = p.snaps[:last]
	}
}

// family is nil if there is none of that number now.
func (p *player) family(number uint64) *flatrock.ColumnFamily {
	if number >= uint64(len(p.specs)) {
		return nil
	}
	return p.db.ColumnFamily(p.specs[number].name)
}

// bounds are those of the keys with indices in [from, to), in the order of a family.
func (p *player) bounds(family, from, to uint64) (start, end []byte) {
	return rangeOf(p.keys, p.reverse[family], int(from), int(to))
}

func (p *player) line(line string) error {
	if parts, ok := strings.CutPrefix(line, "batch "); ok {
		return p.batch(strings.Split(parts, ";"))
	}
	op, err := parseOperation(line)
	if err != nil {
		return err
	}
	switch kind := verbs[op.verb]; {
	case kind == verbWhole:
		return p.whole(op)
	case p.family(op.args[0]) == nil && op.verb != "create":
		return nil
	case kind == verbWrite:
		return p.batch([]string{line})
	case kind == verbChange:
		return p.change(op)
	}
	return p.read(op)
}

// batch writes operations together, now and then by way of an IndexedBatch.
func (p *player) batch(ops []string) error {
	var plain flatrock.Batch
	var b batchWriter = &plain
	var indexed *flatrock.IndexedBatch
	if p.rng.IntN(6) == 0 {
		indexed = p.db.NewIndexedBatch()
		b = indexed
	}
	for _, line := range ops {
		op, err := parseOperation(line)
		if err != nil {
			return err
		}
		cf := p.family(op.args[0])
		if cf == nil {
			continue
		}
		name, id := p.keys.key(int(op.args[1])), op.args[2]
		switch op.verb {
		case "put":
			b.Put(cf, name, appendValue(nil, id))
		case "entity":
			b.PutEntity(cf, name, appendColumns(nil, id))
		case "delete":
			b.Delete(cf, name)
		case "merge":
			b.Merge(cf, name, binary.LittleEndian.AppendUint64(nil, id))
		case "range":
			start, end := p.bounds(op.args[0], op.args[1], op.args[2])
			b.DeleteRange(cf, start, end)
		}
	}
	if indexed != nil {
		return p.db.Write(p.writeOptions(), indexed.Batch())
	}
	return p.db.Write(p.writeOptions(), &plain)
}

func (p *player) writeOptions() *flatrock.WriteOptions {
	wo := p.opts.drawWrite(p.rng, 5)
	wo.DisableWAL, wo.NoSlowdown = false, false // a reopening, or a write that does not wait, would change the answers
	return wo
}

// whole does what concerns all families.
func (p *player) whole(op operation) error {
	ctx := context.Background()
	switch op.verb {
	case "ingestall":
		var args []flatrock.IngestExternalFileArg
		for i := range p.specs {
			if cf := p.family(uint64(i)); cf != nil {
				path, err := p.external(cf, uint64(i), op.args[0], op.args[1], op.args[2]+uint64(i))
				if err != nil {
					return err
				}
				args = append(args, flatrock.IngestExternalFileArg{Family: cf, ExternalFiles: []string{path}, Options: ingestOptions(p.rng, false)})
			}
		}
		return p.db.IngestExternalFiles(ctx, args)
	case "flushall":
		return p.db.FlushFamilies(ctx, nil, p.db.ColumnFamilies()...)
	case "reopen":
		p.release(0)
		return p.reopen(p.dir)
	case "checkpoint":
		p.release(0)
		p.made++
		dir := fmt.Sprintf("/checkpoint%d", p.made)
		o := &flatrock.CheckpointOptions{}
		if p.rng.IntN(2) == 0 {
			o.LogSizeForFlush = flatrock.NeverFlush
		}
		if _, err := p.db.CreateCheckpoint(ctx, dir, o); err != nil {
			return err
		}
		return p.reopen(dir)
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
	return p.scanAll(op.args[0], op.args[1])
}

// change changes a family, which is there unless it is to be created.
func (p *player) change(op operation) error {
	ctx := context.Background()
	number := op.args[0]
	cf := p.family(number)
	switch op.verb {
	case "flush":
		return cf.Flush(ctx, nil)
	case "compact":
		o := compactRangeOptions(p.rng)
		return refused(o, cf.CompactRange(ctx, o, nil, nil))
	case "drop":
		if number == 0 {
			return nil
		}
		return p.db.DropColumnFamily(cf)
	case "create":
		if number == 0 || number >= uint64(len(p.specs)) || cf != nil {
			return nil
		}
		_, err := p.db.CreateColumnFamily(p.specs[number].name, p.cfg.drawFamilyRound(p.rng, &p.specs[number], harness{}))
		return err
	case "import":
		return p.importFamily(ctx, cf, number, op.args[1])
	}
	path, err := p.external(cf, number, op.args[1], op.args[2], op.args[3])
	if err != nil {
		return err
	}
	o := ingestOptions(p.rng, false)
	o.IngestBehind = op.verb == "behind"
	err = cf.IngestExternalFile(ctx, []string{path}, o)
	if op.verb == "behind" && errors.Is(err, flatrock.ErrInvalidArgument) { // not for the first time
		p.out.WriteString("refused\n")
		return nil
	}
	return err
}

// external makes a file with a value for each of the keys.
func (p *player) external(cf *flatrock.ColumnFamily, family, from, to, id uint64) (path string, err error) {
	p.made++
	path = fmt.Sprintf("/external%d.sst", p.made)
	w, err := flatrock.NewSstFileWriter(path, &flatrock.SstFileWriterOptions{Family: cf, FS: p.fs})
	if err != nil {
		return "", err
	}
	for i := from; i < to; i++ {
		key := i
		if p.reverse[family] {
			key = from + to - 1 - i
		}
		if err := w.Put(p.keys.key(int(key)), appendValue(nil, merged(id&idMask, key))); err != nil {
			return "", errors.Join(err, w.Close())
		}
	}
	_, err = w.Finish()
	return path, err
}

// importFamily exports a family and imports it as another one, which has its formats from then on.
func (p *player) importFamily(ctx context.Context, cf *flatrock.ColumnFamily, from, to uint64) error {
	if to == 0 || to >= uint64(len(p.specs)) || p.family(to) != nil {
		return nil
	}
	p.made++
	m, err := p.db.ExportColumnFamily(ctx, cf, fmt.Sprintf("/export%d", p.made))
	if err != nil {
		return err
	}
	name := p.specs[to].name
	p.specs[to], p.reverse[to] = p.specs[from], p.reverse[from]
	p.specs[to].name = name
	o := importOptions(p.cfg.drawFamilyRound(p.rng, &p.specs[to], harness{}), cf)
	_, err = p.db.CreateColumnFamilyWithImport(ctx, name, o, &flatrock.ImportColumnFamilyOptions{MoveFiles: p.rng.IntN(2) == 0}, m)
	return err
}

// answer adds a key's value to the answers.
func (p *player) answer(key uint64, v []byte, err error) error {
	if err != nil && !errors.Is(err, flatrock.ErrNotFound) {
		return err
	}
	fmt.Fprintf(&p.out, "%d %s\n", key, describe(v, err == nil))
	return nil
}

// readOptions are at the newest snapshot that is held.
func (p *player) readOptions() *flatrock.ReadOptions {
	ro := unverified(p.rng, harness{}, readOptions(p.rng, nil))
	if n := len(p.snaps); n > 0 {
		ro.Snapshot = p.snaps[n-1]
	}
	return ro
}

func (p *player) read(op operation) error {
	cf, ro := p.family(op.args[0]), p.readOptions()
	key := op.args[1]
	switch op.verb {
	case "get":
		name := p.keys.key(int(key))
		v, err := cf.Get(ro, name, nil)
		if aerr := p.answer(key, v, err); aerr != nil || err != nil {
			return aerr
		}
		var e flatrock.Entity
		err = cf.GetEntity(ro, name, &e)
		fmt.Fprintf(&p.out, "%q\n", e.Columns)
		return err
	case "multi":
		var names [][]byte
		for i := key; i < op.args[2]; i++ {
			names = append(names, p.keys.key(int(i)))
		}
		results, err := cf.MultiGet(ro, names, nil)
		for i, r := range results {
			err = errors.Join(err, p.answer(key+uint64(i), r.Value, r.Err))
		}
		return err
	case "scan", "back":
		ro.LowerBound, ro.UpperBound = p.bounds(op.args[0], key, op.args[2])
	}
	it, err := cf.NewIterator(ro)
	if err != nil {
		return err
	}
	p.walk(it, op)
	return it.Close()
}

// walk writes down what an iterator shows.
func (p *player) walk(it *flatrock.Iterator, op operation) {
	show := func(key, value []byte) { fmt.Fprintf(&p.out, "%q %s, ", key, describe(value, true)) }
	name := p.keys.key(int(op.args[1]))
	switch op.verb {
	case "seek", "below":
		if op.verb == "seek" && it.SeekGE(name) || op.verb == "below" && it.SeekLT(name) {
			show(it.Key(), it.Value())
		}
	case "prefix":
		for key, value := range it.Prefix(name[:min(op.args[2], uint64(len(name)))]) {
			show(key, value)
		}
	case "back":
		for ok := it.Last(); ok; ok = it.Prev() {
			show(it.Key(), bytes.Clone(it.Value()))
		}
	default:
		for ok := it.First(); ok; ok = it.Next() {
			show(it.Key(), bytes.Clone(it.Value()))
		}
	}
	p.out.WriteString("end\n")
}

// scanAll walks a part of all families at one moment. Iterators of a call have the same bounds, so families of
// another order than the default one are asked by themselves.
func (p *player) scanAll(from, to uint64) error {
	for _, reverse := range []bool{false, true} {
		var families []*flatrock.ColumnFamily
		ro := p.readOptions()
		for i := range p.specs {
			if cf := p.family(uint64(i)); cf != nil && p.reverse[i] == reverse {
				families = append(families, cf)
			}
		}
		if len(families) == 0 {
			continue
		}
		ro.LowerBound, ro.UpperBound = rangeOf(p.keys, reverse, int(from), int(to))
		its, err := p.db.NewIterators(ro, families)
		for _, it := range its {
			p.walk(it, operation{verb: "scan"})
			err = errors.Join(err, it.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Metamorphic plays scripts, each under several option sets, both table formats among them, and compares
// the answers. Round n plays script n of the seed.
func Metamorphic(ctx context.Context, cfg Config, stats *Stats) error {
	const lines, sets = 500, 6
	for n := cfg.Database; ctx.Err() == nil && (cfg.Rounds == 0 || int(stats.Rounds.Load()) < cfg.Rounds); n++ {
		if err := metamorphic(mix(cfg.Seed)+n, lines, sets); err != nil {
			stats.failed(n)
			return fmt.Errorf("script %d of seed %d: %w", n, cfg.Seed, err)
		}
		stats.Rounds.Add(1)
		stats.Databases.Add(sets + 1)
		stats.Operations.Add(lines * (sets + 1))
		stats.Checks.Add(sets)
		if cfg.Log != nil && n%16 == 0 {
			cfg.Log("metamorphic: script %d: fine; %s", n, stats)
		}
	}
	return nil
}

// metamorphic plays one script under several option sets and compares the answers. A
// difference is shrunk to a script of a few lines.
func metamorphic(seed uint64, lines, sets int) error {
	s := drawScript(Config{Seed: seed}.rng("script"), drawScene(seed), lines)
	return s.compare(seed, sets, script.play)
}

// compare plays the script under option set 0 and so many others, with play.
func (s script) compare(seed uint64, sets int, play func(s script, seed, set uint64) (string, error)) error {
	want, err := play(s, seed, 0)
	if err != nil {
		short := s.shrink(func(s script) bool { _, err := play(s, seed, 0); return err != nil })
		_, err = play(short, seed, 0)
		return fmt.Errorf("it fails: %w\n%s%s", err, newPlayer(seed, 0), scriptCase{seed, [2]uint64{0, 0}, short})
	}
	for set := uint64(1); set <= uint64(sets); set++ {
		got, err := play(s, seed, set)
		if err == nil && got == want {
			continue
		}
		short := s.shrink(func(s script) bool {
			a, aerr := play(s, seed, 0)
			b, berr := play(s, seed, set)
			return a != b || (aerr == nil) != (berr == nil)
		})
		return scriptCase{seed, [2]uint64{0, set}, short}.compare(play)
	}
	return nil
}

// compare plays the script under both of the option sets. The error has all that ReplayScript needs.
func (c scriptCase) compare(play func(s script, seed, set uint64) (string, error)) error {
	a, aerr := play(c.s, c.seed, c.sets[0])
	b, berr := play(c.s, c.seed, c.sets[1])
	if aerr == nil && berr == nil && a == b {
		return nil
	}
	return fmt.Errorf("two option sets answer differently\n%s%s\nthe first answers (error: %v):\n%s\nthe second answers (error: %v):\n%s\nthe script, for --script:\n\n%s",
		newPlayer(c.seed, c.sets[0]), newPlayer(c.seed, c.sets[1]), aerr, a, berr, b, c)
}

// ReplayScript plays a script that Metamorphic has printed, from its line "seed … sets …" on, under
// the two option sets that it names, and fails if they answer differently.
func ReplayScript(text string) error {
	c, err := parseCase(text)
	if err != nil {
		return err
	}
	return c.compare(script.play)
}
