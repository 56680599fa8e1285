#!/usr/bin/env bash
# Runs `docker compose up` for real, asks the demo for numbers, takes it down and
# up again, and asks once more. Where no Docker engine runs, one is installed by
# apt and started for the test alone, as root, with all its files in a directory
# of its own; where that engine reaches no image registry, stand-ins for the base
# images are made from Debian's packages, under the same tags.
set -euo pipefail
cd "$(dirname "$0")/.."

debian=debian:bookworm-slim
golang=golang:1.26-bookworm
kafka=$(sed -n 's/^ *image: *\(apache\/kafka:.*\)$/\1/p' docker-compose.yml)
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/weir-docker.XXXXXX")
own= # set when the engine is the test's own
export DEBIAN_FRONTEND=noninteractive COMPOSE_PROJECT_NAME=weirtest$$ COMPOSE_FILE=$PWD/docker-compose.yml
export WEIR_PORT=0 # any port that is free

say() { echo "-- $* ($(date -u +%T))"; }

fail() {
	echo "docker-test.sh: $*" >&2
	exit 1
}

compose() { if docker compose version >/dev/null 2>&1; then docker compose "$@"; else docker-compose "$@"; fi; }

cleanup() {
	compose down -v -t 2 >/dev/null 2>&1 || true
	if [[ $own ]]; then
		stop_engine
	else
		docker image rm "${COMPOSE_PROJECT_NAME}_weir" "${COMPOSE_PROJECT_NAME}-weir" >/dev/null 2>&1 || true
	fi
	rm -rf --one-file-system "$dir"
}
trap cleanup EXIT

