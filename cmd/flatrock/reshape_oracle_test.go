//go:build oracle

package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReshapeLikeRocksDB: the commands that move tables say what RocksDB's say, and RocksDB finds the
// contents as they were, and nothing inconsistent, in what ours leave.
func TestReshapeLikeRocksDB(t *testing.T) {
	steps := []string{
		"reduce_levels", "reduce_levels --new_levels=0", "reduce_levels --new_levels=9 --print_old_levels", "reduce_levels --new_levels=3 --print_old_levels",
		"change_compaction_style", "change_compaction_style --old_compaction_style=0", "change_compaction_style --old_compaction_style=0 --new_compaction_style=0",
		"change_compaction_style --old_compaction_style=1 --new_compaction_style=0", "update_manifest", "update_manifest --update_temperatures",
		"unsafe_remove_sst_file", "unsafe_remove_sst_file x", "unsafe_remove_sst_file 99999",
	}
	for _, name := range []string{"d03_levels_block", "d05_deleterange", "d16_reopen", "d22_empty"} {
		ours, theirs := copyDB(t, name), copyDB(t, name)
		before := oracle(t, "", "ldb", "scan", "--hex", "--db="+theirs)
		for _, step := range steps {
			want := oracle(t, "", "ldb", append(strings.Fields(step), "--db="+theirs)...)
			got := exec(t, "", append([]string{"ldb", "--db=" + ours}, strings.Fields(step)...)...)
			if strings.Contains(want.err, "Column families not opened") {
				continue // RocksDB's reduce_levels wants databases of one family
			}
			if got.out != want.out || (got.status == 0) != (want.status == 0) || strings.HasPrefix(want.err, "Failed: ") && got.err != want.err {
				t.Errorf("%s, %s:\nours    %+v\nRocksDB %+v", name, step, got, want)
			}
			if r := oracle(t, "", "ldb", "checkconsistency", "--db="+ours); r.status != 0 {
				t.Errorf("%s, %s: RocksDB: %s", name, step, r.err)
			}
			if after := oracle(t, "", "ldb", "scan", "--hex", "--db="+ours); after.status != 0 || after.out != before.out {
				t.Errorf("%s, %s: RocksDB reads other contents than before: %s%s", name, step, firstDifference(after.out, before.out), after.err)
			}
		}
	}
}

// TestUniversalAfterChangeOfStyle: the words, and what RocksDB then reads; a table taken out of both.
func TestUniversalAfterChangeOfStyle(t *testing.T) {
	ours, theirs := copyDB(t, "d03_levels_block"), copyDB(t, "d03_levels_block")
	before := oracle(t, "", "ldb", "scan", "--hex", "--db="+theirs)
	change := []string{"change_compaction_style", "--old_compaction_style=0", "--new_compaction_style=1"}
	want := oracle(t, "", "ldb", append(change, "--db="+theirs)...)
	if got := exec(t, "", append([]string{"ldb", "--db=" + ours}, change...)...); got.out != want.out || got.status != want.status {
		t.Errorf("ours %+v, RocksDB %+v", got, want)
	}
	if r := oracle(t, "", "ldb", "scan", "--hex", "--db="+ours); r.out != before.out {
		t.Errorf("RocksDB reads: %s%s", firstDifference(r.out, before.out), r.err)
	}
	for _, dir := range []string{ours, theirs} {
		tables := paths(t, filepath.Join(dir, "*.sst"))
		if len(tables) == 0 {
			t.Fatalf("%s has no tables", dir)
		}
		number := strings.TrimSuffix(filepath.Base(tables[len(tables)-1]), ".sst")
		if dir == ours {
			if r := exec(t, "", "ldb", "--db="+dir, "unsafe_remove_sst_file", number); r.status != 0 {
				t.Fatal(r.err)
			}
		} else if r := oracle(t, "", "ldb", "--db="+dir, "unsafe_remove_sst_file", number); r.status != 0 {
			t.Fatal(r.err)
		}
	}
	a, b := oracle(t, "", "ldb", "scan", "--hex", "--db="+ours), oracle(t, "", "ldb", "scan", "--hex", "--db="+theirs)
	if a.status != 0 || a.out != b.out || a.out == before.out {
		t.Errorf("after the removal: %s%s", firstDifference(a.out, b.out), a.err)
	}
}

// sizeAndTime are what a codec's implementation and the machine decide in the lines of recompress.
var sizeAndTime = regexp.MustCompile(`Size: +\d+ |Time Taken: +\d+ `)

