package mmapfs

import "errors"

// faultFile is a file of a FaultFS.
type faultFile struct {
	File // of the base
	fs   *FaultFS
}

func (f *faultFile) Read(p []byte) (int, error) {
	if err := f.fs.step(OpRead, f.Name()); err != nil {
		return 0, err
	}
	n, err := f.File.Read(p)
	f.fs.got(f.Name(), p[:n])
	return n, err
}

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.step(OpRead, f.Name()); err != nil {
		return 0, err
	}
	n, err := f.File.ReadAt(p, off)
	f.fs.got(f.Name(), p[:n])
	return n, err
}

func (f *faultFile) Write(p []byte) (int, error) {
	if err := f.fs.step(OpWrite, f.Name()); err != nil {
		return 0, err
	}
	room := f.fs.take(int64(len(p)))
	n, err := f.File.Write(p[:room])
	if err == nil && room < int64(len(p)) {
		err = f.fs.noSpace(OpWrite, f.Name())
	}
	return n, err
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.step(OpWrite, f.Name()); err != nil {
		return 0, err
	}
	grow, err := f.growth(off + int64(len(p)))
	if err != nil {
		return 0, err
	}
	lack := grow - f.fs.take(grow)
	keep := max(0, int64(len(p))-lack)
	n, err := f.File.WriteAt(p[:keep], off)
	if err == nil && lack > 0 {
		err = f.fs.noSpace(OpWrite, f.Name())
	}
	return n, err
}

// growth returns by how much a file that ends at end is larger than now.
func (f *faultFile) growth(end int64) (int64, error) {
	size, err := f.File.Size()
	return max(0, end-size), err
}

// reserve charges for a file that ends at end: all or nothing.
func (f *faultFile) reserve(op Op, end int64) (charged int64, err error) {
	grow, err := f.growth(end)
	if err != nil {
		return 0, err
	}
	if got := f.fs.take(grow); got < grow {
		f.fs.giveBack(got)
		return 0, f.fs.noSpace(op, f.Name())
	}
	return grow, nil
}

func (f *faultFile) Close() error {
	err := f.fs.step(OpClose, f.Name())
	return errors.Join(err, f.File.Close())
}

func (f *faultFile) Size() (int64, error) {
	if err := f.fs.step(OpStat, f.Name()); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *faultFile) Sync() error {
	if err := f.fs.step(OpSync, f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultFile) SyncData() error {
	if err := f.fs.step(OpSync, f.Name()); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.fs.step(OpTruncate, f.Name()); err != nil {
		return err
	}
	charged, err := f.reserve(OpTruncate, size)
	if err != nil {
		return err
	}
	if err := f.File.Truncate(size); err != nil {
		f.fs.giveBack(charged)
		return err
	}
	return nil
}

func (f *faultFile) Preallocate(off, n int64) error {
	if err := f.fs.step(OpPreallocate, f.Name()); err != nil {
		return err
	}
	// What is written into preallocated blocks later is charged again when the file grows: so only ask.
	grow, err := f.growth(off + n)
	if err != nil {
		return err
	}
	got := f.fs.take(grow)
	f.fs.giveBack(got)
	if got < grow {
		return f.fs.noSpace(OpPreallocate, f.Name())
	}
	return f.File.Preallocate(off, n)
}

func (f *faultFile) Map(size int64, o MapOptions) (*Mapping, error) {
	if err := f.fs.step(OpMap, f.Name()); err != nil {
		return nil, err
	}
	return f.File.Map(size, o)
}

func (f *faultFile) MapWrite(off, n int64) (*WriteMapping, error) {
	if err := f.fs.step(OpMapWrite, f.Name()); err != nil {
		return nil, err
	}
	charged, err := f.reserve(OpMapWrite, off+n)
	if err != nil {
		return nil, err
	}
	base, err := f.File.MapWrite(off, n)
	if err != nil {
		f.fs.giveBack(charged)
		return nil, err
	}
	w := &WriteMapping{n: base.n, file: base.file, offset: base.offset}
	w.hook = &faultWriter{base: base, fs: f.fs}
	return w, nil
}

// faultWriter is the memory of a WriteMapping of a FaultFS.
type faultWriter struct {
	base *WriteMapping
	fs   *FaultFS
}

func (f *faultWriter) writeMapped(p []byte, off int) error {
	if err := f.fs.step(OpMappedWrite, f.base.file); err != nil {
		return err
	}
	return f.base.WriteAt(p, off)
}

func (f *faultWriter) populateMapped(off, n int) error { return f.base.Populate(off, n) }

func (f *faultWriter) closeMapped() error {
	err := f.fs.step(OpClose, f.base.file)
	return errors.Join(err, f.base.Close())
}
