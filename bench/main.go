// Bench measures Flatrock with the flags, benchmarks and output lines of RocksDB's
// db_bench: see internal/dbbench, and README.md for the flags that are ours. It is what
// flatrock db_bench does, too.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/flatrock-db/flatrock/internal/dbbench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(dbbench.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
