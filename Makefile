# make test is the test command: everything that must pass. Each target also runs
# alone; make oracle FLATROCK_ORACLE_SEEDS=0+500 tries more options.

GO        ?= go
oracles    = $(shell git ls-files -co --exclude-standard '*_test.go' | grep -v '^bench/peers/' | xargs grep -l '^//go:build oracle$$')
FUZZTIME  ?= 3s
export CGO_ENABLED = 0

.PHONY: test tools format vet build cross unit race fuzz oracle test-numa harness stress peers

test: tools format vet build cross unit peers race harness fuzz oracle test-numa
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

# vet does not assemble.
cross:
	GOOS=linux GOARCH=arm64 $(GO) build ./...
	GOOS=linux GOARCH=arm64 $(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) build ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	GOOS=windows GOARCH=amd64 $(GO) build ./...
	GOOS=windows GOARCH=amd64 $(GO) vet ./...

unit:
	$(GO) test -timeout 30m ./...

# The rivals that Flatrock is compared with are a module of its own.
peers:
	cd bench/peers && $(GO) vet -tags oracle ./... && $(GO) test -tags oracle ./...

# The race detector needs cgo on most platforms; the code under test does not.
# The house only reads files.
race:
	CGO_ENABLED=1 $(GO) test -timeout 30m -race -short $$($(GO) list ./... | grep -v /internal/house)

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
	$(GO) test -count=1 -tags flatrock_invariants -run Invariants ./memtable ./blockcache

# All harnesses for DURATION: make stress DURATION=30m
stress:
	$(GO) run -tags "flatrock_killpoints flatrock_invariants" ./cmd/flatrock stress --faults --duration=$(or $(DURATION),5m)

# The long doses of doc/testing.md, each one command on one core (CORE), so that several can run
# beside each other; they end with what was done, or fail with the command that draws it again.
CORE   ?= 0
DOSE    = $(or $(DURATION),30m)
dose_in = $(or $(TMPDIR),/tmp)/flatrock-$@
on_core = taskset -c $(CORE) env GOMAXPROCS=4
.PHONY: dose-black-box dose-white-box dose-power-loss dose-hand-overs

dose-black-box: STRESS = --mode=blackbox --duration=$(DOSE)
dose-white-box: STRESS = --mode=whitebox --faults --duration=$(DOSE)
dose-power-loss: STRESS = --mode=powerloss --duration=0 --rounds=$(or $(ROUNDS),10000)
dose-black-box dose-white-box dose-power-loss:
	$(GO) build -tags "flatrock_killpoints flatrock_invariants" -o $(dose_in) ./cmd/flatrock
	$(on_core) $(dose_in) stress --quiet $(STRESS) $(if $(SEED),--seed=$(SEED)); status=$$?; rm -f $(dose_in); exit $$status

dose-hand-overs:
	FLATROCK_HANDOVERS=$(or $(ROUNDS),200) FLATROCK_HANDOVERS_SEED=$(or $(SEED),77) $(on_core) $(GO) test -tags oracle -count=1 -timeout 2h -run '^TestHandOvers$$' -v ./oracle

# RocksDB reads what Flatrock wrote, and the other way round. See oracle/doc.go.
oracle:
	$(GO) test -tags oracle -count=1 -run "$$(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(.*/^\1$$/p' $(oracles) | paste -sd'|' -)" $(sort $(addprefix ./,$(dir $(oracles))))