// TestRecompressLikeRocksDB: the lines, but for sizes and times; and without compression the counts of blocks, too.
func TestRecompressLikeRocksDB(t *testing.T) {
	for _, path := range glob(t, "block/*.sst", 137) {
		if strings.HasPrefix(filepath.Base(path), "reverse") || filepath.Base(path) == "db_timestamps.sst" {
			continue // RocksDB writes them in byte order
		}
		for _, c := range []string{"--compression_types=kNoCompression", "--compression_types=kNoCompression --set_block_size=512",
			"--compression_types=kZSTD,kXpressCompression,kNoCompression", "--compression_types=kZlibCompression --compression_level_from=1 --compression_level_to=3"} {
			args := append(strings.Fields(c), "--command=recompress", "--file="+path)
			want := oracle(t, "", "sst_dump", args...)
			if want.status < 0 {
				continue // it died of an assertion
			}
			got := exec(t, "", append([]string{"sst_dump"}, args...)...)
			clean := func(s string) string {
				lines := strings.Split(sizeAndTime.ReplaceAllString(address.ReplaceAllString(s, ""), ""), "\n")
				for i, l := range lines {
					if before, _, ok := strings.Cut(l, " Compressed: "); ok && !strings.HasPrefix(c, "--compression_types=kNo") {
						lines[i] = before
					}
				}
				return strings.Join(lines, "\n")
			}
			if clean(got.out) != clean(want.out) || got.status != want.status {
				t.Errorf("%s %s: status %d, RocksDB %d\n%s\n%s", path, c, got.status, want.status, firstDifference(clean(got.out), clean(want.out)), got.err)
			}
		}
	}
}

// TestBlobIndexesLikeRocksDB: --decode_blob_index in sst_dump, of every table of the database with blobs.
func TestBlobIndexesLikeRocksDB(t *testing.T) {
	dir := copyDB(t, "d08_blob")
	for _, path := range paths(t, filepath.Join(dir, "*.sst")) {
		for _, c := range []string{"--decode_blob_index", "--decode_blob_index --output_hex"} {
			args := append(strings.Fields(c), "--command=scan", "--file="+path)
			want := address.ReplaceAllString(oracle(t, "", "sst_dump", args...).out, "")
			if got := mustExec(t, append([]string{"sst_dump"}, args...)...); got != want {
				t.Errorf("%s %s: %s", path, c, firstDifference(got, want))
			}
		}
	}
	for _, family := range []string{"default", "zblob"} {
		args := []string{"idump", "--decode_blob_index", "--hex", "--db=" + dir, "--column_family=" + family}
		if got, want := mustExec(t, append([]string{"ldb"}, args...)...), oracle(t, "", "ldb", args...).out; got != want {
			t.Errorf("%q: %s", args, firstDifference(got, want))
		}
	}
}

// TestEntitiesForRocksDB: it reads the default column of what put_entity wrote.
func TestEntitiesForRocksDB(t *testing.T) {
	dir := copyDB(t, "d22_empty")
	mustExec(t, "ldb", "--db="+dir, "put_entity", "k", ":d", "a:1")
	if r := oracle(t, "", "ldb", "--db="+dir, "get", "k"); r.out != "d\n" {
		t.Errorf("RocksDB reads %+v", r)
	}
}

// TestRepairLikeRocksDB: the word, and the contents that RocksDB then finds, after its own ldb repair and ours.
func TestRepairLikeRocksDB(t *testing.T) {
	for _, name := range []string{"d03_levels_block", "d16_reopen", "d22_empty"} {
		ours, theirs := copyDB(t, name), copyDB(t, name)
		before := oracle(t, "", "ldb", "scan", "--hex", "--db="+theirs)
		for _, dir := range []string{ours, theirs} {
			remove(t, dir, "MANIFEST-*")
			remove(t, dir, "CURRENT")
		}
		want := oracle(t, "", "ldb", "repair", "--db="+theirs)
		got := exec(t, "", "ldb", "repair", "--db="+ours)
		if want.status == 0 && (got.out != want.out || got.status != 0) { // RocksDB refuses what its own repair made of levels
			t.Errorf("%s: ours %+v, RocksDB %+v", name, got, want)
		}
		if r := oracle(t, "", "ldb", "scan", "--hex", "--db="+ours); r.status != 0 || r.out != before.out {
			t.Errorf("%s: RocksDB reads after our repair: %s%s", name, firstDifference(r.out, before.out), r.err)
		}
	}
}
