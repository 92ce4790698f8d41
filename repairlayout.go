package flatrock

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
)

// repairFamily is a column family of the repaired database.
type repairFamily struct {
	id      uint32
	name    string
	order   keys.Order
	opts    *ColumnFamilyOptions
	tables  []*repairTable
	flushed uint64 // operations in logs up to this number are in tables
}

// nameFamilies decides which families there are.
func (r *repairer) nameFamilies() error {
	byID := map[uint32]string{0: DefaultColumnFamilyName}
	for id, f := range r.history.families {
		byID[id] = f.Name
	}
	r.report.LevelsKept = r.manifestHolds()
	if r.report.LevelsKept {
		r.keepLive()
	} else {
		for _, t := range r.tables {
			id, name := uint32(t.props.ColumnFamilyID), t.props.ColumnFamilyName
			if name != "" && t.props.ColumnFamilyID < 1<<31-1 && byID[id] == "" && !r.history.dropped[id] {
				byID[id] = name
			}
		}
		r.matchLogs(byID)
	}
	families := map[uint32]*repairFamily{}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		f := &repairFamily{id: id, name: byID[id]}
		r.families = append(r.families, f)
		families[id] = f
	}
	r.tables = slices.DeleteFunc(r.tables, func(t *repairTable) bool {
		id := uint32(t.props.ColumnFamilyID)
		t.family = families[id]
		if t.props.ColumnFamilyID >= 1<<31-1 || t.external {
			t.family = r.adoptedBy(t)
		}
		if t.family == nil {
			r.setAside(filepath.Base(t.path), fmt.Sprintf("it is of column family %d (%q), which was dropped", id, t.props.ColumnFamilyName))
			return true
		}
		t.family.tables = append(t.family.tables, t)
		return false
	})
	for _, f := range r.families {
		if err := r.describe(f); err != nil {
			return err
		}
	}
	return nil
}

// adoptedBy finds the family of an ingested file, which may not name it.
func (r *repairer) adoptedBy(t *repairTable) *repairFamily {
	if r.history.state != nil {
		for _, f := range r.history.state.Families {
			for _, level := range f.Version.Levels {
				if slices.ContainsFunc(level, func(m *manifest.FileMetadata) bool { return m.Number == t.meta.Number }) {
					return r.familyByID(f.ID)
				}
			}
		}
	}
	if i := slices.IndexFunc(r.families, func(f *repairFamily) bool { return f.name == t.props.ColumnFamilyName }); i >= 0 {
		return r.families[i]
	}
	if t.props.ColumnFamilyName == "" {
		return r.familyByID(0)
	}
	return nil
}

func (r *repairer) familyByID(id uint32) *repairFamily {
	i := slices.IndexFunc(r.families, func(f *repairFamily) bool { return f.id == id })
	if i < 0 {
		return nil
	}
	return r.families[i]
}

// matchLogs gives families that are known by logs alone, and those known by the OPTIONS file
// alone, to each other: ids ascend in the order of that file.
func (r *repairer) matchLogs(byID map[uint32]string) {
	if r.complete { // RocksDB writes the file anew when a family is dropped
		for id, name := range byID {
			if id != 0 && !slices.Contains(r.order, name) {
				delete(byID, id)
			}
		}
	}
	top := r.history.maxID
	for id := range byID {
		top = max(top, id)
	}
	var unknown []uint32
	for id := range r.logIDs {
		if byID[id] == "" && !r.history.dropped[id] {
			unknown = append(unknown, id)
		}
		top = max(top, id)
	}
	slices.Sort(unknown)
	ids := map[string]uint32{}
	for id, name := range byID {
		ids[name] = id
	}
	var nameless []string
	below := uint32(0)
	settle := func(above uint32) {
		var between []uint32
		for _, id := range unknown {
			if id > below && id < above {
				between = append(between, id)
			}
		}
		for i, name := range nameless {
			if len(between) == len(nameless) {
				byID[between[i]] = name
			} else if len(between) == 0 || r.complete {
				top++
				byID[top] = name
			}
		}
		nameless = nil
	}
	for _, name := range r.order {
		id, known := ids[name]
		if !known {
			nameless = append(nameless, name)
			continue
		}
		settle(id)
		below = id
	}
	settle(1<<32 - 1)
	for _, id := range unknown {
		if byID[id] == "" {
			if r.complete && len(r.order) == len(ids) {
				r.report.Notes = append(r.report.Notes, fmt.Sprintf("the logs have operations of column family %d, which the OPTIONS file does not have: it was dropped", id))
				continue
			}
			byID[id] = fmt.Sprintf("recovered_cf_%d", id)
			r.report.Notes = append(r.report.Notes, fmt.Sprintf("nothing but logs tells of column family %d; it is called %s", id, byID[id]))
		}
	}
}

