package dbbench

import (
	"bytes"
	"errors"
	"fmt"

	flatrock "github.com/flatrock-db/flatrock"
)

func verifyChecksum(t *thread) error {
	if err := t.db.VerifyChecksum(t.ctx); err != nil {
		return err
	}
	t.stats.finished(1, opOther)
	return nil
}

// verifyAgainstTruth compares the whole database with that of --truth_db.
func (b *bench) verifyAgainstTruth() (err error) {
	truth, err := flatrock.Open(b.c.truthDB, &flatrock.Options{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("--truth_db=%s: %w", b.c.truthDB, err)
	}
	defer func() { err = errors.Join(err, truth.Close()) }()
	want, err := truth.NewIterator(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, want.Close()) }()
	got, err := b.cf.NewIterator(b.readOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, got.Close()) }()
	n := 0
	more, have := want.First(), got.First()
	for ; more && have; n++ {
		if !bytes.Equal(want.Key(), got.Key()) || !bytes.Equal(want.Value(), got.Value()) {
			return fmt.Errorf("after %d keys: %q with a value of %d bytes, in --truth_db %q with one of %d", n, got.Key(), len(got.Value()), want.Key(), len(want.Value()))
		}
		if n%1000 == 0 && b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		more, have = want.Next(), got.Next()
	}
	if err := errors.Join(want.Err(), got.Err()); err != nil {
		return err
	}
	switch {
	case more:
		return fmt.Errorf("after %d keys: the end, in --truth_db %q", n, want.Key())
	case have:
		return fmt.Errorf("after %d keys: %q, in --truth_db the end", n, got.Key())
	}
	fmt.Fprintf(b.out, "%-12s : %d keys agree with %s\n", "verify", n, b.c.truthDB)
	return nil
}

// approximateSizes asks for the sizes of random ranges, which costs no read of them.
func approximateSizes(t *thread) error {
	num := t.keyCount()
	end := t.maker.buffer()
	var sum uint64
	loop := t.count(true, t.p.reads)
	for !loop.done(1) {
		a, b := t.rng.Uint64N(num), t.rng.Uint64N(num)
		t.setKey(min(a, b))
		end = t.maker.put(end, max(a, b))
		sizes, err := t.cf.GetApproximateSizes(nil, []flatrock.KeyRange{{Start: t.key, End: end}})
		if err != nil {
			return err
		}
		sum += sizes[0]
		t.stats.finished(1, opOther)
	}
	t.stats.message = fmt.Sprintf("(Avg approx size=%g)", float64(sum)/float64(max(t.stats.done, 1)))
	return nil
}
