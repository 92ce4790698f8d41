package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/bench/report"
)

// TestMain lets the test binary be a child, as the program is.
func TestMain(m *testing.M) {
	for _, fault := range []string{"", "value", "lost", "phantom", "order", "short", "swapped"} {
		peers = append(peers, peer{name: "memory" + fault, subject: fault == "", open: func(dir string) (store, error) { return openMemory(dir, fault) }})
	}
	if len(os.Args) == 2 && os.Args[1] == childFlag {
		if err := childMain(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// memoryStore has all keys that are loaded, without keeping them; with a fault it answers wrongly.
type memoryStore struct {
	mu    sync.Mutex
	fault string
	new   map[int64][]byte
}

const memoryKeys = 1000

func openMemory(dir, fault string) (store, error) {
	return &memoryStore{fault: fault, new: map[int64][]byte{}}, os.MkdirAll(dir, 0o755)
}

func (s *memoryStore) write(keys, values [][]byte) error {
	if len(keys) != memoryKeys {
		return fmt.Errorf("a batch of %d", len(keys))
	}
	return nil
}

func (s *memoryStore) put(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := keyNumber(key)
	s.new[n] = slices.Clone(value)
	return nil
}

func (s *memoryStore) settle() error           { return nil }
func (s *memoryStore) written() int64          { return 0 }
func (s *memoryStore) close() error            { return nil }
func (s *memoryStore) reader() (reader, error) { return memoryReader{s}, nil }

type memoryReader struct{ s *memoryStore }

func (r memoryReader) value(n int64) []byte {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if v := r.s.new[n]; v != nil {
		return v
	}
	v := putValue(nil, n, 0)
	if r.s.fault == "value" && n == 77 {
		v[valueSize-1] ^= 1
	}
	return v
}

func (r memoryReader) get(key []byte) ([]byte, bool, error) {
	n, exists := keyNumber(key)
	switch {
	case r.s.fault == "lost" && n == 77:
		return nil, false, nil
	case !exists && r.s.fault == "phantom":
		return putValue(nil, n, 0), true, nil
	case !exists || n >= memoryKeys:
		return nil, false, nil
	}
	return r.value(n), true, nil
}

func (r memoryReader) multiGet(keys [][]byte, each func(i int, value []byte, found bool) error) error {
	if r.s.fault == "swapped" {
		keys = slices.Clone(keys)
		slices.Reverse(keys)
	}
	return eachGet(r, keys, each)
}

func (r memoryReader) seek(key []byte, steps int, each func(key, value []byte) error) error {
	n, _ := keyNumber(key)
	if r.s.fault == "short" {
		steps--
	}
	for i := range int64(steps + 1) {
		at := n + i
		if r.s.fault == "order" {
			at = n + i + i/3
		}
		if at >= memoryKeys {
			return nil
		}
		if err := each(putKey(nil, at), r.value(at)); err != nil {
			return err
		}
	}
	return nil
}

func (r memoryReader) close() error { return nil }

func tiny(t *testing.T, stores ...string) settings {
	t.Helper()
	s, err := parse([]string{"--scale=0.001", "--sizes=1", "--rounds=2", "--threads=2", "--duration=20ms", "--dir=" + t.TempDir()}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s.stores = stores
	return s
}

// Every Go store at a tiny size: each answers rightly, everything is measured, and nothing stays.
func TestAllStores(t *testing.T) {
	s := tiny(t)
	for _, p := range peers {
		if p.open != nil && (p.module != "" || p.name == "memory") {
			s.stores = append(s.stores, p.name)
		}
	}
	if len(s.stores) != 7 {
		t.Fatalf("stores: %v", s.stores)
	}
	s.json, s.html = t.TempDir()+"/r.json", t.TempDir()+"/r.html"
	var out strings.Builder
	r, err := compare(context.Background(), s, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range s.stores {
		seen := map[string]bool{}
		for _, m := range r.Measures {
			if m.Store == name {
				seen[m.Workload+" "+m.Metric] = true
				if len(m.Samples) != 2 || m.Keys != 1000 {
					t.Errorf("%s: %v", name, m)
				}
			}
		}
		want := []string{"load throughput", "load settle", "disk size", "disk write amplification", "reopen open", "memory rss", "memory heap", "memory off-heap", "readwhilewriting writer"}
		for _, w := range readWorkloads {
			want = append(want, w.Name+" throughput", w.Name+" p50", w.Name+" p99", w.Name+" p99.9", w.Name+" cpu")
		}
		for _, w := range want {
			if !seen[w] {
				t.Errorf("%s has no %s", name, w)
			}
		}
		if name == "memory" {
			continue
		}
		for _, m := range r.Measures {
			if m.Store == name && m.Metric == "write amplification" && m.Samples[0] < 1 {
				t.Errorf("%s wrote %v bytes for each byte: less than there is", name, m.Samples)
			}
		}
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	page, err := os.ReadFile(s.html)
	if err != nil || !strings.Contains(string(page), "bbolt") || !strings.Contains(out.String(), "flatrock-plain is so many times better") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A store that answers wrongly fails the run, whatever it is that is wrong, and has no figures.
func TestWrongStoresFail(t *testing.T) {
	for fault, want := range map[string]string{
		"value": "nobody wrote", "lost": "key 77 is not found", "phantom": "found a key beside", "order": "step 3 after key", "short": "ended before key", "swapped": "has the value of key",
	} {
		s := tiny(t, "memory"+fault)
		s.duration = 50 * time.Millisecond
		_, err := compare(context.Background(), s, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", fault, err, want)
		}
	}
}

// A store that fails costs its own figures, and no others.
func TestOthersSurviveAStoreThatFails(t *testing.T) {
	s := tiny(t, "memory", "memorylost", "bbolt")
	s.json, s.html = t.TempDir()+"/r.json", t.TempDir()+"/r.html"
	var out, log strings.Builder
	_, err := compare(context.Background(), s, &out, &log)
	if err == nil || !strings.Contains(err.Error(), "memorylost, 1000 keys: ") || !strings.Contains(err.Error(), "key 77 is not found") {
		t.Fatalf("got %v", err)
	}
	r, err := report.Read(s.json)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Failures) != 1 || !strings.Contains(r.Failures[0], "key 77 is not found") || len(r.Stores) != 2 {
		t.Errorf("failures %q, stores %+v", r.Failures, r.Stores)
	}
	for _, name := range []string{"memory", "bbolt"} {
		if n := len(r.Samples(name, "readrandom", "throughput", 2, 1000)); n != 2 {
			t.Errorf("%s has %d samples", name, n)
		}
	}
	page, err := os.ReadFile(s.html)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"text": out.String(), "page": string(page), "log": log.String()} {
		if !strings.Contains(strings.ToLower(text), "failed") || !strings.Contains(text, "key 77 is not found") {
			t.Errorf("the %s does not say what failed:\n%s", name, text)
		}
	}
	if !strings.Contains(log.String(), "5 of 5: ") {
		t.Errorf("the runs are not counted:\n%s", log.String())
	}
}

// The plan alternates, and its estimate is what it knows, and what it guessed times how wrong it was.
func TestPlan(t *testing.T) {
	s, err := parse([]string{"--stores=pebble,bbolt,badger", "--rounds=2", "--sizes=0.1,1", "--scale=0.01", "--threads=4,1,2,2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(threadsOf("readrandom", s.threads), threadsOf("seekrandom", s.threads), threadsOf("seekrandom", []int{1, 2})); got != "[1 2 4] [1 4] [1 2]" {
		t.Errorf("threads: %s", got)
	}
	p := s.plan()
	for i := range p.runs {
		p.runs[i].guess = 10 * time.Second
	}
	var order []string
	for _, x := range p.runs {
		order = append(order, fmt.Sprint(x.store, " ", x.keys, " ", x.round, " ", x.largest))
	}
	if got, want := strings.Join(order[:6], ", "), "pebble 1000 0 false, badger 1000 0 false, bbolt 1000 0 false, bbolt 1000 1 false, badger 1000 1 false, pebble 1000 1 false"; got != want || len(order) != 12 || order[11] != "pebble 10000 1 true" {
		t.Errorf("order: %s", strings.Join(order, ", "))
	}
	check := func(what string, want time.Duration) {
		t.Helper()
		if got := p.remaining(); got != want {
			t.Errorf("%s: %v remain, want %v", what, got, want)
		}
	}
	check("at first", 120*time.Second)
	p.took(p.next(), 20*time.Second)
	check("after pebble took twice as long", 220*time.Second)
	p.took(p.next(), 5*time.Second)
	check("after badger took half", (20+5)*time.Second+time.Duration(8*12.5*float64(time.Second)))
	p.drop("badger")
	check("without badger", 20*time.Second+time.Duration(6*12.5*float64(time.Second)))
	for !p.done() {
		if x := p.next(); x.store == "badger" {
			t.Error("a store that was dropped runs")
		}
	}
	check("in the end", 0)
}

func TestFlags(t *testing.T) {
	for _, bad := range []string{"--scale=0", "--scale=x", "--rounds=0", "--sizes=1,", "--threads=0", "--stores=none", "--workloads=load", "extra", "--duration=-1s"} {
		if _, err := parse([]string{bad}, io.Discard); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	s, err := parse([]string{"--stores=bbolt,flatrock-plain", "--scale=0.0001", "--sizes=2,1"}, io.Discard)
	if err != nil || !slices.Equal(s.stores, []string{"flatrock-plain", "bbolt"}) || !slices.Equal(s.keys(), []int64{1000}) {
		t.Errorf("%+v %v", s, err)
	}
}
