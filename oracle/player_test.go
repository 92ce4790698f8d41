//go:build oracle

package oracle_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"github.com/flatrock-db/flatrock"
)

// player runs scripts with Flatrock.
type player struct {
	dir      string
	options  dbOptions
	families []flatrock.ColumnFamilyDescriptor
	db       *flatrock.DB
	wo       flatrock.WriteOptions
	batch    *flatrock.Batch
}

// dbOptions are Flatrock's database options that scripts set, as JSON.
type dbOptions struct {
	WALWriteMode             flatrock.WALWriteMode
	WALDir                   string
	AvoidFlushDuringRecovery bool
	MaxManifestFileSize      int64
	AtomicFlush              flatrock.Toggle
	ManualWALFlush           bool
	WALTTLSeconds            int64
}

func (d dbOptions) text() string {
	b, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// play runs the script in file. With a crash at its end it does not return.
func play(dir, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	p := &player{dir: dir}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if err := p.do(lines.Text()); err != nil {
			op, _, _ := strings.Cut(lines.Text(), " ")
			err = fmt.Errorf("flatrock: line %d: %s: %w", n, op, err)
			if p.db != nil {
				err = errors.Join(err, p.db.Close())
			}
			return err
		}
	}
	if p.db != nil {
		return errors.New("the script neither closes nor crashes")
	}
	return lines.Err()
}

