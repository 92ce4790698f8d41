// Package optionsfile turns the text of OPTIONS-NNNNNN files into sections of
// options and back, and keeps such files in a database directory. It knows the
// syntax and RocksDB's rules about sections; what an option means is the
// business of the packages above.
//
//	file      := line*
//	line      := blank | '#' comment | '[' title ('"' argument '"')? ']' | key '=' value
//	title     := Version | DBOptions | CFOptions | TableOptions/<factory>
//	value     := text | element (':' element)* | '{' (key '=' value ';')* '}'
//
// White space around a line, a key and a value means nothing. A '#' starts a
// comment unless a backslash stands before it. Values and arguments are escaped:
// a backslash before backslash, '#' and ':', and \n and \r for the two control
// characters. A double quote is not escaped: the argument lies between the first
// and the last of its line. ';', '{', '}' and '=' are special only inside braces.
//
// Fact sheet: options-file. Proved by the golden OPTIONS files of RocksDB 7.8 and
// 11.9, parsed and written again byte for byte.
package optionsfile

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Titles of sections. A TableOptions title goes on with the name of a table
// factory.
const (
	TitleVersion      = "Version"
	TitleDB           = "DBOptions"
	TitleFamily       = "CFOptions"
	TitleTable        = "TableOptions/"
	DefaultFamily     = "default"
	keyRocksDBVersion = "rocksdb_version"
	keyFileVersion    = "options_file_version"
)

// File is a parsed OPTIONS file.
type File struct {
	Sections []*Section
}

// Section is one section in the order of the file.
type Section struct {
	Title string
	// Argument is unescaped: the column family of CFOptions and TableOptions.
	Argument string
	Options  []Option
	Line     int // in the file it came from, 0 if none
}

// Option is one key with its value as it stands in the file: escaped. The
// methods read it as what it should be.
type Option struct {
	Key   string
	Value string
	Line  int
}

// SyntaxError says where a file breaks the rules.
type SyntaxError struct {
	File   string // base name, "" if unknown
	Line   int    // from 1; 0 if it is about the file as a whole
	Reason string // what was expected, and what was found
}

func (e *SyntaxError) Error() string {
	name := e.File
	if name == "" {
		name = "options"
	}
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", name, e.Reason)
	}
	return fmt.Sprintf("%s: line %d: %s", name, e.Line, e.Reason)
}

func errorf(line int, format string, args ...any) *SyntaxError {
	return &SyntaxError{Line: line, Reason: fmt.Sprintf(format, args...)}
}

// New returns a file that has a Version section alone.
func New(rocksDBVersion string) *File {
	f := new(File)
	s := f.Add(TitleVersion, "")
	s.Set(keyRocksDBVersion, rocksDBVersion)
	s.Set(keyFileVersion, "1.1")
	return f
}

// Parse reads a file; name is for errors, each of which is a *SyntaxError. It
// holds the file to RocksDB's rules: one DBOptions section, a CFOptions section
// for the default family before those of others, each TableOptions after its
// family's CFOptions, and no section twice.
func Parse(name string, text []byte) (*File, error) {
	f := new(File)
	err := f.parse(text)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		err.File = name
		return nil, err
	}
	return f, nil
}

func (f *File) parse(text []byte) *SyntaxError {
	var section *Section
	for n := 1; len(text) > 0; n++ {
		var raw []byte
		raw, text, _ = bytes.Cut(text, []byte{'\n'})
		line := stripComment(string(raw))
		switch {
		case line == "":
		case line[0] == '[':
			s, err := parseTitle(line, n)
			if err != nil {
				return err
			}
			if err := f.admit(s); err != nil {
				return err
			}
			f.Sections = append(f.Sections, s)
			section = s
		default:
			o, err := parseStatement(line, n)
			if err != nil {
				return err
			}
			if section == nil {
				return errorf(n, "expected a section before the first statement, found %q", line)
			}
			section.Options = append(section.Options, o)
		}
	}
	return nil
}

