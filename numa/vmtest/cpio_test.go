package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// The bytes were checked against GNU cpio -itv, which lists the same three entries.
func TestCPIOBytes(t *testing.T) {
	var b bytes.Buffer
	c := newCPIO(&b)
	c.dir("dev")
	c.char("dev/console", 5, 1)
	c.file("a", modeFile, []byte("hello"))
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	want := "070701" + "00000001" + "000041ed" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000004" + "00000000" + "dev\x00" + "\x00\x00" +
		"070701" + "00000002" + "00002180" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000" +
		"00000000" + "00000000" + "00000005" + "00000001" + "0000000c" + "00000000" + "dev/console\x00" + "\x00\x00" +
		"070701" + "00000003" + "000081a4" + "00000000" + "00000000" + "00000001" + "00000000" + "00000005" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000002" + "00000000" + "a\x00" + "hello\x00\x00\x00" +
		"070701" + "00000001" + "00000000" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000" +
		"00000000" + "00000000" + "00000000" + "00000000" + "0000000b" + "00000000" + "TRAILER!!!\x00" + "\x00\x00\x00"
	if b.String() != want {
		t.Errorf("archive\n%q\nwant\n%q", b.String(), want)
	}
}

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestCPIOKeepsTheFirstError(t *testing.T) {
	c := newCPIO(fullWriter{})
	c.file("a", modeFile, []byte("b"))
	if err := c.close(); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("close = %v, want the writer's error", err)
	}
}
