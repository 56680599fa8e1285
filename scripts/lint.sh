#!/usr/bin/env bash
# The linters: go vet, staticcheck, gofumpt, go fix. Their versions are pinned
# in tools.mod, apart from the program's own dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."
tool() { go tool -modfile=tools.mod "$@"; }

unformatted=$(git ls-files -z '*.go' | xargs -0 go tool -modfile=tools.mod gofumpt -l)
[[ -z $unformatted ]] || { echo "not formatted by gofumpt:"; echo "$unformatted"; exit 1; } >&2
# realkafka adds files and takes none away.
export GOFLAGS=-tags=duckdb_arrow,realkafka
go vet ./...
go fix -diff ./...
tool staticcheck ./...