// stripComment cuts a comment off and trims.
func stripComment(line string) string {
	for i := 0; i < len(line); i++ {
		if line[i] == '#' && (i == 0 || line[i-1] != '\\') {
			line = line[:i]
			break
		}
	}
	return trim(line)
}

// trim takes off what C's isspace calls space.
func trim(s string) string { return strings.Trim(s, " \t\n\v\f\r") }

func parseTitle(line string, n int) (*Section, *SyntaxError) {
	if line[len(line)-1] != ']' {
		return nil, errorf(n, "expected a section line to end with ], found %q", line)
	}
	title := line[1 : len(line)-1]
	s := &Section{Line: n}
	if first := strings.IndexByte(title, '"'); first >= 0 {
		last := strings.LastIndexByte(title, '"')
		if last == first || trim(title[last+1:]) != "" {
			return nil, errorf(n, "expected the section's argument in double quotes, found %q", line)
		}
		s.Argument = Unescape(title[first+1 : last])
		title = title[:first]
	}
	s.Title = trim(title)
	return s, nil
}

func parseStatement(line string, n int) (o Option, err *SyntaxError) {
	key, value, found := strings.Cut(line, "=")
	if !found {
		return o, errorf(n, "expected a statement of the form key=value, found %q", line)
	}
	o = Option{Key: trim(key), Value: trim(value), Line: n}
	if o.Key == "" {
		return o, errorf(n, "expected a name before =, found %q", line)
	}
	return o, nil
}

// admit checks a section against those before it.
func (f *File) admit(s *Section) *SyntaxError {
	switch {
	case s.Title == TitleVersion, s.Title == TitleDB:
		if s.Argument != "" {
			return errorf(s.Line, "expected no argument of section %s, found %q", s.Title, s.Argument)
		}
		if f.Find(s.Title, "") != nil {
			return errorf(s.Line, "expected one %s section, found a second", s.Title)
		}
	case s.Title == TitleFamily:
		if s.Argument != DefaultFamily && f.Find(TitleFamily, DefaultFamily) == nil {
			return errorf(s.Line, "expected section CFOptions %q first, found %q", DefaultFamily, s.Argument)
		}
		if f.Find(TitleFamily, s.Argument) != nil {
			return errorf(s.Line, "expected one CFOptions section for %q, found a second", s.Argument)
		}
	case strings.HasPrefix(s.Title, TitleTable):
		if f.Find(TitleFamily, s.Argument) == nil {
			return errorf(s.Line, "expected section CFOptions %q before its TableOptions, found none", s.Argument)
		}
		if f.Table(s.Argument) != nil {
			return errorf(s.Line, "expected one TableOptions section for %q, found a second", s.Argument)
		}
	default:
		return errorf(s.Line, "unknown section %q", s.Title)
	}
	return nil
}

// check looks at the file as a whole.
func (f *File) check() *SyntaxError {
	switch {
	case f.DB() == nil:
		return errorf(0, "a RocksDB option file must have a single DBOptions section, found none")
	case f.Family(DefaultFamily) == nil:
		return errorf(0, "a RocksDB option file must have a single CFOptions:default section, found none")
	}
	version := f.Find(TitleVersion, "")
	if version == nil {
		return nil
	}
	for _, o := range version.Options {
		switch o.Key {
		case keyRocksDBVersion:
			if _, ok := parseVersion(o.Value, 3); !ok {
				return errorf(o.Line, "expected rocksdb_version as up to three numbers, found %q", o.Value)
			}
		case keyFileVersion:
			v, ok := parseVersion(o.Value, 2)
			if !ok {
				return errorf(o.Line, "expected options_file_version as up to two numbers, found %q", o.Value)
			}
			if v[0] < 1 {
				return errorf(o.Line, "expected options_file_version of at least 1, found %q", o.Value)
			}
		default:
			return errorf(o.Line, "unknown option %q in section Version", o.Key)
		}
	}
	return nil
}

