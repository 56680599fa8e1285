#!/bin/sh
# Writes checkpoints with the Go code and opens them with the libraries that the
# format promises to work with, and with the reader in docs/. The virtual environment is kept in
# ${WEIR_CACHE:-.cache}/pytest of the project and made anew when
# requirements.txt changes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${WEIR_CACHE:-$root/.cache}/pytest
if ! cmp -s "$here/requirements.txt" "$venv/installed"; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
	cp "$here/requirements.txt" "$venv/installed"
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd "$root" && go test -count=1 -run '^TestEmit$' ./checkpoint -emit "$out")
(cd "$root" && go test -count=1 -tags duckdb_arrow -run '^TestNodes$' ./appliance -emit-nodes "$out")
"$venv/bin/python" "$here/test_open.py" "$out" "$root/checkpoint/testdata/v1" "$root/checkpoint/testdata/v2"
"$venv/bin/python" "$here/test_docs.py" "$out" "$root/docs/format.md"
"$venv/bin/python" "$here/test_reader.py" "$out" "$out"
"$venv/bin/python" "$here/test_notebook.py" "$out" "$root/docs/notebook.md"
