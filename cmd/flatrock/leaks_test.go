package main

import (
	"os"
	"testing"

	"github.com/flatrock-db/flatrock/internal/leaks/leaktest"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m)) }
