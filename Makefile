# Two commands matter: `make run` and `make test`. Both set up what they need.
SHELL := /bin/bash
export GOFLAGS := -tags=duckdb_arrow
export CGO_ENABLED := 1

.PHONY: help setup build run test race lint test-kafka test-kill test-python test-docker bench fuzz console console-test clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## install the compiler and Go when they are missing (Debian, Ubuntu)
	@scripts/setup.sh

build: setup ## build bin/weir
	go build -trimpath -o bin/weir ./cmd/weir

run: build ## build, then the demo on http://localhost:8080; ARGS="--addr 127.0.0.1:9000" takes another port
	bin/weir demo $(ARGS)

test: setup ## all fast tests
	go test -timeout=60m ./...

race: setup ## the tests under the race detector, those of the appliance shortened, checkpoints without faults at every call
	go test -race -timeout=60m $$(go list ./... | grep -vE '/(appliance|checkpoint)$$')
	go test -race -timeout=60m -skip 'Crash|^TestDamage$$' ./checkpoint
	go test -race -timeout=60m ./appliance -views=40 -json-views=10 -epoch-queries=50 -records=10000 -kills=2

lint: setup ## vet, staticcheck, gofumpt, go fix
	scripts/lint.sh

test-kafka: setup ## the tests against a real Apache Kafka, started from jars
	scripts/setup.sh java
	go test -tags=duckdb_arrow,realkafka -count=1 -timeout=60m ./ingest/kafka

test-kill: setup ## exactly once under SIGKILL; KILLS=500 for the long variant
	go test -count=1 -timeout=60m -run 'TestKill' ./appliance -kills=$(or $(KILLS),50)

test-python: setup ## checkpoints, Parquet over HTTP and Iceberg tables, read with other libraries
	scripts/setup.sh python
	checkpoint/pytest/run.sh
	export/pytest/run.sh
	export/iceberg/pytest/run.sh

test-docker: setup ## docker compose up, for real
	scripts/docker-test.sh

bench: build ## the benchmarks, as `name: value unit` lines
	go run ./bench

fuzz: setup ## each fuzz target for FUZZTIME, five seconds by default
	scripts/fuzz.sh $(FUZZTIME)

console: ## rebuild the console into web/console/dist
	scripts/setup.sh node
	cd web/console && ../../scripts/again.sh npm ci --no-audit --no-fund && npm run build

console-test: ## the console's unit and browser tests
	scripts/setup.sh node chromium
	cd web/console && ../../scripts/again.sh npm ci --no-audit --no-fund && npm test && npm run browser

clean: ## remove what was built
	rm -rf bin
