package dbbench

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
)

// observeFlags say what is told about a run besides its results.
type observeFlags struct {
	slowMicros      uint64
	tableProperties bool
	stderrLog       bool
}

var defaultObserve = observeFlags{slowMicros: 1_000_000}

func (f *observeFlags) bindings() []binding {
	return []binding{
		{"slow_usecs", &f.slowMicros, "with --histogram, and without --stats_interval: tell of each operation that takes so many microseconds"},
		{"show_table_properties", &f.tableProperties, "print the properties of each level's tables with --stats_per_interval"},
		{"use_stderr_info_logger", &f.stderrLog, "background events go to standard error instead of the LOG file"},
	}
}

// logger is the database's: nil means the LOG file.
func (b *bench) logger() *slog.Logger {
	if !b.c.observe.stderrLog {
		return nil
	}
	return slog.New(slog.NewTextHandler(b.log, nil))
}

// slow is what threads tell of operations that take long; zero means nothing.
func (c *config) slow() time.Duration {
	if !c.histogram || c.statsInterval > 0 {
		return 0
	}
	return time.Duration(min(c.observe.slowMicros, 1<<40)) * time.Microsecond
}

// writeLevelProperties prints what each level's tables have together.
func (b *bench) writeLevelProperties(w io.Writer) {
	for level := range b.c.numLevels {
		text, ok := b.cf.GetProperty(fmt.Sprintf("rocksdb.aggregated-table-properties-at-level%d", level))
		if ok && text != "" && !strings.Contains(text, "# entries=0") {
			fmt.Fprintf(w, "Level[%d]: %s\n", level, text)
		}
	}
}

// keepAll is the filter of --use_keep_filter.
type keepAll struct{}

func (keepAll) Name() string                                         { return "KeepFilter" }
func (keepAll) Filter(*flatrock.FilterEntry) flatrock.FilterDecision { return flatrock.FilterKeep }
