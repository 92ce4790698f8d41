package entity

import "errors"

// ErrColumnKind says that a column's value lies elsewhere, in a blob file, or is
// of a kind that this package does not know.
var ErrColumnKind = errors.New("wide-column entity: unsupported kind of column")
