#!/usr/bin/env bash
# What compose.yaml starts, without containers and without Grafana: Redis, Kafka, a producer with Redisson, two daemons and
# Prometheus, on 127.0.0.1. Ctrl-C ends all of it, and removes its files.
set -euo pipefail

cd "$(dirname "$0")/.."
cache=${DELAYBRIDGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/delaybridge}
binary=${BINARY:-target/release/delaybridge}
work=$(mktemp -d)
children=()

fail() {
  echo "demo-all: $*" >&2
  exit 1
}
finish() {
  # The daemons first: they settle what is in flight.
  for ((i = ${#children[@]} - 1; i >= 0; i--)); do
    kill "${children[i]}" 2>/dev/null || true
    wait "${children[i]}" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 0' INT TERM

start() { # start NAME COMMAND...
  "${@:2}" >"$work/$1.log" 2>&1 &
  children+=($!)
  disown $!
}
free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)) && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
until_true() { # until_true WHAT LOG COMMAND...: within a minute
  local what=$1 log=$2 end=$((SECONDS + 60))
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "$what: not within a minute: $(tail -5 "$work/$log.log")"
    sleep 0.2
  done
}

[ -x "$binary" ] || fail "find $binary: run \`make build\`"
redis=$(free_port) broker=$(free_port) controller=$(free_port) prometheus=$(free_port)
http=("$(free_port)" "$(free_port)") admin=$(free_port)

start redis redis-server --port "$redis" --bind 127.0.0.1 --save '' --maxmemory-policy noeviction --dir "$work"

kafka_jars="$cache/kafka-$(sed -n 's/^kafka_version=\([^ ]*\).*/\1/p' scripts/setup.sh)/lib/*"
cat >"$work/kafka.properties" <<TEXT
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$broker,CONTROLLER://127.0.0.1:$controller
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
offsets.topic.replication.factor=1
num.partitions=3
log.dirs=$work/kafka
TEXT
java -cp "$kafka_jars" kafka.tools.StorageTool format --cluster-id AAAAAAAAAAAAAAAAAAAAAA --config "$work/kafka.properties" >"$work/kafka.log" 2>&1 ||
  fail "format Kafka's storage: $(tail -5 "$work/kafka.log")"
start kafka java -Xmx512m -cp "$kafka_jars" kafka.Kafka "$work/kafka.properties"
until_true "start Redis" redis redis-cli -p "$redis" ping
until_true "start Kafka" kafka listens "$broker"

# The version of Redisson that compose.yaml takes, from the cache of the tests.
version=$(sed -n '/<artifactId>redisson</,/<version>/s:.*<version>\(.*\)</version>:\1:p' deploy/compose/producer/pom.xml)
jars=$(awk -v at="$cache/redisson/" '{ sub(/^\*/, "", $2); printf "%s%s:", at, $2 }' "tests/brokers/redisson/$version.sha256")
start producer env REDIS="redis://127.0.0.1:$redis" java -cp "$jars" deploy/compose/producer/Producer.java

# The daemons of compose.yaml; the first has the page for operators.
for n in 0 1; do
  {
    [ $n = 0 ] && echo "http: { listen: \"127.0.0.1:${http[0]}\", admin: { listen: \"127.0.0.1:$admin\" } }" || echo "http: { listen: \"127.0.0.1:${http[1]}\" }"
    sed "s/redis:6379/127.0.0.1:$redis/; s/kafka:9092/127.0.0.1:$broker/" deploy/compose/delaybridge.yaml
  } >"$work/delaybridge-$n.yaml"
  start "delaybridge-$n" "$binary" run --config "$work/delaybridge-$n.yaml"
done
for port in "${http[@]}"; do
  until_true "start delaybridge" delaybridge-0 curl --silent --fail "http://127.0.0.1:$port/readyz"
done

sed "s/delaybridge-1:9464/127.0.0.1:${http[0]}/; s/delaybridge-2:9464/127.0.0.1:${http[1]}/; s|/etc/prometheus/rules.yaml|$PWD/deploy/prometheus/rules.yaml|" \
  deploy/compose/prometheus.yaml >"$work/prometheus.yaml"
start prometheus prometheus --config.file "$work/prometheus.yaml" --storage.tsdb.path "$work/prometheus" --web.listen-address "127.0.0.1:$prometheus"
until_true "start Prometheus" prometheus listens "$prometheus"

arrived() { [ "$(redis-cli -p "$redis" xlen reminders:due)" -gt 0 ]; }
until_true "deliver the first reminder" delaybridge-0 arrived
cat <<TEXT

  page for operators   http://127.0.0.1:$admin/
  Prometheus           http://127.0.0.1:$prometheus/graph?g0.expr=max%20by%20(queue%2Cstate)(delaybridge_queue_messages)
  metrics              http://127.0.0.1:${http[0]}/metrics
  reminders            redis-cli -p $redis xrevrange reminders:due + - count 3
  order time-outs      java -cp '$kafka_jars' org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server 127.0.0.1:$broker --topic order-timeouts
  queues               $binary queues --config $work/delaybridge-0.yaml
  logs                 $work/*.log

Try: kill -STOP ${children[1]} is an outage of Kafka, kill -CONT ${children[1]} its end; kill -KILL ${children[3]} is the crash of a daemon.
Ctrl-C ends all.
TEXT
# Until a signal: the children are not ours to wait for, as some of them may be killed on purpose.
while :; do sleep 1; done
