#!/usr/bin/env bash
# Sees to it that this machine can build and test Weir. Installs what is missing
# with apt on Debian and Ubuntu; elsewhere prints what to install.
#   setup.sh                  a C++ compiler, make, git, Go
#   setup.sh PART...          besides: java, python, node, chromium
set -euo pipefail

packages=()
hints=()

need() { # COMMAND PACKAGE HINT
	command -v "$1" >/dev/null 2>&1 && return 0
	packages+=("$2")
	hints+=("$3")
}

# go_ok says whether a Go is there that can fetch the pinned toolchain itself.
go_ok() {
	local v
	v=$(go env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
	[[ -n $v && $v -ge 21 ]]
}

# go_package is the newest packaged Go that is new enough.
go_package() {
	apt-cache pkgnames golang-1. 2>/dev/null | sed -n 's/^golang-1\.\([0-9]*\)-go$/\1/p' | sort -n | awk '$1 >= 21' | tail -1
}

apt_get() {
	local sudo=()
	[[ $(id -u) == 0 ]] || sudo=(sudo)
	"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >/dev/null
}

need g++ g++ "a C++ compiler (g++ or clang)"
need gcc gcc "a C compiler (gcc or clang)"
need make make "make"
need git git "git"
for part in "$@"; do
	case $part in
	java)
		need java openjdk-17-jre-headless "Java 17 or newer"
		need mvn maven "Maven"
		;;
	python)
		need python3 python3 "Python 3.10 or newer"
		python3 -m venv --help >/dev/null 2>&1 && python3 -c 'import ensurepip' 2>/dev/null || { packages+=(python3-venv); hints+=("Python's venv module"); }
		;;
	node) need npm npm "Node.js 20 or newer with npm" ;;
	chromium) need chromium chromium "Chromium" ;;
	*) echo "setup.sh: unknown part $part" >&2; exit 2 ;;
	esac
done

if ((${#packages[@]} > 0)) || ! go_ok; then
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "Weir needs a few things that are not on this machine. Install, then run the command again:" >&2
		((${#hints[@]} == 0)) || printf '  - %s\n' "${hints[@]}" >&2
		go_ok || echo "  - Go 1.21 or newer (https://go.dev/dl); it fetches the right version by itself" >&2
		exit 1
	fi
	apt_get update
	((${#packages[@]} == 0)) || apt_get install -y --no-install-recommends "${packages[@]}"
	if ! go_ok; then
		minor=$(go_package)
		if [[ -z $minor ]]; then
			echo "This system packages no Go 1.21 or newer. Install one from https://go.dev/dl, then run the command again." >&2
			exit 1
		fi
		apt_get install -y --no-install-recommends "golang-1.$minor-go"
		ln -sf "/usr/lib/go-1.$minor/bin/go" /usr/local/bin/go 2>/dev/null || sudo ln -sf "/usr/lib/go-1.$minor/bin/go" /usr/local/bin/go
	fi
fi
