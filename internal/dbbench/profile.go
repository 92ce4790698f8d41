package dbbench

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// startProfiles begins the profiles that flags ask for. The function that it returns
// ends and writes them.
func (b *bench) startProfiles() (end func() error, err error) {
	var ends []func() error
	end = func() error {
		var errs []error
		for _, e := range ends {
			errs = append(errs, e())
		}
		return errors.Join(errs...)
	}
	if name := b.c.cpuProfile; name != "" {
		f, err := os.Create(name)
		if err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		ends = append(ends, func() error { pprof.StopCPUProfile(); return f.Close() })
	}
	for _, p := range []struct {
		file, name string
		rate       func(int)
	}{
		{b.c.mutexProfile, "mutex", func(n int) { runtime.SetMutexProfileFraction(n) }},
		{b.c.blockProfile, "block", runtime.SetBlockProfileRate},
	} {
		if p.file == "" {
			continue
		}
		p.rate(1) // every event
		ends = append(ends, func() error {
			p.rate(0)
			f, err := os.Create(p.file)
			if err != nil {
				return err
			}
			return errors.Join(pprof.Lookup(p.name).WriteTo(f, 0), f.Close())
		})
	}
	return end, nil
}
