//go:build oracle

package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// Both of RocksDB's kinds of tables at a tiny size, by db_bench itself.
func TestOracleRocksDB(t *testing.T) {
	s := tiny(t, "rocksdb", "rocksdb-plain")
	s.rounds, s.threads = 1, []int{1}
	var out strings.Builder
	r, err := compare(context.Background(), s, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range s.stores {
		for _, w := range readWorkloads {
			for _, metric := range []string{"throughput", "p50", "p99", "p99.9"} {
				if n := len(r.Samples(store, w.Name, metric, 1, 1000)); n != 1 {
					t.Errorf("%s, %s: %d samples of %s", store, w.Name, n, metric)
				}
			}
		}
		for _, x := range []struct{ workload, metric string }{{"reopen", "open"}, {"memory", "rss"}, {"disk", "size"}, {"disk", "write amplification"}} {
			if v := r.Samples(store, x.workload, x.metric, 0, 1000); len(v) != 1 || v[0] <= 0 {
				t.Errorf("%s: %s is %v", store, x.metric, v)
			}
		}
	}
}
