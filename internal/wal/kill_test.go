package wal

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/leaks/leaktest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// killedEnv makes the test binary the process that is killed: it names the log to
// append to, and the mode.
const killedEnv = "FLATROCK_WAL_KILLED"

// TestMain runs the child of TestAKilledProcessKeepsItsLog.
func TestMain(m *testing.M) {
	if arg := os.Getenv(killedEnv); arg != "" {
		mode, path, _ := strings.Cut(arg, ":")
		fmt.Println(appendForever(path, mode == "plain"))
		os.Exit(1)
	}
	os.Exit(leaktest.Main(m))
}

// appendForever reports each record once it is appended.
func appendForever(path string, plain bool) error {
	o := WriterOptions{}
	if plain {
		o.Mode = Plain
	}
	w, err := Create(mmapfs.OS, path, 5, o)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		p := payload(i, i*37%3000)
		if err := w.Append(p[:HeaderLen], p[HeaderLen:]); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// A process that dies without a word leaves every record that was acknowledged.
func TestAKilledProcessKeepsItsLog(t *testing.T) {
	for _, mode := range []string{"auto", "plain"} {
		for round := range 4 {
			path := filepath.Join(t.TempDir(), "000005.log")
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), killedEnv+"="+mode+":"+path)
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			acknowledged := -1
			lines := bufio.NewScanner(out)
			for killAt := 50 + 700*round; lines.Scan(); {
				n, err := strconv.Atoi(lines.Text())
				if err != nil {
					t.Fatalf("the child says %s", lines.Text())
				}
				if acknowledged = n; n == killAt {
					if err := child.Process.Kill(); err != nil {
						t.Fatal(err)
					}
				}
			}
			child.Wait() // it was killed: that is its error
			got := records(t, mmapfs.OS, path, 5, TolerateCorruptedTailRecords)
			if len(got) <= acknowledged {
				t.Fatalf("%s: %d records are left, %d were acknowledged", mode, len(got), acknowledged+1)
			}
			for i, p := range got {
				if want := payload(i, i*37%3000); string(p) != string(want) {
					t.Fatalf("%s: record %d differs", mode, i)
				}
			}
		}
	}
}
