#!/bin/sh
# venv.sh NAME REQUIREMENTS prints the Python of a virtual environment that has what
# the file REQUIREMENTS lists. It is kept in ${WEIR_CACHE:-.cache}/NAME of the
# project and made anew when that file changes.
set -eu
venv=${WEIR_CACHE:-$(cd "$(dirname "$0")/.." && pwd)/.cache}/$1
if ! cmp -s "$2" "$venv/installed"; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$(dirname "$0")/again.sh" "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 10 -r "$2" >&2
	cp "$2" "$venv/installed"
fi
echo "$venv/bin/python"
