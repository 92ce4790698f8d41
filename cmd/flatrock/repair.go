package main

import (
	"fmt"
	"strings"

	flatrock "github.com/flatrock-db/flatrock"
)

const repairText = `flatrock repair [--dry-run] [--json] [--wal_dir=DIR] DIR

Makes the database in DIR one that opens again: its MANIFEST is made anew from table
files, logs and what can be read of the old MANIFEST and OPTIONS files, as RocksDB's
RepairDB does. The database must not be open.

What is damaged or replaced, and the logs that are turned into tables, go to
DIR/lost/TIME; nothing is deleted. If a MANIFEST can be read whole, tables keep their
levels. See flatrock doctor first: what it calls healthy needs no repair.

    --dry-run      change nothing, and say what would be done
    --json         the report as one object
    --wal_dir=DIR  where the logs are, if not in the database's directory
    --file_mode=0600  of the files that are made, in octal; default: 0644
    --max_decompressed_size=N  take what holds more bytes decompressed as damage

Ctrl-C leaves the directory as it was, up to the moment of the new MANIFEST.

A database with a comparator of its own is repaired by the program that has it:
flatrock.Repair.

Examples:
    flatrock repair --dry-run /data/db
    flatrock repair /data/db && flatrock doctor /data/db
`

// repair is flatrock repair.
func (a *app) repair(args []string) error {
	l := &ldb{app: a, arguments: parseArguments(args)}
	if l.has("help") {
		return a.help([]string{"repair"})
	}
	if name, found := l.unknown([]string{"dry-run", "dry_run", "json", "wal_dir", "db", "max_decompressed_size", "file_mode"}); found {
		return usagef("Invalid command-line option %s", name)
	}
	if l.has("db") {
		l.words = append(l.words, l.text("db"))
	}
	if len(l.words) != 1 || l.words[0] == "" {
		return usagef("repair wants one directory; see flatrock help repair")
	}
	most, mode, err := l.limits()
	if err != nil {
		return err
	}
	dry := l.flag("dry-run") || l.flag("dry_run")
	report, err := a.repairDirectory(l.words[0], flatrock.RepairOptions{DryRun: dry, Options: &flatrock.Options{WALDir: l.text("wal_dir"), MaxDecompressedSize: most, FileMode: mode}})
	if err != nil {
		return failedf("%w", err)
	}
	if l.flag("json") {
		return a.jsonValue(report)
	}
	return a.printRepair(report, dry)
}

// repairDirectory shows how far it is.
func (a *app) repairDirectory(dir string, o flatrock.RepairOptions) (*flatrock.RepairReport, error) {
	var shown filesShown
	o.Progress = shown.at
	defer a.showProgress(false, shown.line)()
	return flatrock.Repair(a.ctx, dir, &o)
}

func (a *app) printRepair(r *flatrock.RepairReport, dry bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "MANIFEST: %s\nOptions: %s\n", r.Manifest, r.Options)
	if r.LevelsKept {
		b.WriteString("Tables keep their levels.\n")
	}
	fmt.Fprintf(&b, "Newest sequence number: %d\n\nColumn families:\n", r.LastSeq)
	for _, f := range r.Families {
		fmt.Fprintf(&b, "    %d %s (%s)\n", f.ID, f.Name, f.Comparator)
	}
	if len(r.Tables) > 0 {
		b.WriteString("\nTable files:\n")
	}
	for _, t := range r.Tables {
		to := fmt.Sprintf("level %d", t.Level)
		if t.Level < 0 {
			to = "merged"
		}
		fmt.Fprintf(&b, "    %06d.sst  %s  %s  %s, %d entries, sequence numbers %d to %d\n", t.Number, t.Family, to, bytesText(t.Size), t.Entries, t.SmallestSeq, t.LargestSeq)
	}
	if len(r.Logs) > 0 {
		b.WriteString("\nLogs, turned into tables:\n")
	}
	for _, l := range r.Logs {
		fmt.Fprintf(&b, "    %06d.log  %d operations\n", l.Number, l.Records)
	}
	if len(r.SetAside) > 0 {
		b.WriteString("\nSet aside:\n")
	}
	for _, s := range r.SetAside {
		fmt.Fprintf(&b, "    %s: %s\n", s.Name, s.Reason)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\nNote: %s\n", n)
	}
	switch {
	case dry:
		b.WriteString("\nA dry run: nothing was changed.\n")
	case r.Lost != "":
		fmt.Fprintf(&b, "\nRepaired. What was replaced is in %s\n", r.Lost)
	default:
		b.WriteString("\nRepaired.\n")
	}
	_, err := a.out.WriteString(b.String())
	return err
}

// repairDB is ldb repair.
func (l *ldb) repairDB() error {
	report, err := l.repairDirectory(l.dir, flatrock.RepairOptions{Options: &flatrock.Options{WALDir: l.text("wal_dir"), MaxDecompressedSize: l.maxDecompressed, FileMode: l.fileMode}})
	if err != nil {
		return failedf("%w", err)
	}
	if l.json {
		return l.jsonValue(report)
	}
	if l.flag("verbose") {
		if err := l.printRepair(report, false); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(l.out, "OK")
	return err
}

// bytesText is a size with its unit.
func bytesText(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
