package stress

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// redrawLevels draws how many levels the families of an existing database have from now on: those
// that hold files and one more, or more. The last is free, since a database that ever had AllowIngestBehind
// keeps it for what comes from behind. Where the MANIFEST cannot be read the options stay as they are; Open
// says why.
func redrawLevels(rng *rand.Rand, fsys mmapfs.FS, dir string, o *flatrock.Options) {
	state, err := manifest.Recover(fsys, dir, manifest.RecoverOptions{})
	if err != nil {
		return
	}
	o.ColumnFamilies = slices.Clone(o.ColumnFamilies)
	for i, d := range o.ColumnFamilies {
		atLeast := pick(rng, 3, 3, 4, 7)
		f := state.FamilyNamed(d.Name)
		if f == nil || f.Version == nil {
			continue
		}
		with := *d.Options // others may have these
		with.NumLevels = max(atLeast, f.Version.HighestLevel()+2)
		o.ColumnFamilies[i].Options = &with
	}
}

// refused lets pass that files cannot change to a level: what lies in the levels decides.
func refused(o *flatrock.CompactRangeOptions, err error) error {
	if o.ChangeLevel && errors.Is(err, flatrock.ErrInvalidArgument) {
		return nil
	}
	return err
}

// importOptions are o with the levels that a family's files may lie in.
func importOptions(o *flatrock.ColumnFamilyOptions, from *flatrock.ColumnFamily) *flatrock.ColumnFamilyOptions {
	o.NumLevels = from.Options().NumLevels
	return o
}
