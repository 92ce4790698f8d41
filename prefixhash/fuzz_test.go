package prefixhash

import "testing"

// FuzzParse: any text is refused, or names an extractor whose own name parses to the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "nullptr", "rocksdb.Noop", "fixed:4", "capped:8", "rocksdb.FixedPrefix.4", "rocksdb.CappedPrefix.300", "{id=fixed:3;}", "{id=;x=1}", "fixed:99999999999"} {
		f.Add(s, []byte("abcdefgh"))
	}
	f.Fuzz(func(t *testing.T, s string, key []byte) {
		e, err := Parse(s)
		if err != nil || e == nil {
			return
		}
		again, err := Parse(e.Name())
		if err != nil || again.Name() != e.Name() {
			t.Fatalf("%q is %q, which parses to %v, %v", s, e.Name(), again, err)
		}
		n := e.PrefixLen(key)
		if n > len(key) || n != again.PrefixLen(key) {
			t.Fatalf("%q: a prefix of %d bytes of %d, %d the second time", s, n, len(key), again.PrefixLen(key))
		}
	})
}
