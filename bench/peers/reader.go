package main

// What readers of several stores have in common.

// eachGet is a MultiGet of stores that have none.
func eachGet(r reader, keys [][]byte, each func(i int, value []byte, found bool) error) error {
	for i, k := range keys {
		v, found, err := r.get(k)
		if err != nil {
			return err
		}
		if err := each(i, v, found); err != nil {
			return err
		}
	}
	return nil
}

// cursor is an iterator that has been placed.
type cursor interface {
	Next() bool
	Key() []byte
}

// walk calls each for where a cursor is, if it is anywhere, and for the steps that follow.
func walk[C cursor](c C, valid bool, steps int, value func(C) ([]byte, error), each func(key, value []byte) error) error {
	for i := 0; valid; i++ {
		v, err := value(c)
		if err != nil {
			return err
		}
		if err := each(c.Key(), v); err != nil || i == steps {
			return err
		}
		valid = c.Next()
	}
	return nil
}

// valueOf is the value of a cursor whose values cannot fail.
func valueOf[C interface{ Value() []byte }](c C) ([]byte, error) { return c.Value(), nil }
