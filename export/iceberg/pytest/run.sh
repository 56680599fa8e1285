#!/bin/sh
# Writes Iceberg tables with the Go code, and lets an appliance export views, and reads them with pyiceberg and with
# DuckDB's extension, which comes as a wheel up to DuckDB 1.5.5. The virtual
# environment is kept in ${WEIR_CACHE:-.cache}/pytest-iceberg of the project and
# made anew when requirements.txt changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
venv=${WEIR_CACHE:-$root/.cache}/pytest-iceberg
if ! cmp -s "$here/requirements.txt" "$venv/installed"; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
	cp "$here/requirements.txt" "$venv/installed"
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd "$root" && go test -count=1 -run '^TestEmit$' ./export/iceberg -emit "$out")
(cd "$root" && go test -count=1 -tags duckdb_arrow -run '^TestEmitExports$' ./appliance -emit-exports "$out")
"$venv/bin/python" "$here/test_tables.py" "$out"
