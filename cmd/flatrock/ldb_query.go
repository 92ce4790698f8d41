package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	flatrock "github.com/flatrock-db/flatrock"
)

// query reads commands from the input, a line each. As in RocksDB it ends with the
// first that fails, a get of a missing key included.
func (l *ldb) query() error {
	return l.withFamily(false, func(cf *flatrock.ColumnFamily) error {
		in := bufio.NewReader(l.in)
		for {
			line, err := in.ReadString('\n')
			if line == "" && errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return failedf("%w", err)
			}
			if err := l.queryLine(cf, strings.TrimSuffix(line, "\n")); err != nil {
				return err
			}
			if err := l.out.Flush(); err != nil { // somebody may wait for the answer
				return err
			}
		}
	})
}

func (l *ldb) queryLine(cf *flatrock.ColumnFamily, line string) error {
	words := strings.Split(line, " ")
	switch {
	case words[0] == "help":
		_, err := fmt.Fprint(l.out, "get <key>\nput <key> <value>\ndelete <key>\n")
		return err
	case words[0] == "get" && len(words) == 2:
		return l.queryGet(cf, words[1])
	case words[0] == "put" && len(words) == 3:
		key, err := l.keyOf(words[1])
		if err != nil {
			return err
		}
		value, err := l.valueOf(words[2])
		if err != nil {
			return err
		}
		if err := cf.Put(nil, key, l.stored(value)); err != nil {
			return failedf("put %s failed: %w", words[1], err)
		}
		if l.json {
			return l.ok()
		}
		_, err = fmt.Fprintf(l.out, "Successfully put %s %s\n", words[1], words[2])
		return err
	case words[0] == "delete" && len(words) == 2:
		key, err := l.keyOf(words[1])
		if err != nil {
			return err
		}
		if err := cf.Delete(nil, key); err != nil {
			return failedf("delete %s failed: %w", words[1], err)
		}
		if l.json {
			return l.ok()
		}
		_, err = fmt.Fprintf(l.out, "Successfully deleted %s\n", words[1])
		return err
	}
	if l.json {
		return l.jsonValue(map[string]string{"error": "Unknown command " + line})
	}
	_, err := fmt.Fprintf(l.out, "Unknown command %s\n", line)
	return err
}

func (l *ldb) queryGet(cf *flatrock.ColumnFamily, word string) error {
	key, err := l.keyOf(word)
	if err != nil {
		return err
	}
	value, err := cf.Get(nil, key, nil)
	if err == nil {
		value, err = l.loaded(value)
	}
	switch {
	case errors.Is(err, flatrock.ErrNotFound) && l.json:
		return l.jsonMissing(l.family, key)
	case errors.Is(err, flatrock.ErrNotFound):
		fmt.Fprintf(l.out, "Not found %s\n", word)
		return failedf("")
	case err != nil:
		return failedf("get %s failed: %w", word, err)
	}
	if l.json {
		return l.jsonKey(l.family, key, value)
	}
	_, err = fmt.Fprintln(l.out, l.dumpLine(key, value))
	return err
}
