package merge

import (
	"fmt"
	"strings"
)

// Parse reads the merge_operator value of an OPTIONS file: a built-in operator's
// name or short name ("UInt64AddOperator", "uint64add"), or the form
// {id=StringAppendOperator;delimiter=,;}. "" and "nullptr" give nil: no operator.
// The escapes of OPTIONS files (\#, \:, \\, \n, \r) are undone. An unknown name
// is an error; RocksDB ignores it at open and fails the first merge, which a
// caller that wants the same does with the error.
//
// Fact sheet: options-file, sections 2 and 3.
func Parse(optionsValue string) (Operator, error) {
	s := strings.TrimSpace(optionsValue)
	id, params := s, map[string]string(nil)
	if strings.HasPrefix(s, "{") || strings.HasPrefix(s, "id=") {
		var err error
		if params, err = parseParams(s); err != nil {
			return nil, err
		}
		var ok bool
		if id, ok = params["id"]; !ok && len(params) > 0 {
			return nil, fmt.Errorf("merge operator %q: no id", optionsValue)
		}
		delete(params, "id")
	}
	op, err := byName(unescape(id), params)
	if err != nil {
		return nil, err
	}
	for name := range params {
		if name == "delimiter" && takesDelimiter(op) {
			continue
		}
		return nil, fmt.Errorf("merge operator %s: unknown option %q", id, name)
	}
	return op, nil
}

func takesDelimiter(op Operator) bool {
	_, ok := op.(interface{ Delimiter() string })
	return ok
}

func byName(id string, params map[string]string) (Operator, error) {
	delimiter := ","
	if d, ok := params["delimiter"]; ok {
		delimiter = unescape(d)
	}
	switch id {
	case "", "nullptr":
		return nil, nil
	case UInt64AddName, "uint64add":
		return UInt64Add(), nil
	case StringAppendName, "stringappend":
		return StringAppend(delimiter), nil
	case StringAppendTestName, "stringappendtest":
		return StringAppendTest(delimiter), nil
	case MaxName, "max":
		return Max(), nil
	case PutName, "put", "put_v1":
		return Put(), nil
	case BytesXORName, "bytesxor":
		return BytesXOR(), nil
	}
	return nil, fmt.Errorf("merge operator %q is not one of the built-in ones", id)
}

// Format writes op the way Parse reads it: what an OPTIONS file holds.
// nil gives "nullptr". An operator of the caller gives its bare name.
func Format(op Operator) string {
	if op == nil {
		return "nullptr"
	}
	if d, ok := op.(interface{ Delimiter() string }); ok {
		return "{id=" + op.Name() + ";delimiter=" + quoteParam(d.Delimiter()) + ";}"
	}
	return op.Name()
}

// parseParams cuts {name=value;name={nested};} into pairs. A value runs to the
// next semicolon, or is a balanced brace group.
func parseParams(s string) (map[string]string, error) {
	whole := s
	if strings.HasPrefix(s, "{") {
		end := balanced(s)
		if end != len(s) {
			return nil, fmt.Errorf("merge operator %q: braces do not balance", whole)
		}
		s = s[1 : end-1]
	}
	params := make(map[string]string)
	for strings.TrimLeft(s, " ") != "" {
		name, rest, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("merge operator %q: expected name=value, found %q", whole, s)
		}
		var value string
		if strings.HasPrefix(rest, "{") {
			end := balanced(rest)
			if end == 0 {
				return nil, fmt.Errorf("merge operator %q: braces do not balance", whole)
			}
			value, rest = rest[1:end-1], rest[end:]
			rest = strings.TrimPrefix(strings.TrimLeft(rest, " "), ";")
		} else {
			value, rest, _ = strings.Cut(rest, ";")
		}
		params[strings.TrimSpace(name)] = value
		s = rest
	}
	return params, nil
}

// balanced returns the length of the brace group that s starts with, 0 if it
// does not close.
func balanced(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
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

// quoteParam escapes a parameter, and braces it when a semicolon would end it.
func quoteParam(s string) string {
	e := strings.NewReplacer(`\`, `\\`, "#", `\#`, ":", `\:`, "\n", `\n`, "\r", `\r`).Replace(s)
	if strings.Contains(e, ";") {
		return "{" + e + "}"
	}
	return e
}
