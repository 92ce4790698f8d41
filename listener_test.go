package flatrock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// recorder is a listener that keeps what it is told, in words.
type recorder struct {
	mu    sync.Mutex
	words []string
	files map[uint64]int // created less deleted
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.words = append(r.words, fmt.Sprintf(format, args...))
}

func (r *recorder) count(word string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.words {
		if strings.HasPrefix(w, word) {
			n++
		}
	}
	return n
}

func (r *recorder) listener(db **DB) *EventListener {
	// Listeners are outside of locks: each may ask the database.
	ask := func() {
		if *db != nil {
			(*db).GetProperty("rocksdb.stats")
		}
	}
	file := func(n uint64, d int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.files[n] += d
	}
	return &EventListener{
		FlushBegin:     func(i FlushInfo) { ask(); r.add("flush begin %d memtables", i.MemTables) },
		FlushCompleted: func(i FlushInfo) { ask(); r.add("flush completed %v %v", i.FileNumber > 0, i.Err) },
		CompactionBegin: func(i CompactionInfo) {
			ask()
			r.add("compaction begin %s", i.Reason)
		},
		CompactionCompleted:    func(i CompactionInfo) { ask(); r.add("compaction completed %v", i.Err) },
		SubcompactionBegin:     func(i SubcompactionInfo) { ask(); r.add("sub begin") },
		SubcompactionCompleted: func(i SubcompactionInfo) { ask(); r.add("sub completed %v", i.Err) },
		TableFileCreated: func(i TableFileCreatedInfo) {
			ask()
			file(i.FileNumber, 1)
			r.add("created %s entries %v", i.Reason, i.Properties != nil && i.Properties.NumEntries > 0)
		},
		TableFileDeleted:  func(i TableFileDeletedInfo) { ask(); file(i.FileNumber, -1); r.add("deleted %v", i.Err) },
		MemTableSealed:    func(i MemTableInfo) { ask(); r.add("sealed %d", i.ID) },
		WriteStallChanged: func(i WriteStallInfo) { ask(); r.add("stall %v to %v %s", i.Before, i.After, i.Cause) },
	}
}

