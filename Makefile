# What the build and the tests install goes under .cache, but for Go modules and
# Debian packages.
CACHE   := $(CURDIR)/.cache
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

export PATH := $(CACHE)/bin:$(PATH)
export TASKGATE_NPM := $(CACHE)/npm

GO_PACKAGES  = $(shell go list ./... | grep -v -e '/test/e2e' -e '/test/conformance' -e '/test/matrix' -e '/test/faults')
GOTESTSUM    = $(CACHE)/bin/gotestsum --format pkgname --
CONFORMANCE_TABLE = $(CACHE)/conformance.md

.DEFAULT_GOAL := help
.PHONY: help deps build test lint unit system e2e conformance faults-short faults fuzz bench microbench demo clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: $(CACHE)/debian.done $(CACHE)/tools.done $(CACHE)/npm.done ## Install what the tests need; quick when it is there

build: ## Build bin/gateway, one static program
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/gateway ./cmd/gateway

test: deps lint unit system conformance ## Run every check there is
	@echo "make test: all checks passed"

lint: deps ## Check formatting, go vet and staticcheck
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	go vet ./...
	$(CACHE)/bin/staticcheck ./...

unit: deps ## Test the packages under the race detector
	$(GOTESTSUM) -race -timeout 10m $(GO_PACKAGES)

system: deps ## Both of the next two, side by side
	$(GOTESTSUM) -race -timeout 15m ./test/e2e/... ./test/faults/... ./test/matrix/...

e2e: deps ## Test the built program with real clients and servers
	$(GOTESTSUM) -race -timeout 15m ./test/e2e/... ./test/matrix/...

faults-short: deps ## Break 30 things under load and check every promise
	$(GOTESTSUM) -race -timeout 15m ./test/faults/...

conformance: deps ## Run the official suite through the gateway, lane by lane
	@rm -f $(CONFORMANCE_TABLE)
	TASKGATE_CONFORMANCE_TABLE=$(CONFORMANCE_TABLE) $(GOTESTSUM) -timeout 15m ./test/conformance/...; \
		code=$$?; cat $(CONFORMANCE_TABLE) || true; exit $$code

FAULTS ?= 500
faults: deps ## The same with FAULTS faults (default 500) and 30 s without Redis; TASKGATE_SEED repeats a run
	TASKGATE_FAULTS=$(FAULTS) TASKGATE_AWAY=30 go test -count=1 -timeout 2h -v -run 'TestPromisesHoldUnderFaults|TestRedisAway' ./test/faults/

FUZZTIME ?= 30s
fuzz: ## Run each fuzz target for FUZZTIME (default 30s)
	scripts/fuzz $(FUZZTIME)

BENCH_ROUNDS  ?= 3
BENCH_SECONDS ?= 2
BENCH_PARTS   ?=
bench: $(CACHE)/debian.done $(CACHE)/bench-debian.done $(CACHE)/bench-npm.done ## Measure beside other proxies and stores; writes docs/performance.md
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(CACHE)/bench/gateway ./cmd/gateway
	go build -o $(CACHE)/bench/ ./bench ./bench/backend ./bench/reverseproxy
	GOBIN=$(CACHE)/bench go -C bench/peers install tool ./...
	$(CACHE)/bench/bench -bin $(CACHE)/bench -npm $(CACHE)/bench-npm -page docs/performance.md \
		-rounds $(BENCH_ROUNDS) -turn $(BENCH_SECONDS)s -parts '$(BENCH_PARTS)'

microbench: ## Run the benchmarks of single functions
	go test -run '^$$' -bench . -benchmem $(GO_PACKAGES)

demo: ## Watch a slow tool become a task; needs nothing installed
	go run ./cmd/gateway demo

clean: ## Remove what was built and installed here
	rm -rf bin $(CACHE)

# redis-server for the Redis store, nginx as a proxy in front, a C compiler for the race detector.
$(CACHE)/debian.done: scripts/debian-deps
	scripts/debian-deps redis-server=redis-server nginx=nginx-light "gcc=gcc libc6-dev"
	@mkdir -p $(CACHE) && touch $@

# Another proxy to measure beside, and what puts them all under load.
$(CACHE)/bench-debian.done: scripts/debian-deps
	scripts/debian-deps haproxy=haproxy wrk=wrk
	@mkdir -p $(CACHE) && touch $@

$(CACHE)/bench-npm.done: bench/npm/package.json bench/npm/package-lock.json
	@mkdir -p $(CACHE)/bench-npm && cp $^ $(CACHE)/bench-npm/
	npm ci --prefix $(CACHE)/bench-npm --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@

$(CACHE)/tools.done: test/tools/go.mod test/tools/go.sum
	GOBIN=$(CACHE)/bin go -C test/tools install tool
	@touch $@

$(CACHE)/npm.done: test/npm/package.json test/npm/package-lock.json
	@mkdir -p $(CACHE)/npm && cp $^ $(CACHE)/npm/
	npm ci --prefix $(CACHE)/npm --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $@
