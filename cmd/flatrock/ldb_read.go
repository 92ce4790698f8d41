package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	flatrock "github.com/flatrock-db/flatrock"
)

func (l *ldb) get() error {
	k, err := l.keys(1, "<key> must be specified for the get command")
	if err != nil {
		return err
	}
	return l.withFamily(true, func(cf *flatrock.ColumnFamily) error {
		value, err := cf.Get(nil, k[0], nil)
		switch {
		case errors.Is(err, flatrock.ErrNotFound):
			return failedf("Get failed: NotFound: ")
		case err != nil:
			return failedf("Get failed: %w", err)
		case l.json:
			return l.jsonKey(l.family, k[0], value)
		}
		_, err = fmt.Fprintln(l.out, shown(value, l.valueHex))
		return err
	})
}

// multiGet prints what it finds. RocksDB 7.8 has no such command; the output is
// that of later versions.
func (l *ldb) multiGet() error {
	if len(l.words) == 0 {
		return failedf("At least one <key> must be specified for multi_get.")
	}
	list, err := l.keys(len(l.words), "")
	if err != nil {
		return err
	}
	return l.withFamily(true, func(cf *flatrock.ColumnFamily) error {
		results, err := cf.MultiGet(nil, list, nil)
		if err != nil {
			return failedf("%w", err)
		}
		failed := false
		for i, r := range results {
			switch {
			case errors.Is(r.Err, flatrock.ErrNotFound) && l.json:
				err = l.jsonMissing(l.family, list[i])
			case errors.Is(r.Err, flatrock.ErrNotFound):
				_, err = fmt.Fprintf(l.out, "Key not found: %s\n", shown(list[i], l.keyHex))
			case r.Err != nil:
				fmt.Fprintf(l.err, "Status for key %s: %v\n", shown(list[i], l.keyHex), r.Err)
				failed = true
			case l.json:
				err = l.jsonKey(l.family, list[i], r.Value)
			default:
				_, err = fmt.Fprintf(l.out, "%s%s%s\n", shown(list[i], l.keyHex), delimiter, shown(r.Value, l.valueHex))
			}
			if err != nil {
				return err
			}
		}
		if failed {
			return failedf("one or more keys had non-okay status")
		}
		return nil
	})
}

// keyRange is the part of a family that scan, dump and idump look at.
type keyRange struct {
	from, to []byte
	most     int64 // keys; negative for all
}

func (l *ldb) keyRange() (r keyRange, err error) {
	r.most = -1
	if l.has("max_keys") {
		n, err := strconv.ParseInt(l.text("max_keys"), 10, 32)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return r, failedf("max_keys has a value out-of-range")
		case err != nil:
			return r, failedf("max_keys has an invalid value")
		}
		r.most = n
	}
	if r.from, err = l.keyOption("from"); err != nil {
		return r, err
	}
	r.to, err = l.keyOption("to")
	return r, err
}

// full reports whether n keys are enough. As in RocksDB, at least one is read.
func (r *keyRange) full(n int64) bool { return r.most >= 0 && n >= r.most }

// eachKey walks the live keys of r. It stops at the first error of f, which it
// returns unless it is errStop.
func (l *ldb) eachKey(cf *flatrock.ColumnFamily, r keyRange, f func(key, value []byte) error) (err error) {
	it, err := cf.NewIterator(&flatrock.ReadOptions{LowerBound: r.from, UpperBound: r.to, TotalOrderSeek: true, FillCache: flatrock.Off})
	if err != nil {
		return err
	}
	defer func() {
		if e := it.Close(); err == nil {
			err = e
		}
	}()
	n := int64(0)
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
		if n++; r.full(n) {
			return nil
		}
	}
	return it.Err()
}

func (l *ldb) scan() error {
	r, err := l.keyRange()
	if err != nil {
		return err
	}
	keysOnly := l.flag("no_value")
	return l.withFamily(true, func(cf *flatrock.ColumnFamily) error {
		err := l.eachKey(cf, r, func(key, value []byte) (err error) {
			switch {
			case l.json:
				err = l.jsonKey(l.family, key, value)
			case keysOnly:
				_, err = fmt.Fprintln(l.out, shown(key, l.keyHex))
			default:
				_, err = fmt.Fprintf(l.out, "%s : %s\n", shown(key, l.keyHex), shown(value, l.valueHex))
			}
			return err
		})
		if err != nil {
			return failedf("%w", err)
		}
		return nil
	})
}

