package numa

import (
	"slices"
	"strings"
	"testing"
)

func TestParseListReadsWhatTheKernelWrites(t *testing.T) {
	for text, want := range map[string][]int{
		"":             nil,
		"\n":           nil,
		"0\n":          {0},
		"0-3\n":        {0, 1, 2, 3},
		"0-1,4,6-7":    {0, 1, 4, 6, 7},
		"8191":         {8191},
		"0,2,4,6\n":    {0, 2, 4, 6},
		" \t0-3,8-9\n": {0, 1, 2, 3, 8, 9},
	} {
		got, err := ParseList(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseList(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseListRefusesWhatTheKernelNeverWrites(t *testing.T) {
	for _, text := range []string{
		"a", "0-", "-1", "3-1", "0,0", "0-3,2", "0,,1", "0;1", "+1", "0x1", "8192", "0-4294967295",
		"99999999999999999999", "0 1", ",", "-", strings.Repeat("9", 1000),
	} {
		if got, err := ParseList(text); err == nil {
			t.Errorf("ParseList(%q) = %v, want an error", clip(text), got)
		} else if len(err.Error()) > 300 {
			t.Errorf("ParseList(%q): the error repeats the input: %d bytes", clip(text), len(err.Error()))
		}
	}
}

func FuzzParseList(f *testing.F) {
	for _, seed := range []string{"", "0", "0-3,8", "0,2-4,6\n", "3-1", "0-8191", "1-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids, err := ParseList(text)
		if err != nil {
			return
		}
		if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Fatalf("ParseList(%q) = %v: not ascending", text, ids)
		}
		again, err := ParseList(FormatList(ids))
		if err != nil || !slices.Equal(again, ids) {
			t.Fatalf("%q: FormatList gave %q, which reads as %v, %v", text, FormatList(ids), again, err)
		}
	})
}

func TestParsePolicy(t *testing.T) {
	for text, want := range map[string]Policy{
		"default":            {},
		"local":              {Mode: Local},
		"interleave":         {Mode: InterleaveOver},
		"interleave:0-1,3":   {Mode: InterleaveOver, Nodes: []int{0, 1, 3}},
		"bind:2":             {Mode: BindTo, Nodes: []int{2}},
		"preferred:1":        {Mode: Preferred, Nodes: []int{1}},
		"preferred-many:0-1": {Mode: PreferredMany, Nodes: []int{0, 1}},
	} {
		got, err := ParsePolicy(text)
		if err != nil || !got.Equal(want) {
			t.Errorf("ParsePolicy(%q) = %v, %v; want %v", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("ParsePolicy(%q).String() = %q", text, got)
		}
	}
	for _, text := range []string{"", "bound", "bind:", "bind:x", "local:0", "default:1", "preferred:0-1", "bind:1024", "interleave:3-1"} {
		if got, err := ParsePolicy(text); err == nil {
			t.Errorf("ParsePolicy(%q) = %v, want an error", text, got)
		}
	}
}
