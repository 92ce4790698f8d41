package flatrock

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/internal/infolog"
)

// The LOG file, which a database writes unless Options.Logger is given.

// field is a member of an event of the LOG.
type field = infolog.Field

func member(key string, value any) field { return field{Key: key, Value: value} }

// startInfoLog begins the LOG file. A database works without one as well.
func (db *DB) startInfoLog() {
	if db.opts.Logger != nil || db.opts.ReadOnly {
		return
	}
	o := db.opts
	f, err := infolog.Open(db.fs, infolog.Name(db.dir, o.DBLogDir), infolog.Options{
		Level: o.InfoLogLevel, Keep: o.KeepLogFileNum, MaxSize: o.MaxLogFileSize,
		MaxAge: time.Duration(o.LogFileTimeToRoll) * time.Second, Process: os.Getpid(),
	})
	if err != nil {
		return
	}
	db.infoLog, db.log = f, slog.New(f.Handler())
}

// logSummary writes what RocksDB's LOG begins with.
func (db *DB) logSummary() {
	if db.infoLog == nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Flatrock, files as RocksDB %s\nDB SUMMARY\nDB Session ID:  %s\nDB ID: %s\n", writtenAs, db.sessionID, db.dbID)
	for _, cf := range db.ColumnFamilies() {
		db.mu.Lock()
		v := cf.files.version
		db.mu.Unlock()
		fmt.Fprintf(&b, "Column family [%s] (ID %d): %d table files, %d bytes\n", cf.name, cf.id, v.NumFiles(), v.TotalBytes())
	}
	options := func(title string, values map[string]string) {
		fmt.Fprintf(&b, "--------------- %s:\n", title)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			fmt.Fprintf(&b, "%50s: %s\n", "Options."+name, values[name])
		}
	}
	options("Options of the database", db.DBOptionValues())
	for _, cf := range db.ColumnFamilies() {
		options("Options for column family ["+cf.name+"]", cf.OptionValues())
	}
	db.infoLog.Text(b.String())
}

// logsEvents reports whether anybody reads events.
func (db *DB) logsEvents() bool { return db.infoLog != nil }

// event writes a line of EVENT_LOG_v1. Job 0 and an empty family are left out.
func (db *DB) event(name string, job int, family string, fields ...field) {
	if !db.logsEvents() {
		return
	}
	all := make([]field, 0, len(fields)+3)
	if family != "" {
		all = append(all, field{Key: "cf_name", Value: family})
	}
	if job != 0 {
		all = append(all, field{Key: "job", Value: job})
	}
	all = append(all, field{Key: "event", Value: name})
	db.infoLog.Event(append(all, fields...))
}

// dumpStats writes the figures of the database to its LOG every StatsDumpPeriodSec.
func (db *DB) dumpStats() {
	defer db.workers.Done()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-db.lifetime.Done():
			return
		case <-ticker.C: // so that a period that was changed counts at once
		}
		period := time.Duration(db.mutable().StatsDumpPeriodSec) * time.Second
		if period > 0 && time.Since(last) >= period {
			last = time.Now()
			db.infoLog.Text("------- DUMPING STATS -------\n" + db.defaultCF.statsText())
		}
	}
}

// endInfoLog writes the last line.
func (db *DB) endInfoLog() {
	if db.infoLog != nil {
		db.infoLog.Text("Shutdown complete")
		_ = db.infoLog.Close() // nobody's error: see package infolog
	}
}

// infoLogLevels are RocksDB's names of levels in OPTIONS files.
var infoLogLevels = []struct {
	level slog.Level
	name  string
}{{slog.LevelDebug, "DEBUG_LEVEL"}, {slog.LevelInfo, "INFO_LEVEL"}, {slog.LevelWarn, "WARN_LEVEL"}, {slog.LevelError, "ERROR_LEVEL"}, {slog.LevelError + 4, "FATAL_LEVEL"}}

func infoLogLevelName(l slog.Level) string {
	name := infoLogLevels[0].name
	for _, i := range infoLogLevels {
		if l >= i.level {
			name = i.name
		}
	}
	return name
}

func parseInfoLogLevel(name string) (slog.Level, error) {
	for _, i := range infoLogLevels {
		if i.name == name {
			return i.level, nil
		}
	}
	if name == "HEADER_LEVEL" { // lines that are always written: more than FATAL
		return slog.LevelError + 4, nil
	}
	return 0, fmt.Errorf("%w: info_log_level %q: want DEBUG_LEVEL, INFO_LEVEL, WARN_LEVEL, ERROR_LEVEL or FATAL_LEVEL", ErrInvalidArgument, name)
}
