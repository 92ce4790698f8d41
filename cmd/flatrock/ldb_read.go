package main

import (
	"errors"
	"fmt"

	flatrock "github.com/flatrock-db/flatrock"
)

// dumpAll prints every live key of every family.
func (l *ldb) dumpAll() error {
	if len(l.words) > 0 {
		return usagef("dump_all takes no arguments, found %q", l.words[0])
	}
	return l.withDB(true, func(db *flatrock.DB) error {
		for _, cf := range db.ColumnFamilies() {
			err := l.eachKey(cf, nil, nil, func(key, value []byte) error {
				if l.json {
					return l.jsonKey(cf.Name(), key, value)
				}
				_, err := fmt.Fprintf(l.out, "%s: %s ==> %s\n", cf.Name(), shown(key, l.keyHex), shown(value, l.valueHex))
				return err
			})
			if err != nil {
				return failedf("column family %q: %w", cf.Name(), err)
			}
		}
		return nil
	})
}

// eachKey walks the live keys from from up to, and without, to; nil leaves a side
// open. It stops at the first error of f, which it returns unless it is errStop.
func (l *ldb) eachKey(cf *flatrock.ColumnFamily, from, to []byte, f func(key, value []byte) error) (err error) {
	it, err := cf.NewIterator(&flatrock.ReadOptions{LowerBound: from, UpperBound: to, TotalOrderSeek: true, FillCache: flatrock.Off})
	if err != nil {
		return err
	}
	defer func() {
		if e := it.Close(); err == nil {
			err = e
		}
	}()
	for key, value := range it.All() {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if err := f(key, value); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
	return it.Err()
}