func unhex(s string) []byte {
	if s == "-" {
		return nil
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func (p *player) do(line string) error {
	op, rest, _ := strings.Cut(line, " ")
	w := append(strings.Split(rest, " "), "-", "-")
	switch op {
	case "dboptions":
		return json.Unmarshal([]byte(rest), &p.options)
	case "family":
		o, err := parseSpec(rest)
		p.families = append(p.families, flatrock.ColumnFamilyDescriptor{Name: w[0], Options: o})
		return err
	case "create", "open", "openreadonly":
		return p.open(op)
	case "opensecondary":
		var err error
		p.db, err = flatrock.OpenAsSecondary(p.dir, nil)
		return err
	case "catchup":
		return p.db.TryCatchUpWithPrimary()
	case "log":
		p.wo.DisableWAL = w[0] == "off"
		return nil
	case "flushall":
		return p.db.FlushFamilies(context.Background(), nil, p.db.ColumnFamilies()...)
	case "updates":
		seq, err := strconv.ParseUint(w[0], 10, 64)
		if err != nil {
			return err
		}
		return p.updates(seq, w[1])
	case "begin":
		p.batch = new(flatrock.Batch)
		return nil
	case "note":
		p.batch.PutLogData(unhex(w[0]))
		return nil
	case "commit":
		b := p.batch
		p.batch = nil
		return p.db.Write(&p.wo, b)
	case "sync":
		p.wo.Sync = w[0] == "on"
		return nil
	case "check":
		return p.check(w[0])
	case "close":
		db := p.db
		p.db = nil
		return db.Close()
	case "crash":
		return errors.Join(syscall.Kill(syscall.Getpid(), syscall.SIGKILL), errors.New("survived a kill"))
	case "newfamily":
		o, err := parseSpec(rest)
		if err == nil {
			_, err = p.db.CreateColumnFamily(w[0], o)
		}
		return err
	}
	cf := p.db.ColumnFamily(w[0])
	if cf == nil {
		return fmt.Errorf("no column family %q", w[0])
	}
	switch op {
	case "flush":
		return cf.Flush(context.Background(), nil)
	case "compact":
		return cf.CompactRange(context.Background(), &flatrock.CompactRangeOptions{BottommostLevelCompaction: flatrock.BottommostForce}, nil, nil)
	case "drop":
		return p.db.DropColumnFamily(cf)
	case "entity":
		var columns []flatrock.Column
		for names := strings.Fields(rest)[2:]; len(names) > 0; names = names[2:] {
			columns = append(columns, flatrock.Column{Name: unhex(names[0]), Value: unhex(names[1])})
		}
		return cf.PutEntity(&p.wo, unhex(w[1]), columns)
	case "checkwide":
		return checkWide(cf, w[1])
	}
	return p.write(op, cf, unhex(w[1]), unhex(w[2]))
}

func parseSpec(rest string) (*flatrock.ColumnFamilyOptions, error) {
	_, text, _ := strings.Cut(rest, " ")
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, err
	}
	return s.mine()
}

func (p *player) open(op string) (err error) {
	p.db, err = flatrock.Open(p.dir, &flatrock.Options{
		CreateIfMissing:             op == "create",
		ErrorIfExists:               op == "create",
		CreateMissingColumnFamilies: op == "create",
		ReadOnly:                    op == "openreadonly",
		ColumnFamilies:              p.families,
		WALWriteMode:                p.options.WALWriteMode,
		WALDir:                      p.options.WALDir,
		AvoidFlushDuringRecovery:    p.options.AvoidFlushDuringRecovery,
		MaxManifestFileSize:         p.options.MaxManifestFileSize,
		AtomicFlush:                 p.options.AtomicFlush,
		ManualWALFlush:              p.options.ManualWALFlush,
		WALTTLSeconds:               p.options.WALTTLSeconds,
	})
	return err
}

func (p *player) write(op string, cf *flatrock.ColumnFamily, k, v []byte) error {
	if b := p.batch; b != nil {
		switch op {
		case "put":
			b.Put(cf, k, v)
		case "delete":
			b.Delete(cf, k)
		case "single":
			b.SingleDelete(cf, k)
		case "merge":
			b.Merge(cf, k, v)
		case "range":
			b.DeleteRange(cf, k, v)
		default:
			return errors.New("unknown command")
		}
		return nil
	}
	switch op {
	case "put":
		return cf.Put(&p.wo, k, v)
	case "delete":
		return cf.Delete(&p.wo, k)
	case "single":
		return cf.SingleDelete(&p.wo, k)
	case "merge":
		return cf.Merge(&p.wo, k, v)
	case "range":
		return cf.DeleteRange(&p.wo, k, v)
	}
	return errors.New("unknown command")
}

func (p *player) updates(seq uint64, file string) error {
	it, err := p.db.GetUpdatesSince(seq)
	if err != nil {
		return err
	}
	var b strings.Builder
	for ; it.Valid(); it.Next() {
		u := it.Batch()
		fmt.Fprintf(&b, "%d %x\n", u.Sequence, u.Data)
	}
	return errors.Join(it.Err(), it.Close(), os.WriteFile(file, []byte(b.String()), 0o600))
}

// expected is a family as a file for check describes it.
type expected struct {
	cf     *flatrock.ColumnFamily
	keys   [][]byte // in order
	values [][]byte
	absent [][]byte
}

func (p *player) check(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var all []*expected
	for line := range strings.Lines(string(text)) {
		w := append(strings.Fields(line), "-")
		switch w[0] {
		case "family":
			cf := p.db.ColumnFamily(w[1])
			if cf == nil {
				return fmt.Errorf("no column family %q", w[1])
			}
			all = append(all, &expected{cf: cf})
		case "has":
			e := all[len(all)-1]
			e.keys = append(e.keys, unhex(w[1]))
			e.values = append(e.values, unhex(w[2]))
		case "lacks":
			e := all[len(all)-1]
			e.absent = append(e.absent, unhex(w[1]))
		}
	}
	if n := len(p.db.ColumnFamilies()); n != len(all) {
		return fmt.Errorf("%d column families, want %d", n, len(all))
	}
	for _, e := range all {
		for _, compare := range []func() error{e.gets, e.multiGets, e.forward, e.backward, e.seeks} {
			if err := compare(); err != nil {
				return fmt.Errorf("family %s: %w", e.cf.Name(), err)
			}
		}
	}
	return nil
}

func (e *expected) gets() error {
	var pin flatrock.PinnedValue
	defer pin.Release()
	for i, k := range e.keys {
		got, err := e.cf.Get(nil, k, nil)
		if err != nil || !bytes.Equal(got, e.values[i]) {
			return fmt.Errorf("Get(%x) = %.40x, %v; want %.40x", k, got, err, e.values[i])
		}
		if err := e.cf.GetPinned(nil, k, &pin); err != nil || !bytes.Equal(pin.Value(), e.values[i]) {
			return fmt.Errorf("GetPinned(%x) = %.40x, %v; want %.40x", k, pin.Value(), err, e.values[i])
		}
	}
	for _, k := range e.absent {
		if got, err := e.cf.Get(nil, k, nil); !errors.Is(err, flatrock.ErrNotFound) {
			return fmt.Errorf("Get(%x) = %.40x, %v; want not found", k, got, err)
		}
	}
	return nil
}

func (e *expected) multiGets() error {
	keys := slices.Concat(e.keys, e.absent)
	results, err := e.cf.MultiGet(nil, keys, nil)
	if err != nil {
		return err
	}
	for i, r := range results {
		switch {
		case i >= len(e.keys) && !errors.Is(r.Err, flatrock.ErrNotFound):
			return fmt.Errorf("MultiGet(%x) = %.40x, %v; want not found", keys[i], r.Value, r.Err)
		case i < len(e.keys) && (r.Err != nil || !bytes.Equal(r.Value, e.values[i])):
			return fmt.Errorf("MultiGet(%x) = %.40x, %v; want %.40x", keys[i], r.Value, r.Err, e.values[i])
		}
	}
	return nil
}

// at says whether the iterator stands on the i-th key, or nowhere if there is none.
func (e *expected) at(it *flatrock.Iterator, i int, what string) error {
	if err := it.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	in := i >= 0 && i < len(e.keys)
	switch {
	case it.Valid() != in:
		return fmt.Errorf("%s: valid %v at position %d of %d", what, it.Valid(), i, len(e.keys))
	case in && (!bytes.Equal(it.Key(), e.keys[i]) || !bytes.Equal(it.Value(), e.values[i])):
		return fmt.Errorf("%s: at %x = %.40x, want %x = %.40x", what, it.Key(), it.Value(), e.keys[i], e.values[i])
	}
	return nil
}

func (e *expected) walk(steps func(*flatrock.Iterator) error) error {
	it, err := e.cf.NewIterator(nil)
	if err != nil {
		return err
	}
	return errors.Join(steps(it), it.Close())
}

func (e *expected) forward() error {
	return e.walk(func(it *flatrock.Iterator) error {
		i := 0
		for it.First(); it.Valid(); it.Next() {
			if err := e.at(it, i, "walking forward"); err != nil {
				return err
			}
			i++
		}
		return e.at(it, len(e.keys)-(len(e.keys)-i), "the end of walking forward")
	})
}

func (e *expected) backward() error {
	return e.walk(func(it *flatrock.Iterator) error {
		i := len(e.keys) - 1
		for it.Last(); it.Valid(); it.Prev() {
			if err := e.at(it, i, "walking backward"); err != nil {
				return err
			}
			i--
		}
		return e.at(it, i, "the end of walking backward")
	})
}

// seeks looks for present and absent keys and walks on, also beyond the prefix.
func (e *expected) seeks() error {
	compare := e.cf.Options().Comparator.Compare
	return e.walk(func(it *flatrock.Iterator) error {
		step := 1 + len(e.keys)/150
		var targets [][]byte
		for i := 0; i < len(e.keys); i += step {
			targets = append(targets, e.keys[i])
		}
		targets = append(targets, e.absent[:min(150, len(e.absent))]...)
		for _, target := range targets {
			i, found := sort.Find(len(e.keys), func(i int) int { return compare(target, e.keys[i]) })
			it.SeekGE(target)
			for n := range 25 {
				if err := e.at(it, i+n, fmt.Sprintf("%d steps after SeekGE(%x)", n, target)); err != nil {
					return err
				}
				if !it.Valid() {
					break
				}
				it.Next()
			}
			last := i - 1
			if found {
				last = i
			}
			it.SeekLE(target)
			if err := e.at(it, last, fmt.Sprintf("SeekLE(%x)", target)); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkWide compares the columns of all keys with a file of lines "wide KEY NAME VALUE ...".
func checkWide(cf *flatrock.ColumnFamily, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	columnText := func(columns []flatrock.Column) (s string) {
		for _, c := range columns {
			s += " " + word(string(c.Name)) + " " + word(string(c.Value))
		}
		return s
	}
	it, err := cf.NewIterator(nil)
	if err != nil {
		return err
	}
	defer it.Close()
	it.First()
	var e flatrock.Entity
	for line := range strings.Lines(string(text)) {
		w := strings.Fields(line)
		want := strings.TrimPrefix(strings.TrimSuffix(line, "\n"), w[0]+" "+w[1])
		if err := cf.GetEntity(nil, unhex(w[1]), &e); err != nil || columnText(e.Columns) != want {
			return fmt.Errorf("GetEntity(%s) =%s, %v; want%s", w[1], columnText(e.Columns), err, want)
		}
		if !it.Valid() || !bytes.Equal(it.Key(), unhex(w[1])) {
			return fmt.Errorf("a walk does not find %s: %v", w[1], it.Err())
		}
		if columns, err := it.Columns(nil); err != nil || columnText(columns) != want {
			return fmt.Errorf("a walk finds%s at %s, %v; want%s", columnText(columns), w[1], err, want)
		}
		it.Next()
	}
	if it.Valid() {
		return fmt.Errorf("a walk goes on to %x", it.Key())
	}
	return it.Err()
}
