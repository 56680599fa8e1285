#!/usr/bin/env bash
# kafka.sh runs one real Apache Kafka broker (KRaft, one node) on 127.0.0.1, for tests.
#
#   kafka.sh install                       fetch the jars, about 45 MB, once
#   kafka.sh start DIR PORT [FLAG|SETTING] start the broker whose files are in DIR; wait until it serves
#   kafka.sh stop DIR                      shut it down in order
#   kafka.sh kill DIR                      SIGKILL
#   kafka.sh tool DIR CLASS [ARG...]       run one of Kafka's tools on it, e.g. TopicCommand --list
#
# Listeners: PORT plain, PORT+1 the controller. With --sasl, PORT+2: PLAIN and SCRAM, user test,
# password test-secret. With --tls, PORT+3: DIR/ca.pem is what to trust. A SETTING is name=value of
# the broker. DIR keeps its topics; start it again with the same PORT and FLAGs.
#
# Environment: WEIR_KAFKA_LIBS (where the jars are), WEIR_KAFKA_WAIT (seconds, 120), WEIR_KAFKA_OWNER
# (a process: the broker is killed when it ends).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's|.*<kafka.version>\(.*\)</kafka.version>.*|\1|p' "$here/pom.xml")
libs=${WEIR_KAFKA_LIBS:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/weir/kafka-$version}
patience=${WEIR_KAFKA_WAIT:-120}
quick=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto)

fail() {
  echo "kafka.sh: $*" >&2
  exit 1
}

# need COMMAND PACKAGE: have the command, by apt-get if that is possible.
need() {
  command -v "$1" >/dev/null && return
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    fail "$1 is missing: run  sudo apt-get install -y $2  (or install it as your system does), then try again"
  fi
  echo "kafka.sh: installing $2" >&2
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300)
  { "${apt[@]}" install -y --no-install-recommends "$2" ||
    { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "$2"; }; } >&2 ||
    fail "apt-get can't install $2: run  apt-get update && apt-get install -y $2  and see why"
}

need_java() {
  need java openjdk-17-jre-headless
  local v
  v=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
  ((${v:-0} >= 17)) || fail "java is version ${v:-unknown}, and Kafka $version needs 17: run  apt-get install -y openjdk-17-jre-headless"
}

install() {
  need_java
  [[ ! -e $libs/.complete ]] || return 0
  need mvn maven
  mkdir -p "$(dirname "$libs")"
  local new pause
  new=$(mktemp -d "$libs.XXXXXX")
  for pause in 5 15 30 60 0; do # Maven keeps what it has fetched
    ! mvn -q -B -U -ntp -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$new" >&2 || break
    ((pause > 0)) || {
      rm -rf "$new"
      fail "maven can't fetch Kafka $version: it needs Maven Central (see the messages above)"
    }
    sleep "$pause"
  done
  touch "$new/.complete"
  # Two installs at a time bring the same files: whoever is second keeps the first's.
  mv -T "$new" "$libs" 2>/dev/null || rm -rf "$new"
  [[ -e $libs/.complete ]] || fail "$libs is there but incomplete: remove it and install again"
}

# pid_of DIR: the broker's process, if it runs. Pids are used again, so look at what it is.
pid_of() {
  local pid
  pid=$(cat "$1/pid" 2>/dev/null) || return 1
  tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF "$1/server.properties" || return 1
  echo "$pid"
}

settings() { # DIR PORT SASL TLS
  local dir=$1 port=$2 listeners=PLAINTEXT://127.0.0.1:$2 mechanism
  [[ ! $3 ]] || listeners+=,SASL_PLAINTEXT://127.0.0.1:$((port + 2))
  [[ ! $4 ]] || listeners+=,SSL://127.0.0.1:$((port + 3))
  cat <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners=$listeners,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=$listeners
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL
log.dirs=$dir/data
log.segment.bytes=67108864
log.cleaner.dedupe.buffer.size=8388608
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=2
background.threads=2
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
group.initial.rebalance.delay.ms=0
END
  for topic in offsets.topic transaction.state.log share.coordinator.state.topic; do
    echo "$topic.replication.factor=1"
    echo "$topic.num.partitions=1"
  done
  echo transaction.state.log.min.isr=1
  echo share.coordinator.state.topic.min.isr=1
  if [[ $3 ]]; then
    echo sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
    echo 'listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_test="test-secret";'
    for mechanism in 256 512; do
      echo "listener.name.sasl_plaintext.scram-sha-$mechanism.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;"
    done
  fi
  if [[ $4 ]]; then
    echo "ssl.keystore.location=$dir/server.p12"
    echo ssl.keystore.type=PKCS12
    echo ssl.keystore.password=changeit
  fi
}

