package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/blob"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/internal/progress"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/mmapfs"
)

const doctorText = `flatrock doctor [--json] [--no-checksums] [--wal_dir=DIR] DIR

Says what the directory is (versions, column families with formats, levels and sizes,
logs, oldest data, options that differ from the defaults), checks it (MANIFEST, missing,
damaged and orphaned files, checksums, ends of logs), and advises. It writes nothing.

    --no-checksums  do not read table and blob files whole
    --json          the report as one object
    --wal_dir=DIR   where the logs are, if not in the database's directory
    --max_decompressed_size=N  take what holds more bytes decompressed as damage

The exit status is 0 if all is well, 1 with warnings, 2 with errors. Severities have
colours on a terminal, unless NO_COLOR is set.

Examples:
    flatrock doctor /data/db
    flatrock doctor --json /data/db | jq .findings
`

// finding is something that a person should know.
type finding struct {
	Severity string `json:"severity"` // warning or error
	What     string `json:"what"`
	Advice   string `json:"advice,omitempty"`
}

type levelReport struct {
	Level int    `json:"level"`
	Files int    `json:"files"`
	Bytes uint64 `json:"bytes"`
}

type familyReport struct {
	ID         uint32            `json:"id"`
	Name       string            `json:"name"`
	Comparator string            `json:"comparator"`
	Format     string            `json:"format"`
	Levels     []levelReport     `json:"levels"`
	BlobFiles  int               `json:"blob_files,omitempty"`
	BlobBytes  uint64            `json:"blob_bytes,omitempty"`
	Options    map[string]string `json:"options,omitempty"` // that differ from the defaults
}

type logReport struct {
	Number     uint64 `json:"number"`
	Bytes      int64  `json:"bytes"`
	Operations int64  `json:"operations"`
	Needed     bool   `json:"needed"` // the MANIFEST still needs it
}

// diagnosis is the whole report.
type diagnosis struct {
	Directory      string            `json:"directory"`
	Status         string            `json:"status"`               // ok, warning or error
	Engine         string            `json:"engine,omitempty"`     // that had it open last, by its LOG
	WrittenAs      string            `json:"written_as,omitempty"` // the version that the OPTIONS file names
	DBID           string            `json:"db_id,omitempty"`
	InUse          bool              `json:"in_use"`
	Manifest       string            `json:"manifest,omitempty"`
	LastSeq        uint64            `json:"last_sequence"`
	Families       []familyReport    `json:"families"`
	Logs           []logReport       `json:"logs"`
	OldestData     string            `json:"oldest_data,omitempty"`
	Options        map[string]string `json:"options,omitempty"`
	TablesVerified int               `json:"tables_verified"`
	Findings       []finding         `json:"findings"`
}

// doctor is one examination.
type doctor struct {
	*ldb
	diagnosis
	state *manifest.State
	names map[string]bool
	shown filesShown
}

// exitStatus is an end with that status, about which all has been said.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("status %d", int(s)) }

func (d *doctor) warn(advice, format string, args ...any) {
	d.Findings = append(d.Findings, finding{"warning", fmt.Sprintf(format, args...), advice})
}

func (d *doctor) fail(advice, format string, args ...any) {
	d.Findings = append(d.Findings, finding{"error", fmt.Sprintf(format, args...), advice})
}

