package merge

// Delimited is an operator with a delimiter: the two that append strings.
type Delimited interface {
	Operator
	// Delimiter is what stands between two operands.
	Delimiter() string
}

// ByName returns RocksDB's built-in operator of a name or short name
// ("UInt64AddOperator", "uint64add"), nil if there is none. delimiter is for the
// operators that have one; RocksDB's default is a comma.
func ByName(id, delimiter string) Operator {
	switch id {
	case UInt64AddName, "uint64add":
		return UInt64Add()
	case StringAppendName, "stringappend":
		return StringAppend(delimiter)
	case StringAppendTestName, "stringappendtest":
		return StringAppendTest(delimiter)
	case MaxName, "max":
		return Max()
	case PutName, "put", "put_v1":
		return Put()
	case BytesXORName, "bytesxor":
		return BytesXOR()
	case SortListName, "sortlist":
		return SortList()
	}
	return nil
}
