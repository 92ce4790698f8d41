//go:build !linux || nonuma

package numa

import (
	"errors"
	"testing"
)

// Where there is no NUMA, what one node satisfies succeeds, and the rest says so.
func TestOnePseudoNode(t *testing.T) {
	topology, err := Discover()
	if err != nil || !topology.Pseudo || len(topology.Nodes) != 1 || topology.Nodes[0].ID != 0 {
		t.Fatalf("Discover = %v, %v; want one pseudo-node", topology, err)
	}
	b := make([]byte, 1<<16)
	for name, call := range map[string]func() error{
		"PinNode(0)": func() error {
			release, err := PinNode(0)
			if err != nil {
				return err
			}
			return errors.Join(release(), release())
		},
		"SetThreadPolicy": func() error {
			release, err := SetThreadPolicy(Policy{Mode: BindTo, Nodes: []int{0}})
			if err != nil {
				return err
			}
			return release()
		},
		"Bind":           func() error { return Bind(b, MoveOwn, 0) },
		"Interleave":     func() error { return Interleave(b, Leave, 0) },
		"Prefer":         func() error { return Prefer(b, Leave, 0) },
		"Apply default":  func() error { return Apply(b, Policy{}, Leave) },
		"Populate":       func() error { return Populate(b, Policy{Mode: BindTo, Nodes: []int{0}}, false) },
		"Populate write": func() error { return Populate(b, Policy{}, true) },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, call := range map[string]func() error{
		"PinNode(1)":      func() error { _, err := PinNode(1); return err },
		"SetThreadPolicy": func() error { _, err := SetThreadPolicy(Policy{Mode: Preferred, Nodes: []int{1}}); return err },
		"Bind":            func() error { return Bind(b, Leave, 0, 1) },
		"Bind of none":    func() error { return Bind(b, Leave) },
		"Populate":        func() error { return Populate(b, Policy{Mode: InterleaveOver, Nodes: []int{0, 1}}, false) },
	} {
		if err := call(); !errors.Is(err, ErrNode) {
			t.Errorf("%s on a node that is not there: %v, want ErrNode", name, err)
		}
	}
	for name, call := range map[string]func() error{
		"Pin":             func() error { _, err := Pin(0); return err },
		"Affinity":        func() error { _, err := Affinity(); return err },
		"Current":         func() error { _, _, err := Current(); return err },
		"ThreadPolicy":    func() error { _, err := ThreadPolicy(); return err },
		"RangePolicy":     func() error { _, err := RangePolicy(b); return err },
		"PlacementOf":     func() error { _, err := PlacementOf(b); return err },
		"SamplePlacement": func() error { _, err := SamplePlacement(b, 1); return err },
		"Migrate":         func() error { _, err := Migrate(b, 0); return err },
	} {
		if err := call(); !errors.Is(err, ErrNotSupported) {
			t.Errorf("%s: %v, want ErrNotSupported", name, err)
		}
	}
	if err := Bind(nil, Leave, 0); !errors.Is(err, ErrRange) {
		t.Errorf("Bind of nothing: %v, want ErrRange", err)
	}
	if err := Bind(b, Move(9), 0); err == nil {
		t.Error("Move 9 is accepted")
	}
	l := topology.NewLocator()
	if l.Node() != 0 || !l.Cheap() {
		t.Errorf("Locator says node %d", l.Node())
	}
	if (&Locator{only: -1}).Node() != 0 {
		t.Error("a Locator that cannot know does not say 0")
	}
}
