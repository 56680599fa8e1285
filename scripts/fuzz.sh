#!/usr/bin/env bash
# Fuzzes every target for a while: fuzz.sh [TIME], ten seconds each by default.
# Needs no list: targets are found.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do
	dir=$(dirname "$file")
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
		echo "-- $dir $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir" </dev/null
	done
done
