package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// paint gives a text the colour of a severity, where colours are on.
type paint bool

func (p paint) text(severity, s string) string {
	code := map[string]string{"error": "1;31", "warning": "33", "ok": "32"}[severity]
	if !p || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// render is the report for people.
func (d *doctor) render(p paint) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", d.Directory)
	if d.Engine != "" {
		fmt.Fprintf(&b, "  last opened by %s\n", d.Engine)
	}
	if d.WrittenAs != "" {
		fmt.Fprintf(&b, "  options written as %s\n", d.WrittenAs)
	}
	if d.DBID != "" {
		fmt.Fprintf(&b, "  id %s\n", d.DBID)
	}
	if d.Manifest != "" {
		fmt.Fprintf(&b, "  %s, last sequence number %d\n", d.Manifest, d.LastSeq)
	}
	if d.OldestData != "" {
		fmt.Fprintf(&b, "  oldest data %s\n", d.OldestData)
	}
	printOptions(&b, "  ", d.diagnosis.Options)
	for _, f := range d.Families {
		fmt.Fprintf(&b, "\nColumn family %d %q: %s tables, %s\n", f.ID, f.Name, f.Format, f.Comparator)
		for _, l := range f.Levels {
			fmt.Fprintf(&b, "  level %d: %d files, %s\n", l.Level, l.Files, bytesText(l.Bytes))
		}
		if f.BlobFiles > 0 {
			fmt.Fprintf(&b, "  %d blob files, %s\n", f.BlobFiles, bytesText(f.BlobBytes))
		}
		printOptions(&b, "  ", f.Options)
	}
	if len(d.Logs) > 0 {
		b.WriteString("\nLogs\n")
	}
	for _, l := range d.Logs {
		what := fmt.Sprintf("%d operations", l.Operations)
		if !l.Needed {
			what = "obsolete"
		}
		fmt.Fprintf(&b, "  %06d.log: %s, %s\n", l.Number, bytesText(uint64(l.Bytes)), what)
	}
	b.WriteString("\n")
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "%s: %s\n", p.text(f.Severity, f.Severity), f.What)
		if f.Advice != "" {
			fmt.Fprintf(&b, "    advice: %s\n", f.Advice)
		}
	}
	if len(d.Findings) == 0 {
		b.WriteString(p.text("ok", "All is well."))
		if d.TablesVerified > 0 {
			fmt.Fprintf(&b, " The checksums of %d table files are right.", d.TablesVerified)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func printOptions(b *strings.Builder, indent string, m map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(b, "%s%s=%s\n", indent, k, m[k])
	}
}
