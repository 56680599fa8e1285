#!/bin/sh
# Runs the demo and reads its views over HTTP with DuckDB's httpfs, which comes as
# a wheel up to DuckDB 1.5.5. The virtual environment is kept in
# ${WEIR_CACHE:-.cache}/pytest-httpfs of the project and made anew when
# requirements.txt changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${WEIR_CACHE:-$root/.cache}/pytest-httpfs
if ! cmp -s "$here/requirements.txt" "$venv/installed"; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
	cp "$here/requirements.txt" "$venv/installed"
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd "$root" && go build -tags duckdb_arrow -o "$out/weir" ./cmd/weir)
"$venv/bin/python" "$here/test_httpfs.py" "$out"