start_engine() {
	docker info >/dev/null 2>&1 && return 0
	[[ $(id -u) == 0 ]] && command -v apt-get >/dev/null ||
		fail "no Docker engine answers: start one, or run this as root on Debian or Ubuntu, where it starts its own"
	local c missing=()
	for c in dockerd:docker.io docker-compose:docker-compose debootstrap:debootstrap iptables:iptables ip:iproute2 curl:curl; do
		command -v "${c%:*}" >/dev/null || missing+=("${c#*:}")
	done
	if ((${#missing[@]} > 0)); then
		say "installing ${missing[*]}"
		{ apt-get -qq -o Acquire::Retries=5 update && apt-get -qq -o Acquire::Retries=5 install -y --no-install-recommends "${missing[@]}"; } >"$dir/apt.log" 2>&1 ||
			fail "apt-get can't install ${missing[*]}: $(tail -n 5 "$dir/apt.log")"
	fi
	export DOCKER_HOST=unix://$dir/docker.sock DOCKER_BUILDKIT=0
	iptables-save >"$dir/rules" 2>/dev/null || true
	cat /proc/sys/net/ipv4/ip_forward >"$dir/ip_forward"
	ip link show docker0 >/dev/null 2>&1 && touch "$dir/docker0"
	dockerd --data-root "$dir/data" --exec-root "$dir/exec" -H "$DOCKER_HOST" -p "$dir/dockerd.pid" >"$dir/dockerd.log" 2>&1 &
	own=$!
	until docker info >/dev/null 2>&1; do
		kill -0 "$own" 2>/dev/null && ((++tries < 480)) ||
			fail "the Docker engine does not start here; it needs a kernel that lets root mount, make network bridges and set iptables rules. Its log ends:
$(tail -n 20 "$dir/dockerd.log")"
		sleep 0.25
	done
}
tries=0

# stop_engine leaves the machine as it was: no process, mount, bridge or rule.
stop_engine() {
	local mounts
	kill "$own" 2>/dev/null || true
	wait "$own" 2>/dev/null || true
	mounts=$(awk -v d="$dir/" 'index($2, d) == 1 { print $2 }' /proc/mounts | sort -r)
	[[ -z $mounts ]] || xargs -r umount -l <<<"$mounts" || true
	[[ -e $dir/docker0 ]] || ip link delete docker0 2>/dev/null || true
	# A table that nobody had used before is saved as nothing.
	grep -qx '\*filter' "$dir/rules" || printf '%s\n' '*filter' ':INPUT ACCEPT' ':FORWARD ACCEPT' ':OUTPUT ACCEPT' COMMIT >>"$dir/rules"
	grep -qx '\*nat' "$dir/rules" || printf '%s\n' '*nat' COMMIT >>"$dir/rules"
	iptables-restore <"$dir/rules" 2>/dev/null || true
	cat "$dir/ip_forward" >/proc/sys/net/ipv4/ip_forward 2>/dev/null || true
}

# have says whether an image is there or can be pulled.
have() { docker image inspect "$1" >/dev/null 2>&1 || timeout 300 docker pull -q "$1" >/dev/null 2>"$dir/pull.log"; }

# bases sees to the images that the Dockerfile and the compose file name.
bases() {
	if have "$debian"; then
		have "$golang" && have "$kafka" && return 0
	fi
	[[ $own ]] || fail "an image can't be pulled: $(cat "$dir/pull.log")"
	say "no image registry can be reached: making stand-ins"
	debian_image
	local jobs=()
	golang_image >"$dir/golang.log" 2>&1 &
	jobs+=($!)
	kafka_image >"$dir/kafka.log" 2>&1 &
	jobs+=($!)
	wait "${jobs[0]}" || fail "no stand-in for $golang: $(tail -n 20 "$dir/golang.log")"
	wait "${jobs[1]}" || fail "no stand-in for $kafka: $(tail -n 20 "$dir/kafka.log")"
}

# debian_image is Debian by its own installer, with this machine's certificates.
debian_image() {
	scripts/again.sh sh -c 'rm -rf --one-file-system "$1" && debootstrap --variant=minbase --include=ca-certificates bookworm "$1"' - "$dir/root" >"$dir/debootstrap.log" 2>&1 ||
		fail "debootstrap: $(tail -n 5 "$dir/debootstrap.log")"
	cp -L /etc/ssl/certs/ca-certificates.crt "$dir/root/etc/ssl/certs/ca-certificates.crt"
	tar -C "$dir/root" --exclude=./var/cache/apt/archives/*.deb -c . | docker import - "$debian" >/dev/null
	rm -rf --one-file-system "$dir/root"
}

# golang_image holds this machine's Go, and of its module cache the downloads, as
# a proxy: what has been fetched is not fetched again.
golang_image() {
	mkdir -p "$dir/golang/proxy"
	cp -a "$(go env GOROOT)" "$dir/golang/go"
	GOMODCACHE=$dir/golang/mod GOFLAGS="-modcacherw -tags=duckdb_arrow" GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" \
		go list -deps ./cmd/weir >/dev/null
	mv "$dir/golang/mod/cache/download" "$dir/golang/proxy/"
	rm -rf "$dir/golang/mod"
	cat >"$dir/golang/Dockerfile" <<-D
		FROM $debian
		RUN apt-get -qq -o Acquire::Retries=5 update && apt-get -qq -o Acquire::Retries=5 install -y --no-install-recommends gcc g++ libc6-dev make git
		COPY go /usr/local/go
		COPY proxy /proxy
		ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
		ENV GOTOOLCHAIN=local GOPROXY=file:///proxy/download,https://proxy.golang.org,direct
	D
	docker build -q -t "$golang" "$dir/golang"
	rm -rf "$dir/golang"
}

# kafka_image is Kafka from its jars, set up by the same variables as Apache's image.
kafka_image() {
	mkdir -p "$dir/kafka/bin"
	WEIR_KAFKA_LIBS=$dir/kafka/libs internal/testkit/kafkabroker/kafka.sh install
	cat >"$dir/kafka/bin/start" <<-'S'
		#!/bin/sh
		set -ef
		env | sed -n 's/^KAFKA_\([A-Z_]*\)=\(.*\)$/\1 \2/p' | while read -r k v; do
			echo "$(echo "$k" | tr A-Z_ a-z.)=$v"
		done >/tmp/server.properties
		run="java -XX:+UseSerialGC -cp /opt/kafka/libs/*"
		[ -e "$KAFKA_LOG_DIRS/meta.properties" ] || $run kafka.tools.StorageTool format -t abcdefghijklmnopqrstug -c /tmp/server.properties
		exec $run -Xmx384m kafka.Kafka /tmp/server.properties
	S
	cat >"$dir/kafka/bin/kafka-topics.sh" <<-'S'
		#!/bin/sh
		exec java -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' org.apache.kafka.tools.TopicCommand "$@"
	S
	chmod +x "$dir"/kafka/bin/*
	cat >"$dir/kafka/Dockerfile" <<-D
		FROM $debian
		RUN apt-get -qq -o Acquire::Retries=5 update && apt-get -qq -o Acquire::Retries=5 install -y --no-install-recommends openjdk-17-jre-headless
		COPY libs /opt/kafka/libs
		COPY bin /opt/kafka/bin
		CMD ["/opt/kafka/bin/start"]
	D
	docker build -q -t "$kafka" "$dir/kafka"
	rm -rf "$dir/kafka"
}

# wait_for SECONDS COMMAND... runs the command until it succeeds.
wait_for() {
	local until=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < until)) || return 1
		sleep 1
	done
}

address() { echo "http://$(compose port weir 8080)"; }

# link is the one that logs in, as the log of weir prints it.
link() { compose logs --no-color weir 2>/dev/null | grep -o 'http://[^ ,]*#token=[A-Za-z0-9_-]*' | tail -n 1; }

linked() { [[ -n $(link) ]]; }

ask() {
	curl -s -m 120 -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d "{\"sql\":\"$1\"}" "$(address)/api/v1/sql"
}

answers() { [[ $(ask "$1") == *"$2"* ]]; }

# up starts the demo and waits for numbers; SQL is a condition that they must meet.
up() {
	compose up -d >"$dir/up.log" 2>&1 || {
		cat "$dir/up.log" >&2
		compose logs --no-color | tail -n 60 >&2
		fail "docker compose up fails"
	}
	wait_for 300 linked || { compose logs --no-color | tail -n 60 >&2; fail "weir prints no link"; }
	token=$(link | sed 's/.*#token=//')
	wait_for 300 answers "SELECT $1 FROM shop_totals" '[true]' || {
		ask 'SELECT * FROM shop_totals' >&2
		ask 'SHOW SOURCES' >&2
		compose logs --no-color | tail -n 60 >&2
		fail "not so within five minutes: $1"
	}
}

start_engine
bases
say "docker compose build"
{ compose build || { sleep 15 && compose build; }; } >"$dir/build.log" 2>&1 || fail "docker compose build: $(tail -n 40 "$dir/build.log")"
say "docker compose up"
up "orders > 1000"
status() { curl -s -m 60 -o /dev/null -w '%{http_code}' "$(address)$1"; }
[[ $(status /api/v1/views) == 401 ]] || fail "/api/v1/views is served without a token"
[[ $(status /) == 200 ]] || fail "no console"
# Compared with the topic: nothing missing, extra or different.
verified=$(ask 'VERIFY VIEW revenue_by_city')
grep -qE '"revenue_by_city",.*,"?0"?,"?0"?,"?0"?,' <<<"$verified" || fail "VERIFY VIEW answers $verified"
before=$token
seen=$(ask 'SELECT orders FROM shop_totals' | grep -oE '\["?[0-9]+"?\]' | tr -dc 0-9)

say "docker compose down, and up again"
compose down -t 10
up "orders > ${seen:?}"
[[ $token == "$before" ]] || fail "the token was not kept"
say "live numbers, and the same token after a restart"