func TestListenersAreTold(t *testing.T) {
	ctx := context.Background()
	r := &recorder{files: map[uint64]int{}}
	var db *DB
	d, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, Listeners: []*EventListener{{}, r.listener(&db)},
		ColumnFamily: &ColumnFamilyOptions{WriteBufferSize: 64 << 10, Level0SlowdownWritesTrigger: 4, DisableAutoCompactions: true}})
	if err != nil {
		t.Fatal(err)
	}
	db = d
	for round := range 6 {
		for i := range 100 {
			if err := db.Put(nil, fmt.Appendf(nil, "k%03d", i), make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if round == 4 {
			if err := db.SetOptions(map[string]string{"disable_auto_compactions": "false"}); err != nil {
				t.Fatal(err)
			}
			if err := db.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
		t.Fatal(err)
	}
	live := map[uint64]bool{}
	for _, level := range db.defaultCF.currentVersion().Levels {
		for _, f := range level {
			live[f.Number] = true
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for word, least := range map[string]int{"flush begin 1 memtables": 6, "flush completed true <nil>": 6, "compaction begin ": 2, "compaction completed <nil>": 2,
		"sub begin": 2, "sub completed <nil>": 2, "created flush entries true": 6, "created compaction entries true": 2, "deleted <nil>": 6, "sealed ": 6} {
		if n := r.count(word); n < least {
			t.Errorf("told %d times of %q, want at least %d:\n%s", n, word, least, strings.Join(r.words, "\n"))
		}
	}
	if b, c := r.count("compaction begin"), r.count("compaction completed"); b != c {
		t.Errorf("%d compactions began, %d completed", b, c)
	}
	for n, c := range r.files {
		if want := map[bool]int{true: 1, false: 0}[live[n]]; c != want {
			t.Errorf("file %d: created less deleted %d, live %v", n, c, live[n])
		}
	}
}

func TestListenersAreToldOfStalls(t *testing.T) {
	ctx := context.Background()
	r := &recorder{files: map[uint64]int{}}
	var db *DB
	d, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, Listeners: []*EventListener{r.listener(&db)},
		ColumnFamily: &ColumnFamilyOptions{DisableAutoCompactions: true, Level0FileNumCompactionTrigger: 2, Level0SlowdownWritesTrigger: 2, Level0StopWritesTrigger: 3}})
	if err != nil {
		t.Fatal(err)
	}
	db = d
	for range 3 { // no stall while compactions are off
		if err := db.Put(nil, []byte("k"), []byte("v")); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.count("stall"); n != 0 {
		t.Errorf("%d stalls told of", n)
	}
	db.mu.Lock()
	o := *db.defaultCF.mutable()
	o.DisableAutoCompactions = false
	db.defaultCF.inForce.Store(&o)
	db.assessLocked(db.defaultCF)
	o.Level0StopWritesTrigger = 4
	db.assessLocked(db.defaultCF)
	db.work.Broadcast()
	db.mu.Unlock()
	if err := db.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var stalls []string
	for _, w := range r.words {
		if strings.HasPrefix(w, "stall") {
			stalls = append(stalls, w)
		}
	}
	want := []string{"stall Normal to Stopped level0", "stall Stopped to Delayed level0-slowdown", "stall Delayed to Normal none"}
	if !slices.Equal(stalls, want) {
		t.Errorf("told of %q, want %q", stalls, want)
	}
}

func TestListenersAreToldOfRecovery(t *testing.T) {
	fsys := &failingTables{FS: mmapfs.NewMem()}
	var told []string
	db, err := Open("db", &Options{FS: fsys, CreateIfMissing: true, Listeners: []*EventListener{{
		ErrorRecoveryBegin: func(i BackgroundErrorInfo) {
			told = append(told, fmt.Sprint("begin ", i.Op, errors.Is(i.Err, errTables)))
		},
		ErrorRecoveryCompleted: func(i BackgroundErrorInfo) { told = append(told, fmt.Sprint("completed ", i.Op, i.Err == nil)) },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := db.Put(nil, []byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	fsys.fail(true)
	if err := db.Flush(ctx, nil); !errors.Is(err, errTables) {
		t.Fatal(err)
	}
	if err := db.Resume(ctx); err == nil {
		t.Error("resumed while the failure lasts")
	}
	fsys.fail(false)
	if err := db.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if err := db.Resume(ctx); err != nil { // nothing to recover: nothing to tell
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"begin flushtrue", "completed flushfalse", "begin flushtrue", "completed flushtrue"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestListenersAreToldOfIngestion(t *testing.T) {
	fsys := mmapfs.NewMem()
	told := make(chan ExternalFileIngestedInfo, 1)
	db, err := Open("/db", &Options{FS: fsys, CreateIfMissing: true, Listeners: []*EventListener{{
		ExternalFileIngested: func(i ExternalFileIngestedInfo) { told <- i },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	w, err := NewSstFileWriter("/new.sst", &SstFileWriterOptions{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := w.Put(fmt.Appendf(nil, "k%d", i), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := db.IngestExternalFile(context.Background(), []string{"/new.sst"}, nil); err != nil {
		t.Fatal(err)
	}
	i := <-told
	if i.ExternalPath != "/new.sst" || i.ColumnFamily != "default" || i.Level != 6 || i.Properties == nil || i.Properties.NumEntries != 10 || i.FileNumber == 0 {
		t.Errorf("told of %+v", i)
	}
	if text, _ := db.GetProperty("rocksdb.cfstats"); !strings.Contains(text, "\nAddFile(Total Files): cumulative 1, interval 1\n") || !strings.Contains(text, "\nAddFile(Keys): cumulative 10, ") {
		t.Errorf("stats:\n%s", text)
	}
}

// TestListenersOverrideBackgroundErrors fails a flush.
func TestListenersOverrideBackgroundErrors(t *testing.T) {
	instead := errors.New("instead")
	for name, answer := range map[string]func(error) error{
		"kept": func(err error) error { return err }, "replaced": func(error) error { return instead }, "ignored": func(error) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan BackgroundErrorInfo, 1)
			fsys := &failingTables{FS: mmapfs.NewMem()}
			db, err := Open("db", &Options{FS: fsys, CreateIfMissing: true, Listeners: []*EventListener{{
				BackgroundError: func(i BackgroundErrorInfo) error {
					select { // an error that is ignored comes again
					case told <- i:
					default:
					}
					return answer(i.Err)
				},
			}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Put(nil, []byte("k"), []byte("v")); err != nil {
				t.Fatal(err)
			}
			fsys.fail(true)
			ctx, cancel := context.WithCancel(context.Background())
			flushed := make(chan error, 1)
			go func() { flushed <- db.Flush(ctx, nil) }()
			if i := <-told; i.Op != "flush" || !errors.Is(i.Err, errTables) {
				t.Errorf("told of %q, %v", i.Op, i.Err)
			}
			fsys.fail(false)
			err = <-flushed
			cancel()
			switch name {
			case "kept":
				if !errors.Is(err, errTables) || !errors.Is(db.Put(nil, []byte("k"), nil), ErrBackground) {
					t.Errorf("flush: %v", err)
				}
			case "replaced":
				if !errors.Is(err, instead) || !errors.Is(db.Put(nil, []byte("k"), nil), instead) {
					t.Errorf("flush: %v", err)
				}
			case "ignored":
				if err != nil {
					t.Errorf("the flush that was tried again: %v", err)
				}
				if err := db.Put(nil, []byte("k"), nil); err != nil {
					t.Error(err)
				}
			}
			if n, _ := db.GetIntProperty("rocksdb.background-errors"); n < 1 {
				t.Errorf("%d background errors", n)
			}
			if err := db.Close(); (err != nil) != (name != "ignored") {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

var errTables = errors.New("no table file today")

// failingTables refuses to create table files while told to.
type failingTables struct {
	mmapfs.FS
	mu    sync.Mutex
	fails bool
}

func (f *failingTables) fail(b bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = b
}

func (f *failingTables) Create(name string) (mmapfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails && strings.HasSuffix(name, ".sst") {
		return nil, errTables
	}
	return f.FS.Create(name)
}

func readAll(t *testing.T, fsys mmapfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInfoLog(t *testing.T) {
	ctx := context.Background()
	fsys := mmapfs.NewMem()
	db := openDyn(t, fsys, nil)
	for range 2 {
		for i := range 100 {
			if err := db.Put(nil, fmt.Appendf(nil, "k%03d", i), make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.CompactRange(ctx, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text := readAll(t, fsys, "db/LOG")
	event := regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d-\d\d:\d\d:\d\d\.\d{6} ` + fmt.Sprint(os.Getpid()) + ` EVENT_LOG_v1 (.*)$`)
	counts := map[string]int{}
	for _, m := range event.FindAllStringSubmatch(text, -1) {
		var e map[string]any
		if err := json.Unmarshal([]byte(m[1]), &e); err != nil {
			t.Fatalf("%v: %s", err, m[1])
		}
		name := e["event"].(string)
		counts[name]++
		switch name {
		case "table_file_creation":
			if p := e["table_properties"].(map[string]any); p["num_entries"].(float64) != 100 || e["cf_name"] != "default" {
				t.Errorf("table file: %s", m[1])
			}
		case "compaction_finished":
			if e["num_input_records"].(float64) != 200 || e["num_output_records"].(float64) != 100 || e["num_output_files"].(float64) != 1 {
				t.Errorf("compaction: %s", m[1])
			}
		}
	}
	want := map[string]int{"flush_started": 2, "flush_finished": 2, "table_file_creation": 3, "compaction_started": 1, "compaction_finished": 1, "table_file_deletion": 2}
	if !maps.Equal(counts, want) {
		t.Errorf("events %v, want %v\n%s", counts, want, text)
	}
	for _, line := range []string{"DB SUMMARY", "Options.write_buffer_size: 67108864", "Shutdown complete"} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in the LOG", line)
		}
	}
	db = openDyn(t, fsys, nil)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := fsys.List("db")
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "LOG.old.") }); i < 0 || readAll(t, fsys, "db/"+names[i]) != text {
		t.Errorf("the LOG of before is not among %v", names)
	}
}

func TestInfoLogOptions(t *testing.T) {
	fsys := mmapfs.NewMem()
	for i := range 5 {
		db, err := Open("/db", &Options{FS: fsys, CreateIfMissing: true, DBLogDir: "/logs", KeepLogFileNum: 2, InfoLogLevel: slog.LevelWarn})
		if err != nil {
			t.Fatal(err)
		}
		if got := db.DBOptionValues()["info_log_level"]; got != "WARN_LEVEL" {
			t.Errorf("info_log_level=%s", got)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if names, _ := fsys.List("/logs"); len(names) != min(i+1, 2) || names[0] != "db_LOG" {
			t.Errorf("after open %d: %v", i, names)
		}
	}
	if text := readAll(t, fsys, "/logs/db_LOG"); text != "" {
		t.Errorf("lines below the level: %q", text)
	}
	if names, _ := fsys.List("/db"); slices.Contains(names, "LOG") {
		t.Error("a LOG in the database directory too")
	}
	var b strings.Builder
	db, err := Open("/db2", &Options{FS: fsys, CreateIfMissing: true, Logger: slog.New(slog.NewTextHandler(&b, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Put(nil, []byte("k"), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if names, _ := fsys.List("/db2"); slices.Contains(names, "LOG") || !strings.Contains(b.String(), "msg=flush") {
		t.Errorf("with a logger of one's own: files %v, lines %q", names, b.String())
	}
}
