#!/bin/sh
# Writes checkpoints with the Go code and opens them with the libraries that the
# format promises to work with, and with the reader in docs/.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=$("$root/scripts/venv.sh" pytest "$here/requirements.txt")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd "$root" && go test -count=1 -run '^TestEmit$' ./checkpoint -emit "$out")
(cd "$root" && go test -count=1 -tags duckdb_arrow -run '^TestNodes$' ./appliance -emit-nodes "$out")
"$python" "$here/test_open.py" "$out" "$root/checkpoint/testdata/v1" "$root/checkpoint/testdata/v2"
"$python" "$here/test_docs.py" "$out" "$root/docs/format.md"
"$python" "$here/test_reader.py" "$out" "$out"
"$python" "$here/test_notebook.py" "$out" "$root/docs/notebook.md"
