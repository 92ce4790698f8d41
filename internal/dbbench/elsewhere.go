package dbbench

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
)

// elsewhere are flags of databases whose options, or writes, come from elsewhere.
type elsewhere struct {
	optionsFile       string
	secondary         bool
	secondaryPath     string
	secondaryInterval int64 // seconds
}

var defaultElsewhere = elsewhere{secondaryInterval: 5}

func (f *elsewhere) bindings() []binding {
	return []binding{
		{"options_file", &f.optionsFile, "take the options from this OPTIONS file, and its default family's for all families, instead of from flags; --use_existing_db, --statistics, --cache_size and paths still count"},
		{"use_secondary_db", &f.secondary, "open as a secondary, which follows a database that another process writes; needs --use_existing_db"},
		{"secondary_path", &f.secondaryPath, "accepted: a secondary writes no files"},
		{"secondary_update_interval", &f.secondaryInterval, "seconds between looks at what the primary has written"},
	}
}

func (f *elsewhere) check(c *config) error {
	switch {
	case f.secondary && !c.useExistingDB:
		return errors.New("--use_secondary_db needs --use_existing_db")
	case f.secondary && f.secondaryInterval < 1:
		return fmt.Errorf("--secondary_update_interval=%d: want at least 1", f.secondaryInterval)
	}
	return nil
}

// fileOptions are the options of --options_file.
func (b *bench) fileOptions(existing bool) (*flatrock.Options, error) {
	c := b.c
	o, err := flatrock.LoadOptionsFromFile(nil, c.optionsFile)
	if err != nil {
		return nil, fmt.Errorf("--options_file=%s: %w", c.optionsFile, err)
	}
	for _, d := range o.ColumnFamilies {
		if d.Name == flatrock.DefaultColumnFamilyName {
			o.ColumnFamily = d.Options
		}
	}
	o.ColumnFamilies, o.CreateMissingColumnFamilies = c.families.descriptors(o.ColumnFamily), !c.readOnly
	o.CreateIfMissing, o.ErrorIfExists, o.ReadOnly = !existing, false, c.readOnly
	o.WALDir, o.BlockCacheSize = c.walDir, c.blockCacheSize()
	o.Statistics, o.Logger = b.statistics(), b.logger()
	return o, nil
}

// follower keeps a secondary up to date.
type follower struct {
	stop    chan struct{}
	done    sync.WaitGroup
	updates atomic.Int64
	err     error
}

// follow begins to look at the primary, every now and then.
func follow(db *flatrock.DB, every time.Duration) *follower {
	f := &follower{stop: make(chan struct{})}
	f.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-f.stop:
				return
			case <-tick.C:
				if f.err = db.TryCatchUpWithPrimary(); f.err != nil {
					return
				}
				f.updates.Add(1)
			}
		}
	})
	return f
}

// end ends it and says what went wrong.
func (f *follower) end() error {
	close(f.stop)
	f.done.Wait()
	return f.err
}

// endFollowing says how often that was.
func (b *bench) endFollowing() error {
	f := b.follower
	if f == nil {
		return nil
	}
	b.follower = nil
	err := f.end()
	fmt.Fprintf(b.out, "Secondary instance updated  %d times.\n", f.updates.Load())
	if err != nil {
		return fmt.Errorf("catching up with the primary: %w", err)
	}
	return nil
}
