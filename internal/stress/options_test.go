package stress

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// setElsewhere are options that no draw varies, with the reason, or with the place that sets them for what it
// is about.
var setElsewhere = map[string]string{
	// What the harness is about.
	"Options.CreateIfMissing":             "the harnesses begin with nothing; copies are opened without it",
	"Options.CreateMissingColumnFamilies": "likewise",
	"Options.ErrorIfExists":               "every round but the first opens what exists: an error would end it",
	"Options.ReadOnly":                    "copies are opened read-only (worker.compare)",
	"Options.FS":                          "each harness has its own",
	"Options.ColumnFamilies":              "those of the database (Config.drawFamilies)",
	"Options.WALDir":                      "drawn for the life of a database (session.drawOptions, player.open): TestDirectoriesAreDrawn",
	"Options.DBLogDir":                    "drawn where the directory of the database is known (session.drawOptions): TestDirectoriesAreDrawn",

	// Options of families that cannot change in a round, or lose data.
	"ColumnFamilyOptions.CompactionOptionsFIFO": "the FIFO style forgets: families that come and go have it (worker.transient)",
	"ColumnFamilyOptions.MergeOperator":         "values are checked by what this one makes of them",
	"PlainTableOptions.FullScanMode":            "only walks from the first key on work then: no Get, no seek",

	// What a call is about.
	"ReadOptions.Snapshot":          "snapshotView.options and the iterators that are refreshed",
	"ReadOptions.LowerBound":        "cut.walk, player.read",
	"ReadOptions.UpperBound":        "cut.walk, player.read",
	"ReadOptions.PrefixSameAsStart": "worker.seek, cut.checkPrefix",
	"ReadOptions.Tailing":           "worker.checkIterator",

	"IngestExternalFileOptions.SnapshotConsistency":      "off, snapshots that exist show what is ingested: what they hold would not be known",
	"IngestExternalFileOptions.IngestBehind":             "transientFamily.ingestBehind, player.change",
	"IngestExternalFileOptions.FailIfNotBottommostLevel": "refuses by what the levels hold at the moment",
}

// sampled collects which values the fields of option structs take.
type sampled map[string]map[string]bool

// add notes the values of all fields, of structs within too.
func (s sampled) add(v reflect.Value) {
	v = reflect.Indirect(v)
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name := t.Name() + "." + f.Name
		if s[name] == nil {
			s[name] = map[string]bool{}
		}
		value := v.Field(i)
		for value.Kind() == reflect.Interface && !value.IsNil() {
			value = value.Elem()
		}
		if at := reflect.Indirect(value); at.IsValid() && at.Kind() == reflect.Struct && at.NumField() > 0 && optionStructs[at.Type()] {
			s[name][at.Type().Name()] = true
			s.add(at)
			if value.Kind() != reflect.Pointer {
				s[name]["drawn by its fields"] = true
				continue
			}
		}
		switch value.Kind() {
		case reflect.Pointer:
			s[name][fmt.Sprintf("%p", value.Interface())] = true
		case reflect.Func, reflect.Map, reflect.Slice:
			s[name][fmt.Sprint(value.IsNil())] = true // that there is one counts, not which
		default:
			s[name][fmt.Sprintf("%v", value)] = true
		}
	}
}

// optionStructs are the structs whose fields are options.
var optionStructs = map[reflect.Type]bool{}

func init() {
	for _, v := range []any{flatrock.Options{}, flatrock.ColumnFamilyOptions{}, flatrock.BlockBasedTableOptions{}, flatrock.PlainTableOptions{}, flatrock.MemTableOptions{},
		flatrock.UniversalOptions{}, flatrock.CompressionOptions{}, flatrock.CompactOnDeletion{}, flatrock.WriteOptions{}, flatrock.ReadOptions{},
		flatrock.FlushOptions{}, flatrock.CompactRangeOptions{}, flatrock.CompactionOptions{}, flatrock.IngestExternalFileOptions{}} {
		optionStructs[reflect.TypeOf(v)] = true
	}
}

// sampleOptions draws many times all that is drawn.
func sampleOptions() sampled {
	s, fsys := sampled{}, mmapfs.NewMem()
	cfg := Config{Seed: 1}.withDefaults()
	for db := range uint64(100) {
		specs := cfg.drawFamilies(db)
		for _, h := range []harness{{mapped: true}, {direct: true, modes: true, tails: true, whole: true, ingest: true}} {
			r := cfg.drawRound(specs, fsys, db, 1, h)
			s.add(reflect.ValueOf(r.db))
			for _, f := range r.db.ColumnFamilies {
				s.add(reflect.ValueOf(f.Options))
			}
			rng := rand.New(rand.NewPCG(db, 1))
			s.add(reflect.ValueOf(r.drawWrite(rng, 50)))
			s.add(reflect.ValueOf(unverified(rng, h, readOptions(rng, nil))))
			s.add(reflect.ValueOf(flushOptions(rng)))
			s.add(reflect.ValueOf(compactRangeOptions(rng)))
			s.add(reflect.ValueOf(compactFilesOptions(rng)))
			s.add(reflect.ValueOf(ingestOptions(rng, false)))
		}
	}
	return s
}

// TestEveryOptionIsDrawn: whoever adds an option lets the harnesses draw it, or says in setElsewhere why
// they do not.
func TestEveryOptionIsDrawn(t *testing.T) {
	s := sampleOptions()
	for of := range optionStructs {
		for i := range of.NumField() {
			f := of.Field(i)
			if !f.IsExported() {
				continue
			}
			name := of.Name() + "." + f.Name
			reason, named := setElsewhere[name]
			switch drawn := len(s[name]) > 1; {
			case !drawn && !named:
				t.Errorf("%s is always %v: draw it, or say in setElsewhere why not", name, slices.Collect(maps.Keys(s[name])))
			case drawn && named:
				t.Errorf("%s is drawn, and setElsewhere says: %s", name, reason)
			}
			delete(s, name)
		}
	}
	for name := range s {
		t.Errorf("%s was drawn, and belongs to no struct of the list", name)
	}
	for name := range setElsewhere {
		if !isOption(name) {
			t.Errorf("setElsewhere names %s, which does not exist", name)
		}
	}
}

func isOption(name string) bool {
	for of := range optionStructs {
		for i := range of.NumField() {
			if of.Name()+"."+of.Field(i).Name == name {
				return true
			}
		}
	}
	return false
}

// TestDirectoriesAreDrawn: logs and messages lie in directories of their own in some rounds.
func TestDirectoriesAreDrawn(t *testing.T) {
	logs, messages := map[bool]int{}, map[bool]int{}
	for db := range uint64(40) {
		s := newSession(Config{Seed: 1}.withDefaults(), db, "/db", harness{}, nil)
		first, second := s.drawOptions(mmapfs.NewMem(), 0), s.drawOptions(mmapfs.NewMem(), 1)
		if first.db.WALDir != second.db.WALDir {
			t.Errorf("database %d: the logs are in %q, then in %q", db, first.db.WALDir, second.db.WALDir)
		}
		logs[first.db.WALDir != ""]++
		messages[first.db.DBLogDir != ""]++
	}
	if len(logs) != 2 || len(messages) != 2 {
		t.Errorf("logs by themselves: %v; messages by themselves: %v", logs, messages)
	}
}
