package iterator_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/iterator/itertest"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/script"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// scripted holds what the define command of a script set up.
type scripted struct {
	t    *testing.T
	runs []itertest.Run
}

func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(*script.Command) string {
		s := &scripted{t: t}
		return s.execute
	})
}

func (s *scripted) execute(c *script.Command) string {
	switch c.Name {
	case "define":
		return s.define(c)
	case "merging":
		return s.merging(c)
	case "iter":
		return s.iter(c)
	}
	s.t.Fatalf("%s: unknown command %s", c.Where, c.Name)
	return ""
}

// define reads a run a line, newest first: entries and [start,end)#seq.
func (s *scripted) define(c *script.Command) string {
	s.runs = nil
	for _, line := range c.Input {
		var r itertest.Run
		for _, w := range strings.Fields(line) {
			if !strings.HasPrefix(w, "[") {
				r.Entries = append(r.Entries, itertest.ParseEntry(w))
				continue
			}
			bounds, seq, _ := strings.Cut(w[1:], ")#")
			start, end, _ := strings.Cut(bounds, ",")
			n, err := strconv.ParseUint(seq, 10, 56)
			if err != nil {
				s.t.Fatalf("%s: %v", c.Where, err)
			}
			r.Tombstones = append(r.Tombstones, table.Tombstone{Start: []byte(start), End: []byte(end), Seq: n})
		}
		itertest.Sort(keys.Order{}, r.Entries)
		s.runs = append(s.runs, r)
	}
	return ""
}

func (s *scripted) sources(ext *prefixhash.Extractor) (its []table.Iterator, raw []*itertest.Iter) {
	for _, r := range s.runs {
		it := itertest.New(keys.Order{}, r.Entries)
		it.PrefixLen = ext.PrefixLen
		its, raw = append(its, it), append(raw, it)
	}
	return its, raw
}

// merging walks internal entries; a prefix of n bytes with prefix=n.
func (s *scripted) merging(c *script.Command) string {
	ext := extractor(s.t, c)
	its, raw := s.sources(ext)
	m := iterator.NewMerging(keys.Order{}, its...)
	m.SetPrefix(ext, c.Has("stay"))
	var out strings.Builder
	for _, line := range c.Input {
		w := strings.Fields(line)
		switch w[0] {
		case "first":
			m.First()
		case "last":
			m.Last()
		case "next":
			m.Next()
		case "prev":
			m.Prev()
		case "seek-ge":
			m.SeekGE([]byte(w[1]), keys.Pack(keys.MaxSeq, keys.KindSeek))
		case "seek-lt":
			m.SeekLT([]byte(w[1]), keys.Pack(keys.MaxSeq, keys.KindSeek))
		case "seek-prefix-ge":
			look := keys.Lookup{UserKey: []byte(w[1])}
			ext.Prepare(&look)
			m.SeekPrefixGE(&look, keys.Pack(keys.MaxSeq, keys.KindSeek))
		default:
			s.t.Fatalf("%s: %s", c.Where, line)
		}
		if m.Valid() {
			fmt.Fprintf(&out, "%s: %s (run %d)", line, itertest.Entry{Key: m.UserKey(), Trailer: m.Trailer(), Value: m.Value()}, m.SourceIndex())
		} else {
			fmt.Fprintf(&out, "%s: .", line)
		}
		seeks := 0
		for _, r := range raw {
			seeks += r.Seeks
			r.Seeks = 0
		}
		if seeks > 0 {
			fmt.Fprintf(&out, " %d seeks", seeks)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func extractor(t *testing.T, c *script.Command) *prefixhash.Extractor {
	ext, err := prefixhash.Parse(c.Arg("prefix", "nullptr"))
	if err != nil {
		t.Fatalf("%s: %v", c.Where, err)
	}
	return ext
}

func (s *scripted) iter(c *script.Command) string {
	ext := extractor(s.t, c)
	its, _ := s.sources(ext)
	seq, err := strconv.ParseUint(c.Arg("seq", "1000"), 10, 56)
	if err != nil {
		s.t.Fatalf("%s: %v", c.Where, err)
	}
	maxSkipped, err := strconv.ParseUint(c.Arg("max-skipped", "0"), 10, 64)
	if err != nil {
		s.t.Fatalf("%s: %v", c.Where, err)
	}
	o := iterator.Options{Seq: seq, PrefixSameAsStart: c.Has("same"), MaxSkipped: maxSkipped}
	if ext != nil {
		o.Prefixer = ext
	}
	if !c.Has("no-operator") {
		o.Operator = merge.StringAppend(",")
	}
	if c.Has("resolve") {
		o.Resolve = func(_ []byte, kind keys.Kind, stored []byte) ([]byte, bool, error) {
			return []byte(fmt.Sprintf("%v(%s)", kind, stored)), true, nil
		}
	}
	if v := c.Arg("lower", ""); v != "" {
		o.Lower = []byte(v)
	}
	if v := c.Arg("upper", ""); v != "" {
		o.Upper = []byte(v)
	}
	for i, r := range s.runs {
		o.Tombstones = append(o.Tombstones, iterator.SourceTombstones{Source: i, List: rangedel.New(keys.Order{}, r.Tombstones)})
	}
	var u iterator.User
	u.Reset(&o, its)
	defer u.Close()
	var out strings.Builder
	for _, line := range c.Input {
		s.step(c, &u, line)
		switch {
		case u.Err() != nil:
			fmt.Fprintf(&out, "%s: error: %v\n", line, u.Err())
		case u.Valid():
			fmt.Fprintf(&out, "%s: %s=%s\n", line, u.Key(), u.Value())
		case line == "stats":
			fmt.Fprintf(&out, "%+v\n", u.Stats())
		default:
			fmt.Fprintf(&out, "%s: .\n", line)
		}
	}
	if c.Has("stats") {
		fmt.Fprintf(&out, "%+v\n", u.Stats())
	}
	return out.String()
}

func (s *scripted) step(c *script.Command, u *iterator.User, line string) {
	w := strings.Fields(line)
	switch w[0] {
	case "first":
		u.First()
	case "last":
		u.Last()
	case "next":
		u.Next()
	case "prev":
		u.Prev()
	case "seek-ge":
		u.SeekGE([]byte(w[1]))
	case "seek-lt":
		u.SeekLT([]byte(w[1]))
	case "seek-le":
		u.SeekLE([]byte(w[1]))
	default:
		s.t.Fatalf("%s: %s", c.Where, line)
	}
}
