# make help lists the targets. Everything is built from source by the Go
# toolchain; the tools below never enter the product's go.mod.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-builtin-rules

# Versions of programs that lint and the tests run.
GOLANGCI_VERSION   := v2.15.0
POCKETBASE_VERSION := v0.36.8
TOXIPROXY_VERSION  := v2.5.0

TOOLS := $(CURDIR)/.tools/bin
export RECONCILE_TOOLS_DIR ?= $(TOOLS)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/recovery-ledger/reconcile/internal/cli.version=$(VERSION)

# A checkout that belongs to another user than the one who builds has no
# readable version control status; the version comes from VERSION anyway.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

# Packages to test, and how many at once: half the memory and time of a small
# machine goes to the servers that the tests start.
PKG      ?= ./...
PARALLEL ?= 2

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## see it work: a billing system that loses answers, and its recovery
	@go run ./cmd/reconcile demo

.PHONY: build
build: ## build bin/reconcile
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/reconcile ./cmd/reconcile

# The race detector watches all but the C program of SQLite as translated to Go,
# which it makes five times slower. Only that package may be left out: one that
# has its own copy of a generic function (sync.Map's, say) could give it, unwatched,
# to the whole program, and the detector then reports races that are none.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false

# No result is taken from the cache: some tests build the program and run it,
# which the cache does not see.
.PHONY: test
test: deps real ## all tests, with the race detector and the real servers (PKG=./ledger/... for some)
	RECONCILE_REQUIRE_POSTGRES=1 RECONCILE_REQUIRE_REAL=1 \
		go test -count=1 $(RACE) -timeout 45m -p $(PARALLEL) $(PKG)

.PHONY: test-fast
test-fast: ## tests without race detector; skips what needs a server that is not there
	go test -short -timeout 5m -p $(PARALLEL) $(PKG)

.PHONY: lint
lint: $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION) ## gofmt, go vet, golangci-lint
	@bad=$$(gofmt -l .); \
	if [ -n "$$bad" ]; then printf 'not formatted; run gofmt -w on:\n%s\n' "$$bad" >&2; exit 1; fi
	go vet ./...
	$< run ./...

.PHONY: bench
bench: deps ## throughput figures, against the raw bulk statements on the same server
	go run ./internal/bench

# Actions of each of the four campaigns, and where the results go as JSON.
CHAOS_ACTIONS ?= 6000
CHAOS_JSON    ?= bin/chaos.json

.PHONY: chaos
chaos: deps ## the crash campaign, about ten minutes (CHAOS_ACTIONS=30000 for more)
	@mkdir -p bin
	go run ./internal/chaos -actions $(CHAOS_ACTIONS) -json $(CHAOS_JSON)

.PHONY: chaos-short
chaos-short: deps ## a short crash campaign on both ledgers, about a minute
	go run ./internal/chaos -actions 300 -daemons 2 -campaigns sqlite,postgres -at-least 10s -fast-clock=false

.PHONY: chaos-river
chaos-river: deps ## the same storm for River, a job queue, about twelve minutes
	cd internal/bench/river && go run . -actions 3000 -at-most 90s -patience 90s

.PHONY: deps
deps: ## install what the tests need beside Go (Debian, as root)
	@.ci/test-deps

.PHONY: real
real: $(TOOLS)/pocketbase-$(POCKETBASE_VERSION) $(TOOLS)/toxiproxy-$(TOXIPROXY_VERSION) ## build the real programs that the tests run against

.PHONY: clean
clean: ## remove what was built here
	rm -rf bin .tools

# install MODULE_PATH VERSION: builds a command by version, and gives it a name
# with its version and a plain one. A folder of its own first, so that a build
# that is cut short leaves nothing that looks finished.
define install
@mkdir -p $(TOOLS)
@echo "building $(1)@$(2)"
@tmp=$$(mktemp -d $(TOOLS)/build-XXXXXX); trap 'rm -rf "$$tmp"' EXIT; \
GOFLAGS= GOBIN="$$tmp" go install $(1)@$(2); \
mv "$$tmp"/* $@; ln -sf $(@F) $(patsubst %-$(2),%,$@)
endef

$(TOOLS)/golangci-lint-$(GOLANGCI_VERSION):
	$(call install,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_VERSION))

$(TOOLS)/pocketbase-$(POCKETBASE_VERSION):
	$(call install,github.com/pocketbase/pocketbase/examples/base,$(POCKETBASE_VERSION))

$(TOOLS)/toxiproxy-$(TOXIPROXY_VERSION):
	$(call install,github.com/Shopify/toxiproxy/v2/cmd/server,$(TOXIPROXY_VERSION))
