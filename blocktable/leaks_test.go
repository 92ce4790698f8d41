package blocktable

import (
	"os"
	"testing"

	"github.com/flatrock-db/flatrock/internal/leaks/leaktest"
)

// releases let go what tests keep for each other.
var releases []func()

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m, releases...)) }
