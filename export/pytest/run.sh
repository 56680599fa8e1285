#!/bin/sh
# Runs the demo and reads its views over HTTP with DuckDB's httpfs, which comes as
# a wheel up to DuckDB 1.5.5.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=$("$root/scripts/venv.sh" pytest-httpfs "$here/requirements.txt")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd "$root" && go build -tags duckdb_arrow -o "$out/weir" ./cmd/weir)
"$python" "$here/test_httpfs.py" "$out"
