# Run make or make help for what there is.
SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

SOAK  ?= 1h
STORE ?=
ARGS  ?=

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  make test STEPS='stores rest' runs some steps of test only; their names are in the table that it prints."

.PHONY: build
build: ## compile everything; the program is bin/twolane
	go build ./...
	@if [ -d cmd/twolane ]; then go build -o bin/twolane ./cmd/twolane; fi

.PHONY: test
test: ## all checks and tests, with a table of where the minutes went (STEPS=...: some of them)
	@scripts/test.sh $(STEPS)

.PHONY: lint
lint: ## gofmt, go vet, staticcheck and the architecture test
	@scripts/test.sh gofmt vet staticcheck architecture

.PHONY: vet
vet: ## go vet, for each build tag
	@scripts/test.sh vet

.PHONY: fmt-check
fmt-check: ## fail if gofmt would change a file
	@scripts/test.sh gofmt

.PHONY: tidy-check
tidy-check: ## fail if go mod tidy would change go.mod or go.sum
	go mod tidy -diff

.PHONY: cover
cover: ## test coverage of the root, the stores and internal packages, in cover.html
	go test -count=1 -coverprofile=cover.out . ./store/... ./internal/...
	go tool cover -func=cover.out | tail -n 1
	go tool cover -html=cover.out -o cover.html

.PHONY: soak
soak: ## both simulators on new seeds for an hour (SOAK=10m: another time)
	TWOLANE_SOAK=$(SOAK) go test -count=1 -timeout 0 -v -run Soak ./sim/...

.PHONY: chaos
chaos: ## real processes killed, stopped and cut off, four times as often as in test
	TWOLANE_CHAOS=full go test -race -count=1 -timeout 0 -v ./internal/proctest/...
	TWOLANE_CHAOS=full go test -race -count=1 -timeout 0 -v -run 'Kill|Away|GatewayFails' ./inference

.PHONY: faults-full
faults-full: ## the fault list with its durations and sizes as written, not scaled down
	TWOLANE_FAULTS=full go test -count=1 -timeout 0 -v ./faults/...

.PHONY: bench
bench: ## the figures of the README (STORE=redis://...: on another store, ARGS='--only submit-batch': more flags)
	go run ./cmd/twolane bench $(if $(STORE),--store $(STORE)) $(ARGS)
