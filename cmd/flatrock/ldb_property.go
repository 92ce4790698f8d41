package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// propertyNames are for help.
func propertyNames() string { return strings.Join(flatrock.PropertyNames(), "\n    ") }

// getProperty prints a property of the database as it is opened by nobody else. Those that
// are several figures come a line each, as from RocksDB.
func (l *ldb) getProperty() error {
	if len(l.words) != 1 {
		return failedf("property name must be specified")
	}
	name := l.words[0]
	return l.withDB(true, func(db *flatrock.DB) error {
		cf := db.ColumnFamily(l.family)
		if cf == nil {
			return l.noFamily()
		}
		if m, ok := cf.GetMapProperty(name); ok {
			if l.json {
				return l.jsonValue(map[string]any{"cf": l.family, "property": name, "value": m})
			}
			for _, key := range slices.Sorted(maps.Keys(m)) {
				if _, err := fmt.Fprintf(l.out, "%s.%s: %s\n", name, key, m[key]); err != nil {
					return err
				}
			}
			return nil
		}
		var value any
		text, ok := cf.GetProperty(name)
		switch n, isInt := cf.GetIntProperty(name); {
		case !ok:
			return failedf("failed to get property: %s", name)
		case isInt:
			value = n
		default:
			value = text
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				value = n // a property of a level
			}
		}
		if l.json {
			return l.jsonValue(map[string]any{"cf": l.family, "property": name, "value": value})
		}
		_, err := fmt.Fprintf(l.out, "%s: %s\n", name, text)
		return err
	})
}

// fileChecksums prints the checksums of whole table and blob files that the MANIFEST has, by
// number. RocksDB prints them in any order.
func (l *ldb) fileChecksums() error {
	s, err := l.manifestState()
	if err != nil {
		return err
	}
	type sum struct {
		number   uint64
		function string
		value    []byte
	}
	var files []sum
	for _, f := range liveFiles(s) {
		files = append(files, sum{f.meta.Number, f.meta.ChecksumFunc, f.meta.Checksum})
	}
	for _, f := range s.Families {
		for _, b := range f.Version.Blobs {
			files = append(files, sum{b.Number, b.ChecksumMethod, b.ChecksumValue})
		}
	}
	slices.SortFunc(files, func(a, b sum) int { return cmp.Compare(a.number, b.number) })
	for _, f := range files {
		function := f.function
		if function == "" {
			function = "Unknown"
		}
		if l.json {
			err = l.jsonValue(map[string]any{"number": f.number, "function": function, "checksum": fmt.Sprintf("%x", f.value)})
		} else {
			_, err = fmt.Fprintf(l.out, "%d, %s, %s\n", f.number, function, shown(f.value, l.flag("hex")))
		}
		if err != nil {
			return err
		}
	}
	if !l.json {
		_, err = fmt.Fprintln(l.out, "Print SST file checksum information finished ")
	}
	return err
}

// manifestState reads the MANIFEST given by --path, or that of the database.
func (l *ldb) manifestState() (*manifest.State, error) {
	path, err := l.manifestPath("file_checksum_dump")
	if err != nil {
		return nil, err
	}
	path, remove, err := l.spooled(path, manifest.ManifestBase(1))
	if err != nil {
		return nil, failedf("%w", err)
	}
	s, err := l.stateOf(path, manifest.RecoverOptions{})
	if err = errors.Join(err, remove()); err != nil {
		return nil, failedf("%s: %w", path, err)
	}
	return s, nil
}
