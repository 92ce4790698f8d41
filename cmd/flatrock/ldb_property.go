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

// properties are the names that get_property answers, besides
// rocksdb.num-files-at-level<N>.
var properties = map[string]func(m *flatrock.FamilyMetrics) int64{
	"rocksdb.total-sst-files-size":         func(m *flatrock.FamilyMetrics) int64 { return levelBytes(m) },
	"rocksdb.live-sst-files-size":          func(m *flatrock.FamilyMetrics) int64 { return levelBytes(m) },
	"rocksdb.num-entries-active-mem-table": func(m *flatrock.FamilyMetrics) int64 { return m.MemTableCount },
	"rocksdb.num-immutable-mem-table":      func(m *flatrock.FamilyMetrics) int64 { return int64(m.MemTables - 1) },
	"rocksdb.num-snapshots":                func(*flatrock.FamilyMetrics) int64 { return 0 },
	"rocksdb.num-live-versions":            func(*flatrock.FamilyMetrics) int64 { return 1 },
	"rocksdb.is-write-stopped":             func(*flatrock.FamilyMetrics) int64 { return 0 },
}

// propertyNames are for help.
func propertyNames() string {
	return strings.Join(append(slices.Sorted(maps.Keys(properties)), "rocksdb.num-files-at-level<N>"), ", ")
}

func levelBytes(m *flatrock.FamilyMetrics) (n int64) {
	for _, level := range m.Levels {
		n += level.Bytes
	}
	return n
}

// getProperty prints a property of the database as it is opened by nobody else.
func (l *ldb) getProperty() error {
	if len(l.words) != 1 {
		return failedf("property name must be specified")
	}
	name := l.words[0]
	return l.withDB(true, func(db *flatrock.DB) error {
		m, ok := db.Metrics().Families[l.family]
		if !ok {
			return l.noFamily()
		}
		value, ok := int64(0), false
		if f := properties[name]; f != nil {
			value, ok = f(&m), true
		} else if digits, found := strings.CutPrefix(name, "rocksdb.num-files-at-level"); found {
			level, err := strconv.ParseUint(digits, 10, 16)
			if ok = err == nil && int(level) < len(m.Levels); ok {
				value = int64(m.Levels[level].Files)
			}
		}
		switch {
		case !ok:
			return failedf("failed to get property: %s", name)
		case l.json:
			return l.jsonValue(map[string]any{"cf": l.family, "property": name, "value": value})
		}
		_, err := fmt.Fprintf(l.out, "%s: %d\n", name, value)
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
