package flatrock

import (
	"fmt"
	"strings"

	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
)

// MergeOperator combines merge operands. The built-in ones come from ParseMergeOperator; a program's own
// has the methods
//
//	Name() string
//	FullMerge(key, existing []byte, hasExisting bool, operands [][]byte) ([]byte, error)
//
// Name is kept in the OPTIONS file and compared when the database is opened. FullMerge applies the operands,
// oldest first and at least one, to the value beneath them; hasExisting is false where there is none, or it was
// deleted. An error fails the read that asked, and a compaction stops with it: nothing is lost. Both are called by
// several goroutines at a time. RocksDB: MergeOperator.
type MergeOperator = merge.Operator

// PartialMerger is a MergeOperator that can also combine operands before the value
// beneath them is known, which keeps chains of operands short. It has one more method:
//
//	PartialMerge(key []byte, operands [][]byte) (operand []byte, ok bool)
//
// which combines operands, oldest first and at least two, into one of the same effect; ok is false where that
// is not possible, and they stay as they are. RocksDB: AssociativeMergeOperator, PartialMerge.
type PartialMerger = merge.PartialMerger

// ParseMergeOperator returns RocksDB's built-in operator of that name: "uint64add",
// "stringappend", "stringappendtest", "max", "put" or "put_v1", "bytesxor", "sortlist", their long
// names, or the form found in OPTIONS files, {id=StringAppendOperator;delimiter=,;}.
// "" and "nullptr" give nil.
func ParseMergeOperator(name string) (MergeOperator, error) {
	return readMergeOperator(optionsfile.Option{Key: "merge_operator", Value: strings.TrimSpace(name)})
}

func readMergeOperator(o optionsfile.Option) (MergeOperator, error) {
	if strings.TrimSpace(strings.Trim(o.Value, "{}")) == "" { // RocksDB's {} is none too
		return nil, nil
	}
	id, params, err := o.Custom()
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, nil
	}
	delimiter := ","
	for _, p := range params {
		if p.Key == "delimiter" {
			if inner, ok := strings.CutPrefix(p.Value, "{"); ok { // what a semicolon in it needs
				p.Value = strings.TrimSuffix(inner, "}")
			}
			delimiter = p.Text()
		}
	}
	op := merge.ByName(id, delimiter)
	if op == nil {
		return nil, fmt.Errorf("%w: merge operator %q is not one of the built-in ones", ErrInvalidArgument, id)
	}
	for _, p := range params {
		if _, ok := op.(merge.Delimited); !ok || p.Key != "delimiter" {
			return nil, fmt.Errorf("%w: merge operator %s: unknown option %q", ErrInvalidArgument, id, p.Key)
		}
	}
	return op, nil
}

// formatMergeOperator writes op the way ParseMergeOperator reads it; an operator of the
// caller by its bare name.
func formatMergeOperator(op MergeOperator) string {
	if op == nil {
		return "nullptr"
	}
	if d, ok := op.(merge.Delimited); ok {
		delimiter := optionsfile.Escape(d.Delimiter())
		if strings.Contains(delimiter, ";") {
			delimiter = "{" + delimiter + "}"
		}
		return optionsfile.FormatObject(optionsfile.Option{Key: "id", Value: op.Name()}, optionsfile.Option{Key: "delimiter", Value: delimiter})
	}
	return op.Name()
}
