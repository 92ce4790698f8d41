package main

import (
	"slices"
	"strings"
	"testing"
)

func TestMachineArguments(t *testing.T) {
	m, err := machineNamed("odd")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(m.args(), " ")
	for _, want := range []string{
		"-m 1152M", "-smp cpus=3,sockets=3,threads=1",
		"-object memory-backend-ram,id=m0,size=384M", "-numa node,nodeid=0,cpus=0,memdev=m0",
		"-numa node,nodeid=1,cpus=1 ", "-numa node,nodeid=2,memdev=m2", "-numa node,nodeid=3,cpus=2,memdev=m3",
		"-numa dist,src=0,dst=2,val=30", "-numa dist,src=3,dst=0,val=20",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("arguments lack %q: %s", want, got)
		}
	}
	for _, m := range machines {
		for a := range m.nodes {
			for b := range m.nodes {
				if m.distance(a, b) != m.distance(b, a) || (m.distance(a, b) == 10) != (a == b) {
					t.Errorf("machine %s: distance %d to %d is %d, back %d", m.name, a, b, m.distance(a, b), m.distance(b, a))
				}
			}
		}
	}
}

func TestCommandLine(t *testing.T) {
	c, err := parse([]string{"-machines", "2,odd", "-test", "./numa", "-test", ".=TestNUMA|TestPlacement"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.machines) != 2 || c.machines[1].name != "odd" || len(c.tests) != 2 || c.tests[1].dir != "." || c.tests[1].pattern != "TestNUMA|TestPlacement" {
		t.Errorf("%+v", c)
	}
	if c, err := parse(nil); err != nil || len(c.tests) != 1 || c.tests[0].dir != "./numa" || len(c.machines) < 3 {
		t.Errorf("defaults: %+v, %v", c, err)
	}
	for _, args := range [][]string{{"-machines", "3"}, {"-machines", ""}, {"-test", "=X"}, {"extra"}, {"-timeout", "soon"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%s: accepted", strings.Join(args, " "))
		}
	}
	if _, err := machineNamed("7"); err == nil || !slices.ContainsFunc(machines, func(m machine) bool { return strings.Contains(err.Error(), m.name) }) {
		t.Errorf("machine 7: %v, want the names that exist", err)
	}
}
