package main

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// The JSON lines that scripts rely on. Their fields keep this order.

func appendHexField(dst []byte, name string, b []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	dst = append(dst, `":"`...)
	dst = hex.AppendEncode(dst, b)
	return append(dst, '"')
}

func appendNameField(dst []byte, name, value string) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a string always marshals
	}
	return append(dst, text...)
}

// appendEntryFields appends "k":hex,"seq":n,"type":n,"v":hex.
func appendEntryFields(dst []byte, e entry) []byte {
	dst = appendHexField(dst, "k", e.key)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendUint(dst, keys.Seq(e.trailer), 10)
	dst = append(dst, `,"type":`...)
	dst = strconv.AppendUint(dst, uint64(keys.KindOf(e.trailer)), 10)
	dst = append(dst, ',')
	return appendHexField(dst, "v", e.value)
}

// jsonEntry writes {"k":hex,"seq":n,"type":n,"v":hex}.
func (a *app) jsonEntry(e entry) error {
	line := append(appendEntryFields([]byte{'{'}, e), "}\n"...)
	_, err := a.out.Write(line)
	return err
}

// jsonFamilyEntry writes {"cf":name,"k":hex,"seq":n,"type":n,"v":hex}.
func (a *app) jsonFamilyEntry(cf string, e entry) error {
	line := append(appendNameField([]byte{'{'}, "cf", cf), ',')
	line = append(appendEntryFields(line, e), "}\n"...)
	_, err := a.out.Write(line)
	return err
}

// jsonFileEntry writes {"file":name,"offset":n,"k":hex,"v":hex}, for a record of a blob file.
func (a *app) jsonFileEntry(file string, offset uint64, key, value []byte) error {
	line := append(appendNameField([]byte{'{'}, "file", file), `,"offset":`...)
	line = append(strconv.AppendUint(line, offset, 10), ',')
	line = append(appendHexField(line, "k", key), ',')
	line = append(appendHexField(line, "v", value), "}\n"...)
	_, err := a.out.Write(line)
	return err
}

// jsonKey writes {"cf":name,"k":hex,"v":hex}.
func (a *app) jsonKey(cf string, key, value []byte) error {
	line := append(appendNameField([]byte{'{'}, "cf", cf), ',')
	line = append(appendHexField(line, "k", key), ',')
	line = append(appendHexField(line, "v", value), "}\n"...)
	_, err := a.out.Write(line)
	return err
}

// jsonTimedKey writes {"cf":name,"k":hex,"v":hex,"written":n}.
func (a *app) jsonTimedKey(cf string, key, value []byte, written int32) error {
	line := append(appendNameField([]byte{'{'}, "cf", cf), ',')
	line = append(appendHexField(line, "k", key), ',')
	line = append(appendHexField(line, "v", value), `,"written":`...)
	line = append(strconv.AppendInt(line, int64(written), 10), "}\n"...)
	_, err := a.out.Write(line)
	return err
}

// jsonMissing writes {"cf":name,"k":hex,"v":null}.
func (a *app) jsonMissing(cf string, key []byte) error {
	line := append(appendNameField([]byte{'{'}, "cf", cf), ',')
	line = append(appendHexField(line, "k", key), ",\"v\":null}\n"...)
	_, err := a.out.Write(line)
	return err
}

// jsonValue writes any value as a line.
func (a *app) jsonValue(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = a.out.Write(append(line, '\n'))
	return err
}