// describe settles comparator and options of a family.
func (r *repairer) describe(f *repairFamily) error {
	o := r.db.familyOptions(f.name, r.stored)
	if o == nil {
		o = derivedOptions(f.tables)
	}
	name := ""
	if h := r.history.families[f.id]; h != nil {
		name = h.Comparator
	}
	for _, t := range f.tables {
		switch {
		case t.props.ComparatorName != "":
			name = t.props.ComparatorName
		case t.comparator != nil:
			name = t.comparator.Name()
		}
	}
	if name == "" && o.Comparator != nil {
		name = o.Comparator.Name()
	}
	c, err := r.comparatorNamed(f.name, name)
	if err != nil {
		return err
	}
	if o.Comparator == nil || o.Comparator.Name() != c.Name() {
		own := *o
		own.Comparator = c
		o = &own
	}
	f.opts, f.order = o.withDefaults(), keys.NewOrder(c)
	for _, t := range f.tables {
		if !t.external {
			f.flushed = max(f.flushed, t.meta.LargestSeq)
		}
	}
	return nil
}

// manifestHolds reports whether the MANIFEST that was read is all there was: it names no file
// that is gone, or else there is none newer than it.
func (r *repairer) manifestHolds() bool {
	st := r.history.state
	if st == nil {
		return false
	}
	for _, t := range r.tables {
		if r.history.files[t.meta.Number] == nil && t.meta.Number >= st.NextFileNumber-1 {
			r.report.Manifest += ", but there are newer table files"
			return false
		}
	}
	return true
}

// keepLive sets aside what the MANIFEST does not name.
func (r *repairer) keepLive() {
	r.tables = slices.DeleteFunc(r.tables, func(t *repairTable) bool {
		if r.history.files[t.meta.Number] != nil {
			return false
		}
		r.setAside(filepath.Base(t.path), "the MANIFEST does not name it")
		return true
	})
}

// mergeJob is what must be merged into the last level of a family.
type mergeJob struct {
	family *repairFamily
	tables []*repairTable
	level  int
	files  []*manifest.FileMetadata // the outcome
}

// layOut says where each table goes.
func (r *repairer) layOut() (*manifest.State, []*mergeJob, error) {
	st := &manifest.State{NextFileNumber: r.next, DBID: r.history.dbID, LastSeq: max(r.logSeq, r.history.lastSeq), MaxColumnFamily: r.history.maxID}
	var merges []*mergeJob
	if r.report.LevelsKept {
		st = r.history.state
		st.MarkFileNumberUsed(r.next)
		st.WALs, st.MinTrackedWAL = nil, 0
		st.LastSeq = max(st.LastSeq, r.logSeq)
		whole := map[uint64]*repairTable{}
		for _, t := range r.tables {
			whole[t.meta.Number] = t
		}
		for _, f := range st.Families {
			e := &manifest.VersionEdit{ColumnFamily: f.ID}
			for level, files := range f.Version.Levels {
				for _, m := range files {
					if t := whole[m.Number]; t != nil {
						t.level = level
						continue
					}
					e.DeletedFiles = append(e.DeletedFiles, manifest.DeletedFile{Level: level, Number: m.Number})
					if !slices.ContainsFunc(r.report.SetAside, func(s SetAsideFile) bool { return s.Name == filepath.Base(manifest.TableName("", m.Number)) }) {
						r.report.Notes = append(r.report.Notes, fmt.Sprintf("table file %d of column family %q is gone", m.Number, f.Name))
					}
				}
			}
			if err := rebuild(f, e); err != nil {
				return nil, nil, err
			}
		}
		for _, f := range r.families {
			f.flushed = 0 // log numbers tell
		}
		return st, nil, nil
	}
	for _, f := range r.families {
		st.MaxColumnFamily = max(st.MaxColumnFamily, f.id)
		family := &manifest.ColumnFamily{ID: f.id, Name: f.name, Comparator: f.opts.Comparator.Name(), NextEpoch: 2,
			Version: manifest.NewVersion(f.order, f.opts.NumLevels)}
		if h := r.history.families[f.id]; h != nil {
			family.LogNumber, family.Features = h.LogNumber, h.Features
		}
		st.Families = append(st.Families, family)
		for _, t := range f.tables {
			st.LastSeq = max(st.LastSeq, t.meta.LargestSeq)
		}
		if m := f.place(r.db.opts.AllowIngestBehind); m != nil {
			merges = append(merges, m)
		}
	}
	return st, merges, nil
}

