#!/bin/sh
# again.sh COMMAND... runs a command that downloads: up to five times, and between
# them waits longer and longer, as a network may be away for a while.
set -u
for pause in 5 15 30 60; do
	"$@" && exit 0
	echo "again.sh: $1 failed; the next attempt is in $pause s" >&2
	sleep "$pause"
done
exec "$@"