func (a *app) doctor(args []string) error {
	d := &doctor{ldb: &ldb{app: a, arguments: parseArguments(args)}, names: map[string]bool{}}
	if d.has("help") {
		return a.help([]string{"doctor"})
	}
	if name, found := d.unknown([]string{"json", "no-checksums", "wal_dir", "db", "max_decompressed_size"}); found {
		return usagef("Invalid command-line option %s", name)
	}
	if d.has("db") {
		d.words = append(d.words, d.text("db"))
	}
	if len(d.words) != 1 || d.words[0] == "" {
		return usagef("doctor wants one directory; see flatrock help doctor")
	}
	var err error
	if d.maxDecompressed, _, err = d.limits(); err != nil {
		return err
	}
	d.dir = d.words[0]
	d.Directory = d.dir
	end := a.showProgress(false, d.shown.line)
	err = d.examine()
	if end(); err != nil {
		return err
	}
	status := exitStatus(0)
	d.Status = "ok"
	for _, f := range d.Findings {
		if f.Severity == "error" {
			status, d.Status = 2, "error"
			break
		}
		status, d.Status = 1, "warning"
	}
	slices.SortStableFunc(d.Findings, func(a, b finding) int { return cmp.Compare(a.Severity, b.Severity) }) // errors first
	if d.flag("json") {
		err = d.jsonValue(d.diagnosis)
	} else {
		_, err = d.out.WriteString(d.render(paint(progress.Colour(a.to))))
	}
	if err == nil && status != 0 {
		return status
	}
	return err
}

const adviseRepair = "flatrock repair --dry-run DIR says what can be saved"

func (d *doctor) examine() error {
	list, err := mmapfs.OS.List(d.dir)
	if err != nil {
		return failedf("%w", err)
	}
	for _, n := range list {
		d.names[n] = true
	}
	d.Families, d.Logs, d.Findings = []familyReport{}, []logReport{}, []finding{}
	if d.names[manifest.LockBase] {
		lock, err := mmapfs.OS.Lock(manifest.LockName(d.dir))
		switch {
		case errors.Is(err, mmapfs.ErrLocked):
			d.InUse = true
			d.warn("look again when it is closed: files that come and go are reported as if they stayed", "another process has the database open")
		case err == nil:
			if err := lock.Close(); err != nil {
				return failedf("%w", err)
			}
		}
	}
	d.Engine = engine(d.dir)
	d.readManifest()
	d.readOptions()
	if d.state != nil {
		if err := d.checkFiles(); err != nil {
			return err
		}
	}
	if err := d.checkLogs(); err != nil {
		return err
	}
	if err := d.ctx.Err(); err != nil {
		return err
	}
	d.tryOpen()
	return nil
}

func (d *doctor) readManifest() {
	if id, err := manifest.ReadIdentity(mmapfs.OS, d.dir); err == nil {
		d.DBID = id
	} else {
		d.warn("opening it for writing makes a new one", "IDENTITY cannot be read: %v", err)
	}
	s, err := d.ldb.state(manifest.RecoverOptions{})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.fail("if it is one, "+adviseRepair, "there is no CURRENT file: not a database, or one that lost it")
		return
	case err != nil:
		d.fail(adviseRepair, "the MANIFEST cannot be read: %v", err)
		return
	}
	d.state, d.LastSeq, d.Manifest = s, s.LastSeq, manifest.ManifestBase(s.ManifestNumber)
	if s.DBID != "" {
		d.DBID = s.DBID
	}
	if s.TornTail {
		d.warn("none is needed: the edit had not been acknowledged", "%s ends in a record cut short at %d", d.Manifest, s.ManifestSize)
	}
	oldest := uint64(0)
	for _, f := range s.Families {
		r := familyReport{ID: f.ID, Name: f.Name, Comparator: f.Comparator, Format: "block-based", Levels: []levelReport{}}
		for level, files := range f.Version.Levels {
			if len(files) > 0 {
				r.Levels = append(r.Levels, levelReport{level, len(files), f.Version.LevelBytes(level)})
			}
			for _, m := range files {
				at := m.OldestAncestorTime
				if at == 0 {
					at = m.FileCreationTime
				}
				if at > 0 && (oldest == 0 || at < oldest) {
					oldest = at
				}
			}
		}
		r.BlobFiles = len(f.Version.Blobs)
		r.BlobBytes, _ = f.Version.BlobBytes()
		if f.Features != 0 {
			d.warn("if RocksDB must read it: RangeDeletes Off, once CompactRange has removed the range deletes", "column family %q has range deletes in plain tables, which RocksDB refuses to open", f.Name)
		}
		d.Families = append(d.Families, r)
	}
	if oldest > 0 {
		d.OldestData = time.Unix(int64(oldest), 0).UTC().Format(time.RFC3339)
	}
}

