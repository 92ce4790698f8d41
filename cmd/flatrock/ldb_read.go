package main

import (
	"bytes"
	"errors"
	"fmt"
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
		if err == nil {
			value, err = l.loaded(value)
		}
		return l.printOne("Get", err, func() error {
			if l.json {
				return l.jsonKey(l.family, k[0], value)
			}
			_, err := fmt.Fprintln(l.out, shown(value, l.valueHex))
			return err
		})
	})
}

// printOne is what get and get_entity do with what they found, or err.
func (l *ldb) printOne(command string, err error, show func() error) error {
	switch {
	case errors.Is(err, flatrock.ErrNotFound):
		return failedf("%s failed: NotFound: ", command)
	case err != nil:
		return failedf("%s failed: %w", command, err)
	}
	return show()
}

// multiGet prints what it finds. RocksDB 7.8 has no such command; the output is
// that of later versions.
func (l *ldb) multiGet() error {
	return l.multi("multi_get.", func(cf *flatrock.ColumnFamily, list [][]byte) error {
		results, err := cf.MultiGet(nil, list, nil)
		if err != nil {
			return failedf("%w", err)
		}
		return l.printEach(list, func(i int) (line string, json func() error, err error) {
			value, err := results[i].Value, results[i].Err
			if err == nil {
				value, err = l.loaded(value)
			}
			return shown(value, l.valueHex), func() error { return l.jsonKey(l.family, list[i], value) }, err
		})
	})
}

// multi reads the command line of multi_get and multi_get_entity.
func (l *ldb) multi(command string, f func(cf *flatrock.ColumnFamily, list [][]byte) error) error {
	if len(l.words) == 0 {
		return failedf("At least one <key> must be specified for %s", command)
	}
	list, err := l.keys(len(l.words), "")
	if err != nil {
		return err
	}
	return l.withFamily(true, func(cf *flatrock.ColumnFamily) error { return f(cf, list) })
}

// printEach prints what was found under each key, as a line or in JSON, and fails in the end if one has an error.
func (l *ldb) printEach(list [][]byte, found func(i int) (line string, json func() error, err error)) error {
	failed := false
	for i, key := range list {
		line, json, err := found(i)
		switch {
		case errors.Is(err, flatrock.ErrNotFound) && l.json:
			err = l.jsonMissing(l.family, key)
		case errors.Is(err, flatrock.ErrNotFound):
			_, err = fmt.Fprintf(l.out, "Key not found: %s\n", shown(key, l.keyHex))
		case err != nil:
			fmt.Fprintf(l.err, "Status for key %s: %v\n", shown(key, l.keyHex), err)
			failed, err = true, nil
		case l.json:
			err = json()
		default:
			_, err = fmt.Fprintf(l.out, "%s%s%s\n", shown(key, l.keyHex), delimiter, line)
		}
		if err != nil {
			return err
		}
	}
	if failed {
		return failedf("one or more keys had non-okay status")
	}
	return nil
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

// full reports whether n keys are enough. As in RocksDB, scan and idump read at least one.
func (r *keyRange) full(n int64) bool { return r.most >= 0 && n >= r.most }

// eachKey walks the live keys of r. It stops at the first error of f, which it
// returns unless it is errStop. With --ttl values come without their times, written, and those
// that times leaves out are passed over.
func (l *ldb) eachKey(cf *flatrock.ColumnFamily, r keyRange, times *ttlRange, f func(key, value []byte, written int32) error) (err error) {
	about := uint64(0)
	if r.from == nil && r.to == nil && r.most < 0 {
		about, _ = cf.GetIntProperty("rocksdb.estimate-num-keys")
	}
	seen, end := l.count(!l.flag("count_only"), "keys", int64(min(about, 1<<62)))
	defer end()
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
		written := int32(0)
		if l.ttl {
			if value, written, err = splitTTL(value); err != nil {
				return fmt.Errorf("key %s: %w", shown(key, l.keyHex), err)
			}
			if !times.has(written) {
				continue
			}
			times.count(written)
		}
		if err := f(key, value, written); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
		n++
		if seen.done.Store(n); r.full(n) {
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
	times, err := l.ttlRange()
	if err != nil {
		return err
	}
	keysOnly := l.flag("no_value")
	return l.withFamily(true, func(cf *flatrock.ColumnFamily) error {
		if times.shown && !l.json {
			l.out.WriteString(times.title("Scanning"))
		}
		err := l.eachKey(cf, r, &times, func(key, value []byte, written int32) (err error) {
			switch {
			case l.json:
				err = l.jsonValueOf(key, value, &times, written)
			case keysOnly:
				_, err = fmt.Fprintf(l.out, "%s%s\n", times.prefix(written), shown(key, l.keyHex))
			default:
				_, err = fmt.Fprintf(l.out, "%s%s : %s\n", times.prefix(written), shown(key, l.keyHex), shown(value, l.valueHex))
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
	times, err := l.ttlRange()
	if err != nil {
		return err
	}
	count, countOnly := l.newPrefixCount(), l.flag("count_only")
	var sizes sizeHistogram
	return l.withFamily(true, func(cf *flatrock.ColumnFamily) error {
		if err := l.statsOf(cf); err != nil {
			return err
		}
		if times.shown && !l.json && !countOnly && count == nil {
			l.out.WriteString(times.title("Dumping"))
		}
		n := uint64(0)
		err := l.eachKey(cf, r, &times, func(key, value []byte, written int32) (err error) {
			if r.most == 0 { // where scan prints one key
				return errStop
			}
			n++
			switch {
			case l.json && !countOnly:
				return l.jsonValueOf(key, value, &times, written)
			case count != nil:
				err = count.add(key, len(key)+len(value))
			case !countOnly:
				_, err = fmt.Fprintln(l.out, times.prefix(written)+l.dumpLine(key, value))
			}
			if countOnly {
				sizes.add(uint64(len(value)))
			}
			return err
		})
		switch {
		case err != nil:
			return failedf("%w", err)
		case times.bucket > 0:
			err = l.buckets(&times)
		case l.json && countOnly:
			return l.jsonValue(map[string]any{"cf": l.family, "keys": n})
		case l.json:
			return nil
		case count != nil:
			err = count.flush()
		default:
			_, err = fmt.Fprintf(l.out, "Keys in range: %d\n", n)
		}
		if err == nil && countOnly && !l.json {
			_, err = fmt.Fprintf(l.out, "Value size distribution: \n%s\n", sizes.String())
		}
		return err
	})
}

// statsOf prints what --stats asks for.
func (l *ldb) statsOf(cf *flatrock.ColumnFamily) error {
	if !l.flag("stats") {
		return nil
	}
	const name = "rocksdb.stats"
	text, ok := cf.GetProperty(name)
	if !ok {
		return failedf("failed to get property: %s", name)
	}
	if l.json {
		return l.jsonValue(map[string]any{"cf": l.family, "property": name, "value": text})
	}
	_, err := fmt.Fprintln(l.out, text)
	return err
}

// jsonValueOf is jsonKey, and with --timestamp a "written" in seconds since 1970.
func (l *ldb) jsonValueOf(key, value []byte, times *ttlRange, written int32) error {
	if !times.shown {
		return l.jsonKey(l.family, key, value)
	}
	return l.jsonTimedKey(l.family, key, value, written)
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
			err := l.eachKey(cf, keyRange{most: -1}, nil, func(key, value []byte, _ int32) error {
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
