//go:build !nonuma

package numa

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Discover reads this machine's topology. On Linux it reads some tens of small
// files (well under a millisecond for two nodes, several for eight large ones):
// call it at start, not per request.
func Discover() (*Topology, error) { return Read(os.DirFS("/")) }

// threadEnded reports the error of reading a file of a thread that is no more.
func threadEnded(err error) bool { return errors.Is(err, unix.ESRCH) }
