package main

import (
	"encoding/hex"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// arguments is a command line in RocksDB's style: --name=value and --name may stand
// anywhere among the words.
type arguments struct {
	words   []string
	options map[string]option
}

type option struct {
	value string
	bare  bool // given without a value
}

func parseArguments(args []string) arguments {
	a := arguments{options: map[string]option{}}
	for _, arg := range args {
		name, ok := strings.CutPrefix(arg, "--")
		if !ok {
			a.words = append(a.words, arg)
			continue
		}
		name, value, hasValue := strings.Cut(name, "=")
		a.options[name] = option{value, !hasValue}
	}
	return a
}

// unknown is the first option, by name, that is in none of the lists.
func (a *arguments) unknown(lists ...[]string) (name string, found bool) {
	for _, name := range slices.Sorted(maps.Keys(a.options)) {
		if !slices.ContainsFunc(lists, func(l []string) bool { return slices.Contains(l, name) }) {
			return name, true
		}
	}
	return "", false
}

func (a *arguments) has(name string) bool { _, ok := a.options[name]; return ok }

func (a *arguments) text(name string) string { return a.options[name].value }

// boolean reads --name, --name=true or --name=false; missing is absent's value.
func (a *arguments) boolean(name string, missing bool) (bool, error) {
	o, ok := a.options[name]
	switch {
	case !ok:
		return missing, nil
	case o.bare, o.value == "true", o.value == "1":
		return true, nil
	case o.value == "false", o.value == "0":
		return false, nil
	}
	return false, usagef("--%s: expected true or false, found %q", name, o.value)
}

// flag is boolean for an option that is off when missing; anything but a clear no is on.
func (a *arguments) flag(name string) bool {
	v, err := a.boolean(name, false)
	return v || err != nil
}

// number reads a non-negative number; missing is absent's value.
func (a *arguments) number(name string, missing uint64) (uint64, error) {
	o, ok := a.options[name]
	if !ok {
		return missing, nil
	}
	n, err := strconv.ParseUint(o.value, 0, 64)
	if err != nil {
		return 0, usagef("--%s: expected a number, found %q", name, o.value)
	}
	return n, nil
}

// limits reads --max_decompressed_size and --file_mode, which RocksDB's tools do not have; zero stands for
// the defaults.
func (a *arguments) limits() (maxDecompressed int64, mode fs.FileMode, err error) {
	n, err := a.number("max_decompressed_size", 0)
	if err == nil && n > math.MaxInt64 {
		err = usagef("--max_decompressed_size: expected a number of bytes, found %d", n)
	}
	if err == nil && a.has("file_mode") {
		var m uint64
		if m, err = strconv.ParseUint(a.text("file_mode"), 8, 32); err != nil || m == 0 {
			err = usagef("--file_mode: expected an octal mode such as 0600, found %q", a.text("file_mode"))
		}
		mode = fs.FileMode(m)
	}
	return int64(n), mode, err
}

// fromHex reads RocksDB's form of binary text, 0x and pairs of digits.
func fromHex(s string) ([]byte, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok {
		if digits, ok = strings.CutPrefix(s, "0X"); !ok {
			return nil, usagef("Invalid hex input %s.  Must start with 0x", s)
		}
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return nil, usagef("Invalid hex input %s: %v", s, err)
	}
	return b, nil
}

const upperDigits = "0123456789ABCDEF"

func appendUpperHex(dst, b []byte) []byte {
	for _, c := range b {
		dst = append(dst, upperDigits[c>>4], upperDigits[c&15])
	}
	return dst
}

// toHex is the form that fromHex reads.
func toHex(b []byte) string { return string(appendUpperHex([]byte("0x"), b)) }

func upperHex(b []byte) string { return string(appendUpperHex(nil, b)) }

// cText is b as RocksDB's tools print it where they go through C strings: it ends
// at the first zero byte. Their hex output, and our JSON, show all of it.
func cText(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
