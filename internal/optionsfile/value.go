package optionsfile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Escape makes a text safe as a value or a section's argument.
func Escape(s string) string {
	if !strings.ContainsAny(s, "\\#:\n\r") {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; c {
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\\', '#', ':':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Unescape undoes Escape. A backslash before any other character gives that
// character; one at the end is dropped.
func Unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' {
			i++
			if i == len(s) {
				break
			}
			switch c = s[i]; c {
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

func (o Option) errorf(format string, args ...any) error {
	return errorf(o.Line, "%s: "+format, append([]any{o.Key}, args...)...)
}

// Text is the value unescaped. Names of enums are read this way too.
func (o Option) Text() string { return Unescape(o.Value) }

// IsNull reports whether the value stands for no object.
func (o Option) IsNull() bool { return o.Value == "" || o.Value == "nullptr" }

// Bool reads true, false, 1 or 0.
func (o Option) Bool() (bool, error) {
	switch o.Value {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, o.errorf("expected true or false, found %q", o.Value)
}

// splitSuffix takes k, m, g or t (of either case) off a number.
func splitSuffix(s string) (digits string, shift uint) {
	if s == "" {
		return s, 0
	}
	switch s[len(s)-1] {
	case 'k', 'K':
		shift = 10
	case 'm', 'M':
		shift = 20
	case 'g', 'G':
		shift = 30
	case 't', 'T':
		shift = 40
	default:
		return s, 0
	}
	return s[:len(s)-1], shift
}

// Uint64 reads a decimal number, which may end in k, m, g or t.
func (o Option) Uint64() (uint64, error) {
	digits, shift := splitSuffix(o.Value)
	v, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || v > math.MaxUint64>>shift {
		return 0, o.errorf("expected a number from 0 to 2^64-1, found %q", o.Value)
	}
	return v << shift, nil
}

// Int64 is Uint64 with a sign.
func (o Option) Int64() (int64, error) {
	digits, shift := splitSuffix(o.Value)
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || v > math.MaxInt64>>shift || v < math.MinInt64>>shift {
		return 0, o.errorf("expected a number from -2^63 to 2^63-1, found %q", o.Value)
	}
	return v << shift, nil
}

// Int is Int64 within 32 bits, which RocksDB's int options are.
func (o Option) Int() (int, error) {
	v, err := o.Int64()
	if err == nil && (v > math.MaxInt32 || v < math.MinInt32) {
		err = o.errorf("expected a number from -2^31 to 2^31-1, found %q", o.Value)
	}
	if err != nil {
		return 0, err
	}
	return int(v), nil
}

// Float64 reads a finite number.
func (o Option) Float64() (float64, error) {
	v, err := strconv.ParseFloat(o.Value, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, o.errorf("expected a finite number, found %q", o.Value)
	}
	return v, nil
}

// List splits the value at each ':' outside braces and not escaped. The elements
// are options with the key and line of o, still escaped; an empty value has none.
// An element in one pair of braces keeps them.
func (o Option) List() ([]Option, error) {
	if o.Value == "" {
		return nil, nil
	}
	var list []Option
	depth, start := 0, 0
	add := func(end int) {
		list = append(list, Option{Key: o.Key, Value: trim(o.Value[start:end]), Line: o.Line})
	}
	for i := 0; i < len(o.Value); i++ {
		switch o.Value[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth < 0 {
				return nil, o.errorf("expected balanced braces, found %q", o.Value)
			}
		case ':':
			if depth == 0 {
				add(i)
				start = i + 1
			}
		}
	}
	if depth != 0 {
		return nil, o.errorf("expected balanced braces, found %q", o.Value)
	}
	add(len(o.Value))
	return list, nil
}

// Object reads a nested object: one outer pair of braces is taken off if there,
// then each key=value; becomes an option with the line of o. Values that are
// objects keep their braces, to be read by Object in turn.
func (o Option) Object() ([]Option, error) {
	s := trim(o.Value)
	if o.Value == "" {
		return nil, nil
	}
	for len(s) > 0 && s[0] == '{' {
		end := matchingBrace(s)
		if end != len(s)-1 {
			return nil, o.errorf("expected one balanced pair of braces, found %q", o.Value)
		}
		s = trim(s[1:end])
	}
	var fields []Option
	for s != "" {
		key, rest, found := strings.Cut(s, "=")
		key = trim(key)
		if !found || key == "" {
			return nil, o.errorf("expected key=value inside braces, found %q", s)
		}
		value := ""
		value, rest, found = cutValue(trim(rest))
		if !found {
			return nil, o.errorf("expected a value and ; after %s, found %q", key, rest)
		}
		fields = append(fields, Option{Key: key, Value: value, Line: o.Line})
		s = rest
	}
	return fields, nil
}

// matchingBrace returns the index of the brace that closes s[0], -1 if none does.
func matchingBrace(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// cutValue takes a value and the ';' behind it (which the end may stand for) off s.
func cutValue(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '{' {
		value, rest, _ = strings.Cut(s, ";")
		return trim(value), trim(rest), true
	}
	end := matchingBrace(s)
	if end < 0 {
		return "", s, false
	}
	value, rest = s[:end+1], trim(s[end+1:])
	if rest == "" {
		return value, "", true
	}
	if rest[0] != ';' {
		return "", rest, false
	}
	return value, trim(rest[1:]), true
}

// Custom reads a customizable object: Id, or {id=Id;param=value;}. The id is ""
// for no object; the parameters come without it.
func (o Option) Custom() (id string, params []Option, err error) {
	if o.IsNull() {
		return "", nil, nil
	}
	if o.Value[0] != '{' {
		if strings.IndexByte(o.Value, '=') < 0 {
			return o.Text(), nil, nil
		}
		o.Value = "{" + o.Value + "}"
	}
	fields, err := o.Object()
	if err != nil {
		return "", nil, err
	}
	for _, f := range fields {
		if f.Key == "id" && id == "" {
			id = f.Text()
			continue
		}
		params = append(params, f)
	}
	if id == "nullptr" {
		id = ""
	} else if id == "" {
		return "", nil, o.errorf("expected an object with an id, found %q", o.Value)
	}
	return id, params, nil
}

// FormatFloat writes a floating-point value as RocksDB does.
func FormatFloat(v float64) string { return fmt.Sprintf("%f", v) }

// FormatList joins elements that are escaped already.
func FormatList(elements ...string) string { return strings.Join(elements, ":") }

// FormatObject writes a nested object, {key=value;key=value;}.
func FormatObject(fields ...Option) string {
	var b strings.Builder
	b.WriteByte('{')
	for _, f := range fields {
		b.WriteString(f.Key)
		b.WriteByte('=')
		b.WriteString(f.Value)
		b.WriteByte(';')
	}
	b.WriteByte('}')
	return b.String()
}
