#!/bin/sh
# Writes Iceberg tables with the Go code, has an appliance export views, and reads
# both with pyiceberg and with DuckDB's extension, which comes as a wheel up to
# DuckDB 1.5.5.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
python=$("$root/scripts/venv.sh" pytest-iceberg "$here/requirements.txt")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd "$root" && go test -count=1 -run '^TestEmit$' ./export/iceberg -emit "$out")
(cd "$root" && go test -count=1 -tags duckdb_arrow -run '^TestEmitExports$' ./appliance -emit-exports "$out")
"$python" "$here/test_tables.py" "$out"