// place sends the newest files to level 0, as long as sequence numbers tell their order, and
// what is older to the last level: as it is if keys are apart, or to be merged.
func (f *repairFamily) place(behind bool) *mergeJob {
	all := slices.Clone(f.tables)
	slices.SortFunc(all, func(a, b *repairTable) int {
		return cmp.Or(cmp.Compare(b.meta.LargestSeq, a.meta.LargestSeq), cmp.Compare(b.meta.SmallestSeq, a.meta.SmallestSeq), cmp.Compare(b.meta.Number, a.meta.Number))
	})
	older := make([]uint64, len(all)+1) // the largest number from here on
	for i, t := range slices.Backward(all) {
		older[i] = max(older[i+1], t.meta.LargestSeq)
	}
	n := 0
	for n < len(all) && (n == len(all)-1 || all[n].meta.SmallestSeq > older[n+1]) {
		all[n].level = 0
		n++
	}
	rest := all[n:]
	if len(rest) == 0 {
		return nil
	}
	last := f.opts.NumLevels - 1
	if behind {
		last--
	}
	if f.opts.CompactionStyle == CompactionStyleFIFO || last < 0 {
		last = 0
	}
	if last > 0 && f.apart(rest) {
		for _, t := range rest {
			t.level = last
		}
		return nil
	}
	return &mergeJob{family: f, tables: rest, level: last}
}

// apart reports whether no user key is in the bounds of two files.
func (f *repairFamily) apart(tables []*repairTable) bool {
	sorted := slices.Clone(tables)
	slices.SortFunc(sorted, func(a, b *repairTable) int { return f.order.Compare(a.meta.SmallestKey, b.meta.SmallestKey) })
	for i := 1; i < len(sorted); i++ {
		if f.order.Compare(sorted[i-1].meta.LargestKey, sorted[i].meta.SmallestKey) >= 0 {
			return false
		}
	}
	return true
}

// merge writes the files of the last levels.
func (r *repairer) merge(jobs []*mergeJob) (err error) {
	var created []uint64
	defer func() {
		if err != nil {
			err = errors.Join(err, r.removeTables(created))
		}
	}()
	for _, j := range jobs { // all is read again
		for _, t := range j.tables {
			r.total += int64(t.meta.Size)
		}
	}
	for _, j := range jobs {
		before := r.done
		result, err := r.mergeOne(j)
		if r.done = before; err == nil {
			for _, t := range j.tables {
				r.done += int64(t.meta.Size)
			}
		}
		if result != nil {
			created = append(created, result.Created...)
		}
		if err != nil {
			return fmt.Errorf("merging table files of column family %q: %w", j.family.name, err)
		}
		j.files = result.Files
	}
	return r.fs.SyncDir(r.dir)
}

