package main

import (
	"io"

	"github.com/flatrock-db/flatrock/bench/report"
)

// writeReport makes one report of what others wrote as JSON.
func (s settings) writeReport(out io.Writer) error {
	r, err := report.Read(s.reports...)
	if err != nil {
		return err
	}
	if err := r.WriteFiles("", s.html); err != nil {
		return err
	}
	return r.Text(out)
}
