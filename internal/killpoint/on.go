//go:build flatrock_killpoints

package killpoint

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
)

// Enabled says whether Here may kill.
const Enabled = true

var odds = sync.OnceValue(func() int {
	n, _ := strconv.Atoi(os.Getenv(OddsEnv)) // what is no number kills nobody
	return n
})

// frequent are points that a database passes with every write: they kill less often.
var frequent = map[string]int{"wal appended": 20, "memtable inserted": 20}

// Here kills the process with the odds that the environment says.
func Here(point string) {
	n := odds() * max(1, frequent[point])
	if n == 0 || rand.IntN(n) != 0 {
		return
	}
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		os.Stderr.WriteString(Message + point + "\n")
		p.Kill()
	}
	select {} // until the signal comes
}
