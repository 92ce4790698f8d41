package main

import (
	"encoding/hex"
	"fmt"
	"strings"

	flatrock "github.com/flatrock-db/flatrock"
)

// The commands of wide-column entities. RocksDB 7.8 has none of them; words and output
// are those of later versions.

// putEntity sets a key to columns, given as name:value. With --value_hex both are in hex.
func (l *ldb) putEntity() error {
	if len(l.words) < 2 {
		return failedf("<key> and at least one column <column_name>:<column_value> pair must be specified for the put_entity command")
	}
	key, err := l.keyOf(l.words[0])
	if err != nil {
		return err
	}
	var columns []flatrock.Column
	for _, word := range l.words[1:] {
		name, value, ok := strings.Cut(word, ":")
		if !ok {
			return failedf("wrong format in columns: expected <column_name>:<column_value>, found %q", word)
		}
		var c flatrock.Column
		if name != "" || !l.valueHex { // in hex, too, the default column has no name at all
			if c.Name, err = l.valueOf(name); err != nil {
				return err
			}
		}
		if value != "" || !l.valueHex {
			if c.Value, err = l.valueOf(value); err != nil {
				return err
			}
		}
		columns = append(columns, c)
	}
	return l.write(func(cf *flatrock.ColumnFamily) error { return cf.PutEntity(nil, key, columns) })
}

// columnsText is name:value for each column; what is empty is so in hex, too.
func (l *ldb) columnsText(columns []flatrock.Column) string {
	text := func(b []byte) string {
		if len(b) == 0 {
			return ""
		}
		return shown(b, l.valueHex)
	}
	var parts []string
	for _, c := range columns {
		parts = append(parts, text(c.Name)+":"+text(c.Value))
	}
	return strings.Join(parts, " ")
}

// jsonEntity writes {"cf":name,"k":hex,"columns":[{"name":hex,"v":hex},...]}.
func (l *ldb) jsonEntity(key []byte, columns []flatrock.Column) error {
	type column struct {
		Name  string `json:"name"`
		Value string `json:"v"`
	}
	list := []column{}
	for _, c := range columns {
		list = append(list, column{hex.EncodeToString(c.Name), hex.EncodeToString(c.Value)})
	}
	return l.jsonValue(struct {
		CF      string   `json:"cf"`
		Key     string   `json:"k"`
		Columns []column `json:"columns"`
	}{l.family, hex.EncodeToString(key), list})
}

func (l *ldb) getEntity() error {
	k, err := l.keys(1, "<key> must be specified for the get_entity command")
	if err != nil {
		return err
	}
	return l.withFamily(true, func(cf *flatrock.ColumnFamily) error {
		var e flatrock.Entity
		err := cf.GetEntity(nil, k[0], &e)
		return l.printOne("GetEntity", err, func() error {
			if l.json {
				return l.jsonEntity(k[0], e.Columns)
			}
			_, err := fmt.Fprintln(l.out, l.columnsText(e.Columns))
			return err
		})
	})
}

func (l *ldb) multiGetEntity() error {
	return l.multi("the multi_get_entity command", func(cf *flatrock.ColumnFamily, list [][]byte) error {
		results, err := cf.MultiGetEntity(nil, list, nil)
		if err != nil {
			return failedf("%w", err)
		}
		return l.printEach(list, func(i int) (line string, json func() error, err error) {
			r := &results[i]
			return l.columnsText(r.Columns), func() error { return l.jsonEntity(list[i], r.Columns) }, r.Err
		})
	})
}
