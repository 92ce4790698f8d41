package keys

import (
	"errors"
	"fmt"
)

// ErrCorruption matches every CorruptionError through errors.Is.
var ErrCorruption = errors.New("corruption")

// CorruptionError says where a file stopped making sense.
type CorruptionError struct {
	File   string // base name
	Offset int64  // bytes from the start of File; -1 if unknown
	Reason string // what was expected, and what was read
}

func (e *CorruptionError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("corruption: %s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("corruption: %s at offset %d: %s", e.File, e.Offset, e.Reason)
}

// Is makes errors.Is(err, ErrCorruption) true.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorruption }

// Corruptf builds a CorruptionError.
func Corruptf(file string, offset int64, format string, args ...any) error {
	return &CorruptionError{File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}
