package dbbench

import (
	"fmt"
	"strconv"
	"strings"

	flatrock "github.com/flatrock-db/flatrock"
)

// familyFlags are the flags of column families. Each number, and so each key, belongs to one family.
type familyFlags struct {
	count, hot   int64
	distribution string
	ends         []uint64 // of a hundred, by family, with distribution
}

func (f *familyFlags) bindings() []binding {
	return []binding{
		{"num_column_families", &f.count, "column families; each key belongs to one of them, by its number"},
		{"num_hot_column_families", &f.hot, "how many of them hold keys; zero means all"},
		{"column_family_distribution", &f.distribution, "per cent of the keys in each of these, separated by commas; empty means equal shares"},
	}
}

func (f *familyFlags) check() error {
	if f.count < 1 || f.count > 10_000 || f.hot < 0 || f.hot > f.count {
		return fmt.Errorf("--num_column_families=%d, --num_hot_column_families=%d: want 1 to 10000, and at most as many", f.count, f.hot)
	}
	f.ends = nil
	if f.distribution == "" {
		return nil
	}
	end := uint64(0)
	for _, s := range strings.Split(f.distribution, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 7)
		if err != nil {
			return fmt.Errorf("--column_family_distribution=%s: want percentages, separated by commas", f.distribution)
		}
		end += n
		f.ends = append(f.ends, end)
	}
	if end != 100 || len(f.ends) != f.used() {
		return fmt.Errorf("--column_family_distribution=%s: want %d percentages that make 100", f.distribution, f.used())
	}
	return nil
}

// used is how many families hold keys.
func (f *familyFlags) used() int {
	if f.hot > 0 {
		return int(f.hot)
	}
	return int(f.count)
}

// of is the family of a number.
func (f *familyFlags) of(v uint64) int {
	if f.ends == nil {
		return int(v % uint64(f.used()))
	}
	i := 0
	for v%100 > f.ends[i] { // db_bench gives a family the first number of the next one
		i++
	}
	return i
}

// familyName is db_bench's.
func familyName(i int64) string {
	if i == 0 {
		return flatrock.DefaultColumnFamilyName
	}
	return fmt.Sprintf("column_family_name_%06d", i)
}

// descriptors are the families besides the default one.
func (f *familyFlags) descriptors(o *flatrock.ColumnFamilyOptions) []flatrock.ColumnFamilyDescriptor {
	var all []flatrock.ColumnFamilyDescriptor
	for i := int64(1); i < f.count; i++ {
		all = append(all, flatrock.ColumnFamilyDescriptor{Name: familyName(i), Options: o})
	}
	return all
}

// openFamilies finds the families that hold keys, once the database is open.
func (b *bench) openFamilies() {
	b.cf = b.db.DefaultColumnFamily()
	b.families = nil
	for i := range b.c.families.used() {
		b.families = append(b.families, b.db.ColumnFamily(familyName(int64(i))))
	}
}

// each calls f for each family that holds keys, until one fails.
func (b *bench) each(f func(*flatrock.ColumnFamily) error) error {
	for _, cf := range b.families {
		if err := f(cf); err != nil {
			return err
		}
	}
	return nil
}
