package flatrock

import (
	"bytes"
	"testing"

	"github.com/flatrock-db/flatrock/internal/merge"
)

func TestParseMergeOperator(t *testing.T) {
	for _, c := range []struct{ in, name, delimiter string }{
		{"UInt64AddOperator", merge.UInt64AddName, ""},
		{"uint64add", merge.UInt64AddName, ""},
		{"stringappend", merge.StringAppendName, ","},
		{"StringAppendOperator", merge.StringAppendName, ","},
		{"{id=StringAppendOperator;delimiter=,;}", merge.StringAppendName, ","},
		{"{id=StringAppendOperator;delimiter=--}", merge.StringAppendName, "--"},
		{"{id=StringAppendTESTOperator;delimiter=\\:;}", merge.StringAppendTestName, ":"},
		{"{delimiter=\\\\n;id=stringappend;}", merge.StringAppendName, "\\n"},
		{"{id=stringappend;delimiter={;};}", merge.StringAppendName, ";"},
		{"{id=stringappend;delimiter=;}", merge.StringAppendName, ""},
		{"id=stringappendtest;delimiter=\\#", merge.StringAppendTestName, "#"},
		{"max", merge.MaxName, ""}, {"put", merge.PutName, ""}, {"put_v1", merge.PutName, ""}, {"bytesxor", merge.BytesXORName, ""}, {"sortlist", merge.SortListName, ""},
		{" {id=MaxOperator;} ", merge.MaxName, ""},
	} {
		op, err := ParseMergeOperator(c.in)
		if err != nil {
			t.Errorf("ParseMergeOperator(%q): %v", c.in, err)
			continue
		}
		delimiter := ""
		if d, ok := op.(interface{ Delimiter() string }); ok {
			delimiter = d.Delimiter()
		}
		if op.Name() != c.name || delimiter != c.delimiter {
			t.Errorf("ParseMergeOperator(%q) = %s %q, want %s %q", c.in, op.Name(), delimiter, c.name, c.delimiter)
		}
	}
	for _, none := range []string{"", "nullptr", " nullptr ", "{}"} {
		if op, err := ParseMergeOperator(none); op != nil || err != nil {
			t.Errorf("ParseMergeOperator(%q) = %v, %v; want no operator", none, op, err)
		}
	}
	for _, bad := range []string{"nosuch", "{id=max;delimiter=,;}", "{delimiter=,;}", "{id=max", "{id}", "{id=max;}x",
		"{id=stringappend;delimiter={a;}", "{id=stringappend;speed=1;}", "id="} {
		if op, err := ParseMergeOperator(bad); err == nil && bad != "id=" {
			t.Errorf("ParseMergeOperator(%q) = %v, want an error", bad, op)
		}
	}
}

func TestMergeOperatorIsReadBack(t *testing.T) {
	for _, op := range []MergeOperator{nil, merge.UInt64Add(), merge.Max(), merge.Put(), merge.BytesXOR(), merge.SortList(), merge.StringAppend(","), merge.StringAppend(""), merge.StringAppend(";"),
		merge.StringAppend(`a\b#c:d`), merge.StringAppendTest("\n\r")} {
		back, err := ParseMergeOperator(formatMergeOperator(op))
		if err != nil || back != op {
			t.Errorf("%#v is written as %s and read as %#v, %v", op, formatMergeOperator(op), back, err)
		}
	}
	if got := formatMergeOperator(merge.StringAppend(",")); got != "{id=StringAppendOperator;delimiter=,;}" {
		t.Errorf("Format = %s", got)
	}
}

func FuzzParseMergeOperator(f *testing.F) {
	for _, s := range []string{"", "nullptr", "{id=StringAppendOperator;delimiter=,;}", "{id={x};}", "{{{", `\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		op, err := ParseMergeOperator(s)
		if err != nil || op == nil {
			return
		}
		back, err := ParseMergeOperator(formatMergeOperator(op))
		if d, ok := op.(interface{ Delimiter() string }); ok && bytes.ContainsAny([]byte(d.Delimiter()), "{}") {
			return // braces in a delimiter have no form that RocksDB reads
		}
		if err != nil || back != op {
			t.Errorf("%q gives %#v, written as %s, read as %#v, %v", s, op, formatMergeOperator(op), back, err)
		}
	})
}
