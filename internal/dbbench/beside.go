package dbbench

// beside is what one more thread does while the others run a benchmark's body, until
// they are done.
type beside struct {
	body func(*thread) error
	// counted tells that its operations are part of the benchmark's line; otherwise it
	// has one of its own.
	counted bool
	name    string // of that line; empty for bgwriter
	// awaited tells that the benchmark goes on until it is done.
	awaited bool
}

var (
	besideWriter  = &beside{body: backgroundWriter}
	besideMerger  = &beside{body: backgroundMerger}
	besideScanner = &beside{body: backgroundScanner, counted: true}
)

// backgroundMerger merges into random keys at the pace of the writer.
func backgroundMerger(t *thread) error {
	num := t.mergeKeyCount()
	return t.writeBeside(func(value []byte) error {
		t.setKey(t.rng.Uint64N(num))
		return t.cf.Merge(t.wo, t.key, value)
	}, opMerge)
}

// backgroundScanner walks over the whole database, again and again.
func backgroundScanner(t *thread) error {
	var size int64
	for i := 0; !t.halt.Load(); i++ {
		it, err := t.families[i%len(t.families)].NewIterator(t.ro)
		if err != nil {
			return err
		}
		n := 0
		for ok := it.First(); ok && !t.halt.Load(); ok = it.Next() {
			size += int64(len(it.Key()) + len(it.Value()))
			t.readPace.take(1)
			t.stats.finished(1, opScan)
			n++
		}
		if err := it.Close(); err != nil {
			return err
		}
		if n == 0 && len(t.families) == 1 {
			break // an empty database has no second round
		}
	}
	t.stats.bytes = size
	return nil
}
