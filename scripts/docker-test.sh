#!/usr/bin/env bash
# Runs `docker compose up` for real and asks the demo for numbers. Where no Docker
# engine runs, one is installed by apt and started for the test alone; where no
# image registry can be reached, stand-ins for the base images are made from
# Debian's packages, under the same tags.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
tags=(debian:bookworm-slim golang:1.26-bookworm)
kafka_tag=$(sed -n 's/^ *image: *\(apache\/kafka:.*\)$/\1/p' docker-compose.yml)
dir=$(mktemp -d /var/tmp/weir-docker.XXXXXX)
export COMPOSE_PROJECT_NAME=weirtest COMPOSE_FILE=$root/docker-compose.yml

compose() { if docker compose version >/dev/null 2>&1; then docker compose "$@"; else docker-compose "$@"; fi; }

cleanup() {
	compose down -v -t 2 >/dev/null 2>&1 || true
	if [[ -e $dir/dockerd.pid ]]; then
		kill "$(cat "$dir/dockerd.pid")" 2>/dev/null || true
		for _ in $(seq 100); do [[ -e $dir/dockerd.pid ]] || break; sleep 0.1; done
	fi
	umount -R "$dir"/data/* 2>/dev/null || true
	rm -rf "$dir" 2>/dev/null || true
}
trap cleanup EXIT

engine() {
	docker info >/dev/null 2>&1 && return 0
	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		echo "docker-test.sh: no Docker engine runs; start one, then run this again" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive DOCKER_HOST=unix://$dir/docker.sock
	if ! command -v dockerd >/dev/null || ! command -v docker-compose >/dev/null || ! command -v debootstrap >/dev/null; then
		apt-get update -qq
		apt-get install -y -qq --no-install-recommends docker.io docker-compose debootstrap iptables >/dev/null
	fi
	dockerd --data-root "$dir/data" --exec-root "$dir/exec" -H "$DOCKER_HOST" -p "$dir/dockerd.pid" >"$dir/dockerd.log" 2>&1 &
	for _ in $(seq 120); do docker info >/dev/null 2>&1 && return 0; sleep 0.5; done
	tail -20 "$dir/dockerd.log" >&2
	exit 1
}

have() { docker image inspect "$1" >/dev/null 2>&1 || timeout 60 docker pull -q "$1" >/dev/null 2>&1; }

# bases makes stand-ins for what cannot be pulled.
bases() {
	if ! have "${tags[0]}"; then
		debootstrap --variant=minbase --include=ca-certificates bookworm "$dir/root" >"$dir/debootstrap.log"
		cp -L /etc/ssl/certs/ca-certificates.crt "$dir/root/etc/ssl/certs/ca-certificates.crt"
		tar -C "$dir/root" -c . | docker import - "${tags[0]}" >/dev/null
	fi
	if ! have "${tags[1]}"; then
		mkdir -p "$dir/go"
		cp -a "$(go env GOROOT)" "$dir/go/go"
		cat >"$dir/go/Dockerfile" <<-D
			FROM ${tags[0]}
			RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc g++ libc6-dev make git >/dev/null
			COPY go /usr/local/go
			ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
		D
		docker build -q -t "${tags[1]}" "$dir/go" >/dev/null
	fi
	have "$kafka_tag" || kafka_image
}

# kafka_image is Kafka from its jars, set up by the same variables as Apache's image.
kafka_image() {
	internal/testkit/kafkabroker/kafka.sh install
	local libs=${WEIR_KAFKA_LIBS:-$(ls -d "${XDG_CACHE_HOME:-$HOME/.cache}"/weir/kafka-* | tail -1)}
	mkdir -p "$dir/kafka/bin"
	cp -r "$libs" "$dir/kafka/libs"
	cat >"$dir/kafka/bin/start" <<-'S'
		#!/bin/sh
		set -e
		env | sed -n 's/^KAFKA_\([A-Z_]*\)=\(.*\)$/\1 \2/p' | while read -r k v; do
			echo "$(echo "$k" | tr A-Z_ a-z.)=$v"
		done >/tmp/server.properties
		echo log.dirs=/tmp/kafka-logs >>/tmp/server.properties
		[ -e /tmp/kafka-logs/meta.properties ] || java -Xmx96m -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format -t abcdefghijklmnopqrstug -c /tmp/server.properties
		exec java -Xmx384m -XX:+UseSerialGC -cp '/opt/kafka/libs/*' kafka.Kafka /tmp/server.properties
	S
	cat >"$dir/kafka/bin/kafka-topics.sh" <<-'S'
		#!/bin/sh
		exec java -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' org.apache.kafka.tools.TopicCommand "$@"
	S
	chmod +x "$dir"/kafka/bin/*
	cat >"$dir/kafka/Dockerfile" <<-D
		FROM ${tags[0]}
		RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >/dev/null
		COPY libs /opt/kafka/libs
		COPY bin /opt/kafka/bin
		CMD ["/opt/kafka/bin/start"]
	D
	docker build -q -t "$kafka_tag" "$dir/kafka" >/dev/null
}

# wait_for SECONDS COMMAND...
wait_for() {
	local until=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < until)) || return 1
		sleep 1
	done
}

engine
bases
compose build
compose up -d
link() { compose logs --no-color weir 2>/dev/null | grep -o 'http://[^ ,]*#token=[A-Za-z0-9_-]*' | tail -1; }
linked() { [[ -n $(link) ]]; }
if ! wait_for 180 linked; then
	compose logs --no-color | tail -60 >&2
	echo "docker-test.sh: weir printed no link" >&2
	exit 1
fi
token=$(link | sed 's/.*#token=//')
ask() {
	curl -s -m 10 -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d "{\"sql\":\"$1\"}" http://127.0.0.1:8080/api/v1/sql
}
counted() { ask 'SELECT orders > 1000 AS enough FROM shop_totals' | grep -q '\[true\]'; }
if ! wait_for 180 counted; then
	ask 'SELECT * FROM shop_totals' >&2
	compose logs --no-color | tail -60 >&2
	echo "docker-test.sh: no live numbers" >&2
	exit 1
fi
[[ $(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/api/v1/views) == 401 ]] || { echo "docker-test.sh: served without a token" >&2; exit 1; }
ask 'VERIFY VIEW revenue_by_city'
compose restart -t 10 weir >/dev/null
wait_for 120 counted || { echo "docker-test.sh: no numbers after a restart" >&2; exit 1; }
[[ $(link | sed 's/.*#token=//') == "$token" ]] || { echo "docker-test.sh: the token changed" >&2; exit 1; }
echo "docker compose: live numbers, token kept over a restart"
