#!/usr/bin/env bash
# The linters: go vet, staticcheck, gofumpt, go fix. Their versions are pinned
# in tools.mod, apart from the program's own dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOFLAGS=-tags=duckdb_arrow
tool() { go tool -modfile=tools.mod "$@"; }

go vet ./...
go vet -tags=duckdb_arrow,realkafka ./ingest/...
unformatted=$(tool gofumpt -l $(git ls-files '*.go'))
[[ -z $unformatted ]] || { echo "not formatted by gofumpt:"; echo "$unformatted"; exit 1; } >&2
go fix -diff ./...
tool staticcheck ./...