func (l *ldb) dump() error {
	if l.has("path") {
		return l.dumpFile(l.text("path"))
	}
	if l.dir == "" {
		return usagef("--db=DIR or --path=FILE must be given for dump")
	}
	r, err := l.keyRange()
	if err != nil {
		return err
	}
	count, countOnly := l.newPrefixCount(), l.flag("count_only")
	var sizes sizeHistogram
	return l.withFamily(true, func(cf *flatrock.ColumnFamily) error {
		n := uint64(0)
		err := l.eachKey(cf, r, func(key, value []byte) (err error) {
			n++
			switch {
			case l.json && !countOnly:
				return l.jsonKey(l.family, key, value)
			case count != nil:
				err = count.add(key, len(key)+len(value))
			case !countOnly:
				_, err = fmt.Fprintln(l.out, l.dumpLine(key, value))
			}
			if countOnly {
				sizes.add(uint64(len(value)))
			}
			return err
		})
		switch {
		case err != nil:
			return failedf("%w", err)
		case l.json && countOnly:
			return l.jsonValue(map[string]any{"cf": l.family, "keys": n})
		case l.json:
			return nil
		case count != nil:
			err = count.flush()
		default:
			_, err = fmt.Fprintf(l.out, "Keys in range: %d\n", n)
		}
		if err == nil && countOnly {
			_, err = fmt.Fprintf(l.out, "Value size distribution: \n%s\n", sizes.String())
		}
		return err
	})
}

// dumpLine is a line that load reads. As in RocksDB, without --hex a zero byte ends
// it, and a line break in key or value makes several of it.
func (l *ldb) dumpLine(key, value []byte) string {
	if l.keyHex {
		key = []byte(toHex(key))
	}
	if l.valueHex {
		value = []byte(toHex(value))
	}
	return cText(slices.Concat(key, []byte(delimiter), value))
}

// prefixCount counts neighbouring keys that are equal up to a delimiter.
type prefixCount struct {
	l      *ldb
	delim  byte
	prefix string
	count  uint64
	size   uint64
}

// newPrefixCount is nil unless --count_delim asks for it.
func (l *ldb) newPrefixCount() *prefixCount {
	if !l.has("count_delim") {
		return nil
	}
	p := &prefixCount{l: l, delim: '.'}
	if d := l.text("count_delim"); d != "" {
		p.delim = d[0]
	}
	return p
}

func (p *prefixCount) add(key []byte, size int) error {
	n := bytes.IndexByte(key, p.delim)
	if n < 0 {
		n = len(key)
	}
	prefix := cText(key[:n])
	if p.prefix != "" && p.prefix != prefix {
		if err := p.flush(); err != nil {
			return err
		}
		p.count, p.size = 0, 0
	}
	p.prefix = prefix
	p.count++
	p.size += uint64(size)
	return nil
}

func (p *prefixCount) flush() error {
	_, err := fmt.Fprintf(p.l.out, "%s => count:%d\tsize:%d\n", p.prefix, p.count, p.size)
	return err
}

// dumpAll prints every live key of every family.
func (l *ldb) dumpAll() error {
	if len(l.words) > 0 {
		return usagef("dump_all takes no arguments, found %q", l.words[0])
	}
	return l.withDB(true, func(db *flatrock.DB) error {
		for _, cf := range db.ColumnFamilies() {
			err := l.eachKey(cf, keyRange{most: math.MaxInt64}, func(key, value []byte) error {
				if l.json {
					return l.jsonKey(cf.Name(), key, value)
				}
				_, err := fmt.Fprintf(l.out, "%s: %s%s%s\n", cf.Name(), shown(key, l.keyHex), delimiter, shown(value, l.valueHex))
				return err
			})
			if err != nil {
				return failedf("column family %q: %w", cf.Name(), err)
			}
		}
		return nil
	})
}

func (l *ldb) checkConsistency() error {
	return l.withDB(true, func(*flatrock.DB) error { return l.ok() })
}
