package main

import (
	"slices"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/bench/program"
	"github.com/flatrock-db/flatrock/bench/report"
)

// newReport begins the report of an experiment. Its stores and workloads come with what is measured.
func (l *lab) newReport(name string, args []string) {
	l.report = &report.Report{
		Title: "Flatrock beside RocksDB: experiment " + strings.ToUpper(name), Date: time.Now().UTC().Truncate(time.Second), Machine: report.DescribeMachine(l.dir),
		Commands: []string{"go run ./bench/experiment " + strings.Join(args, " ")},
	}
}

// add notes what a program did in a workload: variant is Flatrock's, or RocksDB's, way to do it.
func (l *lab) add(rocks bool, variant, workload, about, metric string, threads int, v float64) {
	r := l.report
	name := "Flatrock"
	if rocks {
		name = "RocksDB"
	}
	workload = strings.TrimSpace(workload + " " + variant)
	if !slices.ContainsFunc(r.Stores, func(s report.Store) bool { return s.Name == name }) {
		if rocks {
			r.Stores = append(r.Stores, report.RocksDBByFlags(program.Version(l.ctx, l.dbBench)))
		} else {
			r.Stores = append(r.Stores, report.FlatrockByFlags(name, program.TreeVersion(l.ctx)))
		}
	}
	if !slices.ContainsFunc(r.Workloads, func(w report.Workload) bool { return w.Name == workload }) {
		r.Workloads = append(r.Workloads, report.Workload{Name: workload, About: about})
	}
	r.Add(name, workload, metric, threads, l.num, v)
}
