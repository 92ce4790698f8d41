package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/statistics"
)

// write runs f on the family and says OK.
func (l *ldb) write(f func(cf *flatrock.ColumnFamily) error) error {
	return l.withFamily(false, func(cf *flatrock.ColumnFamily) error {
		if err := f(cf); err != nil {
			return failedf("%w", err)
		}
		return l.ok()
	})
}

func (l *ldb) ok() error {
	if l.json {
		return l.jsonValue(map[string]bool{"ok": true})
	}
	_, err := fmt.Fprintln(l.out, "OK")
	return err
}

// succeeded says what was done on standard error, where RocksDB's ldb says it; in JSON it is ok.
func (l *ldb) succeeded(what string) error {
	if l.json {
		return l.ok()
	}
	_, err := fmt.Fprintln(l.err, what)
	return err
}

// keys reads n words as keys, or fails with the message.
func (l *ldb) keys(n int, message string) (list [][]byte, err error) {
	if len(l.words) != n {
		return nil, failedf("%s", message)
	}
	for _, w := range l.words {
		k, err := l.keyOf(w)
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, nil
}

func (l *ldb) put() error {
	if len(l.words) != 2 {
		return failedf("<key> and <value> must be specified for the put command")
	}
	key, err := l.keyOf(l.words[0])
	if err != nil {
		return err
	}
	value, err := l.valueOf(l.words[1])
	if err != nil {
		return err
	}
	return l.write(func(cf *flatrock.ColumnFamily) error { return cf.Put(nil, key, l.stored(value)) })
}

func (l *ldb) batchPut() error {
	if len(l.words) < 2 {
		return failedf("At least one <key> <value> pair must be specified batchput.")
	}
	if len(l.words)%2 != 0 {
		return failedf("Equal number of <key>s and <value>s must be specified for batchput.")
	}
	return l.withDB(false, func(db *flatrock.DB) error {
		cf := db.ColumnFamily(l.family)
		if cf == nil {
			return l.noFamily()
		}
		var b flatrock.Batch
		for i := 0; i < len(l.words); i += 2 {
			key, err := l.keyOf(l.words[i])
			if err != nil {
				return err
			}
			value, err := l.valueOf(l.words[i+1])
			if err != nil {
				return err
			}
			b.Put(cf, key, l.stored(value))
		}
		if err := db.Write(nil, &b); err != nil {
			return failedf("%w", err)
		}
		return l.ok()
	})
}

func (l *ldb) delete() error {
	k, err := l.keys(1, "KEY must be specified for the delete command")
	if err != nil {
		return err
	}
	return l.write(func(cf *flatrock.ColumnFamily) error { return cf.Delete(nil, k[0]) })
}

func (l *ldb) singleDelete() error {
	k, err := l.keys(1, "KEY must be specified for the single delete command")
	if err != nil {
		return err
	}
	return l.write(func(cf *flatrock.ColumnFamily) error { return cf.SingleDelete(nil, k[0]) })
}

func (l *ldb) deleteRange() error {
	k, err := l.keys(2, "begin and end keys must be specified for the delete command")
	if err != nil {
		return err
	}
	return l.write(func(cf *flatrock.ColumnFamily) error { return cf.DeleteRange(nil, k[0], k[1]) })
}

// delimiter stands between key and value in what dump prints and load reads.
const delimiter = " ==> "

// passedOver are the beginnings of lines that are not read and not complained of: dump prints the one, and very old
// versions of RocksDB printed the other.
var passedOver = []string{"Keys in range:", "Created bg thread 0x"}

// load puts the lines of the input. Lines without delimiter are counted, and
// otherwise passed over, but for those of passedOver. bulk_load, a tuning of RocksDB's, changes nothing here.
func (l *ldb) load() error {
	if len(l.words) > 1 {
		return failedf("load takes one file, found %q", l.words)
	}
	from, err := l.readFrom(append(l.words, dash)[0])
	if err != nil {
		return failedf("%w", err)
	}
	defer from.Close()
	return l.withFamily(false, func(cf *flatrock.ColumnFamily) error {
		bad := 0
		wo := &flatrock.WriteOptions{DisableWAL: l.flag("disable_wal")}
		in := bufio.NewReaderSize(from, 64<<10)
		var read atomic.Int64
		defer l.amount(false, "loading", read.Load, inputBytes(from, l.in))()
		for {
			line, err := in.ReadBytes('\n')
			read.Add(int64(len(line)))
			if err != nil && !errors.Is(err, io.EOF) {
				return failedf("reading the input: %w", err)
			}
			if len(line) > 0 {
				ok, e := l.loadLine(cf, wo, bytes.TrimSuffix(line, []byte("\n")))
				if e != nil {
					return e
				}
				if !ok && !isPassedOver(line) {
					bad++
				}
			}
			if err != nil {
				break
			}
			if err := l.ctx.Err(); err != nil {
				return err
			}
		}
		if bad > 0 {
			fmt.Fprintf(l.out, "Warning: %d bad lines ignored.\n", bad)
		}
		if !l.flag("compact") {
			return nil
		}
		if err := cf.CompactRange(l.ctx, nil, nil, nil); err != nil {
			return failedf("%w", err)
		}
		return nil
	})
}

func isPassedOver(line []byte) bool {
	return slices.ContainsFunc(passedOver, func(p string) bool { return bytes.HasPrefix(line, []byte(p)) })
}

// parseLine cuts a line that dump printed.
func (l *ldb) parseLine(line []byte) (key, value []byte, ok bool, err error) {
	k, v, ok := bytes.Cut(line, []byte(delimiter))
	if !ok {
		return nil, nil, false, nil
	}
	if key, err = l.keyOf(string(k)); err == nil {
		value, err = l.valueOf(string(v))
	}
	return key, value, true, err
}

func (l *ldb) loadLine(cf *flatrock.ColumnFamily, wo *flatrock.WriteOptions, line []byte) (ok bool, err error) {
	key, value, ok, err := l.parseLine(line)
	if !ok || err != nil {
		return ok, err
	}
	if err := cf.Put(wo, key, value); err != nil {
		return false, failedf("%w", err)
	}
	return true, nil
}

func (l *ldb) compact() error {
	from, err := l.keyOption("from")
	if err != nil {
		return err
	}
	to, err := l.keyOption("to")
	if err != nil {
		return err
	}
	l.statistics = statistics.New() // to see how far it is
	return l.withFamily(false, func(cf *flatrock.ColumnFamily) error {
		size, _ := cf.GetIntProperty("rocksdb.live-sst-files-size")
		done := func() int64 { return int64(l.statistics.Ticker(statistics.CompactReadBytes)) }
		defer l.amount(false, "compacting", done, int64(min(size, 1<<62)))()
		if err := cf.CompactRange(l.ctx, &flatrock.CompactRangeOptions{BottommostLevelCompaction: flatrock.BottommostForce}, from, to); err != nil {
			return failedf("%w", err)
		}
		return nil
	})
}

func (l *ldb) createColumnFamily() error {
	if len(l.words) != 1 {
		return failedf("new column family name must be specified")
	}
	return l.withDB(false, func(db *flatrock.DB) error {
		if db.ColumnFamily(l.words[0]) != nil {
			return failedf("Fail to create new column family: Invalid argument: Column family already exists")
		}
		if _, err := db.CreateColumnFamily(l.words[0], nil); err != nil {
			return failedf("Fail to create new column family: %w", err)
		}
		return l.ok()
	})
}

func (l *ldb) dropColumnFamily() error {
	if len(l.words) != 1 {
		return failedf("The name of column family to drop must be specified")
	}
	name := l.words[0]
	return l.withDB(false, func(db *flatrock.DB) error {
		cf := db.ColumnFamily(name)
		switch {
		case cf == nil:
			return failedf("Column family: %s doesn't exist in db.", name)
		case cf.ID() == 0:
			return failedf("Fail to drop column family: Invalid argument: Can't drop default column family")
		}
		if err := db.DropColumnFamily(cf); err != nil {
			return failedf("Fail to drop column family: %w", err)
		}
		return l.ok()
	})
}
