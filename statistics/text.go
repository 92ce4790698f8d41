package statistics

import (
	"fmt"
	"strings"
)

// String lists everything as RocksDB's Statistics::ToString does.
func (s *Statistics) String() string {
	var b strings.Builder
	for t, n := range s.tickersNow() {
		fmt.Fprintf(&b, "%s COUNT : %d\n", Ticker(t), n)
	}
	for h := range numHistograms {
		d := s.Histogram(h)
		fmt.Fprintf(&b, "%s P50 : %f P95 : %f P99 : %f P100 : %f COUNT : %d SUM : %d\n",
			h, d.Median, d.P95, d.P99, d.Max, d.Count, d.Sum)
	}
	return b.String()
}

// Tickers returns all tickers by name. RocksDB: getTickerMap.
func (s *Statistics) Tickers() map[string]uint64 {
	m := make(map[string]uint64, numTickers)
	for t, n := range s.tickersNow() {
		m[tickerNames[t]] = n
	}
	return m
}

// ParseTicker finds a ticker by RocksDB's name.
func ParseTicker(name string) (Ticker, bool) {
	for t, n := range tickerNames {
		if n == name {
			return Ticker(t), true
		}
	}
	return 0, false
}

// ParseHistogram finds a histogram by RocksDB's name.
func ParseHistogram(name string) (Histogram, bool) {
	for h, n := range histogramNames {
		if n == name {
			return Histogram(h), true
		}
	}
	return 0, false
}
