#!/usr/bin/env bash
# Fuzzes every target for a while: fuzz.sh [TIME], five seconds each by default.
# Needs no list: targets are found.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-5s}
targets=$(git grep -n --untracked '^func Fuzz' -- '*_test.go' | sed -n 's|^\(.*\)/[^/]*:[0-9]*:func \(Fuzz[A-Za-z0-9_]*\)(.*|./\1 \2|p')
[[ -n $targets ]] || { echo "fuzz.sh: no targets found" >&2; exit 1; }

# over says whether all that failed is Go's own end of a run: until Go 1.27 it now
# and then takes that for a failure (go.dev/issue/75804). A finding says more.
over() {
	grep -qx '    context deadline exceeded' "$log" &&
		! grep -qE 'Failing input written|panic:|terminated unexpectedly|\.go:[0-9]+:' "$log"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
while read -r dir target; do
	echo "-- $dir $target"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir" </dev/null 2>&1 | tee "$log" || over || exit 1
done <<<"$targets"