// readOptions finds formats, and what differs from the defaults.
func (d *doctor) readOptions() {
	f, number, err := optionsfile.LoadLatest(mmapfs.OS, d.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.warn("families open with default options; give them at Open, or flatrock repair takes what tables say", "there is no OPTIONS file")
		return
	case err != nil:
		d.fail("flatrock repair sets it aside", "OPTIONS-%06d cannot be read: %v", number, err)
		return
	}
	if v, ok := f.Find(optionsfile.TitleVersion, "").Lookup("rocksdb_version"); ok {
		d.WrittenAs = "RocksDB " + v.Text()
	}
	if v, ok := f.DB().Lookup("wal_dir"); ok && v.Text() != "" && filepath.Clean(v.Text()) != filepath.Clean(d.dir) && d.ldb.text("wal_dir") == "" {
		d.warn("give --wal_dir=DIR with where they are now", "OPTIONS-%06d says that the logs are in %q", number, v.Text())
	}
	defaults, err := defaultOptions()
	if err != nil {
		d.warn("", "default options: %v", err)
		return
	}
	d.Options = different(f.DB(), defaults.DB())
	for i := range d.Families {
		r := &d.Families[i]
		s := f.Family(r.Name)
		if s == nil {
			d.warn("it opens with default options", "OPTIONS-%06d does not have column family %q", number, r.Name)
			continue
		}
		r.Options = different(s, defaults.Family("default"))
		if t := f.Table(r.Name); t != nil {
			like := "default"
			if t.Factory() == "PlainTable" {
				r.Format, like = "plain", "plain"
			}
			for k, v := range different(t, defaults.Table(like)) {
				r.Options[k] = v
			}
		}
	}
}

// defaultOptions is the OPTIONS file of a new database.
func defaultOptions() (*optionsfile.File, error) {
	mem := mmapfs.NewMem()
	db, err := flatrock.Open("/db", &flatrock.Options{FS: mem, CreateIfMissing: true})
	if err != nil {
		return nil, err
	}
	_, err = db.CreateColumnFamily("plain", &flatrock.ColumnFamilyOptions{Table: flatrock.PlainTableOptions{HashTableRatio: flatrock.TotalOrder}})
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	f, _, err := optionsfile.LoadLatest(mem, "/db")
	return f, err
}

// different are the options of s that d has with another value.
func different(s, d *optionsfile.Section) map[string]string {
	m := map[string]string{}
	if s == nil || d == nil {
		return m
	}
	for _, o := range s.Options {
		was, ok := d.Lookup(o.Key)
		if !ok || was.Value == o.Value {
			continue
		}
		fields, err := o.Object()
		before, err2 := was.Object()
		if err != nil || err2 != nil || !strings.HasPrefix(o.Value, "{") || !strings.HasPrefix(was.Value, "{") {
			m[o.Key] = o.Value
			continue
		}
		for _, f := range fields {
			if i := slices.IndexFunc(before, func(b optionsfile.Option) bool { return b.Key == f.Key }); i >= 0 && before[i].Value != f.Value {
				m[o.Key+"."+f.Key] = f.Value
			}
		}
	}
	return m
}

// engine is what the database's LOG says of the program that had it open last.
func engine(dir string) string {
	f, err := mmapfs.OS.Open(manifest.InfoLogName(dir))
	if err != nil {
		return ""
	}
	defer f.Close() // only read
	head := make([]byte, 4<<10)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	for _, line := range strings.Split(string(head[:n]), "\n") {
		if i := strings.Index(line, "RocksDB version: "); i >= 0 {
			return "RocksDB " + strings.TrimSpace(line[i+len("RocksDB version: "):])
		}
		if strings.Contains(line, "Flatrock, files as") {
			return "Flatrock"
		}
	}
	return ""
}