// parseVersion reads up to most numbers with dots between; missing ones are 0.
func parseVersion(s string, most int) (v [3]int, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) > most {
		return v, false
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 31)
		if err != nil {
			return v, false
		}
		v[i] = int(n)
	}
	return v, true
}

// RocksDBVersion is the version of RocksDB that the file claims as its writer;
// ok is false if it does not say.
func (f *File) RocksDBVersion() (major, minor, patch int, ok bool) {
	s := f.Find(TitleVersion, "")
	if s == nil {
		return 0, 0, 0, false
	}
	o, ok := s.Lookup(keyRocksDBVersion)
	if !ok {
		return 0, 0, 0, false
	}
	v, ok := parseVersion(o.Value, 3)
	return v[0], v[1], v[2], ok
}

// Find returns the first section with this title and argument, nil if there is none.
func (f *File) Find(title, argument string) *Section {
	for _, s := range f.Sections {
		if s.Title == title && s.Argument == argument {
			return s
		}
	}
	return nil
}

// DB returns the DBOptions section, nil if there is none.
func (f *File) DB() *Section { return f.Find(TitleDB, "") }

// Family returns the CFOptions section of a column family, nil if there is none.
func (f *File) Family(name string) *Section { return f.Find(TitleFamily, name) }

// Families returns the names of the column families in order.
func (f *File) Families() (names []string) {
	for _, s := range f.Sections {
		if s.Title == TitleFamily {
			names = append(names, s.Argument)
		}
	}
	return names
}

// Table returns the TableOptions section of a column family, nil if there is none.
func (f *File) Table(family string) *Section {
	for _, s := range f.Sections {
		if strings.HasPrefix(s.Title, TitleTable) && s.Argument == family {
			return s
		}
	}
	return nil
}

// Add appends an empty section and returns it.
func (f *File) Add(title, argument string) *Section {
	s := &Section{Title: title, Argument: argument}
	f.Sections = append(f.Sections, s)
	return s
}

// Factory is the table factory that a TableOptions section is for, "" for other sections.
func (s *Section) Factory() string {
	name, found := strings.CutPrefix(s.Title, TitleTable)
	if !found {
		return ""
	}
	return name
}

// Lookup finds an option by key. The first one counts.
func (s *Section) Lookup(key string) (Option, bool) {
	i := slices.IndexFunc(s.Options, func(o Option) bool { return o.Key == key })
	if i < 0 {
		return Option{}, false
	}
	return s.Options[i], true
}

// Set gives key a value, which must be escaped already (see Escape); it replaces
// an earlier one in place.
func (s *Section) Set(key, value string) {
	for i := range s.Options {
		if s.Options[i].Key == key {
			s.Options[i].Value = value
			return
		}
	}
	s.Options = append(s.Options, Option{Key: key, Value: value})
}

const header = `# This is a RocksDB option file.
#
# For detailed file format spec, please refer to the example file
# in examples/rocksdb_option_file_example.ini
#

`

// Append appends the text of the file to dst, laid out as RocksDB does. Parsing
// it gives an equal file, provided that keys and values hold no line break and
// no space at either end.
func (f *File) Append(dst []byte) []byte {
	dst = append(dst, header...)
	for i, s := range f.Sections {
		if i > 0 && !strings.HasPrefix(s.Title, TitleTable) {
			dst = append(dst, '\n')
		}
		dst = append(dst, '[')
		dst = append(dst, s.Title...)
		if s.Title == TitleFamily || strings.HasPrefix(s.Title, TitleTable) {
			dst = append(dst, ` "`...)
			dst = append(dst, Escape(s.Argument)...)
			dst = append(dst, '"')
		}
		dst = append(dst, "]\n"...)
		for _, o := range s.Options {
			dst = append(dst, "  "...)
			dst = append(dst, o.Key...)
			dst = append(dst, '=')
			dst = append(dst, o.Value...)
			dst = append(dst, '\n')
		}
		if s.Title != TitleVersion {
			dst = append(dst, "  \n"...)
		}
	}
	return dst
}