make_certificate() { # DIR
  [[ ! -e $1/ca.pem ]] || return 0
  local store=(-keystore "$1/server.p12" -storetype PKCS12 -storepass changeit -alias kafka)
  keytool -genkeypair "${store[@]}" -keyalg EC -groupname secp256r1 -validity 3650 -dname CN=localhost -ext SAN=dns:localhost,ip:127.0.0.1 2>/dev/null
  keytool -exportcert "${store[@]}" -rfc -file "$1/ca.new" 2>/dev/null
  mv "$1/ca.new" "$1/ca.pem"
}

start() {
  local dir=$1 port=$2 sasl='' tls='' more=() pid i
  shift 2
  while (($#)); do
    case $1 in
      --sasl) sasl=1 ;;
      --tls) tls=1 ;;
      *=*) more+=("$1") ;;
      *) fail "start does not know $1" ;;
    esac
    shift
  done
  install
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  ! pid=$(pid_of "$dir") || fail "a broker runs in $dir already, process $pid"
  [[ ! $tls ]] || make_certificate "$dir"
  {
    settings "$dir" "$port" "$sasl" "$tls"
    ((${#more[@]} == 0)) || printf '%s\n' "${more[@]}" # the last of two settings counts
  } >"$dir/server.properties"
  printf '%s\n' appender.c.type=Console appender.c.name=c appender.c.layout.type=PatternLayout 'appender.c.layout.pattern=%d %p %c{1}: %m%n' \
    rootLogger.level=info rootLogger.appenderRef.c.ref=c >"$dir/log4j2.properties"

  if [[ ! -e $dir/data/meta.properties ]]; then
    i=$(head -c 16 /dev/urandom | base64 | tr '+/' 'AB' | tr -d '=') # one that began with - would be a flag
    java -Xmx96m "${quick[@]}" -cp "$libs/*" kafka.tools.StorageTool format -t "$i" -c "$dir/server.properties" \
      --add-scram 'SCRAM-SHA-256=[name=test,password=test-secret]' --add-scram 'SCRAM-SHA-512=[name=test,password=test-secret]' \
      >"$dir/format.log" 2>&1 || fail "the broker's directory can't be made: $(tail -n 5 "$dir/format.log")"
  fi

  nohup java -Xms96m -Xmx384m -Xss512k -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError -Dlog4j2.configurationFile="$dir/log4j2.properties" \
    -cp "$libs/*" kafka.Kafka "$dir/server.properties" >"$dir/server.log" 2>&1 </dev/null &
  pid=$!
  echo "$pid" >"$dir/pid"
  if [[ ${WEIR_KAFKA_OWNER:-} ]]; then
    (
      while kill -0 "$WEIR_KAFKA_OWNER" && kill -0 "$pid"; do sleep 1; done
      [[ $(pid_of "$dir") != "$pid" ]] || kill -9 "$pid"
    ) >/dev/null 2>&1 </dev/null &
  fi
  for ((i = 0; i < patience * 10; i++)); do
    ! grep -q 'Kafka Server started' "$dir/server.log" || return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
  rm -f "$dir/pid"
  fail "the broker did not start: $(tail -n 20 "$dir/server.log")"
}

halt() { # DIR SIGNAL
  local dir pid i
  dir=$(cd "$1" && pwd)
  if pid=$(pid_of "$dir"); then
    kill "-$2" "$pid"
    for ((i = 0; i < patience * 10; i++)); do
      pid_of "$dir" >/dev/null || break
      sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
  fi
  rm -f "$dir/pid"
}

tool() { # DIR CLASS ARG...
  local address
  need_java
  address=$(sed -n 's|^advertised.listeners=PLAINTEXT://\([^,]*\).*|\1|p' "$1/server.properties")
  java -Xmx192m "${quick[@]}" -Dlog4j2.level=error -cp "$libs/*" "org.apache.kafka.tools.$2" --bootstrap-server "$address" "${@:3}"
}

case ${1:-}/$# in
  install/1) install ;;
  start/[3-9] | start/[1-9][0-9]) start "${@:2}" ;;
  stop/2) halt "$2" TERM ;;
  kill/2) halt "$2" KILL ;;
  tool/[3-9] | tool/[1-9][0-9]) tool "${@:2}" ;;
  *)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