// checkFiles compares the directory with the MANIFEST, and reads the files.
func (d *doctor) checkFiles() error {
	live := map[uint64]bool{}
	done, total := int64(0), int64(0)
	for _, f := range d.state.Families {
		blobs, _ := f.Version.BlobBytes()
		total += int64(f.Version.TotalBytes() + blobs)
	}
	begin := func(file string, size uint64) error {
		d.shown.at(file, done, total)
		done += int64(size)
		return d.ctx.Err()
	}
	for i, f := range d.state.Families {
		for _, files := range f.Version.Levels {
			for _, m := range files {
				live[m.Number] = true
				if err := begin(manifest.TableName("", m.Number), m.Size); err != nil {
					return err
				}
				d.checkTable(&d.Families[i], m)
				if err := d.ctx.Err(); err != nil {
					return err
				}
			}
		}
		for _, b := range f.Version.Blobs {
			live[b.Number] = true
			if err := begin(manifest.BlobName("", b.Number), b.Bytes); err != nil {
				return err
			}
			if err := d.checkBlob(f.Name, b.Number); err != nil {
				return err
			}
		}
	}
	oldManifests := 0
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		kind, number, ok := manifest.ParseName(name)
		if !ok {
			continue
		}
		switch {
		case (kind == manifest.KindTable || kind == manifest.KindBlob) && !live[number]:
			d.warn("opening it for writing removes it", "%s: orphaned: no column family has it", name)
		case kind == manifest.KindTemp || kind == manifest.KindOptionsTemp:
			d.warn("opening it for writing removes it", "%s: left by something that was interrupted", name)
		case kind == manifest.KindManifest && number != d.state.ManifestNumber:
			oldManifests++
		}
	}
	if oldManifests > 0 {
		d.warn("opening it for writing removes those that are older", "%d MANIFEST files that CURRENT does not name", oldManifests)
	}
	return nil
}

func (d *doctor) checkTable(f *familyReport, m *manifest.FileMetadata) {
	path := manifest.TableName(d.dir, m.Number)
	info, err := mmapfs.OS.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if other, err2 := mmapfs.OS.Stat(manifest.OldTableName(d.dir, m.Number)); err2 == nil {
			path, info, err = manifest.OldTableName(d.dir, m.Number), other, nil
		}
	}
	name := filepath.Base(path)
	switch {
	case err != nil:
		d.fail("bring it back from a backup; or "+adviseRepair, "%s of column family %q is missing: %v", name, f.Name, err)
		return
	case uint64(info.Size()) != m.Size:
		d.fail("bring it back from a backup; or "+adviseRepair, "%s of column family %q has %d bytes, and the MANIFEST says %d", name, f.Name, info.Size(), m.Size)
		return
	}
	t, err := openTableFile(path, tableOptions{largestSeq: m.LargestSeq, inDatabase: true, comparator: f.Comparator, maxDecompressed: d.maxDecompressed})
	if err == nil && !d.flag("no-checksums") {
		err = t.verify(d.ctx)
		d.TablesVerified++
	}
	if t != nil {
		if t.footer.Plain() {
			f.Format = "plain"
		}
		err = errors.Join(err, t.Close())
	}
	if err != nil && d.ctx.Err() == nil {
		d.fail("bring it back from a backup; or "+adviseRepair, "%s of column family %q: %v", name, f.Name, err)
	}
}

// checkBlob fails if it is interrupted.
func (d *doctor) checkBlob(family string, number uint64) error {
	path := manifest.BlobName(d.dir, number)
	f, err := mmapfs.OS.Open(path)
	var b *blob.Reader
	if err == nil {
		b, err = blob.Open(f)
	}
	if err == nil {
		b.Limit(d.maxDecompressed)
		if !d.flag("no-checksums") {
			err = b.Each(func(blob.Record) error { return d.ctx.Err() })
		}
		err = errors.Join(err, b.Close())
	}
	switch interrupted := d.ctx.Err(); {
	case interrupted != nil:
		return interrupted
	case err != nil:
		d.fail("bring it back from a backup; or "+adviseRepair, "%s of column family %q: %v", filepath.Base(path), family, err)
	}
	return nil
}

