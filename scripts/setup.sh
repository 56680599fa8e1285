#!/usr/bin/env bash
# Sees to it that this machine can build and test Weir. Installs what is missing
# with apt on Debian and Ubuntu; elsewhere prints what to install.
#   setup.sh                  a C++ compiler, make, git, Go
#   setup.sh PART...          besides: java, python, node, chromium
# Does nothing, in a moment, where all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=() # each is NAME or NAME|OTHER|…: the first that the system has
hints=()

want() { # PACKAGE HINT
	packages+=("$1")
	hints+=("$2")
}

need() { # COMMAND PACKAGE HINT
	command -v "$1" >/dev/null 2>&1 || want "$2" "$3"
}

fail() {
	echo "setup.sh: $*" >&2
	exit 1
}

# go_ok says whether a Go is there that can fetch the pinned toolchain itself.
go_ok() {
	local v
	v=$(cd / && GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
	[[ -n $v && $v -ge 21 ]]
}

# java_ok says whether a Java is there that Apache Kafka runs on.
java_ok() {
	local v
	v=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
	[[ -n $v && $v -ge 17 ]]
}

# node_ok says whether a Node.js is there that the console's tools run on.
node_ok() {
	node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null
}

# as_root runs a command as root.
as_root() { if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi; }

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 "$@"; }

has_package() { [[ $(apt-cache policy "$1" 2>/dev/null) == *"Candidate: "[^\(]* ]]; }

# install installs packages with apt.
install() {
	local p name pause chosen=()
	for p in "$@"; do
		for name in ${p//|/ }; do
			has_package "$name" && break
		done
		chosen+=("$name")
	done
	echo "setup.sh: installing ${chosen[*]}" >&2
	for pause in 5 30 60 0; do # another apt may hold the lock, and a mirror change between its index and its packages
		apt install -y --no-install-recommends "${chosen[@]}" >/dev/null && return
		((pause == 0)) || { sleep "$pause" && apt update || true; }
	done
	return 1
}

# link_go makes a Go the one that is found.
link_go() {
	as_root ln -sf "$1/bin/go" /usr/local/bin/go
	hash -r
	go_ok || fail "$1 is installed, but $(command -v go || echo no go) is found first: put /usr/local/bin in front in PATH"
}

# install_go installs the newest packaged Go that is new enough. Where all are
# too old, such a one still fetches the pinned toolchain, as the module that it
# is to newer ones, and checks it against Go's checksum database.
install_go() {
	local minor version dir tmp again
	minor=$(apt-cache pkgnames golang-1. | sed -n 's/^golang-1\.\([0-9]*\)-go$/\1/p' | sort -n | tail -n 1)
	[[ -n $minor ]] || fail "this system packages no Go: install Go 1.21 or newer (https://go.dev/dl), then run the command again"
	install "golang-1.$minor-go" ca-certificates
	if ((minor >= 21)); then
		link_go "/usr/lib/go-1.$minor"
		return
	fi
	version=$(sed -n 's/^toolchain //p' go.mod).linux-$(dpkg --print-architecture)
	echo "setup.sh: Go 1.$minor is too old: fetching $version with it" >&2
	tmp=$(mktemp -d)
	dir=$tmp/golang.org/toolchain@v0.0.1-$version
	again=$PWD/scripts/again.sh
	(cd "$tmp" && GOFLAGS=-modcacherw GOMODCACHE=$tmp "$again" "/usr/lib/go-1.$minor/bin/go" mod download "golang.org/toolchain@v0.0.1-$version") ||
		fail "it can't be fetched: install Go 1.21 or newer (https://go.dev/dl), then run the command again"
	chmod -R a+rX "$dir"
	chmod a+x "$dir"/bin/* "$dir"/pkg/tool/*/*
	mv "$dir/src/_go.mod" "$dir/src/go.mod"
	as_root mkdir -p /usr/local/lib/weir
	as_root cp -r "$dir" "/usr/local/lib/weir/$version"
	rm -rf "$tmp"
	link_go "/usr/local/lib/weir/$version"
}

need g++ g++ "a C++ compiler (g++ or clang)"
need gcc gcc "a C compiler (gcc or clang)"
need make make "make"
need git git "git"
for part in "$@"; do
	case $part in
	java)
		java_ok || want "openjdk-17-jre-headless|openjdk-21-jre-headless|openjdk-25-jre-headless" "Java 17 or newer"
		need mvn maven "Maven"
		;;
	python)
		need python3 python3 "Python 3.10 or newer"
		python3 -c 'import ensurepip, venv' 2>/dev/null || want python3-venv "Python's venv module"
		;;
	node)
		node_ok || want nodejs "Node.js 20.19 or newer"
		need npm npm "npm"
		;;
	chromium) need chromium chromium "Chromium" ;;
	*) fail "unknown part $part" ;;
	esac
done

if ((${#packages[@]} > 0)) || ! go_ok; then
	if ! command -v apt-get >/dev/null 2>&1 || { [[ $(id -u) != 0 ]] && ! command -v sudo >/dev/null; }; then
		echo "Weir needs a few things that are not on this machine. Install them, or on Debian and Ubuntu run" >&2
		echo "scripts/setup.sh $* as root, then run the command again:" >&2
		((${#hints[@]} == 0)) || printf '  - %s\n' "${hints[@]}" >&2
		go_ok || echo "  - Go 1.21 or newer (https://go.dev/dl); it fetches the right version by itself" >&2
		exit 1
	fi
	apt update || true # what is missing then, install says
	((${#packages[@]} == 0)) || install "${packages[@]}"
	go_ok || install_go
fi
for part in "$@"; do
	[[ $part != java ]] || java_ok || fail "Apache Kafka needs Java 17 or newer, and java is $(java -version 2>&1 | head -n 1)"
	[[ $part != node ]] || node_ok || fail "the console's tools need Node.js 20.19 or newer, and node is $(node --version): install one from https://nodejs.org"
done
