# make test is the test command: everything that must pass. Each target also runs
# alone; make oracle FLATROCK_ORACLE_SEEDS=0+500 tries more options.

GO        ?= go
oracles    = $(shell git ls-files -co --exclude-standard '*_test.go' | xargs grep -l '^//go:build oracle$$')
FUZZTIME  ?= 3s
export CGO_ENABLED = 0

.PHONY: test tools format vet build cross unit race fuzz oracle test-numa harness stress

test: tools format vet build cross unit race harness fuzz oracle test-numa
	@echo "all checks passed"

# The oracles are RocksDB itself, from Debian's packages.
tools:
	@bash oracle/install.sh

format:
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi

vet:
	$(GO) vet ./...
	$(GO) vet -tags oracle ./...

build:
	$(GO) build ./...

cross:
	GOOS=linux GOARCH=arm64 $(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	GOOS=windows GOARCH=amd64 $(GO) vet ./...

unit:
	$(GO) test ./...

# The race detector needs cgo on most platforms; the code under test does not.
# The house only reads files.
race:
	CGO_ENABLED=1 $(GO) test -race -short $$($(GO) list ./... | grep -v /internal/house)

# Placement on machines with several NUMA nodes: virtual ones, in QEMU. The tests
# take the machine as it is; make unit has run them on this one.
NUMA_MACHINES ?= 2,4,odd
test-numa:
	@sh numa/vmtest/setup.sh
	$(GO) run ./numa/vmtest -machines $(NUMA_MACHINES) -timeout 5m -test ./numa -test '.=^TestNUMA'

# Every fuzz target for FUZZTIME, or all of them together for DURATION.
fuzz:
	$(GO) run ./internal/house/fuzz $(if $(DURATION),-total $(DURATION),-time $(FUZZTIME))

# The harnesses must find bugs that are put in (doc/testing.md), processes kill themselves at
# named steps, and the engine holds its invariants.
HARNESS_TAGS = flatrock_mutations flatrock_killpoints flatrock_invariants
harness:
	$(GO) vet -tags "$(HARNESS_TAGS)" ./...
	$(GO) test -short -count=1 -tags "$(HARNESS_TAGS)" ./internal/stress

# All harnesses for DURATION: make stress DURATION=30m
stress:
	$(GO) run -tags "flatrock_killpoints flatrock_invariants" ./cmd/flatrock stress --faults --duration=$(or $(DURATION),5m)

# RocksDB reads what Flatrock wrote, and the other way round. See oracle/doc.go.
oracle:
	$(GO) test -tags oracle -count=1 -run "$$(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(.*/^\1$$/p' $(oracles) | paste -sd'|' -)" $(sort $(addprefix ./,$(dir $(oracles))))