// checkLogs reads the logs, and tells a torn end from damage.
func (d *doctor) checkLogs() error {
	dir := d.dir
	if w := d.ldb.text("wal_dir"); w != "" {
		dir = w
	}
	list, err := mmapfs.OS.List(dir)
	if err != nil {
		return failedf("%w", err)
	}
	oldest := uint64(0)
	if d.state != nil {
		oldest = d.state.MinLogNumber()
	}
	var needed []wal.LogFile
	for _, name := range list {
		kind, number, ok := manifest.ParseName(name)
		if !ok || kind != manifest.KindLog {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := mmapfs.OS.Stat(path)
		if err != nil {
			return failedf("%w", err)
		}
		d.Logs = append(d.Logs, logReport{Number: number, Bytes: info.Size(), Needed: number >= oldest})
		if number >= oldest {
			needed = append(needed, wal.LogFile{Number: number, Path: path})
		}
	}
	slices.SortFunc(d.Logs, func(a, b logReport) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(needed, func(a, b wal.LogFile) int { return cmp.Compare(a.Number, b.Number) })
	read := func(mode wal.RecoveryMode, count bool) (*wal.Replayer, error) {
		r := wal.NewReplayer(wal.ReplayOptions{FS: mmapfs.OS, Mode: mode, Oldest: oldest, MaxRecord: d.maxDecompressed, Apply: func(log, _ uint64, _ *wal.Op) error {
			if i := slices.IndexFunc(d.Logs, func(l logReport) bool { return l.Number == log }); count && i >= 0 {
				d.Logs[i].Operations++
			}
			return d.ctx.Err()
		}})
		return r, r.Replay(needed...)
	}
	r, err := read(wal.SkipAnyCorruptedRecords, true)
	if err != nil && !errors.Is(err, keys.ErrCorruption) {
		return failedf("%w", err)
	}
	if open := r.Prepared(); len(open) > 0 {
		d.warn("settle it with RocksDB; Flatrock opens the database read-only", "the logs hold %d transactions that are prepared, neither committed nor rolled back", len(open))
	}
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if _, err := read(wal.AbsoluteConsistency, false); err != nil {
		if _, tail := read(wal.TolerateCorruptedTailRecords, false); tail == nil {
			d.warn("none is needed: the end of a log is torn when a machine or process dies, and recovery leaves it out", "%v", err)
		} else {
			d.fail("kPointInTimeRecovery opens up to the damage, kSkipAnyCorruptedRecords passes over it (flatrock ldb --wal_recovery_mode)", "a log is damaged before its end: %v", tail)
		}
	}
	for number := range d.trackedLogs() {
		if !slices.ContainsFunc(d.Logs, func(l logReport) bool { return l.Number == number }) {
			d.fail("bring it back; or "+adviseRepair, "the MANIFEST tracks %06d.log, and it is missing", number)
		}
	}
	return nil
}

func (d *doctor) trackedLogs() map[uint64]bool {
	m := map[uint64]bool{}
	if d.state != nil {
		for number := range d.state.WALs {
			if number >= d.state.MinLogNumber() && number >= d.state.MinTrackedWAL {
				m[number] = true
			}
		}
	}
	return m
}

// tryOpen opens the database read-only if nothing else was found wrong.
func (d *doctor) tryOpen() {
	if slices.ContainsFunc(d.Findings, func(f finding) bool { return f.Severity == "error" }) {
		return
	}
	db, err := flatrock.Open(d.dir, &flatrock.Options{ReadOnly: true, WALDir: d.ldb.text("wal_dir")})
	if err == nil {
		err = db.Close()
	}
	switch {
	case errors.Is(err, flatrock.ErrInvalidArgument):
		d.warn("it opens in the program that has what is missing here", "it does not open with what this tool has: %v", err)
	case err != nil:
		d.fail(adviseRepair, "it does not open: %v", err)
	}
}
