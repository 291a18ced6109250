#!/usr/bin/env bash
# Records the elements of Elements.java with five versions of Redisson, and puts them into tests/vectors/redisson.jsonl in place of
# earlier ones of the same kinds; writes elements.yaml, the declarations of their classes. Needs Java 17, Maven and redis-server.
set -euo pipefail
cd "$(dirname "$0")"
export LC_ALL=C
root=$(git rev-parse --show-toplevel)
vectors=$root/tests/vectors/redisson.jsonl
# Redisson, and the versions of Jackson, Kryo and MessagePack that it is built with.
versions="3.18.1/2.14.1/5.3.0/0.9.8 3.45.1/2.18.2/5.6.2/0.9.8 3.46.0/2.18.2/5.6.2/0.9.8 3.52.0/2.20.0/5.6.2/0.9.8 4.7.0/2.21.3/5.6.2/0.9.11"
port=17991
work=$(mktemp -d)
redis-server --port $port --save '' --dir "$work" >"$work/redis.log" &
redis=$!
trap 'kill $redis; rm -rf "$work"' EXIT
# Kryo looked into the atomic classes before 3.46.0, which Java 17 allows only so.
opens=$(printf -- '--add-opens java.base/java.%s=ALL-UNNAMED ' lang net util util.concurrent util.concurrent.atomic)

for version in $versions; do
  IFS=/ read -r redisson jackson kryo msgpack <<<"$version"
  jars=$work/$redisson
  mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -Dredisson="$redisson" \
    -Djackson="$jackson" -Dkryo="$kryo" -Dmsgpack="$msgpack" -DoutputDirectory="$jars"
  # Compiled once, against the oldest version.
  [ -d "$work/classes" ] || javac -proc:none -nowarn -encoding UTF-8 -cp "$jars/*" -d "$work/classes" com/example/{Elements,Call}.java
  # shellcheck disable=SC2086
  java $opens -cp "$work/classes:$jars/*" com.example.Elements "$redisson" "redis://127.0.0.1:$port" 2>"$work/$redisson.log" >>"$work/new"
  grep -E ' refuses | has no ' "$work/$redisson.log" | cut -c1-160 || true
done
java -cp "$work/classes:$work/4.7.0/*" "$root/tools/KryoClasses.java" 'com.example.Call$*' 2>/dev/null >elements.yaml
grep -o '"value_kind":"[^"]*"' "$work/new" | sort -u >"$work/kinds"
grep -vFf "$work/kinds" "$vectors" >"$work/all" && cat "$work/all" "$work/new" >"$vectors"
wc -l "$work/new" elements.yaml