func (r *repairer) removeTables(numbers []uint64) (err error) {
	for _, n := range numbers {
		if e := r.fs.Remove(manifest.TableName(r.dir, n)); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// removeMerged removes what merge made, which will not be used.
func (r *repairer) removeMerged(jobs []*mergeJob) error {
	var numbers []uint64
	for _, j := range jobs {
		for _, m := range j.files {
			numbers = append(numbers, m.Number)
		}
	}
	return r.removeTables(numbers)
}

func (r *repairer) mergeOne(j *mergeJob) (_ *compaction.Result, err error) {
	f := j.family
	o := f.opts // of the call: there is no database whose SetOptions could have changed them
	job := &compaction.Job{Order: f.order, Operator: o.MergeOperator, KeepSeq: true, EpochNumber: 1,
		FileCreationTime: r.now(), OldestAncestorTime: r.now(), Guard: guarded}
	if j.level > 0 {
		job.TargetFileSize = o.TargetFileSizeBase
		if _, ok := o.Table.(PlainTableOptions); ok {
			job.MaxFileSize = plainSplitSize
		}
	}
	var open []*SstFileReader
	defer func() {
		for _, s := range open {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, t := range j.tables {
		s, err := r.openAs(t.path, f.opts.Comparator)
		if err != nil {
			return nil, err
		}
		open = append(open, s)
		job.Sources = append(job.Sources, compaction.FileSource(t.meta, s.reader().NewIterator(table.IterOptions{NoFill: true, VerifyChecksums: true, Caller: table.CallerRepair})))
		if ts := s.reader().Tombstones(); len(ts) > 0 {
			job.Tombstones = rangedel.New(f.order, ts).Clip(t.meta.SmallestKey, t.meta.LargestKey, t.meta.LargestIsExclusive()).AppendTombstones(job.Tombstones)
		}
	}
	if job.OldestAncestorTime > 0 {
		for _, t := range j.tables {
			if at := t.meta.OldestAncestorTime; at > 0 {
				job.OldestAncestorTime = min(job.OldestAncestorTime, at)
			}
		}
	}
	cf := &ColumnFamily{db: r.db, id: f.id, name: f.name, opts: f.opts} // for identity alone
	job.NewOutput = func() (compaction.Output, error) {
		n := r.newNumber()
		if err := r.begin(manifest.TableName(r.dir, n)); err != nil {
			return compaction.Output{Number: n}, err
		}
		r.done = min(r.done+int64(job.TargetFileSize), r.total) // about
		file, err := r.fs.Create(manifest.TableName(r.dir, n))
		if err != nil {
			return compaction.Output{Number: n}, err
		}
		id := r.db.identity(cf, n, r.db.opts.now())
		id.CreationTime, id.OldestKeyTime = job.OldestAncestorTime, job.OldestAncestorTime
		w, err := beginTable(file, f.opts, f.order, j.level, false, id)
		if err != nil {
			return compaction.Output{Number: n}, errors.Join(err, file.Close())
		}
		out := compaction.Output{Number: n, Writer: w}
		if id, ok := manifest.UniqueID(r.db.dbID, r.db.sessionID, n); ok {
			out.UniqueID = bytes.Clone(id[:])
		}
		return out, nil
	}
	return compaction.Run(r.ctx, job)
}

// finishVersions gives the families of the new MANIFEST their files.
func (r *repairer) finishVersions(st *manifest.State, jobs []*mergeJob) error {
	st.MarkFileNumberUsed(r.next)
	for _, f := range r.families {
		if r.report.LevelsKept {
			break
		}
		e := &manifest.VersionEdit{ColumnFamily: f.id, BlobAdditions: r.blobs[f.id]}
		tables := slices.Clone(f.tables)
		slices.SortFunc(tables, func(a, b *repairTable) int { return cmp.Compare(a.meta.LargestSeq, b.meta.LargestSeq) })
		epoch := uint64(1)
		for _, t := range tables {
			if t.level < 0 {
				r.replaced = append(r.replaced, filepath.Base(t.path))
				continue
			}
			m := *t.meta
			m.EpochNumber = 1
			if t.level == 0 {
				epoch++
				m.EpochNumber = epoch
			}
			e.NewFiles = append(e.NewFiles, manifest.NewFile{Level: t.level, Meta: &m})
		}
		for _, j := range jobs {
			if j.family == f {
				for _, m := range j.files {
					e.NewFiles = append(e.NewFiles, manifest.NewFile{Level: j.level, Meta: m})
				}
			}
		}
		family := st.Family(f.id)
		family.NextEpoch = epoch + 1
		if err := rebuild(family, e); err != nil {
			return err
		}
	}
	return nil
}

// rebuild applies an edit to a family that no one uses yet.
func rebuild(f *manifest.ColumnFamily, e *manifest.VersionEdit) error {
	b := manifest.NewBuilder(f.Version)
	if err := b.Apply(e); err != nil {
		return fmt.Errorf("column family %q: %w", f.Name, err)
	}
	v, err := b.Build()
	if err != nil {
		return fmt.Errorf("column family %q: %w", f.Name, err)
	}
	f.Version = v
	return nil
}
