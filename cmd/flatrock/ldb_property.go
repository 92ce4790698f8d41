package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// propertyNames are for help.
func propertyNames() string { return strings.Join(flatrock.PropertyNames(), ", ") }

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

// fileChecksums prints the checksums of whole table files that the MANIFEST has, by
// number. RocksDB prints them in any order.
func (l *ldb) fileChecksums() error {
	s, err := l.manifestState()
	if err != nil {
		return err
	}
	files := liveFiles(s)
	slices.SortFunc(files, func(a, b liveFile) int { return int(int64(a.meta.Number - b.meta.Number)) })
	for _, f := range files {
		function := f.meta.ChecksumFunc
		if function == "" {
			function = "Unknown"
		}
		if l.json {
			err = l.jsonValue(map[string]any{"number": f.meta.Number, "function": function, "checksum": fmt.Sprintf("%x", f.meta.Checksum)})
		} else {
			_, err = fmt.Fprintf(l.out, "%d, %s, %s\n", f.meta.Number, function, shown(f.meta.Checksum, l.flag("hex")))
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
	s, err := l.stateOf(path, manifest.RecoverOptions{})
	if err != nil {
		return nil, failedf("%s: %w", path, err)
	}
	return s, nil
}
