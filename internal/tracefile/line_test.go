package tracefile

import (
	"strings"
	"testing"
)

// FuzzParseLine: a line is refused, or has a number in each column but that of the family's name.
func FuzzParseLine(f *testing.F) {
	f.Add("1,2,3,4,5,default,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21")
	f.Add(strings.Repeat("1,", len(HumanColumns)-1) + "1")
	f.Add(strings.Repeat(",", 30))
	f.Fuzz(func(t *testing.T, line string) {
		_, family, err := ParseLine(line)
		if err != nil {
			return
		}
		fields := strings.Split(line, ",")
		if len(fields) != len(HumanColumns) || fields[5] != family {
			t.Fatalf("%q: %d fields, family %q", line, len(fields), family)
		}
	})
}
